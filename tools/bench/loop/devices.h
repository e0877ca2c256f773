/* SPDX-License-Identifier: GPL-2.0 */
/* The devices of a command line, distributed over jobs. */
#ifndef SMQ_BENCH_DEVICES_H
#define SMQ_BENCH_DEVICES_H

#define MAX_DEVICES	16

struct devices {
	char **names;
	unsigned int nr;
};

/*
 * Returns the arguments behind the options. Exits with a message unless there are 1 to
 * MAX_DEVICES.
 */
struct devices devices_parse(int argc, char **argv);

/* Like devices_parse(), for a program that takes exactly one device. */
const char *devices_one(int argc, char **argv);

/*
 * Opens the devices of job @n of @jobs, at least one: if there are more jobs than devices, several
 * jobs share a device. Returns how many descriptors it has stored in @fds; on failure prints a
 * message and returns -1.
 */
int devices_open(const struct devices *devices, unsigned int n, unsigned int jobs,
		 int flags, int fds[MAX_DEVICES]);

/* Prints "devices": ["..."], a part of a line of JSON. */
void devices_print(const struct devices *devices);

#endif /* SMQ_BENCH_DEVICES_H */
