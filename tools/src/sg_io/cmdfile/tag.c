// SPDX-License-Identifier: GPL-2.0
#include <endian.h>
#include <stddef.h>
#include <string.h>

#include "tag.h"

#define CRC_POLY	0x82f63b78	/* CRC-32C, reflected */

/* All fields are big endian. */
struct unit {
	__u64 lba;
	__u64 seed;
	__u32 pass;
	__u32 line;
	__u32 place;	/* in units from the beginning of the block */
	__u32 crc;	/* of the bytes before */
};

_Static_assert(sizeof(struct unit) == TAG_UNIT, "a unit has no padding");

static const __u8 zeroes[TAG_UNIT];

static __u32 crc_of(const struct unit *u)
{
	const __u8 *data = (const __u8 *)u, *end = data + offsetof(struct unit, crc);
	static __u32 table[256];
	__u32 sum = ~0u;
	unsigned int i, bit;

	/* The first call is that of the thread that fills blocks: others come later. */
	if (!table[255]) {
		for (i = 0; i < 256; i++) {
			sum = i;
			for (bit = 0; bit < 8; bit++)
				sum = sum >> 1 ^ (sum & 1 ? CRC_POLY : 0);
			table[i] = sum;
		}
		sum = ~0u;
	}
	while (data < end)
		sum = sum >> 8 ^ table[(sum ^ *data++) & 0xff];
	return htobe32(~sum);
}

bool tag_equal(const struct tag *a, const struct tag *b)
{
	return a->lba == b->lba && a->seed == b->seed && a->pass == b->pass && a->line == b->line;
}

static void fill_unit(const struct tag *t, __u32 place, struct unit *u)
{
	*u = (struct unit){
		.lba = htobe64(t->lba), .seed = htobe64(t->seed), .pass = htobe32(t->pass),
		.line = htobe32(t->line), .place = htobe32(place),
	};
	u->crc = crc_of(u);
}

/* The last unit of a block may be cut off. */
void tag_fill(const struct tag *t, __u8 *block, __u32 bytes)
{
	struct unit unit;
	__u32 at, n;

	for (at = 0; at < bytes; at += n) {
		n = bytes - at < TAG_UNIT ? bytes - at : TAG_UNIT;
		fill_unit(t, at / TAG_UNIT, &unit);
		memcpy(block + at, &unit, n);
	}
}

static bool read_unit(const __u8 *from, __u32 place, struct tag *t)
{
	struct unit u;

	memcpy(&u, from, sizeof(u));
	*t = (struct tag){
		.lba = be64toh(u.lba), .seed = be64toh(u.seed), .pass = be32toh(u.pass),
		.line = be32toh(u.line),
	};
	return be32toh(u.place) == place && u.crc == crc_of(&u);
}

bool tag_read(const __u8 *block, struct tag *t)
{
	return read_unit(block, 0, t);
}

/*
 * Whether the unit at @at is intact; @blank: it has zeroes, otherwise @t receives its tag. Before
 * the call, @t and @blank are those of the unit before.
 */
static bool look(const __u8 *block, __u32 bytes, __u32 at, struct tag *t, bool *blank)
{
	struct unit unit;

	/* The end that is cut off has no CRC: it has to be as the unit before says, or zero. */
	if (bytes - at < TAG_UNIT) {
		fill_unit(t, at / TAG_UNIT, &unit);
		if (!memcmp(block + at, &unit, bytes - at))
			return true;
		*t = (struct tag){};
		*blank = true;
		return !memcmp(block + at, zeroes, bytes - at);
	}
	*blank = !memcmp(block + at, zeroes, TAG_UNIT);
	if (!*blank)
		return read_unit(block + at, at / TAG_UNIT, t);
	*t = (struct tag){};
	return true;
}

/* The verdict on a block that is intact and has one tag. */
static enum tag_verdict judge_whole(const struct tag *found, const struct tag *want)
{
	if (found->lba != want->lba)
		return TAG_MISPLACED;
	if (found->seed != want->seed)
		return TAG_OTHER;
	if (found->pass != want->pass)
		return found->pass < want->pass ? TAG_STALE : TAG_OTHER;
	return found->line < want->line ? TAG_STALE : TAG_OTHER;
}

void tag_judge(const __u8 *block, __u32 bytes, const struct tag *want, struct tag_finding *f)
{
	bool blank = true, torn = false;
	struct tag t = {};
	__u32 at;

	*f = (struct tag_finding){};
	for (at = 0; at < bytes; at += TAG_UNIT) {
		if (!look(block, bytes, at, &t, &blank)) {
			*f = (struct tag_finding){ .verdict = TAG_CORRUPT, .at = at };
			return;
		}
		if (!at) {
			f->found = t;
			f->blank = blank;
		} else if (!torn && (blank != f->blank || !tag_equal(&t, &f->found))) {
			torn = true;
			f->next = t;
			f->next_blank = blank;
			f->at = at;
		}
	}
	if (torn)
		f->verdict = TAG_TORN;
	else
		f->verdict = f->blank ? TAG_EMPTY : judge_whole(&f->found, want);
}

const char *tag_verdict_name(enum tag_verdict verdict)
{
	static const char * const names[] = {
		[TAG_STALE] = "stale", [TAG_EMPTY] = "empty", [TAG_MISPLACED] = "misplaced",
		[TAG_OTHER] = "other", [TAG_TORN] = "torn", [TAG_CORRUPT] = "corrupt",
	};

	return names[verdict];
}
