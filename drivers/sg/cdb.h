/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The part of a CDB that this module changes: the LBA.
 */
#ifndef SMQSG_CDB_H
#define SMQSG_CDB_H

#include <linux/errno.h>
#include <linux/types.h>
#include <smq/compat.h>

struct scsi_device;

unsigned int smqsg_lba_bits(const struct scsi_device *sdev, u8 opcode);

/**
 * smqsg_lba_fits() - whether a CDB can be given another LBA
 * @bits: what smqsg_lba_bits() returned for it
 * @lba: the logical block address
 *
 * Return: 0; -EOPNOTSUPP: the CDB has no LBA that can be set; -ERANGE: @lba is too wide.
 */
static inline int smqsg_lba_fits(unsigned int bits, u64 lba)
{
	if (unlikely(!bits))
		return -EOPNOTSUPP;
	return unlikely(bits < 64 && lba >> bits) ? -ERANGE : 0;
}

/**
 * smqsg_lba_set() - writes an LBA into a CDB
 * @cdb: the CDB
 * @bits: what smqsg_lba_bits() returned for it
 * @lba: the logical block address; smqsg_lba_fits() has returned 0 for it
 */
static inline void smqsg_lba_set(u8 *cdb, unsigned int bits, u64 lba)
{
	if (bits == 32)
		put_unaligned_be32(lba, cdb + 2);
	else if (bits == 64)
		put_unaligned_be64(lba, cdb + 2);
	else
		put_unaligned_be24(lba | (cdb[1] & 0xe0) << 16, cdb + 1);
}

#endif /* SMQSG_CDB_H */
