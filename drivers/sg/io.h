/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Commands in flight: what one needs beside its request, and the way from a
 * slot to a request and back.
 */
#ifndef SMQSG_IO_H
#define SMQSG_IO_H

#include <linux/llist.h>
#include <linux/nospec.h>

#include "depth.h"
#include "slot.h"

struct io_uring_cmd;
struct smqsg_adhoc_late;
struct smqsg_batch;

/**
 * struct smqsg_io - a command in flight or waiting
 *
 * Taken from the file's pool when the command is submitted, put back by the task
 * that submitted it once its end has been told. Its user keeps the file meanwhile.
 *
 * @next: in the pool
 * @ended: in smqsg_batch.ended, that of a long batch
 * @fd: the file; set once
 * @ioucmd: the SQE, of a slot run alone or an ad hoc command
 * @batch: the batch it belongs to, or NULL; a short batch's own have it for good
 * @slot: number of the slot
 * @result: as smq_sg_status.result
 * @flags: SMQ_SG_RUN_*
 * @lba: with SMQ_SG_RUN_LBA
 * @buffer: with SMQ_SG_RUN_BUFFER, referenced until the command has ended
 * @adhoc: an ad hoc command that waits, else NULL
 * @response: where the sense of an ad hoc command goes
 * @response_len: at most
 * @result2: the second half of an ad hoc command's CQE, without the length of its sense
 * @sense_len: bytes of @sense
 * @user_bio: what blk_rq_map_user() made, to be unmapped
 * @waiter: while it waits for a turn
 * @bio: its data
 * @other: with SMQ_SG_RUN_BUFFER: where that is
 * @sense: of an ad hoc command
 */
struct smqsg_io {
	union {
		struct smqsg_io *next;
		struct llist_node ended;
	};
	struct smqsg_fd *fd;
	struct io_uring_cmd *ioucmd;
	struct smqsg_batch *batch;
	u32 slot;
	s32 result;
	u32 flags;
	u32 response_len;
	union {
		u64 lba;
		u64 response;
	};
	union {
		struct smqsg_buffer *buffer;
		struct smqsg_adhoc_late *adhoc;
	};
	u64 result2;
	u32 sense_len;
	struct bio *user_bio;
	struct smqsg_waiter waiter;
	struct bio bio;
	union {
		struct smqsg_slot other;
		u8 sense[SMQ_SG_MAX_SENSE];
	};
};

/**
 * struct smqsg_pool - a CPU's unused struct smqsg_io of a file
 * @first: list by smqsg_io.next
 * @batch: list of unused batches by smqsg_batch.next
 * @count: length of the first
 * @batches: and of the second
 *
 * Used with preemption off, and never from interrupts.
 */
struct smqsg_pool {
	struct smqsg_io *first;
	struct smqsg_batch *batch;
	unsigned int count;
	unsigned int batches;
};

/* A pool gives back what it has beyond this. */
#define SMQSG_POOL_MOST		256

void smqsg_io_init(struct smqsg_io *io, struct smqsg_fd *fd);
int smqsg_io_start(void);
void smqsg_io_stop(void);
int smqsg_pool_init(struct smqsg_fd *fd);
void smqsg_pool_exit(struct smqsg_fd *fd);
struct smqsg_io *smqsg_io_new(struct smqsg_fd *fd);
void smqsg_io_free(struct smqsg_io *io);

/* Takes one; NULL without memory. Process context. */
static inline struct smqsg_io *smqsg_io_get(struct smqsg_fd *fd)
{
	struct smqsg_pool *pool = get_cpu_ptr(fd->pool);
	struct smqsg_io *io = pool->first;

	if (likely(io)) {
		pool->first = io->next;
		pool->count--;
	}
	put_cpu_ptr(fd->pool);
	return likely(io) ? io : smqsg_io_new(fd);
}

/* Puts one back. Process context. */
static inline void smqsg_io_put(struct smqsg_io *io)
{
	struct smqsg_pool *pool = get_cpu_ptr(io->fd->pool);
	bool full = pool->count >= SMQSG_POOL_MOST;

	if (likely(!full)) {
		io->next = pool->first;
		pool->first = io;
		pool->count++;
	}
	put_cpu_ptr(io->fd->pool);
	if (unlikely(full))
		smqsg_io_free(io);
}

/* Gives a request its data: @length bytes, @skip bytes into *@bvec. */
static __always_inline void smqsg_io_arm(struct smqsg_io *io, struct request *rq,
					 struct bio_vec *bvec, u32 skip, u32 length, u16 segments)
{
	struct bio *bio = &io->bio;

	/* All else is as bio_init() left it, or nobody's concern in a passthrough request. */
	bio->bi_io_vec = bvec;
	bio->bi_iter.bi_size = length;
	bio->bi_iter.bi_idx = 0;
	bio->bi_iter.bi_bvec_done = skip;
	smq_rq_set_bio(rq, bio, segments);
}

