// SPDX-License-Identifier: GPL-2.0
/* CDBs for fio's directions (SBC-4). */
#include "engine.h"

#include <scsi/sg_unaligned.h>

#define READ_10			0x28
#define WRITE_10		0x2a
#define SYNCHRONIZE_CACHE_10	0x35
#define UNMAP			0x42
#define READ_16			0x88
#define WRITE_16		0x8a

int cdb_transfer(const struct target *t, bool write, uint64_t offset, uint64_t length,
		 uint8_t *cdb)
{
	uint64_t lba = offset / t->block, blocks = length / t->block;
	/*
	 * Use the 10-byte commands if they can address the whole disk: some disks support no
	 * others.
	 */
	bool wide = t->blocks > 1ULL << 32 || blocks > UINT16_MAX;

	if (blocks > UINT32_MAX)
		return -ERANGE;
	if (wide)
		return smq_cdb_blocks(cdb, write ? WRITE_16 : READ_16, lba, blocks);
	return smq_cdb_blocks(cdb, write ? WRITE_10 : READ_10, lba, blocks);
}

/* LBA 0 and 0 blocks mean the whole disk. */
int cdb_sync(uint8_t *cdb)
{
	memset(cdb, 0, 10);
	cdb[0] = SYNCHRONIZE_CACHE_10;
	return 10;
}

int cdb_unmap(const struct target *t, uint64_t offset, uint64_t length, uint8_t *cdb,
	      uint8_t parameters[24])
{
	uint64_t blocks = length / t->block;

	if (blocks > UINT32_MAX)
		return -ERANGE;
	memset(cdb, 0, 10);
	cdb[0] = UNMAP;
	sg_put_unaligned_be16(24, cdb + 7);
	/* One block descriptor follows the header. */
	memset(parameters, 0, 24);
	sg_put_unaligned_be16(22, parameters);
	sg_put_unaligned_be16(16, parameters + 2);
	sg_put_unaligned_be64(offset / t->block, parameters + 8);
	sg_put_unaligned_be32(blocks, parameters + 16);
	return 10;
}
