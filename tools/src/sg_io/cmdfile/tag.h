/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The data of pattern=tag: it says which write it is from. Each 32 bytes of a block, a unit, have
 * the same tag, their place in the block and a CRC. So a block whose parts come from several writes
 * can be told from one that was damaged.
 */
#ifndef SG_IO_TAG_H
#define SG_IO_TAG_H

#include <linux/types.h>
#include <stdbool.h>

#define TAG_UNIT	32	/* bytes of a unit, and of the smallest block that can have a tag */

/* One write of a block. */
struct tag {
	__u64 lba;	/* of a WRITE SAME: its first one */
	__u64 seed;	/* tells files or runs apart */
	__u32 pass;	/* tells passes over the same blocks apart */
	__u32 line;	/* of the command in its file */
};

/* What a block that should have a certain tag has instead. */
enum tag_verdict {
	TAG_STALE,	/* an earlier write of this block: a lower pass or line of the same seed */
	TAG_EMPTY,	/* only zeroes */
	TAG_MISPLACED,	/* a write of another block */
	TAG_OTHER,	/* a later write of this block, or one of another seed */
	TAG_TORN,	/* parts of several writes, or of a write and zeroes; each part is intact */
	TAG_CORRUPT,	/* some unit is neither intact nor zero */
};

struct tag_finding {
	enum tag_verdict verdict;
	struct tag found;	/* STALE, MISPLACED, OTHER: of the block; TORN: of its first unit */
	bool blank;		/* TORN: the first unit has zeroes and no tag */
	struct tag next;	/* TORN: of the unit at @at */
	bool next_blank;	/* TORN: the unit at @at has zeroes and no tag */
	__u32 at;		/* in bytes; TORN: end of the first part; CORRUPT: first bad unit */
};

bool tag_equal(const struct tag *a, const struct tag *b);

/* Fills a block of @bytes bytes, at least TAG_UNIT. */
void tag_fill(const struct tag *t, __u8 *block, __u32 bytes);

/* The tag of the first unit; returns false if it has none. */
bool tag_read(const __u8 *block, struct tag *t);

/**
 * tag_judge() - say what a block has that differs from what was expected
 * @block: what was read
 * @bytes: bytes of the block
 * @want: the expected tag
 * @f: receives the finding
 */
void tag_judge(const __u8 *block, __u32 bytes, const struct tag *want, struct tag_finding *f);

const char *tag_verdict_name(enum tag_verdict verdict);

#endif
