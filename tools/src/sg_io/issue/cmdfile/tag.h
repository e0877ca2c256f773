/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The data of pattern=tag: it says which write it is from. Each 32 bytes of a block, a unit, have
 * the same tag, their place in the block and a CRC. So a block whose parts come from several writes
 * can be told from one that was damaged.
 */
#ifndef SG_IO_TAG_H
#define SG_IO_TAG_H

#include <linux/types.h>

#define TAG_UNIT	32	/* bytes of a unit, and of the smallest block that can have a tag */

/* One write of a block. */
struct tag {
	__u64 lba;	/* of a WRITE SAME: its first one */
	__u64 seed;	/* tells files or runs apart */
	__u32 pass;	/* tells passes over the same blocks apart */
	__u32 line;	/* of the command in its file */
};

/* Fills a block of @bytes bytes, at least TAG_UNIT. */
void tag_fill(const struct tag *t, __u8 *block, __u32 bytes);

#endif
