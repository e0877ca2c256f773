// SPDX-License-Identifier: GPL-2.0
/*
 * Sending batches: makes commands from a list of slots.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/blkdev.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <smq/uring.h>

#include "batch.h"
#include "reserve.h"
#include "issue.h"
#include "refuse.h"
#include "take.h"

/* How many elements of the list are read at a time. */
#define SMQSG_CHUNK		16
/* How many requests a plug allocates at a time. */
#define SMQSG_PLUG		32
/* After this many refused elements the task calls cond_resched(). */
#define SMQSG_COURTESY		256

static size_t smqsg_element(u32 flags)
{
	return flags & SMQ_SG_BATCH_RUNS ? sizeof(struct smq_sg_run) : sizeof(u32);
}

/**
 * smqsg_batch_check() - checks a caller's request for a batch
 * @fd: the file
 * @arg: the request, in memory that only the kernel writes
 * @field: gets the field at fault, enum smq_sg_field
 *
 * Return: 0, or an errno as described at struct smq_sg_batch. Process context.
 */
int smqsg_batch_check(struct smqsg_fd *fd, const struct smq_sg_batch *arg, u32 *field)
{
	u32 slots = smqsg_slots(&fd->slots);

	if (arg->flags & ~(SMQ_SG_BATCH_RANGE | SMQ_SG_BATCH_RUNS) ||
	    arg->flags == (SMQ_SG_BATCH_RANGE | SMQ_SG_BATCH_RUNS))
		return smqsg_refuse(field, FLAGS, -EINVAL,
				    "batch flags %#x: SMQ_SG_BATCH_RANGE, _RUNS or 0", arg->flags);
	if (!arg->count || arg->count > SMQ_SG_MAX_BATCH)
		return smqsg_refuse(field, COUNT, -EINVAL, "batch count %u: 1 to %u", arg->count,
				    SMQ_SG_MAX_BATCH);
	if ((arg->flags & SMQ_SG_BATCH_RANGE) && arg->count > slots)
		return smqsg_refuse(field, COUNT, -EINVAL,
				    "batch count %u: the file has %u slots", arg->count, slots);
	if ((arg->flags & SMQ_SG_BATCH_RANGE) && arg->list > slots - arg->count)
		return smqsg_refuse(field, LIST, -EINVAL,
				    "batch list %llu, count %u: the file has %u slots",
				    arg->list, arg->count, slots);
	return smqsg_may_run(&fd->owner) ? 0 : -EPERM;
}

/* Reads the next @count elements of the list. */
static int smqsg_batch_fetch(struct smqsg_batch *batch, struct smq_sg_run *runs, u32 count)
{
	size_t size = smqsg_element(batch->flags);
	u32 i, slots[SMQSG_CHUNK];
	const void *from;

	if (batch->flags & SMQ_SG_BATCH_RANGE) {
		for (i = 0; i < count; i++)
			runs[i] = (struct smq_sg_run) { .slot = batch->list + batch->at + i };
		return 0;
	}
	if (batch->copy) {
		from = batch->copy + (batch->at - batch->copied) * size;
		if (batch->flags & SMQ_SG_BATCH_RUNS)
			memcpy(runs, from, count * size);
		else
			memcpy(slots, from, count * size);
	} else if (copy_from_user(batch->flags & SMQ_SG_BATCH_RUNS ? (void *)runs : slots,
				  u64_to_user_ptr(batch->list) + batch->at * size,
				  count * size)) {
		return -EFAULT;
	}
	if (!(batch->flags & SMQ_SG_BATCH_RUNS))
		for (i = 0; i < count; i++)
			runs[i] = (struct smq_sg_run) { .slot = slots[i] };
	return 0;
}

/**
 * smqsg_batch_refuse_rest() - ends the remaining elements of the list with an error
 * @batch: the batch
 * @error: an errno, below 0
 *
 * Return: how many elements that were. Process context.
 */
