/* SPDX-License-Identifier: GPL-2.0 */
/* Runs sg_io as a child process of sg_io, and collects its output and messages. */
#ifndef SG_IO_CHILD_H
#define SG_IO_CHILD_H

#include <stddef.h>

struct child {
	int status;		/* its exit status; 128 plus the signal, if a signal ended it */
	char *output;		/* for free() */
	char *messages;		/* for free() */
};

/* Catches SIGINT, SIGTERM and SIGHUP for child_run() from now on. */
void child_catch_signals(void);

/* The last signal caught since child_catch_signals(), 0 for none. */
int child_signal(void);

/**
 * child_run() - run this program
 * @argv: its arguments, NULL at the end
 * @stdin_fd: its standard input, which it reads from the beginning; -1: /dev/null
 * @child: the result
 *
 * A caught signal is passed on to the child, which then ends as if it had been started alone.
 *
 * Return: 0, or -1 after one message.
 */
int child_run(char *const *argv, int stdin_fd, struct child *child);
void child_free(struct child *child);

#endif
