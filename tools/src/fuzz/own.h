/* SPDX-License-Identifier: GPL-2.0 */
/* Blocks that one life alone writes: what it reads there is what it wrote. */
#ifndef FUZZ_OWN_H
#define FUZZ_OWN_H

#include <stdint.h>

#include "random.h"

#define OWN_BLOCKS	64
/* Of every disk, by its driver's parameters in tests/fuzz/devices.py. */
#define DISK_BLOCKS	131072
/* Slots: one for writes, one for reads. */
#define OWN_SLOTS	2

struct life;
struct smq_sg_status;
struct transfer;

struct own {
	int fd;			/* of no other step; -1: there is none */
	uint64_t seed;
	uint32_t lba;		/* the first of them */
	uint32_t sequence;	/* of the last write */
	uint32_t written[OWN_BLOCKS];	/* sequence of each one's last write, or OWN_* */
	unsigned char *memory;
	const unsigned char *status;	/* the slots' */
	uint64_t status_size;
	uint32_t status_stride;
	unsigned int runs[OWN_SLOTS];	/* of each slot, before the last command */
	unsigned int forks;		/* since the memory was lent */
};

/* Chooses the blocks. A later life of the worker has the same, after hundreds of others. */
void own_choose(struct own *own, unsigned int worker, unsigned long life, unsigned int workers);

/* Opens a file and sets it up; own.fd is -1 if that cannot be. */
void own_open(struct life *life, struct rnd *r);

const struct smq_sg_status *own_status(const struct own *own, unsigned int slot);

/*
 * evidence.c: after a fault, what tells its causes apart. @transfer read @expected into its data,
 * and @found is there.
 */
void own_evidence(struct life *life, const struct transfer *transfer, uint32_t lba,
		  const unsigned char *found, const unsigned char *expected);

#endif /* FUZZ_OWN_H */