u32 smqsg_batch_refuse_rest(struct smqsg_batch *batch, int error)
{
	struct smq_sg_run runs[SMQSG_CHUNK];
	u32 i, count, ended = 0;

	while (batch->at < batch->count) {
		count = min_t(u32, batch->count - batch->at, SMQSG_CHUNK);
		if (smqsg_batch_fetch(batch, runs, count))
			/* The list cannot be read, so the slots' status cannot be set. */
			count = batch->count - batch->at;
		else
			for (i = 0; i < count; i++)
				smqsg_slot_refused(batch->fd, runs[i].slot, error);
		atomic_add(count, &batch->failed);
		batch->at += count;
		ended += count;
		cond_resched();
	}
	return ended;
}

/*
 * Ends an element that was not sent, or leaves it in the list if there was no tag for it. Returns
 * whether the element has ended. @io: the element's command; NULL if there was no memory.
 */
static noinline bool smqsg_batch_unsent(struct smqsg_batch *batch, struct smqsg_io *io, u32 slot,
					int error)
{
	if (!io)
		smqsg_slot_refused(batch->fd, slot, error);
	else if (error == -EAGAIN)
		smqsg_slot_drop(io, 0);
	if (io && batch->count > SMQSG_BATCH_SHORT)
		smqsg_io_put(io);
	if (error == -EAGAIN)
		return false;
	/* The next element takes the place of a refused one: any number may fail in a row. */
	if (!(atomic_inc_return(&batch->failed) % SMQSG_COURTESY))
		cond_resched();
	return true;
}

/*
 * Returns a struct smqsg_io for the next command of a long batch; NULL if there is no memory. First
 * uses up @again, a list of structs whose commands have already ended: with straight issue each
 * command may have ended before the next one is sent.
 */
static __always_inline struct smqsg_io *smqsg_batch_io(struct smqsg_batch *batch,
						       struct llist_node **again)
{
	struct smqsg_io *io;

	if (!*again && !llist_empty(&batch->ended))
		*again = llist_del_all(&batch->ended);
	if (*again) {
		io = llist_entry(*again, struct smqsg_io, ended);
		*again = (*again)->next;
		smqsg_slot_put_buffer(io);
		return io;
	}
	io = smqsg_io_get(batch->fd);
	if (likely(io))
		io->batch = batch;
	return io;
}

/* As smqsg_run_vary(). */
static __always_inline u32 smqsg_element_vary(struct smqsg_io *io, const struct smq_sg_run *run)
{
	return smqsg_run_vary(io, run->lba, run->buffer, run->flags);
}

/*
 * Sends the next @count elements of the list, or as many as @got places allow. @runs: the elements;
 * NULL for a range. @plain: a range that is not polled; @is_short: the batch is short. Both are
 * constants, so that the compiler can omit tests. Adds to @ended how many elements ended without
 * being sent. Returns how many places are left.
 */
static __always_inline u32 smqsg_batch_send_some(struct smqsg_batch *batch,
						 const struct smq_sg_run *runs, u32 count, u32 got,
						 u32 *ended, blk_mq_req_flags_t flags, bool plain,
						 bool is_short)
{
	struct smqsg_io *io = is_short ? &batch->ios[batch->at] : NULL;
	blk_opf_t polled = plain ? 0 : batch->polled;
	u32 number = batch->list + batch->at;
	struct llist_node *again = NULL;
	struct smqsg_fd *fd = batch->fd;
	u32 i, end = min(count, got), refused = 0;
	/* smqsg_batch_check() has checked that a range has only numbers of existing slots. */
	struct smqsg_slot *slot = runs ? NULL : smqsg_slot_find(fd, &number);
	int ret;

	for (i = 0; i < end; i++) {
		if (runs) {
			number = runs[i].slot;
			slot = smqsg_slot_find(fd, &number);
		}
		if (!is_short)
			io = smqsg_batch_io(batch, &again);
		if (!is_short && unlikely(!io))
			ret = -ENOMEM;
		else if (runs && unlikely(!slot))
			ret = -EINVAL;
		else
			ret = smqsg_slot_start(io, fd, slot, number,
					       runs ? smqsg_element_vary(io, &runs[i]) : 0, flags,
					       polled, batch->ioucmd, false);
		if (unlikely(ret)) {
			if (!smqsg_batch_unsent(batch, io, number, ret))
				break;
			/* The next element uses the place of this one. */
			refused++;
			end = min(count, end + 1);
		}
		if (!runs) {
			number++;
			slot++;
		}
		if (is_short)
			io++;
	}
	if (!is_short)
		smqsg_batch_put_back(again);
	batch->at += i;
	*ended += refused;
	return got - (i - refused);
}

