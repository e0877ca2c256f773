// SPDX-License-Identifier: GPL-2.0
/*
 * Compares a simulated policy with "direct" many times by the layer's own code. Run by
 * test_compare.py.
 *
 * compare_sim RATE GAIN NOISE DRIFT SEED
 * RATE: commands that "direct" ends in a window of 16 ms. GAIN: what the policy ends, in percent of
 * that. NOISE: each window varies by up to so many percent. DRIFT: the load grows by so many
 * percent during a comparison; it may be negative. Prints how many of 10,000 comparisons found the
 * policy slower.
 */
#include <stdio.h>
#include <stdlib.h>

#include "../../drivers/core/compare.h"

static unsigned long long seed;

/* A random number from -1 to 1. */
static double random_part(void)
{
	seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (double)(seed >> 11) / (1ULL << 52) - 1;
}

static int compare(double rate, double gain, double noise, double drift)
{
	struct smq_compare c = { 0 };
	double at = 0;

	while (c.window < SMQ_COMPARE_WINDOWS) {
		/* A worker may be late. */
		double length = 1 + 0.2 * (1 + random_part());
		double now = rate * length * (1 + drift * at / SMQ_COMPARE_WINDOWS);

		if (smq_compare_with(&c))
			now *= gain;
		smq_compare_add(&c, now * (1 + noise * random_part()) + 0.5, 16000000 * length);
		at += length;
	}
	return smq_compare_is_slower(&c);
}

int main(int argc, char **argv)
{
	int slower = 0, i;

	if (argc != 6)
		return 2;
	seed = atoi(argv[5]);
	for (i = 0; i < 10000; i++)
		slower += compare(atof(argv[1]), atof(argv[2]) / 100, atof(argv[3]) / 100,
				  atof(argv[4]) / 100);
	printf("%d\n", slower);
	return 0;
}
