/* SPDX-License-Identifier: GPL-2.0 */
/* Percentiles of the histograms of counters.h. */
#ifndef SMQTOP_HIST_H
#define SMQTOP_HIST_H

#include "counters.h"

/* Adds up: HIST_ROOM places, which the compiler adds several at a time. */
static inline void hist_add(__u32 *restrict sum, const __u32 *restrict h)
{
	unsigned int i;

	for (i = 0; i < HIST_ROOM; i++)
		sum[i] += h[i];
}

/* How many times a histogram has. */
__u64 hist_count(const __u32 *h);
/* Their sum, as if each were in the middle of its bucket. */
__u64 hist_sum(const __u32 *h);

/**
 * hist_percentile() - the time in which a share of the commands ended
 * @h: HIST_BUCKETS buckets
 * @permille: the share, 1 to 1000
 *
 * Return: the upper edge of that command's bucket, in nanoseconds; 0 for an empty histogram.
 */
__u64 hist_percentile(const __u32 *h, unsigned int permille);

#endif
