/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Latency histogram with logarithmic buckets. Values below 128 are exact. Above, each power of two
 * has 64 equal buckets, so that a percentile is at most 1/64 too high. All 64-bit values fit.
 */
#ifndef SG_IO_HIST_H
#define SG_IO_HIST_H

#include <linux/types.h>

#define HIST_SUB	64
#define HIST_BUCKETS	(HIST_SUB * (64 - 6 + 1))

struct hist {
	__u64 count;
	__u64 max;
	__u64 bucket[HIST_BUCKETS];
};

static inline unsigned int hist_index(__u64 v)
{
	unsigned int shift;

	if (v < 2 * HIST_SUB)
		return v;
	shift = 63 - __builtin_clzll(v) - 6;
	return HIST_SUB * shift + (v >> shift);
}

static inline void hist_add(struct hist *h, __u64 v)
{
	h->bucket[hist_index(v)]++;
	h->count++;
	if (v > h->max)
		h->max = v;
}

/* Another thread may add to @from meanwhile; @into->max may then be too low. */
void hist_merge(struct hist *into, const struct hist *from);

/**
 * hist_subtract() - leave the values that were added later
 * @from: the histogram
 * @earlier: what it was earlier
 *
 * The largest of these values is known only as precisely as its bucket.
 */
void hist_subtract(struct hist *from, const struct hist *earlier);

/**
 * hist_percentile() - the value that a given share of all values do not exceed
 * @h: the histogram
 * @permille: the share, 0 to 1000
 *
 * Return: the upper edge of that value's bucket, at most the largest value added; 0 for an empty
 * histogram.
 */
__u64 hist_percentile(const struct hist *h, unsigned int permille);

#endif
