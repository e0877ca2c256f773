// SPDX-License-Identifier: GPL-2.0
/*
 * The parts of a CDB (SBC-4) that this module reads: the LBA, and whether blocks are transferred
 * with protection information.
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

/* Returns which byte has RDPROTECT, WRPROTECT, VRPROTECT or ORPROTECT in bits 7 to 5; 0: none. */
static unsigned int smqsg_protect_byte(const u8 *cdb)
{
	switch (cdb[0]) {
	case READ_10:
	case WRITE_10:
	case WRITE_VERIFY:
	case VERIFY:
	case WRITE_SAME:
	case READ_16:
	case COMPARE_AND_WRITE:
	case WRITE_16:
	case SMQSG_ORWRITE_16:
	case WRITE_VERIFY_16:
	case VERIFY_16:
	case WRITE_SAME_16:
	case SMQ_WRITE_ATOMIC_16:
	case READ_12:
	case WRITE_12:
	case WRITE_VERIFY_12:
	case VERIFY_12:
		return 1;
	case VARIABLE_LENGTH_CMD:
		switch (get_unaligned_be16(cdb + 8)) {
		case READ_32:
		case VERIFY_32:
		case WRITE_32:
		case WRITE_VERIFY_32:
		case WRITE_SAME_32:
			return 10;
		}
		return 0;
	default:
		return 0;
	}
}

/**
 * smqsg_cdb_protected() - whether a CDB asks for blocks with their protection information
 * @cdb: the CDB, SMQ_SG_MAX_CDB bytes
 *
 * Return: true if its RDPROTECT, WRPROTECT, VRPROTECT or ORPROTECT is not 0 (SBC-4).
 */
bool smqsg_cdb_protected(const u8 *cdb)
{
	unsigned int byte = smqsg_protect_byte(cdb);

	return byte && cdb[byte] & 0xe0;
}
