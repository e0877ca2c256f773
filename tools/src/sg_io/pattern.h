/* SPDX-License-Identifier: GPL-2.0 */
/* Generated data for data-out commands. */
#ifndef SG_IO_PATTERN_H
#define SG_IO_PATTERN_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

enum pattern_kind {
	PATTERN_BYTE,	/* one byte value all over (zero, ff, byte:N) */
	PATTERN_COUNT,	/* 00 01 02 ... ff 00 ... */
	PATTERN_LBA,	/* each block holds its LBA, big endian, in every 8 bytes */
	PATTERN_RANDOM,	/* pseudo-random, a function of seed and LBA alone */
};

struct pattern {
	enum pattern_kind kind;
	__u64 value;	/* the byte, or the seed */
};

/* The forms pattern_parse() takes, for messages and help. */
#define PATTERN_FORMS "zero, ff, byte:N, count, lba, random[:SEED]"

/* Return: false with the reason in @why when @text names no pattern. */
bool pattern_parse(const char *text, struct pattern *p, char *why, size_t size);

/* Whether the data depends on the place where it is written. */
bool pattern_by_lba(const struct pattern *p);

/**
 * pattern_fill() - write the data of one command
 * @p: what to write
 * @buf: where
 * @bytes: how much
 * @lba: first LBA of the command, 0 when it has none
 * @block_size: bytes per block, 0 when the command has none
 *
 * A block's data is the same whichever command carries it, so that a later
 * read can check it without knowing how it was written.
 */
void pattern_fill(const struct pattern *p, __u8 *buf, __u32 bytes, __u64 lba,
		  __u32 block_size);

#endif
