// SPDX-License-Identifier: GPL-2.0
/*
 * Reads lines "NS ISSUED_NS DEVICE", adds them to three lists of the slowest N in turn, merges
 * these and prints the result. sg_io_slowest N
 */
#include <stdio.h>
#include <stdlib.h>

#include "workers/slowest.h"

int main(int argc, char **argv)
{
	unsigned int room = argc == 2 ? atoi(argv[1]) : 0, n = 0, i;
	struct slowest s[3] = {};
	struct slow one = {};

	for (i = 0; i < 3; i++) {
		s[i].room = room;
		s[i].entries = calloc(room + 1, sizeof(*s[i].entries));
		if (!s[i].entries)
			return 1;
	}
	while (scanf("%llu %llu %u", &one.ns, &one.issued_ns, &one.device) == 3)
		slowest_add(&s[n++ % 3], &one);
	slowest_merge(&s[0], &s[1]);
	slowest_merge(&s[0], &s[2]);
	for (i = 0; i < s[0].nr; i++)
		printf("%llu %llu %u\n", s[0].entries[i].ns, s[0].entries[i].issued_ns,
		       s[0].entries[i].device);
	for (i = 0; i < 3; i++)
		free(s[i].entries);
	return 0;
}
