/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Commands in flight: the data that each needs beside its request.
 */
#ifndef SMQSG_IO_H
#define SMQSG_IO_H

#include <linux/llist.h>
#include <linux/percpu.h>

#include "data.h"
#include "depth.h"
#include "order.h"
#include "pool.h"
#include "sg.h"
#include "slot.h"

struct smqsg_batch;
struct smqsg_cmd;
struct smqsg_io;
struct smqsg_send;

/**
 * struct smqsg_origin - what differs between slots, ad hoc commands, and SG_IO and write()
 * @fill: gives a request the command and its data; cannot fail
 * @good: the end of a request of the node's own queue that ended with GOOD. Its token has been
 *	given back, and its end counted. Keeps or frees the request. Any context
 * @end: end_io of any other end
 *
 * A constant, so that the compiler inlines @fill.
 */
struct smqsg_origin {
	void (*fill)(struct smqsg_io *io, struct request *rq, const struct smqsg_send *send);
	void (*good)(struct smqsg_io *io, struct request *rq);
	rq_end_io_fn *end;
};

/**
 * struct smqsg_adhoc - an ad hoc command
 * @address: address of the data
 * @length: bytes of data
 * @iovecs: elements of the array of struct iovec at @address; 0 if the data itself is at @address
 * @timeout: jiffies
 * @cdb_len: bytes of @cdb
 * @out: the data goes to the device
 * @fixed: @address lies in a registered buffer
 * @owner: while the command waits: a reference to the credentials of the user whose locked memory
 *	includes the data; NULL if no page is counted. Data is counted because a program may have
 *	many more commands waiting than there are tags
 * @pages: how many pages are counted
 * @response: the user address for the sense
 * @response_len: most bytes of sense that may be written there
 * @sense_len: bytes of @sense
 * @result2: the second half of the CQE, without the length of the sense
 * @cdb: the CDB
 * @sense: sense data
 *
 * All but @owner, @pages, @sense_len, @result2 and @sense is read from the SQE.
 */
struct smqsg_adhoc {
	u64 address;
	u32 length;
	u32 iovecs;
	u32 timeout;
	u8 cdb_len;
	bool out;
	bool fixed;
	const struct cred *owner;
	unsigned long pages;
	u64 response;
	u32 response_len;
	u32 sense_len;
	u64 result2;
	u8 cdb[SMQ_SG_MAX_CDB];
	u8 sense[SMQ_SG_MAX_SENSE];
};

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
 * @token: the last token in the device's budget; below 0 if it had none yet
 * @origin: its kind, while its request is one of the node's own queue
 * @submitter: the task that is sending the run of a slot, and will post the CQE itself if the run
 *	ends meanwhile in this task; NULL otherwise. Only that task compares it with itself, so a
 *	plain pointer is enough. NULL on return if the run has ended so
 * @lba: the LBA of a run with SMQ_SG_RUN_LBA
 * @buffer_index: the index of a run's buffer, until the slot is taken
 * @buffer: the buffer of a run with SMQ_SG_RUN_BUFFER, referenced until the command has ended
 * @waiter: used while the command waits for its turn
 * @bio: for the command's data
 * @data: the data of a command that is not in a slot
 * @header: memory for a command of SG_IO or write(), or NULL. Stays with this struct
 * @buffer_slot: describes the data of a run with SMQ_SG_RUN_BUFFER, in place of the slot
 * @timed: of a command of a timed batch; all but @timed.error only if smqsg_batch.tracked
 * @adhoc: an ad hoc command
 *
 * The submitter takes this struct from the file's pool. The task that posts the CQE, the submitter
 * or a poller, puts it back; for SG_IO and write() whoever frees @header. The file stays open
 * meanwhile.
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
	int token;
	const struct smqsg_origin *origin;
	struct task_struct *submitter;
	u64 lba;
	union {
		u32 buffer_index;
		struct smqsg_buffer *buffer;
	};
	struct smqsg_waiter waiter;
	struct bio bio;
	struct smqsg_data data;
	struct smqsg_cmd *header;
	union {
		struct {
			struct smqsg_slot buffer_slot;
			struct smqsg_timed_io timed;
		};
		struct smqsg_adhoc adhoc;
	};
};