/*
 * Makes the current plug allocate its next requests in one go. This is the batch's own plug, or the
 * submitter's if the submitter had started one. The plug allocates at most SMQSG_PLUG requests, and
 * does so once for each call of this function. Held slots are counted too: if only a few of them
 * need a request, the plug frees the others when it ends, and until then no one else gets their
 * tags.
 */
static void smqsg_batch_arm(u32 left)
{
	struct blk_plug *plug = current->plug;

	plug->nr_ios = clamp_t(u32, left, plug->nr_ios, SMQSG_PLUG);
}

/*
 * Calls smqsg_batch_arm() again after every SMQSG_PLUG elements. Asks for no more requests than the
 * batch has places (@got), because other commands may need the tags.
 */
static void smqsg_batch_arm_again(const struct smqsg_batch *batch, u32 got)
{
	if (batch->at && !(batch->at % SMQSG_PLUG))
		smqsg_batch_arm(min(batch->count - batch->at, got));
}

static noinline u32 smqsg_batch_send_plain(struct smqsg_batch *batch, u32 got, u32 *ended,
					   blk_mq_req_flags_t flags)
{
	return smqsg_batch_send_some(batch, NULL, batch->count - batch->at, got, ended, flags,
				     true, true);
}

static noinline u32 smqsg_batch_send_long(struct smqsg_batch *batch, u32 count, u32 got,
					  u32 *ended, blk_mq_req_flags_t flags)
{
	return smqsg_batch_send_some(batch, NULL, count, got, ended, flags, true, false);
}

/* Sends elements of any list, of any batch. */
static noinline u32 smqsg_batch_send_any(struct smqsg_batch *batch, const struct smq_sg_run *runs,
					 u32 count, u32 got, u32 *ended, blk_mq_req_flags_t flags)
{
	return smqsg_batch_send_some(batch, runs, count, got, ended, flags, false,
				     batch->count <= SMQSG_BATCH_SHORT);
}

/*
 * Sends up to @got commands of a range. Adds to @ended how many elements ended without
 * being sent. Returns how many places are left.
 */
static u32 smqsg_batch_send_range(struct smqsg_batch *batch, u32 got, u32 *ended,
				  blk_mq_req_flags_t flags)
{
	u32 count, at;

	if (likely(batch->count <= SMQSG_BATCH_SHORT && !batch->polled))
		return smqsg_batch_send_plain(batch, got, ended, flags);
	while (got && batch->at < batch->count) {
		at = batch->at;
		count = min3(batch->count - at, got, (u32)SMQSG_PLUG);
		smqsg_batch_arm_again(batch, got);
		got = batch->polled ?
			smqsg_batch_send_any(batch, NULL, count, got, ended, flags) :
			smqsg_batch_send_long(batch, count, got, ended, flags);
		if (batch->at < at + count)
			break;
	}
	return got;
}

/* As smqsg_batch_send_range(), for a list that was copied. */
static u32 smqsg_batch_send_list(struct smqsg_batch *batch, u32 got, u32 *ended,
				 blk_mq_req_flags_t flags)
{
	struct smq_sg_run runs[SMQSG_CHUNK];
	u32 count, at;

	while (got && batch->at < batch->count) {
		at = batch->at;
		count = min3(batch->count - at, got, (u32)SMQSG_CHUNK);
		/* This cannot fail: smqsg_batch_copy_list() has copied the list. */
		smqsg_batch_fetch(batch, runs, count);
		smqsg_batch_arm_again(batch, got);
		got = smqsg_batch_send_any(batch, runs, count, got, ended, flags);
		if (batch->at < at + count)
			break;
	}
	return got;
}

