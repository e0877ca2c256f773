/* SPDX-License-Identifier: GPL-2.0 */
/* Generated data for data-out commands. */
#ifndef SG_IO_PATTERN_H
#define SG_IO_PATTERN_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

enum pattern_kind {
	PATTERN_BYTE,	/* every byte has the same value (zero, ff, byte:N) */
	PATTERN_COUNT,	/* 00 01 02 ... ff 00 ... */
	PATTERN_LBA,	/* each block holds its LBA, big endian, in every 8 bytes */
	PATTERN_RANDOM,	/* pseudo-random, determined by seed and LBA */
	PATTERN_TAG,	/* says which write it is from, see tag.h */
};

struct pattern {
	enum pattern_kind kind;
	__u64 value;	/* the byte, or the seed */
	__u32 pass;	/* of PATTERN_TAG */
};

/* The forms that pattern_parse() accepts, for messages and help. */
#define PATTERN_FORMS "zero, ff, byte:N, count, lba, random[:SEED], tag[:SEED[:PASS]]"

/* Return: false if @text does not name a pattern; then @why has the reason. */
bool pattern_parse(const char *text, struct pattern *p, char *why, size_t size);

/* Whether the data depends on the LBA. */
bool pattern_by_lba(const struct pattern *p);
/* Whether it depends on the line of the command, too. */
bool pattern_by_line(const struct pattern *p);

/**
 * pattern_fill() - fill a buffer with the data of one command
 * @p: the pattern
 * @buf: the buffer
 * @bytes: its size
 * @lba: first LBA of the command, 0 if it has none
 * @block_size: bytes per block, 0 if the command has none; for PATTERN_TAG at least TAG_UNIT
 * @line: of the command in its file
 *
 * With a pattern that depends on the LBA and not on the line, the data of a block does not depend
 * on the command that writes it.
 */
void pattern_fill(const struct pattern *p, __u8 *buf, __u32 bytes, __u64 lba,
		  __u32 block_size, __u32 line);

#endif
