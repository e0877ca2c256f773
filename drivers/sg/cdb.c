// SPDX-License-Identifier: GPL-2.0
/*
 * Which CDBs have an LBA (SBC-4) that a run may set, and which need CAP_SYS_RAWIO.
 */
#include <scsi/scsi_device.h>
#include <scsi/scsi_proto.h>
#include <smq/compat.h>

#include "cdb.h"

/*
 * Which opcodes a caller without CAP_SYS_RAWIO may send, for all types of devices but MMC's (SPC-5,
 * SBC-4, SSC-5). The kernel's filter (smq_cmd_allowed()) must allow them, too; but it knows opcodes
 * of MMC only by their number, which have other meanings for other types of devices: 48h is PLAY
 * AUDIO TRACK INDEX for a CD drive, and SANITIZE, which erases all data, for a disk (SBC-4).
 */
const u8 smqsg_rights[256] = {
	[TEST_UNIT_READY]	= SMQSG_READS,
	[REQUEST_SENSE]		= SMQSG_READS,
	[READ_6]		= SMQSG_READS,
	[INQUIRY]		= SMQSG_READS,
	[MODE_SENSE]		= SMQSG_READS,
	[RECEIVE_DIAGNOSTIC]	= SMQSG_READS,
	[READ_CAPACITY]		= SMQSG_READS,
	[READ_10]		= SMQSG_READS,
	[VERIFY]		= SMQSG_READS,
	[READ_DEFECT_DATA]	= SMQSG_READS,
	[READ_BUFFER]		= SMQSG_READS,
	[READ_LONG]		= SMQSG_READS,
	[LOG_SENSE]		= SMQSG_READS,
	[MODE_SENSE_10]		= SMQSG_READS,
	[READ_16]		= SMQSG_READS,
	[VERIFY_16]		= SMQSG_READS,
	[ZBC_IN]		= SMQSG_READS,
	[SERVICE_ACTION_IN_16]	= SMQSG_READS,
	[REPORT_LUNS]		= SMQSG_READS,
	[MAINTENANCE_IN]	= SMQSG_READS,
	[READ_12]		= SMQSG_READS,

	[WRITE_6]		= SMQSG_WRITES,
	[WRITE_10]		= SMQSG_WRITES,
	[WRITE_VERIFY]		= SMQSG_WRITES,
	[SYNCHRONIZE_CACHE]	= SMQSG_WRITES,
	[WRITE_LONG]		= SMQSG_WRITES,
	[WRITE_SAME]		= SMQSG_WRITES,
	[WRITE_16]		= SMQSG_WRITES,
	[WRITE_SAME_16]		= SMQSG_WRITES,
	[SMQ_WRITE_ATOMIC_16]	= SMQSG_WRITES,
	[WRITE_12]		= SMQSG_WRITES,
	[WRITE_VERIFY_12]	= SMQSG_WRITES,
};

static unsigned int smqsg_opcode_bits(u8 opcode)
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
 * smqsg_lba_bits() - how wide the LBA of a command is
 * @sdev: the device that the command is for; its type matters: READ (6) for a tape has no LBA
 * @opcode: the command
 *
 * Return: 21, 32 or 64; 0: the command has no LBA that can be set.
 */
unsigned int smqsg_lba_bits(const struct scsi_device *sdev, u8 opcode)
{
	switch (sdev->type) {
	case TYPE_DISK:
	case TYPE_ROM:
	case TYPE_WORM:
	case TYPE_MOD:
	case TYPE_RBC:
	case TYPE_ZBC:
		return smqsg_opcode_bits(opcode);
	default:
		return 0;
	}
}
