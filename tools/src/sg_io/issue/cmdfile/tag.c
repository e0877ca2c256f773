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
