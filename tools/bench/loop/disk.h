/* SPDX-License-Identifier: GPL-2.0 */
/* What the loops over block devices share. */
#ifndef SMQ_BENCH_DISK_H
#define SMQ_BENCH_DISK_H

#include <stdbool.h>

/*
 * Opens @device for direct I/O of @bs bytes, without writes if not @write, and
 * stores how many of them it holds. Returns the descriptor or, after a message,
 * -1.
 */
int disk_open(const char *device, bool write, unsigned int bs,
	      unsigned long *blocks);

/* Job @n has a sequence of its own, the same in every run. */
void disk_seed(unsigned int n);
unsigned long disk_random(void);

/* Call between opening the node and the first read. */
void disk_next_second(void);

#endif /* SMQ_BENCH_DISK_H */
