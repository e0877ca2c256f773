/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Decodes and changes the CDB of a READ, a WRITE or another command with the same layout (SBC-4,
 * 5).
 */
#ifndef SMQ_RW_CDB_H
#define SMQ_RW_CDB_H

#include <linux/types.h>
#include <scsi/scsi_proto.h>
#include <smq/compat.h>

/* Gets LBA and length, in blocks, from a CDB of 6, 10, 12 or 16 bytes. */
static inline void smq_decode_rw(const u8 *cdb, u64 *lba, u32 *blocks)
{
	switch (cdb[0] >> 5) {
	case 0:
		*lba = get_unaligned_be24(cdb + 1) & 0x1fffff;
		*blocks = cdb[4] ?: 256;
		break;
	case 4:
		*lba = get_unaligned_be64(cdb + 2);
		*blocks = cdb[0] == SMQ_WRITE_ATOMIC_16 ? get_unaligned_be16(cdb + 12) :
							  get_unaligned_be32(cdb + 10);
		break;
	case 5:
		*lba = get_unaligned_be32(cdb + 2);
		*blocks = get_unaligned_be32(cdb + 6);
		break;
	default:
		*lba = get_unaligned_be32(cdb + 2);
		*blocks = get_unaligned_be16(cdb + 7);
		break;
	}
}

/* Changes the length, in blocks. @blocks: 1 to the length that the CDB has now. */
static inline void smq_encode_rw_blocks(u8 *cdb, u32 blocks)
{
	switch (cdb[0] >> 5) {
	case 0:
		cdb[4] = blocks;	/* 0 means 256 */
		break;
	case 4:
		if (cdb[0] == SMQ_WRITE_ATOMIC_16)
			put_unaligned_be16(blocks, cdb + 12);
		else
			put_unaligned_be32(blocks, cdb + 10);
		break;
	case 5:
		put_unaligned_be32(blocks, cdb + 6);
		break;
	default:
		put_unaligned_be16(blocks, cdb + 7);
		break;
	}
}

static inline bool smq_is_read(const u8 *cdb)
{
	return cdb[0] == READ_6 || cdb[0] == READ_10 || cdb[0] == READ_12 || cdb[0] == READ_16;
}

static inline bool smq_is_write(const u8 *cdb)
{
	return cdb[0] == WRITE_6 || cdb[0] == WRITE_10 || cdb[0] == WRITE_12 ||
	       cdb[0] == WRITE_16 || cdb[0] == SMQ_WRITE_ATOMIC_16;
}

#endif /* SMQ_RW_CDB_H */
