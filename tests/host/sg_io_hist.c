// SPDX-License-Identifier: GPL-2.0
/* Reads numbers, adds them to two histograms in turn, merges these and prints percentiles. */
#include <stdio.h>
#include <stdlib.h>

#include "issue/workers/hist.h"

int main(int argc, char **argv)
{
	struct hist *h = calloc(2, sizeof(*h));
	unsigned int n = 0;
	__u64 v;
	int i;

	if (!h)
		return 1;
	while (scanf("%llu", &v) == 1)
		hist_add(&h[n++ % 2], v);
	hist_merge(&h[0], &h[1]);
	printf("%llu %llu", h[0].count, h[0].max);
	for (i = 1; i < argc; i++)
		printf(" %llu", hist_percentile(&h[0], atoi(argv[i])));
	putchar('\n');
	free(h);
	return 0;
}
