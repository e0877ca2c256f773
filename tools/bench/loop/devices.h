/* SPDX-License-Identifier: GPL-2.0 */
/* The devices of a command line, dealt out to jobs. */
#ifndef SMQ_BENCH_DEVICES_H
#define SMQ_BENCH_DEVICES_H

#define MAX_DEVICES	16

struct devices {
	char **names;
	unsigned int nr;
};

/* What getopt_long() left: 1 to MAX_DEVICES, or exits with a message. */
struct devices devices_parse(int argc, char **argv);

/* The same where there is to be one. */
const char *devices_one(int argc, char **argv);

/*
 * Opens those whose turn it is in job @n of @jobs, at least one: one that shares a
 * device with others if there are more jobs. Returns how many @fds that makes, or,
 * after a message, -1.
 */
int devices_open(const struct devices *devices, unsigned int n, unsigned int jobs,
		 int flags, int fds[MAX_DEVICES]);

/* "devices": ["..."], for a line of JSON. */
void devices_print(const struct devices *devices);

#endif /* SMQ_BENCH_DEVICES_H */
