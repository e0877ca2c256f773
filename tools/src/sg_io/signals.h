/* SPDX-License-Identifier: GPL-2.0 */
/* The signals that end a run: SIGINT, SIGTERM and SIGHUP. */
#ifndef SG_IO_SIGNALS_H
#define SG_IO_SIGNALS_H

/* Blocks these signals in this thread, and in threads and processes that it starts later. */
void signals_block(void);

/* Unblocks these signals, so that they end this process again. */
void signals_unblock(void);

/* A non-blocking signalfd for these signals; -1 on failure. */
int signals_open(void);

/* Reads all signals that have come. Returns the last one, 0 for none. */
int signals_take(int fd);

#endif