/* Lets go of what a run had beside its slot. Process context. */
static inline void smqsg_slot_let_go(struct smqsg_io *io)
{
	if (unlikely(io->flags & SMQ_SG_RUN_BUFFER)) {
		smqsg_buffer_put(io->buffer);
		io->flags = 0;
	}
}

/* run.c */
int smqsg_slot_vary(struct smqsg_io *io, const struct smq_sg_run *run);
void smqsg_slot_note(struct smqsg_fd *fd, u32 number, int error);
void smqsg_slot_drop(struct smqsg_io *io, int error);
void smqsg_slot_varied(struct smqsg_io *io, struct request *rq);
SMQ_END_IO(smqsg_slot_end, rq, error);
void smqsg_slot_refused(struct smqsg_fd *fd, u32 number, int error);

/* smqsg_slot_take() of a slot that is known to be one. */
static __always_inline int smqsg_slot_take_valid(struct smqsg_io *io, struct smqsg_fd *fd, u32 slot,
						 const struct smq_sg_run *run)
{
	int ret;

	if (unlikely(test_and_set_bit_lock(slot, fd->busy)))
		return -EBUSY;
	io->slot = slot;
	io->flags = 0;
	if (likely(fd->slots[slot].cdb_len && !run))
		return 0;
	ret = fd->slots[slot].cdb_len ? smqsg_slot_vary(io, run) : -ENODATA;
	if (ret) {
		smqsg_slot_note(fd, slot, ret);
		clear_bit_unlock(slot, fd->busy);
	}
	return ret;
}

/**
 * smqsg_slot_take() - takes a slot for a run
 * @io: filled with what the run asks for
 * @fd: the file
 * @slot: its number
 * @run: what else the run asks for, in memory that nobody else writes; NULL for nothing
 *
 * Return: 0, and smqsg_slot_issue() or smqsg_slot_drop() follows; else an errno as told
 * at struct smq_sg_run. Process context.
 */
static __always_inline int smqsg_slot_take(struct smqsg_io *io, struct smqsg_fd *fd, u32 slot,
					   const struct smq_sg_run *run)
{
	u32 slots = smqsg_slots(fd);

	if (unlikely(slot >= slots))
		return -EINVAL;
	return smqsg_slot_take_valid(io, fd, array_index_nospec(slot, slots), run);
}

static __always_inline void smqsg_slot_arm(struct smqsg_io *io, struct request *rq,
					   struct smqsg_slot *slot)
{
	if (likely(!slot->many))
		smqsg_io_arm(io, rq, &slot->data.one, 0, slot->data.length, slot->segments);
	else
		smqsg_io_arm(io, rq, slot->data.bvec, slot->data.skip, slot->data.length,
			     slot->segments);
}

/**
 * smqsg_slot_issue() - sends a slot's command
 * @io: one that smqsg_slot_take() filled, with a claim made for it
 * @fd: the file
 * @flags: BLK_MQ_REQ_NOWAIT, or 0 to sleep until there is a tag
 *
 * Return: 0, and the command may have ended already; else there was no request:
 * -EAGAIN: no tag, or the queue is frozen; -ENODEV. Process context.
 */
static __always_inline int smqsg_slot_issue(struct smqsg_io *io, struct smqsg_fd *fd,
					    blk_mq_req_flags_t flags)
{
	struct smqsg_slot *slot = &fd->slots[io->slot];
	struct scsi_cmnd *scmd;
	struct request *rq;

	rq = scsi_alloc_request(fd->q,
				slot->direction == SMQ_SG_OUT ? REQ_OP_DRV_OUT : REQ_OP_DRV_IN,
				flags);
	if (IS_ERR(rq))
		return PTR_ERR(rq);
	scmd = blk_mq_rq_to_pdu(rq);
	memcpy(scmd->cmnd, slot->cdb, sizeof(slot->cdb));
	scmd->cmd_len = slot->cdb_len;
	scmd->allowed = 0;
	/* What the tag's last user left is not what became of this one. */
	scmd->result = 0;
	scmd->resid_len = 0;
	if (slot->data.length)
		smqsg_slot_arm(io, rq, slot);
	if (unlikely(io->flags))
		smqsg_slot_varied(io, rq);
	rq->timeout = slot->timeout;
	rq->end_io = smqsg_slot_end;
	rq->end_io_data = io;
	blk_execute_rq_nowait(rq, false);
	return 0;
}

/* batch.c */
int smqsg_batch_run(struct smqsg_fd *fd, struct io_uring_cmd *ioucmd, unsigned int issue_flags);

/* adhoc.c */
int smqsg_adhoc_run(struct smqsg_fd *fd, struct io_uring_cmd *ioucmd, unsigned int issue_flags);

#endif /* SMQSG_IO_H */
