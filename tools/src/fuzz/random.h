/* SPDX-License-Identifier: GPL-2.0 */
/* Random choices: the same seed always gives the same choices. */
#ifndef FUZZ_RANDOM_H
#define FUZZ_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

struct rnd {
	uint64_t state;
};

/* SplitMix64 (Steele, Lea, Flood 2014). */
static inline uint64_t rnd64(struct rnd *r)
{
	uint64_t z = (r->state += 0x9e3779b97f4a7c15ULL);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

/*
 * The random choices of one step. They do not depend on the steps before it: if a result from the
 * kernel makes a step draw fewer numbers, the next step still makes the same choices.
 */
static inline struct rnd rnd_of(uint64_t seed, uint64_t step)
{
	struct rnd first = { seed };
	struct rnd second = { rnd64(&first) ^ step };

	return (struct rnd){ rnd64(&second) };
}

/* 0 to @below - 1. */
static inline uint32_t rnd(struct rnd *r, uint32_t below)
{
	return (rnd64(r) >> 32) % below;
}

/* True with a probability of 1 in @times. */
static inline bool once_in(struct rnd *r, uint32_t times)
{
	return !rnd(r, times);
}

#endif /* FUZZ_RANDOM_H */
