/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What this module knows of CDBs: the LBA, which a run may change, and what a caller without
 * CAP_SYS_RAWIO may send.
 */
#ifndef SMQSG_CDB_H
#define SMQSG_CDB_H

#include <linux/errno.h>
#include <linux/types.h>
#include <scsi/scsi_proto.h>
#include <smq/compat.h>

struct scsi_device;

/* What an element of smqsg_rights[] may be, beside a set of SMQSG_ACTION(); 0: CAP_SYS_RAWIO. */
#define SMQSG_READS		(~0U)	/* reads or verifies the medium, or asks the device */
#define SMQSG_WRITES		BIT(31)	/* writes the medium, or flushes what was written */
/* As SMQSG_READS, but with this service action only, which is not 1Fh. */
#define SMQSG_ACTION(action)	BIT(action)

extern const u32 smqsg_rights[256];

int smqsg_ioctl_opcode(unsigned int cmd);
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

/**
 * smqsg_needs_rawio() - whether a CDB needs CAP_SYS_RAWIO, whatever the kernel's filter says
 * @cdb: its first two bytes
 * @type: the device's type
 * @writable: the file is open for writing
 *
 * Return: false for all opcodes of an MMC device, for which the filter was made; but true for the
 * opcode that smq_cmd_allowed() adds, which MMC does not have. Context: any.
 */
static inline bool smqsg_needs_rawio(const u8 *cdb, u8 type, bool writable)
{
	u32 right = smqsg_rights[cdb[0]];

	if (right == SMQSG_READS)
		return false;
	if (type == TYPE_ROM)
		return cdb[0] == SMQ_WRITE_ATOMIC_16;
	if (right == SMQSG_WRITES)
		return !writable;
	return !(right & SMQSG_ACTION(cdb[1] & 0x1f));
}

#endif /* SMQSG_CDB_H */
