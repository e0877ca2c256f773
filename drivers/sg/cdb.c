// SPDX-License-Identifier: GPL-2.0
/*
 * The part of a CDB (SBC-4) that this module reads and changes: the LBA.
 */
#include <scsi/scsi_device.h>
#include <scsi/scsi_proto.h>
#include <smq/compat.h>
#include <smq/rw_cdb.h>

#include "cdb.h"

/* An opcode that scsi_proto.h does not have. */
#define SMQSG_ORWRITE_16	0x8b

static unsigned int smqsg_lba_bits(u8 opcode)
{
	switch (opcode) {
	case READ_6:
	case WRITE_6:
		return 21;
	case READ_10:
	case WRITE_10:
	case WRITE_VERIFY:
	case VERIFY:
	case READ_12:
	case WRITE_12:
	case WRITE_VERIFY_12:
	case VERIFY_12:
		return 32;
	case READ_16:
	case WRITE_16:
	case WRITE_VERIFY_16:
	case VERIFY_16:
	case SMQ_WRITE_ATOMIC_16:
		return 64;
	default:
		return 0;
	}
}

/**
 * smqsg_lba_fits() - whether a CDB can be given another LBA
 * @sdev: the device that the CDB is for; its type matters: READ (6) for a tape has no LBA
 * @cdb: the CDB
 * @lba: the logical block address
 *
 * Return: 0; -EOPNOTSUPP: the CDB has no LBA that can be set; -ERANGE: @lba is too wide.
 */
int smqsg_lba_fits(const struct scsi_device *sdev, const u8 *cdb, u64 lba)
{
	unsigned int bits = smqsg_lba_bits(cdb[0]);

	switch (sdev->type) {
	case TYPE_DISK:
	case TYPE_ROM:
	case TYPE_WORM:
	case TYPE_MOD:
	case TYPE_RBC:
	case TYPE_ZBC:
		break;
	default:
		return -EOPNOTSUPP;
	}
	if (!bits)
		return -EOPNOTSUPP;
	return bits < 64 && lba >> bits ? -ERANGE : 0;
}

/**
 * smqsg_lba_set() - writes an LBA into a CDB
 * @cdb: the CDB
 * @lba: the logical block address; smqsg_lba_fits() has returned 0 for the CDB and this LBA
 */
void smqsg_lba_set(u8 *cdb, u64 lba)
{
	switch (smqsg_lba_bits(cdb[0])) {
	case 21:
		put_unaligned_be24(lba | (cdb[1] & 0xe0) << 16, cdb + 1);
		break;
	case 32:
		put_unaligned_be32(lba, cdb + 2);
		break;
	case 64:
		put_unaligned_be64(lba, cdb + 2);
		break;
	}
}
