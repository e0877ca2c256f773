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

/**
 * smqsg_batch_start() - fills a batch from its caller's request, and copies the list
 * @batch: the batch
 * @arg: the request, for which smqsg_batch_check() has returned 0
 *
 * The caller may change its list after the system call, and to read it may take long, because of
 * page faults: so no command has a place yet.
 *
 * Return: 0, -EFAULT or -ENOMEM. Process context.
 */
int smqsg_batch_start(struct smqsg_batch *batch, const struct smq_sg_batch *arg)
{
	size_t size = (size_t)arg->count * smqsg_element(arg->flags);

	atomic_set(&batch->remaining, arg->count + 1);
	atomic_set(&batch->failed, 0);
	batch->list = arg->list;
	batch->count = arg->count;
	batch->flags = arg->flags;
	batch->at = 0;
	batch->unsent = 0;
	batch->waiter.waited = false;
	batch->waiter.stopped = false;
	batch->waiter.slot = SMQSG_NO_SLOT;
	if (arg->flags & SMQ_SG_BATCH_RANGE)
		return 0;
	if (size > sizeof(batch->few)) {
		batch->elements = kvmalloc(size, GFP_KERNEL_ACCOUNT);
		if (!batch->elements)
			return -ENOMEM;
	}
	return copy_from_user(batch->elements, u64_to_user_ptr(arg->list), size) ? -EFAULT : 0;
}

/* The kinds of batches for which code is compiled. */
enum smqsg_batch_kind {
	SMQSG_BATCH_OF_RANGE,	/* a range, not polled */
	SMQSG_BATCH_OF_SLOTS,	/* a list of slots, not polled */
	SMQSG_BATCH_OF_ANY,
};

/* The next elements of a batch's list. One of the pointers is not NULL, unless it is a range. */
struct smqsg_elements {
	const struct smq_sg_run *runs;
	const u32 *slots;
};

static __always_inline struct smqsg_elements
smqsg_batch_elements(const struct smqsg_batch *batch, enum smqsg_batch_kind kind)
{
	const void *at = batch->elements + batch->at * smqsg_element(batch->flags);
	struct smqsg_elements list = { };

	if (kind == SMQSG_BATCH_OF_ANY && batch->flags & SMQ_SG_BATCH_RUNS)
		list.runs = at;
	else if (kind == SMQSG_BATCH_OF_SLOTS ||
		 (kind == SMQSG_BATCH_OF_ANY && !(batch->flags & SMQ_SG_BATCH_RANGE)))
		list.slots = at;
	return list;
}

/**
 * smqsg_batch_refuse_rest() - ends the remaining elements of the list with an error
 * @batch: the batch; the caller drops @batch->unsent
 * @error: an errno, below 0
 *
 * Process context.
 */
