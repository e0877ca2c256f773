/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The part of a CDB that this module reads and changes: the LBA.
 */
#ifndef SMQSG_CDB_H
#define SMQSG_CDB_H

#include <linux/types.h>

struct scsi_device;

int smqsg_lba_fits(const struct scsi_device *sdev, const u8 *cdb, u64 lba);
void smqsg_lba_set(u8 *cdb, u64 lba);

#endif /* SMQSG_CDB_H */