/**
 * struct smqsg_stack - unused structs of one kind on one CPU, whose cache has the first one
 * @first: the first one. Each begins with the pointer to the next
 * @count: how many there are
 *
 * Used with preemption off, and never from interrupts.
 */
struct smqsg_stack {
	void *first;
	unsigned int count;
};

/**
 * struct smqsg_pools - unused commands and batches of a file on one CPU
 * @ios: struct smqsg_io
 * @batches: struct smqsg_batch
 */
struct smqsg_pools {
	struct smqsg_stack ios;
	struct smqsg_stack batches;
};

/* Takes a struct from this CPU's stack; NULL: there is none. Process context. */
static __always_inline void *smqsg_stack_pop(struct smqsg_stack __percpu *stacks)
{
	struct smqsg_stack *stack = get_cpu_ptr(stacks);
	void **item = stack->first;

	if (likely(item)) {
		stack->first = *item;
		stack->count--;
	}
	put_cpu_ptr(stacks);
	return item;
}

/* Puts a struct on this CPU's stack, unless that has @most already. Process context. */
static __always_inline bool smqsg_stack_push(struct smqsg_stack __percpu *stacks, void *item,
					     unsigned int most)
{
	struct smqsg_stack *stack = get_cpu_ptr(stacks);
	bool room = stack->count < most;

	if (likely(room)) {
		*(void **)item = stack->first;
		stack->first = item;
		stack->count++;
	}
	put_cpu_ptr(stacks);
	return room;
}

/* Takes a struct from any CPU's stack, when no one else uses the stacks; NULL: all are empty. */
static inline void *smqsg_stack_pop_any(struct smqsg_stack __percpu *stacks)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		struct smqsg_stack *stack = per_cpu_ptr(stacks, cpu);
		void **item = stack->first;

		if (!item)
			continue;
		stack->first = *item;
		return item;
	}
	return NULL;
}

/* adhoc.c */

int smqsg_adhoc_run(struct smqsg_fd *fd, struct io_uring_cmd *ioucmd, unsigned int issue_flags);
void smqsg_adhoc_polled(struct io_uring_cmd *ioucmd);

/* The largest number of commands that a pool keeps. */
#define SMQSG_IOS_MOST		256

void smqsg_io_init(struct smqsg_io *io, struct smqsg_fd *fd);
int smqsg_io_start(void);
void smqsg_io_stop(void);
void smqsg_ios_exit(struct smqsg_fd *fd);
struct smqsg_io *smqsg_io_new(struct smqsg_fd *fd);
void smqsg_io_free(struct smqsg_io *io);

/* Takes a command from the CPU's pool, or allocates one; NULL: no memory. Process context. */
static inline struct smqsg_io *smqsg_io_get(struct smqsg_fd *fd)
{
	struct smqsg_io *io = smqsg_stack_pop(&fd->pools->ios);

	return likely(io) ? io : smqsg_io_new(fd);
}

/* Puts a command into the CPU's pool, or frees it. Process context. */
static inline void smqsg_io_put(struct smqsg_io *io)
{
	if (unlikely(!smqsg_stack_push(&io->fd->pools->ios, io, SMQSG_IOS_MOST)))
		smqsg_io_free(io);
}

/* Drops the reference to a run's own buffer, if it has one. Process context. */
static inline void smqsg_slot_put_buffer(struct smqsg_io *io)
{
	if (unlikely(io->flags & SMQ_SG_RUN_BUFFER)) {
		smqsg_buffer_put(io->buffer);
		io->flags = 0;
	}
}

/* Makes a bio describe @length bytes of data, @skip bytes into *@bvec. */
static __always_inline void smqsg_bio_arm(struct bio *bio, struct bio_vec *bvec, u32 skip,
					  u32 length)
{
	/* All else is as bio_init() left it, or unused in a passthrough request. */
	bio->bi_io_vec = bvec;
	bio->bi_iter.bi_size = length;
	bio->bi_iter.bi_idx = 0;
	bio->bi_iter.bi_offset = skip;
	/* One more end than will come: bio_endio() counts it, and calls no function. */
	atomic_set(&bio->__bi_remaining, 2);
}

#endif /* SMQSG_IO_H */
