/* SPDX-License-Identifier: GPL-2.0 */
/* splitmix64: the same numbers from the same seed on every machine. */
#ifndef SG_IO_PRNG_H
#define SG_IO_PRNG_H

#include <linux/types.h>

static inline __u64 prng_mix(__u64 z)
{
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

static inline __u64 prng_next(__u64 *state)
{
	*state += 0x9e3779b97f4a7c15ULL;
	return prng_mix(*state);
}

/* A number from 0 to n - 1. Without rejection the bias is at most n / 2^64. */
static inline __u64 prng_below(__u64 *state, __u64 n)
{
	return (__uint128_t)prng_next(state) * n >> 64;
}

#endif
