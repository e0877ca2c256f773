/* SPDX-License-Identifier: GPL-2.0 */
/* A life from its birth to its end. */
#ifndef FUZZ_LIVE_H
#define FUZZ_LIVE_H

#include "life.h"

/* Does not return. */
void live(const struct options *options, unsigned int worker, unsigned long number,
	  uint64_t seed) __attribute__((noreturn));

#endif /* FUZZ_LIVE_H */
