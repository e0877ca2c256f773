/* SPDX-License-Identifier: GPL-2.0 */
/* What sg_io gen generates: a mix of commands and sizes, and where on the disk they are. */
#ifndef SG_IO_GEN_H
#define SG_IO_GEN_H

#include "cmdfile/cdb.h"

#define MIX_MAX		16	/* members of a mix */
#define STREAMS_MAX	4096

/* Shares of a whole that are drawn at random. */
struct mix {
	unsigned int nr;
	__u64 share[MIX_MAX];
	__u64 sum;		/* of the shares */
};

struct load {
	const struct cdb_op *ops[MIX_MAX];
	struct mix op_mix;
	__u64 blocks[MIX_MAX];	/* how many blocks a command has */
	struct mix size_mix;
	__u64 first;
	__u64 last;		/* the last LBA of the range; it has room for each size */
	bool random;
	double zipf;		/* the exponent; 0: all places are equally likely */
	unsigned int streams;	/* of a load that is not random */
	__u64 seed;
};

struct load_command {
	const struct cdb_op *op;
	__u64 lba;
	__u64 blocks;
};

struct choice;

/* The largest size of the load's commands, in blocks. */
__u64 load_most(const struct load *l);
/* How many blocks the part of the range has in which a stream moves. */
__u64 load_part(const struct load *l);

/* Return: for choice_next() and free(); NULL without memory. */
struct choice *choice_new(const struct load *l);
/* The next command. The same load always has the same commands. */
void choice_next(struct choice *c, struct load_command *cmd);

#endif
