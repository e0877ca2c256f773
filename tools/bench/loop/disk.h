/* SPDX-License-Identifier: GPL-2.0 */
/* Functions for all loops over block devices. */
#ifndef SMQ_BENCH_DISK_H
#define SMQ_BENCH_DISK_H

#include <stdbool.h>

/*
 * Opens @device for direct I/O, for reading only unless @write. Stores in @blocks how many blocks
 * of @bs bytes it has. Returns the descriptor; on failure prints a message and returns -1.
 */
int disk_open(const char *device, bool write, unsigned int bs,
	      unsigned long *blocks);

/* Seeds the random numbers of job @n. They differ between jobs, and are the same in every run. */
void disk_seed(unsigned int n);
unsigned long disk_random(void);

/* Sleeps until the next second. Call it between opening the node and the first read. */
void disk_next_second(void);

#endif /* SMQ_BENCH_DISK_H */
