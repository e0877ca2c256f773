// SPDX-License-Identifier: GPL-2.0
#include "hist.h"

#include "counters.h"

/* The smallest time, in nanoseconds, that does not belong to a bucket or to one below it. */
static __u64 edge(unsigned int bucket)
{
	unsigned int shift = 0;
	__u64 v = bucket;

	if (bucket >= 2u << HIST_SUB) {
		shift = (bucket >> HIST_SUB) - 1;
		v = bucket - (shift << HIST_SUB);
	}
	return (v + 1) << shift << HIST_UNIT;
}

__u64 hist_count(const __u32 *h)
{
	unsigned int i;
	__u64 n = 0;

	for (i = 0; i < HIST_BUCKETS; i++)
		n += h[i];
	return n;
}

__u64 hist_sum(const __u32 *h)
{
	__u64 sum = 0, low = 0;
	unsigned int i;

	for (i = 0; i < HIST_BUCKETS; low = edge(i++))
		sum += h[i] * ((low + edge(i)) / 2);
	return sum;
}

__u64 hist_percentile(const __u32 *h, unsigned int permille)
{
	__u64 rank = (hist_count(h) * permille + 999) / 1000, seen = 0;
	unsigned int i;

	if (!rank)
		return 0;
	for (i = 0; i < HIST_BUCKETS - 1; i++) {
		seen += h[i];
		if (seen >= rank)
			break;
	}
	return edge(i);
}