/*
 * Reads a list in the caller's memory, and sends its elements as long as there are places. Reserves
 * the places only after it has read the elements: page faults may make reading slow, and the places
 * would be unused meanwhile.
 */
static u32 smqsg_batch_send_callers(struct smqsg_batch *batch)
{
	struct smq_sg_run runs[SMQSG_CHUNK];
	u32 count, at, got, ended = 0;
	int ret;

	while (batch->at < batch->count) {
		at = batch->at;
		count = min_t(u32, batch->count - at, SMQSG_CHUNK);
		ret = smqsg_batch_fetch(batch, runs, count);
		if (ret)
			return ended + smqsg_batch_refuse_rest(batch, ret);
		got = smqsg_reserve(batch->fd, count);
		if (!got)
			break;
		smqsg_batch_arm_again(batch, got);
		got = smqsg_batch_send_any(batch, runs, count, got, &ended, BLK_MQ_REQ_NOWAIT);
		if (got)
			smqsg_unreserve(batch->fd, got);
		if (batch->at < at + count)
			break;
	}
	return ended;
}

/*
 * Sends up to @got commands, for which places have been reserved. Returns how many
 * elements ended without being sent.
 */
static u32 smqsg_batch_send(struct smqsg_batch *batch, u32 got, blk_mq_req_flags_t flags)
{
	u32 ended = 0;

	got = batch->flags & SMQ_SG_BATCH_RANGE ?
		smqsg_batch_send_range(batch, got, &ended, flags) :
		smqsg_batch_send_list(batch, got, &ended, flags);
	if (unlikely(got))
		smqsg_unreserve(batch->fd, got);
	return ended;
}

static void smqsg_batch_plug(struct blk_plug *plug, u32 count)
{
	blk_start_plug(plug);
	smqsg_batch_arm(count);
}

static u32 smqsg_batch_send_plugged(struct smqsg_batch *batch, u32 got,
				    blk_mq_req_flags_t flags)
{
	struct blk_plug plug;
	u32 ended;

	smqsg_batch_plug(&plug, got);
	ended = smqsg_batch_send(batch, got, flags);
	blk_finish_plug(&plug);
	return ended;
}

static void smqsg_batch_grant(struct smqsg_waiter *waiter, int got);

/* Copies the rest of the caller's list: the caller may change it after the system call. */
static int smqsg_batch_copy_list(struct smqsg_batch *batch)
{
	size_t size = smqsg_element(batch->flags);
	size_t left = (batch->count - batch->at) * size;

	if ((batch->flags & SMQ_SG_BATCH_RANGE) || batch->copy)
		return 0;
	batch->copy = kvmalloc(left, GFP_KERNEL_ACCOUNT);
	if (!batch->copy)
		return -ENOMEM;
	batch->copied = batch->at;
	if (!copy_from_user(batch->copy, u64_to_user_ptr(batch->list) + batch->at * size, left))
		return 0;
	kvfree(batch->copy);
	batch->copy = NULL;
	return -EFAULT;
}

/*
 * Called after sending: waits for more places or, at the end of the list, drops the one count of
 * @remaining that stands for the walk of the list. @ended: number of elements that ended without
 * being sent. @moved: false if no element was sent or ended, because there was no tag. The batch
 * may be gone on return.
 */
