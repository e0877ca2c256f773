/* SPDX-License-Identifier: GPL-2.0 */
/* The data that the commands of a file write to the medium. */
#ifndef SG_IO_WRITTEN_H
#define SG_IO_WRITTEN_H

#include <stdio.h>

#include "issue/cmdfile/cmdfile.h"

enum extent_flag {
	EXTENT_KNOWN = 1 << 0,	/* the data of the blocks is known, see written_block() */
	EXTENT_SAME = 1 << 1,	/* WRITE SAME: all blocks have the same data */
	EXTENT_SECOND = 1 << 2,	/* COMPARE AND WRITE: the second half of its data is written */
};

/* Blocks that a command writes, as judge/verify.py reads it. */
struct extent {
	__u64 lba;
	__u64 end;	/* the first LBA behind them; ~0 also for one more */
	__u32 cmd;	/* index into the file */
	__u32 line;
	__u8 dev;	/* command.dev */
	__u8 flags;	/* enum extent_flag */
	__u8 unused[6];
};

/* What the blocks of a device are like. */
struct disk {
	__u32 block_size;	/* 0: no command goes to it */
	__u32 most;		/* blocks of one READ */
	__u64 last_lba;		/* ~0: not known */
	__u64 unclear;		/* number of commands that may have written unknown data */
};

struct written {
	const struct cmdfile *file;
	struct disk disks[FILE_DEVICES];	/* by command.dev */
	size_t nr;		/* extents */
	FILE *out;		/* receives them; NULL: they are counted */
	void *made;		/* room for the data-out of one command, if it is made */
	const struct command *made_of;
};

/*
 * Finds all extents, in the order of the file. Return: false after a message if BYTES of a command
 * contradicts the block size.
 */
bool written_find(struct written *w);

/* The data that a command with known data writes to block @lba; it is valid until the next call. */
const void *written_block(struct written *w, const struct command *cmd, __u64 lba);

#endif
