// SPDX-License-Identifier: GPL-2.0
/*
 * bench_known COUNT...: for each argument runs COUNT "I/Os" of two instructions each between the
 * bench's markers. For test_bench_plugins.py.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "../../tools/bench/marker.h"

static long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000L + now.tv_nsec;
}

int main(int argc, char **argv)
{
	int i;

	for (i = 1; i < argc; i++) {
		long count = atol(argv[i]), left = count, began = now_ns();

		marker(MARKER_START);
		asm volatile("1: dec %0; jnz 1b" : "+r" (left));
		marker(MARKER_STOP);
		printf("{\"loop\": \"known\", \"devices\": [], \"count\": %ld, \"ns\": %ld}\n",
		       count, now_ns() - began);
	}
	return 0;
}