static void smqsg_batch_wait_or_end(struct smqsg_batch *batch, u32 ended, bool moved)
{
	int ret = 0;

	if (batch->at < batch->count) {
		ret = READ_ONCE(batch->cancelled) ? -ECANCELED : smqsg_batch_copy_list(batch);
		if (!ret) {
			smqsg_batch_drop_remaining(batch, ended);
			batch->waiter.want = batch->count - batch->at;
			if (moved)
				batch->waiter.deadline = jiffies + SMQSG_TIMEOUT;
			batch->waiter.task = batch->ioucmd ? smq_uring_task(batch->ioucmd) : NULL;
			batch->waiter.grant = smqsg_batch_grant;
			ret = moved ? smqsg_wait(batch->fd, &batch->waiter) :
				      smqsg_wait_first(batch->fd, &batch->waiter);
			if (!ret)
				return;
			ended = 0;
		}
		ended += smqsg_batch_refuse_rest(batch, ret);
	}
	smqsg_batch_drop_remaining(batch, ended + 1);
}

static void smqsg_batch_grant(struct smqsg_waiter *waiter, int got)
{
	struct smqsg_batch *batch = container_of(waiter, struct smqsg_batch, waiter);
	u32 ended, at = batch->at;

	if (batch->count > SMQSG_BATCH_SHORT)
		smqsg_batch_recycle(batch);
	if (got > 0 && READ_ONCE(batch->cancelled)) {
		smqsg_unreserve(batch->fd, got);
		got = -ECANCELED;
	}
	if (got > 0)
		ended = smqsg_batch_send_plugged(batch, got, 0);
	else
		ended = smqsg_batch_refuse_rest(batch, got);
	smqsg_batch_wait_or_end(batch, ended, batch->at != at);
}

/**
 * smqsg_batch_begin() - sends the commands for which there are places; the rest waits
 * @batch: filled by smqsg_batch_start(); may be gone on return
 *
 * Process context.
 */
void smqsg_batch_begin(struct smqsg_batch *batch)
{
	u32 at, got, ended = 0;
	struct blk_plug plug;

	if (batch->flags & SMQ_SG_BATCH_RANGE) {
		/* Repeated: commands that were sent may have ended and freed their places. */
		do {
			at = batch->at;
			got = smqsg_reserve(batch->fd, batch->count - at);
			if (unlikely(!got))
				break;
			ended += smqsg_batch_send_plugged(batch, got, BLK_MQ_REQ_NOWAIT);
			if (likely(batch->at == batch->count))
				break;
			if (batch->count > SMQSG_BATCH_SHORT)
				smqsg_batch_recycle(batch);
			cond_resched();
		} while (batch->at >= at + got && !fatal_signal_pending(current));
	} else {
		smqsg_batch_plug(&plug, batch->count);
		ended = smqsg_batch_send_callers(batch);
		blk_finish_plug(&plug);
	}
	smqsg_batch_wait_or_end(batch, ended, true);
}

/**
 * smqsg_batch_run() - SMQ_SG_URING_BATCH
 * @fd: the file
 * @ioucmd: the SQE, with struct smq_sg_batch
 * @issue_flags: io_uring's
 *
 * Return: -EIOCBQUEUED, or an errno. Process context.
 */
int smqsg_batch_run(struct smqsg_fd *fd, struct io_uring_cmd *ioucmd, unsigned int issue_flags)
{
	const struct smq_sg_batch *sqe = smq_uring_payload(ioucmd);
	/* Each field is read only once: another thread may be writing it. */
	const struct smq_sg_batch arg = {
		.list = READ_ONCE(sqe->list),
		.count = READ_ONCE(sqe->count),
		.flags = READ_ONCE(sqe->flags),
	};
	struct smqsg_batch *batch;
	u32 field;
	int ret;

	ret = smqsg_batch_check(fd, &arg, &field);
	if (unlikely(ret))
		return ret;
	if (unlikely(!smqsg_sqe_unused(ioucmd, sizeof(arg), issue_flags)))
		return -EINVAL;
	batch = smqsg_batch_get(fd);
	if (unlikely(!batch))
		return -ENOMEM;
	batch->ioucmd = ioucmd;
	batch->polled = issue_flags & IO_URING_F_IOPOLL ? REQ_POLLED : 0;
	batch->cancelled = false;
	*(struct smqsg_batch **)ioucmd->pdu = batch;
	smqsg_batch_start(batch, &arg);
	smqsg_batch_begin(batch);
	return -EIOCBQUEUED;
}
