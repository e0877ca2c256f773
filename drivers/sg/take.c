// SPDX-License-Identifier: GPL-2.0
/*
 * Takes slots for runs, and gives back those that are not sent.
 */
#include <linux/nospec.h>

#include "take.h"

/* smqsg_run_vary() for any flags. */
u32 smqsg_run_vary_more(struct smqsg_io *io, u64 lba, u16 buffer, u16 flags)
{
	io->lba = lba;
	io->buffer_index = buffer;
	if ((lba && !(flags & SMQ_SG_RUN_LBA)) || (buffer && !(flags & SMQ_SG_RUN_BUFFER)))
		return flags | SMQSG_RUN_BAD;
	return flags;
}

/**
 * smqsg_slot_vary() - checks a run's flags, and its own LBA or buffer
 * @io: the run, whose slot is taken; gets the flags and the buffer
 * @varied: what smqsg_run_vary() returned
 *
 * Return: 0, or an errno as described at struct smq_sg_run. Process context.
 */
int smqsg_slot_vary(struct smqsg_io *io, u32 varied)
{
	struct smqsg_fd *fd = io->fd;
	struct smqsg_slot *slot = &fd->slots.array[io->slot];
	int ret;

	if (varied & ~(u32)(SMQ_SG_RUN_LBA | SMQ_SG_RUN_BUFFER))
		return -EINVAL;
	if (varied & SMQ_SG_RUN_LBA) {
		ret = smqsg_lba_fits(slot->lba_bits, io->lba);
		if (ret)
			return ret;
	}
	if (!(varied & SMQ_SG_RUN_BUFFER)) {
		io->flags = varied;
		return 0;
	}
	if (!slot->data.length)
		return -EINVAL;
	io->buffer = smqsg_buffer_get(&fd->buffers, io->buffer_index);
	if (!io->buffer)
		return -ENOENT;
	ret = -EINVAL;
	if (!io->buffer->readonly || slot->direction == SMQ_SG_OUT)
		ret = smqsg_slot_locate(&io->buffer_slot, fd->q, io->buffer, slot->offset,
					slot->data.length);
	if (ret) {
		smqsg_buffer_put(io->buffer);
		return ret;
	}
	io->flags = varied;
	return 0;
}

/**
 * smqsg_slot_set_error() - sets a slot's status to the reason why it was not run
 * @fd: the file
 * @number: the slot, with its byte in @fd->slots.busy set by the caller
 * @error: an errno, below 0
 *
 * Process context.
 */
void smqsg_slot_set_error(struct smqsg_fd *fd, u32 number, int error)
{
	struct smq_sg_status *status = smqsg_status(fd, number);

	*status = (struct smq_sg_status) { .result = error, .runs = status->runs };
}

/**
 * smqsg_slot_drop() - gives back a slot that was not issued
 * @io: a run that smqsg_slot_take() filled
 * @error: an errno, below 0, for its status; 0 if it will be sent later
 *
 * Process context.
 */
void smqsg_slot_drop(struct smqsg_io *io, int error)
{
	smqsg_slot_put_buffer(io);
	if (error)
		smqsg_slot_set_error(io->fd, io->slot, error);
	smqsg_slot_give_back(&io->fd->slots, io->slot);
}

/**
 * smqsg_slot_refused() - sets the status of a slot that could not be taken
 * @fd: the file
 * @number: the slot
 * @error: an errno, below 0
 *
 * Does nothing if the slot does not exist, and so has no status, or if it is in flight: then its
 * command's end sets the status. Process context.
 */
void smqsg_slot_refused(struct smqsg_fd *fd, u32 number, int error)
{
	u32 slots = smqsg_slots(&fd->slots);

	/* With EBUSY the slot was in flight. The command sets the status, or has already set it. */
	if (number >= slots || error == -EBUSY)
		return;
	number = array_index_nospec(number, slots);
	if (!smqsg_slot_try(&fd->slots, number))
		return;
	smqsg_slot_set_error(fd, number, error);
	smqsg_slot_give_back(&fd->slots, number);
}
