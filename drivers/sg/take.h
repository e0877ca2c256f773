/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Takes slots for runs: sets a slot's byte in smqsg_fd_slots.busy, and stores the run's own LBA or
 * buffer.
 */
#ifndef SMQSG_TAKE_H
#define SMQSG_TAKE_H

#include <linux/nospec.h>

#include "cdb.h"
#include "io.h"

/* A bit beside SMQ_SG_RUN_*: the run has a value without the flag for it. */
#define SMQSG_RUN_BAD		BIT(31)

u32 smqsg_run_vary_more(struct smqsg_io *io, u64 lba, u16 buffer, u16 flags);
int smqsg_slot_vary(struct smqsg_io *io, u32 varied);
void smqsg_slot_set_error(struct smqsg_fd *fd, u32 number, int error);
void smqsg_slot_drop(struct smqsg_io *io, int error);
void smqsg_slot_refused(struct smqsg_fd *fd, u32 number, int error);

static inline struct smq_sg_status *smqsg_status(struct smqsg_fd *fd, u32 number)
{
	return fd->slots.status + (size_t)number * fd->slots.status_stride;
}

/*
 * Stores a run's own LBA and buffer, which smqsg_slot_take() will check. Returns SMQ_SG_RUN_* and
 * SMQSG_RUN_BAD.
 */
static __always_inline u32 smqsg_run_vary(struct smqsg_io *io, u64 lba, u16 buffer, u16 flags)
{
	if (unlikely(flags != SMQ_SG_RUN_LBA || buffer))
		return smqsg_run_vary_more(io, lba, buffer, flags);
	io->lba = lba;
	return SMQ_SG_RUN_LBA;
}

/* Drops the reference to a run's own buffer, if it has one. Process context. */
static inline void smqsg_slot_put_buffer(struct smqsg_io *io)
{
	if (unlikely(io->flags & SMQ_SG_RUN_BUFFER)) {
		smqsg_buffer_put(io->buffer);
		io->flags = 0;
	}
}

/**
 * smqsg_slot_find() - finds a slot by its number
 * @fd: the file
 * @number: the number, which comes from a program. If the slot is found, this is in range on
 *	return, also under speculation
 *
 * Return: the slot, or NULL if there is no slot with that number. Any context.
 */
static __always_inline struct smqsg_slot *smqsg_slot_find(struct smqsg_fd *fd, u32 *number)
{
	u32 slots = smqsg_slots(&fd->slots);

	if (unlikely(*number >= slots))
		return NULL;
	*number = array_index_nospec(*number, slots);
	return &fd->slots.array[*number];
}

/**
 * smqsg_slot_take() - takes a slot for a run
 * @io: the run, filled by smqsg_run_vary() if @varied is not 0
 * @fd: the file
 * @slot: the slot
 * @number: its number
 * @varied: what smqsg_run_vary() returned; 0: the run has no LBA or buffer of its own
 *
 * Return: 0: the caller then calls smqsg_slot_send() or smqsg_slot_drop(); else an errno as
 * described at struct smq_sg_run. Process context.
 */
static __always_inline int smqsg_slot_take(struct smqsg_io *io, struct smqsg_fd *fd,
					   struct smqsg_slot *slot, u32 number, u32 varied)
{
	int ret;

	if (unlikely(!smqsg_slot_try(&fd->slots, number)))
		return -EBUSY;
	io->slot = number;
	io->flags = 0;
	if (likely(slot->cdb_len && !varied))
		return 0;
	if (unlikely(!slot->cdb_len)) {
		ret = -ENODATA;
	} else if (likely(varied == SMQ_SG_RUN_LBA)) {
		ret = smqsg_lba_fits(slot->lba_bits, io->lba);
		io->flags = SMQ_SG_RUN_LBA;
	} else {
		ret = smqsg_slot_vary(io, varied);
	}
	if (unlikely(ret)) {
		smqsg_slot_set_error(fd, number, ret);
		smqsg_slot_give_back(&fd->slots, number);
	}
	return ret;
}

#endif /* SMQSG_TAKE_H */
