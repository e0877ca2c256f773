/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Commands in flight: the data that each needs beside its request.
 */
#ifndef SMQSG_IO_H
#define SMQSG_IO_H

#include <linux/llist.h>

#include "depth.h"
#include "pool.h"
#include "sg.h"
#include "slot.h"

/* Up to this many bytes, copying the data costs less than pinning its pages. */
#define SMQSG_SMALL		min_t(u32, PAGE_SIZE, SZ_4K)

struct smqsg_adhoc_waiting;
struct smqsg_batch;

/**
 * struct smqsg_io - a command in flight or waiting
 * @next: the next in the CPU's pool
 * @ended: in smqsg_batch.ended of a long batch
 * @fd: the file; set once
 * @ioucmd: the SQE, of a slot run alone or an ad hoc command
 * @batch: its batch, or NULL; set once in the commands of a short batch
 * @idle: its idle request
 * @slot: number of the slot
 * @result: as smq_sg_status.result
 * @flags: SMQ_SG_RUN_*
 * @lba: the LBA of a run with SMQ_SG_RUN_LBA
 * @buffer_index: the index of a run's buffer, until the slot is taken
 * @buffer: the buffer of a run with SMQ_SG_RUN_BUFFER, referenced until the command has ended
 * @adhoc: additional data of an ad hoc command that waits or has waited, else NULL
 * @token: token in the device's budget, from the last time that the command was sent on the node's
 *	own queue; below 0 if it got none
 * @cqe_by: SMQSG_CQE_*: which code posts the CQE of a slot run alone: a poller; task work; or for a
 *	straight issue the submitter or the command's end, whichever is later. Atomic: an exchange
 *	decides which is later. Set for each such run
 * @response: the user address for the sense of an ad hoc command
 * @response_len: most bytes of sense that may be written there
 * @result2: the second half of an ad hoc command's CQE, without the length of its sense
 * @sense_len: bytes of @sense
 * @user_bio: the bio into which the block layer mapped user memory, to be unmapped; or NULL
 * @small: a page for an ad hoc command's data of up to SMQSG_SMALL bytes, or NULL. Stays with this
 *	struct
 * @back: the user address to which @small is copied when the command has ended, or 0
 * @back_len: bytes to be copied
 * @waiter: used while the command waits for its turn
 * @bio: for the command's data
 * @buffer_slot: describes the data of a run with SMQ_SG_RUN_BUFFER, in place of the slot, or of an
 *	ad hoc command that has its data in @small and needs a bio
 * @sense: sense data of an ad hoc command
 *
 * The submitter takes this struct from the file's pool. The task that posts the CQE, the submitter
 * or a poller, puts it back. The file stays open meanwhile. A command of SG_IO or write() uses only
 * @idle and @token.
 */
struct smqsg_io {
	union {
		struct smqsg_io *next;
		struct llist_node ended;
	};
	struct smqsg_fd *fd;
	struct io_uring_cmd *ioucmd;
	struct smqsg_batch *batch;
	struct smqsg_idle idle;
	u32 slot;
	s32 result;
	u32 flags;
	u32 response_len;
	union {
		u64 lba;
		u64 response;
	};
	union {
		u32 buffer_index;
		struct smqsg_buffer *buffer;
		struct smqsg_adhoc_waiting *adhoc;
	};
	u64 result2;
	u32 sense_len;
	int token;
	atomic_t cqe_by;
	u32 back_len;
	struct bio *user_bio;
	void *small;
	u64 back;
	struct smqsg_waiter waiter;
	struct bio bio;
	union {
		struct smqsg_slot buffer_slot;
		u8 sense[SMQ_SG_MAX_SENSE];
	};
};

/* smqsg_io.cqe_by */
enum {
	SMQSG_CQE_TASK_WORK,
	SMQSG_CQE_POLLER,
	SMQSG_CQE_UNDECIDED,	/* being submitted, and not ended yet */
	SMQSG_CQE_SUBMITTED,	/* submitted before it ended: its end posts the CQE */
	SMQSG_CQE_ENDED,	/* ended while being submitted: the submitter posts it */
};

/**
 * struct smqsg_ios - a file's unused struct smqsg_io on one CPU
 * @first: the first one; smqsg_io.next links the others
 * @count: how many there are
 *
 * Used with preemption off, and never from interrupts.
 */
struct smqsg_ios {
	struct smqsg_io *first;
	unsigned int count;
};

/* The largest number of commands that a pool keeps. */
#define SMQSG_IOS_MOST		256

void smqsg_bio_init(struct bio *bio);
void smqsg_io_init(struct smqsg_io *io, struct smqsg_fd *fd);
int smqsg_io_start(void);
void smqsg_io_stop(void);
int smqsg_ios_init(struct smqsg_fd *fd);
void smqsg_ios_exit(struct smqsg_fd *fd);
struct smqsg_io *smqsg_io_new(struct smqsg_fd *fd);
void smqsg_io_free(struct smqsg_io *io);

/* Takes a command from the CPU's pool, or allocates one; NULL: no memory. Process context. */
static inline struct smqsg_io *smqsg_io_get(struct smqsg_fd *fd)
{
	struct smqsg_ios *pool = get_cpu_ptr(fd->ios);
	struct smqsg_io *io = pool->first;

	if (likely(io)) {
		pool->first = io->next;
		pool->count--;
	}
	put_cpu_ptr(fd->ios);
	return likely(io) ? io : smqsg_io_new(fd);
}

/* Puts a command into the CPU's pool, or frees it. Process context. */
static inline void smqsg_io_put(struct smqsg_io *io)
{
	struct smqsg_ios *pool = get_cpu_ptr(io->fd->ios);
	bool full = pool->count >= SMQSG_IOS_MOST;

	if (likely(!full)) {
		io->next = pool->first;
		pool->first = io;
		pool->count++;
	}
	put_cpu_ptr(io->fd->ios);
	if (unlikely(full))
		smqsg_io_free(io);
}

/*
 * Makes the bio expect one more end than will come. So bio_endio() only counts the end and calls no
 * function: no code waits for this bio.
 */
static __always_inline void smqsg_bio_skip_endio(struct bio *bio)
{
	atomic_set(&bio->__bi_remaining, 2);
}

/* Gives a request its data: @length bytes, @skip bytes into *@bvec. */
static __always_inline void smqsg_io_arm(struct bio *bio, struct request *rq,
					 struct bio_vec *bvec, u32 skip, u32 length, u16 segments)
{
	/* All else is as bio_init() left it, or unused in a passthrough request. */
	bio->bi_io_vec = bvec;
	bio->bi_iter.bi_size = length;
	bio->bi_iter.bi_idx = 0;
	bio->bi_iter.bi_bvec_done = skip;
	smqsg_bio_skip_endio(bio);
	smq_rq_set_bio(rq, bio, segments);
}

/*
 * Makes blk_rq_unmap_user() copy nothing to the caller's memory, and not mark it as written: the
 * command of these bios was not sent.
 */
static inline void smqsg_bio_unsent(struct bio *bio)
{
	for (; bio; bio = bio->bi_next)
		bio->bi_opf = (bio->bi_opf & ~(blk_opf_t)REQ_OP_MASK) | REQ_OP_DRV_OUT;
}

#endif /* SMQSG_IO_H */
