// SPDX-License-Identifier: GPL-2.0
#include "hist.h"

void hist_merge(struct hist *into, const struct hist *from)
{
	unsigned int i;
	__u64 n;

	for (i = 0; i < HIST_BUCKETS; i++) {
		n = __atomic_load_n(&from->bucket[i], __ATOMIC_RELAXED);
		into->bucket[i] += n;
		into->count += n;
	}
	if (from->max > into->max)
		into->max = from->max;
}

void hist_subtract(struct hist *from, const struct hist *earlier)
{
	unsigned int i;

	for (i = 0; i < HIST_BUCKETS; i++)
		from->bucket[i] -= earlier->bucket[i];
	from->count -= earlier->count;
	from->max = ~0ULL;
}

static __u64 upper_edge(unsigned int index)
{
	unsigned int shift;

	if (index < 2 * HIST_SUB)
		return index;
	shift = index / HIST_SUB - 1;
	return ((__u64)(index - HIST_SUB * shift) << shift) + ((1ULL << shift) - 1);
}

__u64 hist_percentile(const struct hist *h, unsigned int permille)
{
	__u64 rank, seen = 0, edge;
	unsigned int i;

	if (!h->count)
		return 0;
	/* The smallest rank that covers the share; 128 bits, because 64 might overflow. */
	rank = ((__uint128_t)h->count * permille + 999) / 1000;
	if (!rank)
		rank = 1;
	for (i = 0; i < HIST_BUCKETS; i++) {
		seen += h->bucket[i];
		if (seen >= rank)
			break;
	}
	edge = upper_edge(i);
	return edge < h->max ? edge : h->max;
}
