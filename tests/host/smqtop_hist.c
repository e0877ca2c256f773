// SPDX-License-Identifier: GPL-2.0
/* Prints each bucket's upper edge, and the buckets of the times on both sides of it. */
#include <stdio.h>
#include "counters.h"
#include "hist.h"

int main(void)
{
	static __u32 h[HIST_BUCKETS];
	unsigned int i;

	for (i = 0; i < HIST_BUCKETS; i++) {
		unsigned long long edge;

		h[i] = 1;
		edge = hist_percentile(h, 1000);
		h[i] = 0;
		printf("%llu %u %u\n", edge, hist_index(edge - 1), hist_index(edge));
	}
	return 0;
}
