/* SPDX-License-Identifier: GPL-2.0 */
/* CDBs that read and write. */
#ifndef FUZZ_SLOT_H
#define FUZZ_SLOT_H

#include <scsi/smq_sg.h>

#include "random.h"

/* CDBs of 6, 10, 12 and 16 bytes. */
#define MEDIA_KINDS	4

/* An LBA for a command of up to MOST_BLOCKS: a shared one, or one beyond the end of every disk. */
uint64_t shared_lba(struct rnd *r);

/*
 * Makes an empty slot a READ if @kind is below MEDIA_KINDS, else a WRITE (the last kind: VERIFY).
 * The caller sets buffer and offset.
 */
void media_command(struct smq_sg_slot *slot, unsigned int kind, uint32_t lba, unsigned int blocks);

#endif /* FUZZ_SLOT_H */
