/* SPDX-License-Identifier: GPL-2.0 */
/* The signals by which a run is ended: SIGINT, SIGTERM and SIGHUP. */
#ifndef SG_IO_SIGNALS_H
#define SG_IO_SIGNALS_H

/* Block them in this thread, and in threads and processes to come. */
void signals_block(void);

/* Let them end this process again. */
void signals_unblock(void);

/* A signalfd that says when one has come, without blocking; -1 on failure. */
int signals_open(void);

/* The last that has come since then, 0 for none. */
int signals_take(int fd);

#endif
