/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Which opcodes a caller without CAP_SYS_RAWIO may send. The kernel's filter (smq_cmd_allowed())
 * must allow them, too; but it knows opcodes of MMC only by their number, which have other meanings
 * for other types of devices: 48h is PLAY AUDIO TRACK INDEX for a CD drive, and SANITIZE, which
 * erases all data, for a disk (SBC-4).
 */
#ifndef SMQSG_RIGHTS_H
#define SMQSG_RIGHTS_H

#include <linux/types.h>
#include <scsi/scsi_proto.h>
#include <smq/compat.h>

enum smqsg_right {
	SMQSG_RAWIO,		/* needs CAP_SYS_RAWIO */
	SMQSG_READS,		/* reads the medium, verifies it, or inquires about the device */
	SMQSG_WRITES,		/* writes the medium, or flushes what was written */
};

/* By opcode; for all types of devices but MMC's (SPC-5, SBC-4, SSC-5). */
static const u8 smqsg_rights[256] = {
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

/**
 * smqsg_needs_rawio() - whether an opcode needs CAP_SYS_RAWIO, whatever the kernel's filter says
 * @opcode: the CDB's first byte
 * @type: the device's type
 * @writable: the file is open for writing
 *
 * Return: false for all opcodes of an MMC device, for which the filter was made; but true for the
 * opcode that smq_cmd_allowed() adds, which MMC does not have. Context: any.
 */
static inline bool smqsg_needs_rawio(u8 opcode, u8 type, bool writable)
{
	if (smqsg_rights[opcode] == SMQSG_READS)
		return false;
	if (type == TYPE_ROM)
		return opcode == SMQ_WRITE_ATOMIC_16;
	return smqsg_rights[opcode] != SMQSG_WRITES || !writable;
}

#endif /* SMQSG_RIGHTS_H */
