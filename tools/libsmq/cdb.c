// SPDX-License-Identifier: GPL-2.0
/* CDBs of the commands that move blocks (SBC-4). */
#include <errno.h>
#include <string.h>

#include "libsmq.h"

static void put(uint8_t *cdb, unsigned int at, unsigned int len, uint64_t value)
{
	while (len--) {
		cdb[at + len] = value & 0xff;
		value >>= 8;
	}
}

int smq_cdb_blocks(uint8_t *cdb, uint8_t opcode, uint64_t lba, uint32_t blocks)
{
	switch (opcode) {
	case 0x08:
	case 0x0a:
		if (lba >= 1U << 21 || !blocks || blocks > 256)
			return -ERANGE;
		memset(cdb, 0, 6);
		put(cdb, 1, 3, lba);
		/* 256 is written as 0. */
		put(cdb, 4, 1, blocks);
		cdb[0] = opcode;
		return 6;
	case 0x28:
	case 0x2a:
	case 0x2f:
		if (lba > UINT32_MAX || blocks > UINT16_MAX)
			return -ERANGE;
		memset(cdb, 0, 10);
		put(cdb, 2, 4, lba);
		put(cdb, 7, 2, blocks);
		cdb[0] = opcode;
		return 10;
	case 0xa8:
	case 0xaa:
	case 0xaf:
		if (lba > UINT32_MAX)
			return -ERANGE;
		memset(cdb, 0, 12);
		put(cdb, 2, 4, lba);
		put(cdb, 6, 4, blocks);
		cdb[0] = opcode;
		return 12;
	case 0x88:
	case 0x8a:
	case 0x8f:
		memset(cdb, 0, 16);
		put(cdb, 2, 8, lba);
		put(cdb, 10, 4, blocks);
		cdb[0] = opcode;
		return 16;
	}
	return -EINVAL;
}
