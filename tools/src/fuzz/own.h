/* SPDX-License-Identifier: GPL-2.0 */
/* Blocks that one life alone writes: what it reads there is what it wrote. */
#ifndef FUZZ_OWN_H
#define FUZZ_OWN_H

#include <stdint.h>

#include "random.h"

#define OWN_BLOCKS	64
/* Of every disk, by its driver's parameters in tests/fuzz/devices.py. */
#define DISK_BLOCKS	131072

struct life;

struct own {
	int fd;			/* of no other step; -1: there is none */
	uint64_t seed;
	uint32_t lba;		/* the first of them */
	uint32_t sequence;	/* of the last write */
	uint32_t written[OWN_BLOCKS];	/* sequence of each one's last write, or OWN_* */
	unsigned char *memory;
};

/* Chooses the blocks. A later life of the worker has the same, after hundreds of others. */
void own_choose(struct own *own, unsigned int worker, unsigned long life, unsigned int workers);

/* Opens a file and sets it up; own.fd is -1 if that cannot be. */
void own_open(struct life *life, struct rnd *r);

#endif /* FUZZ_OWN_H */