void smqsg_batch_refuse_rest(struct smqsg_batch *batch, int error)
{
	const struct smqsg_elements list = smqsg_batch_elements(batch, SMQSG_BATCH_OF_ANY);
	u32 i, left = batch->count - batch->at, first = batch->list + batch->at;

	batch->at = batch->count;
	for (i = 0; i < left; i++) {
		smqsg_slot_refused(batch->fd, list.runs ? list.runs[i].slot :
				   list.slots ? list.slots[i] : first + i, error);
		atomic_inc(&batch->failed);
		if (!(++batch->unsent % SMQSG_COURTESY))
			cond_resched();
	}
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

/*
 * Sends the next @count elements of the list, or as many as @got places allow. @kind is a constant,
 * @is_short, whether the batch is short, may be one: the compiler omits tests. Returns how many
 * places are left.
 */
static __always_inline u32 smqsg_batch_send_some(struct smqsg_batch *batch, u32 count, u32 got,
						 enum smqsg_batch_kind kind, bool is_short)
{
	const struct smqsg_elements list = smqsg_batch_elements(batch, kind);
	bool is_range = !list.runs && !list.slots;
	struct smqsg_io *io = is_short ? &batch->ios[batch->at] : NULL;
	blk_opf_t polled = kind == SMQSG_BATCH_OF_ANY ? batch->polled : 0;
	blk_mq_req_flags_t flags = batch->alloc;
	u32 number = batch->list + batch->at;
	struct llist_node *again = NULL;
	struct smqsg_fd *fd = batch->fd;
	u32 i, end = min(count, got), refused = 0, varied = 0;
	/* smqsg_batch_check() has checked that a range has only numbers of existing slots. */
	struct smqsg_slot *slot = is_range ? smqsg_slot_find(fd, &number) : NULL;
	int ret;

	for (i = 0; i < end; i++) {
		if (!is_range) {
			number = list.runs ? list.runs[i].slot : list.slots[i];
			slot = smqsg_slot_find(fd, &number);
		}
		if (!is_short)
			io = smqsg_batch_io(batch, &again);
		if (list.runs && likely(io))
			varied = smqsg_run_vary(io, list.runs[i].lba, list.runs[i].buffer,
						list.runs[i].flags);
		if (!is_short && unlikely(!io))
			ret = -ENOMEM;
		else if (!is_range && unlikely(!slot))
			ret = -EINVAL;
		else
			ret = smqsg_slot_start(io, fd, number, &(struct smqsg_send) {
				.opf = polled, .ioucmd = batch->ioucmd, .slot = slot,
				.varied = varied, .flags = flags }, false);
		if (unlikely(ret)) {
			if (!smqsg_batch_unsent(batch, io, number, ret))
				break;
			/* The next element uses the place of this one. */
			refused++;
			end = min(count, end + 1);
		}
		if (is_range) {
			number++;
			slot++;
		}
		if (is_short)
			io++;
	}
	if (!is_short)
		smqsg_batch_put_back(again);
	batch->at += i;
	batch->unsent += refused;
	return got - (i - refused);
}

static noinline u32 smqsg_batch_send_short_range(struct smqsg_batch *batch, u32 count, u32 got)
{
	return smqsg_batch_send_some(batch, count, got, SMQSG_BATCH_OF_RANGE, true);
}

static noinline u32 smqsg_batch_send_long_range(struct smqsg_batch *batch, u32 count, u32 got)
{
	return smqsg_batch_send_some(batch, count, got, SMQSG_BATCH_OF_RANGE, false);
}

static noinline u32 smqsg_batch_send_short_list(struct smqsg_batch *batch, u32 count, u32 got)
{
	return smqsg_batch_send_some(batch, count, got, SMQSG_BATCH_OF_SLOTS, true);
}

static noinline u32 smqsg_batch_send_long_list(struct smqsg_batch *batch, u32 count, u32 got)
{
	return smqsg_batch_send_some(batch, count, got, SMQSG_BATCH_OF_SLOTS, false);
}

static noinline u32 smqsg_batch_send_any(struct smqsg_batch *batch, u32 count, u32 got)
{
	return smqsg_batch_send_some(batch, count, got, SMQSG_BATCH_OF_ANY,
				     batch->count <= SMQSG_BATCH_SHORT);
}

/* smqsg_batch_send_some() for any batch. */
static u32 smqsg_batch_send_next(struct smqsg_batch *batch, u32 count, u32 got)
{
	bool is_short = batch->count <= SMQSG_BATCH_SHORT;

	if (unlikely(batch->polled || batch->flags & SMQ_SG_BATCH_RUNS))
		return smqsg_batch_send_any(batch, count, got);
	if (batch->flags & SMQ_SG_BATCH_RANGE)
		return is_short ? smqsg_batch_send_short_range(batch, count, got) :
				  smqsg_batch_send_long_range(batch, count, got);
	return is_short ? smqsg_batch_send_short_list(batch, count, got) :
			  smqsg_batch_send_long_list(batch, count, got);
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

/* Sends up to @got commands, for which places have been reserved, and gives the others back. */
static void smqsg_batch_send(struct smqsg_batch *batch, u32 got)
{
	struct blk_plug plug;
	u32 count, at;

	blk_start_plug(&plug);
	smqsg_batch_arm(got);
	do {
		at = batch->at;
		count = min3(batch->count - at, got, (u32)SMQSG_PLUG);
		smqsg_batch_arm_again(batch, got);
		got = smqsg_batch_send_next(batch, count, got);
	} while (got && batch->at == at + count && batch->at < batch->count);
	if (unlikely(got))
		smqsg_unreserve(batch->fd, got);
	blk_finish_plug(&plug);
}

static void smqsg_batch_grant(struct smqsg_waiter *waiter, int got);

/* Waits for more places. Returns 0, and the batch may be gone; or an errno. */
static int smqsg_batch_wait_more(struct smqsg_batch *batch, bool moved)
{
	if (READ_ONCE(batch->cancelled))
		return -ECANCELED;
	smqsg_batch_drop_remaining(batch, batch->unsent);
	batch->unsent = 0;
	batch->waiter.want = batch->count - batch->at;
	if (moved)
		batch->waiter.deadline = jiffies + SMQSG_TIMEOUT;
	batch->waiter.task = batch->ioucmd ? smq_uring_task(batch->ioucmd) : NULL;
	batch->waiter.grant = smqsg_batch_grant;
	return moved ? smqsg_wait(batch->fd, &batch->waiter) :
		       smqsg_wait_first(batch->fd, &batch->waiter);
}

/*
 * Called after sending: waits for more places or, at the end of the list, drops the one count of
 * @remaining that stands for the walk of the list. @moved: false if no element was sent or ended,
 * because there was no tag. The batch may be gone on return.
 */
static void smqsg_batch_wait_or_end(struct smqsg_batch *batch, bool moved)
{
	int ret;

	if (batch->at < batch->count) {
		ret = smqsg_batch_wait_more(batch, moved);
		if (!ret)
			return;
		smqsg_batch_refuse_rest(batch, ret);
	}
	smqsg_batch_drop_remaining(batch, batch->unsent + 1);
}

static void smqsg_batch_grant(struct smqsg_waiter *waiter, int got)
{
	struct smqsg_batch *batch = container_of(waiter, struct smqsg_batch, waiter);
	u32 at = batch->at;

	if (batch->count > SMQSG_BATCH_SHORT)
		smqsg_batch_recycle(batch);
	if (got > 0 && READ_ONCE(batch->cancelled)) {
		smqsg_unreserve(batch->fd, got);
		got = -ECANCELED;
	}
	batch->alloc = 0;
	if (got > 0)
		smqsg_batch_send(batch, got);
	else
		smqsg_batch_refuse_rest(batch, got);
	smqsg_batch_wait_or_end(batch, batch->at != at);
}

/**
 * smqsg_batch_begin() - sends the commands for which there are places; the rest waits
 * @batch: filled by smqsg_batch_start(); may be gone on return
 *
 * Process context.
 */
void smqsg_batch_begin(struct smqsg_batch *batch)
{
	u32 at, got;

	batch->alloc = BLK_MQ_REQ_NOWAIT;
	/* Repeated: commands that were sent may have ended and freed their places. */
	do {
		at = batch->at;
		got = smqsg_reserve(batch->fd, batch->count - at);
		if (unlikely(!got))
			break;
		smqsg_batch_send(batch, got);
		if (likely(batch->at == batch->count))
			break;
		if (batch->count > SMQSG_BATCH_SHORT)
			smqsg_batch_recycle(batch);
		cond_resched();
	} while (batch->at >= at + got && !fatal_signal_pending(current));
	smqsg_batch_wait_or_end(batch, true);
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
	ret = smqsg_batch_start(batch, &arg);
	if (unlikely(ret)) {
		smqsg_batch_put(batch);
		return ret;
	}
	smqsg_batch_begin(batch);
	return -EIOCBQUEUED;
}
