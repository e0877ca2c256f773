/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The parts of a CDB that this module reads.
 */
#ifndef SMQSG_CDB_H
#define SMQSG_CDB_H

#include <linux/types.h>

struct scsi_device;

int smqsg_lba_fits(const struct scsi_device *sdev, const u8 *cdb, u64 lba);
void smqsg_lba_set(u8 *cdb, u64 lba);
bool smqsg_cdb_protected(const u8 *cdb);

#endif /* SMQSG_CDB_H */
