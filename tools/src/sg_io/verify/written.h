/* SPDX-License-Identifier: GPL-2.0 */
/* The data that the commands of a file leave on the medium. */
#ifndef SG_IO_WRITTEN_H
#define SG_IO_WRITTEN_H

#include "cmdfile/cmdfile.h"

/* Blocks that were last written by the same command. */
struct extent {
	__u64 lba;
	__u64 blocks;
	__u32 cmd;		/* index into the file */
	bool known;		/* the data of the blocks is known, see written_block() */
};

/* The data-out of a command, if it is made and not an image of the file. */
struct made {
	void *data;
	const struct command *cmd;	/* NULL: none yet */
};

struct written {
	const struct cmdfile *file;
	__u32 block_size;
	struct extent *extents;	/* in order of LBA, none overlaps another */
	size_t nr;
	__u64 blocks;		/* number of blocks in extents with known data */
	struct made made[2];	/* of written_block() and written_by_line() */
	__u64 unclear;		/* number of commands that may have written unknown data */
};

/**
 * written_find() - find the last command that wrote each block
 * @file: the commands
 * @block_size: of the device
 * @last_lba: of the device, ~0 if that is not known
 * @w: the result, for written_free()
 *
 * Return: 0, or -1 after one message: no memory, or BYTES of a command contradicts @block_size.
 */
int written_find(const struct cmdfile *file, __u32 block_size, __u64 last_lba,
		 struct written *w);
void written_free(struct written *w);

/*
 * The data of block @lba, which lies in @e, an extent with known data. It is valid until the next
 * call.
 */
const void *written_block(struct written *w, const struct extent *e, __u64 lba);

/* Whether the command of this line writes @block, of block_size bytes, to @lba. */
bool written_by_line(struct written *w, __u32 line, __u64 lba, const void *block);

#endif
