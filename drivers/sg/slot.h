/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Slots: prepared commands.
 */
#ifndef SMQSG_SLOT_H
#define SMQSG_SLOT_H

#include "buffer.h"
#include "sg.h"

/**
 * struct smqsg_slot - a prepared command: 64 bytes
 * @cdb: the CDB
 * @data: where its data is
 * @timeout: jiffies
 * @offset: of the data in the buffer, for use with another one
 * @buffer: index of the buffer
 * @segments: pieces of memory at most
 * @cdb_len: bytes of @cdb; 0: empty
 * @direction: enum smq_sg_direction
 * @many: @data is not one piece
 * @hold: keeps its request while it may
 * @direct: and goes past the plug
 * @held: the entry in smqsg_fd.held that was its last; 0, which is nobody's, for none
 *
 * Written with its bit in smqsg_fd.busy held, read by who holds it.
 */
struct smqsg_slot {
	u8 cdb[SMQ_SG_MAX_CDB];
	struct smqsg_extent data;
	u32 timeout;
	u32 offset;
	u16 buffer;
	u16 segments;
	u8 cdb_len;
	u8 direction : 2;
	u8 many : 1;
	u8 hold : 1;
	u8 direct : 1;
	u16 held;
};

static_assert(sizeof(struct smqsg_slot) == 64);

/* How many slots there are; whoever sees some sees their arrays. */
static inline u32 smqsg_slots(struct smqsg_fd *fd)
{
	/* Pairs with smqsg_ioctl_setup(). */
	return smp_load_acquire(&fd->nr_slots);
}

#endif /* SMQSG_SLOT_H */
