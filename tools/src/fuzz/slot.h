/* SPDX-License-Identifier: GPL-2.0 */
/* READ and WRITE commands for slots. */
#ifndef FUZZ_SLOT_H
#define FUZZ_SLOT_H

#include <scsi/smq_sg.h>

#include "random.h"

/* READ and WRITE exist with CDBs of 6, 10, 12 and 16 bytes. */
#define MEDIA_KINDS	4

/*
 * A random LBA at which a command of up to MOST_BLOCKS stays within the shared blocks. Sometimes
 * an LBA beyond the end of every disk.
 */
uint64_t shared_lba(struct rnd *r);

/*
 * Fills in a slot that is all 0. @kind: 0 to MEDIA_KINDS - 1 are READs; the next MEDIA_KINDS are
 * WRITEs; then VERIFY follows. The caller sets buffer and offset.
 */
void media_command(struct smq_sg_slot *slot, unsigned int kind, uint32_t lba, unsigned int blocks);

#endif /* FUZZ_SLOT_H */
