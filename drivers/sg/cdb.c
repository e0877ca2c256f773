// SPDX-License-Identifier: GPL-2.0
/*
 * Which CDBs have an LBA (SBC-4) that a run may set.
 */
#include <scsi/scsi_device.h>
#include <scsi/scsi_proto.h>
#include <smq/compat.h>

#include "cdb.h"

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
