/* SPDX-License-Identifier: GPL-2.0 */
/* Functions for all loops over block devices. */
#ifndef SMQ_BENCH_DISK_H
#define SMQ_BENCH_DISK_H

#include <stdbool.h>

/*
 * Opens @device for direct I/O of @bs bytes, for reading only unless @write, and stores how many
 * such blocks it has. Returns the descriptor or, after a message, -1.
 */
int disk_open(const char *device, bool write, unsigned int bs,
	      unsigned long *blocks);

/*
 * Seeds the random numbers of job @n: each job has other numbers, and the same ones in every run.
 */
void disk_seed(unsigned int n);
unsigned long disk_random(void);

/* Sleeps until the next second. Call it between opening the node and the first read. */
void disk_next_second(void);

#endif /* SMQ_BENCH_DISK_H */
