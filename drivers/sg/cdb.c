// SPDX-License-Identifier: GPL-2.0
/*
 * Which CDBs have an LBA (SBC-4) that a run may set, and which CDBs and ioctls need CAP_SYS_RAWIO.
 */
#include <linux/cdrom.h>
#include <scsi/scsi_device.h>
#include <scsi/scsi_ioctl.h>
#include <scsi/scsi_proto.h>
#include <smq/compat.h>

#include "cdb.h"

/*
 * Which opcodes a caller without CAP_SYS_RAWIO may send, for all types of devices but MMC's (SPC-5,
 * SBC-4, SSC-5, ZBC-2). The kernel's filter (smq_cmd_allowed()) must allow them, too; but it knows
 * opcodes of MMC only by their number, which have other meanings for other types of devices: 48h is
 * PLAY AUDIO TRACK INDEX for a CD drive, and SANITIZE, which erases all data, for a disk (SBC-4).
 *
 * Of opcodes with service actions only those that report something: 9Eh/18h, REMOVE ELEMENT AND
 * TRUNCATE, formats the device. READ BUFFER has its mode there, of which 1Ch may clear the error
 * history, and LOG SENSE a bit that makes the device save its counters.
 */
const u32 smqsg_rights[256] = {
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
	/* Header and data, data, descriptor, echo buffer, its descriptor. */
	[READ_BUFFER]		= SMQSG_ACTION(0x00) | SMQSG_ACTION(0x02) | SMQSG_ACTION(0x03) |
				  SMQSG_ACTION(0x0a) | SMQSG_ACTION(0x0b),
	[READ_LONG]		= SMQSG_READS,
	[LOG_SENSE]		= SMQSG_ACTION(0x00),
	[MODE_SENSE_10]		= SMQSG_READS,
	[READ_16]		= SMQSG_READS,
	[VERIFY_16]		= SMQSG_READS,
	/* REPORT ZONES, REPORT REALMS, REPORT ZONE DOMAINS, ZONE QUERY (16). */
	[ZBC_IN]		= SMQSG_ACTION(ZI_REPORT_ZONES) | SMQSG_ACTION(0x06) |
				  SMQSG_ACTION(0x07) | SMQSG_ACTION(0x09),
	/* The second is READ LONG (16), the last GET PHYSICAL ELEMENT STATUS. */
	[SERVICE_ACTION_IN_16]	= SMQSG_ACTION(SAI_READ_CAPACITY_16) | SMQSG_ACTION(0x11) |
				  SMQSG_ACTION(SAI_GET_LBA_STATUS) |
				  SMQSG_ACTION(SAI_REPORT_REFERRALS) |
				  SMQSG_ACTION(0x16) | SMQSG_ACTION(0x17),
	[REPORT_LUNS]		= SMQSG_READS,
	[MAINTENANCE_IN]	= SMQSG_ACTION(MI_REPORT_IDENTIFYING_INFORMATION) |
				  SMQSG_ACTION(MI_REPORT_TARGET_PGS) |
				  SMQSG_ACTION(MI_REPORT_ALIASES) |
				  SMQSG_ACTION(MI_REPORT_SUPPORTED_OPERATION_CODES) |
				  SMQSG_ACTION(MI_REPORT_SUPPORTED_TASK_MANAGEMENT_FUNCTIONS) |
				  SMQSG_ACTION(MI_REPORT_PRIORITY) |
				  SMQSG_ACTION(MI_REPORT_TIMESTAMP) |
				  SMQSG_ACTION(MI_MANAGEMENT_PROTOCOL_IN),
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

/**
 * smqsg_ioctl_opcode() - the opcode of the command that the mid-layer sends for an ioctl
 * @cmd: the ioctl
 *
 * Return: the opcode; INQUIRY also for an ioctl that sends nothing; below 0: not known, it may be
 * one of the LLD's.
 */
int smqsg_ioctl_opcode(unsigned int cmd)
{
	switch (cmd) {
	case SCSI_IOCTL_GET_PCI:
		return INQUIRY;
	case SCSI_IOCTL_START_UNIT:
	case SCSI_IOCTL_STOP_UNIT:
	case CDROMEJECT:
	case CDROMCLOSETRAY:
		return START_STOP;
	case SCSI_IOCTL_DOORLOCK:
	case SCSI_IOCTL_DOORUNLOCK:
		return ALLOW_MEDIUM_REMOVAL;
	default:
		return -1;
	}
}

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
