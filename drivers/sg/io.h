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
#include "poll.h"
#include "slot.h"

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
 * @held: the entry of its slot, of a held one that runs
 * @slot: number of the slot
 * @result: as smq_sg_status.result
 * @flags: SMQ_SG_RUN_*
 * @lba: with SMQ_SG_RUN_LBA
 * @buffer: with SMQ_SG_RUN_BUFFER, referenced until the command has ended
 * @adhoc: an ad hoc command that waits, else NULL
 * @meet: SMQSG_MEET_*: of straight issue, who comes second, submitter or end, tells. Atomic: by
 *	exchange. SMQSG_MEET_NOT of all others, and in the pool
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
	struct smqsg_held *held;
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
	atomic_t meet;
	struct bio *user_bio;
	struct smqsg_waiter waiter;
	struct bio bio;
	union {
		struct smqsg_slot other;
		u8 sense[SMQ_SG_MAX_SENSE];
	};
};

/* smqsg_io.meet */
enum {
	SMQSG_MEET_NOT,
	SMQSG_MEET_NOBODY,	/* nobody has come yet */
	SMQSG_MEET_SUBMITTER,
	SMQSG_MEET_END,
};

/**
 * struct smqsg_pool - a CPU's unused struct smqsg_io of a file
 * @first: list by smqsg_io.next
 * @count: its length
 *
 * Used with preemption off, and never from interrupts.
 */
struct smqsg_pool {
	struct smqsg_io *first;
	unsigned int count;
};

/* A pool gives back what it has beyond this. */
#define SMQSG_POOL_MOST		256

void smqsg_bio_init(struct bio *bio);
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

/* Nobody is told of a bio's end but by its request: bio_endio() finds one more to wait for. */
static __always_inline void smqsg_bio_keep(struct bio *bio)
{
	atomic_set(&bio->__bi_remaining, 2);
}

/* Gives a request its data: @length bytes, @skip bytes into *@bvec. */
static __always_inline void smqsg_io_arm(struct bio *bio, struct request *rq,
					 struct bio_vec *bvec, u32 skip, u32 length, u16 segments)
{
	/* All else is as bio_init() left it, or nobody's concern in a passthrough request. */
	bio->bi_io_vec = bvec;
	bio->bi_iter.bi_size = length;
	bio->bi_iter.bi_idx = 0;
	bio->bi_iter.bi_bvec_done = skip;
	smqsg_bio_keep(bio);
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

static inline struct smqsg_io **smqsg_slot_pdu(struct io_uring_cmd *ioucmd)
{
	return (struct smqsg_io **)ioucmd->pdu;
}

/* Posts the completion of a slot run alone; in the task that submitted, or by its poller. */
static inline void smqsg_slot_tell(struct io_uring_cmd *ioucmd, unsigned int issue_flags)
{
	struct smqsg_io *io = *smqsg_slot_pdu(ioucmd);
	int result = io->result;

	smqsg_slot_let_go(io);
	smqsg_io_put(io);
	smq_uring_done(ioucmd, result, issue_flags);
}

/* run.c */
int smqsg_slot_vary(struct smqsg_io *io, const struct smq_sg_run *run);
void smqsg_slot_note(struct smqsg_fd *fd, u32 number, int error);
void smqsg_slot_drop(struct smqsg_io *io, int error);
void smqsg_slot_varied(struct smqsg_io *io, struct request *rq);
SMQ_END_IO(smqsg_slot_end, rq, error);
SMQ_END_IO(smqsg_held_end, rq, error);
SMQ_END_IO(smqsg_direct_end, rq, error);
void smqsg_slot_refused(struct smqsg_fd *fd, u32 number, int error);

/* smqsg_slot_take() of a slot that is known to be one; @slot is its @number. */
static __always_inline int smqsg_slot_take_valid(struct smqsg_io *io, struct smqsg_fd *fd,
						 struct smqsg_slot *slot, u32 number,
						 const struct smq_sg_run *run)
{
	int ret;

	if (unlikely(test_and_set_bit_lock(number, fd->busy)))
		return -EBUSY;
	io->slot = number;
	io->flags = 0;
	if (likely(slot->cdb_len && !run))
		return 0;
	ret = slot->cdb_len ? smqsg_slot_vary(io, run) : -ENODATA;
	if (ret) {
		smqsg_slot_note(fd, number, ret);
		clear_bit_unlock(number, fd->busy);
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
	slot = array_index_nospec(slot, slots);
	return smqsg_slot_take_valid(io, fd, &fd->slots[slot], slot, run);
}

/* adhoc.c */
int smqsg_adhoc_run(struct smqsg_fd *fd, struct io_uring_cmd *ioucmd, unsigned int issue_flags);
bool smqsg_adhoc_polled(struct io_uring_cmd *ioucmd);

#endif /* SMQSG_IO_H */
