// SPDX-License-Identifier: GPL-2.0
/*
 * Timed batches: the caller sends each entry when it is due. It sleeps or spins in between.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/blkdev.h>
#include <linux/file.h>
#include <linux/hrtimer.h>
#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/timekeeping.h>
#include <linux/uaccess.h>

#include "batch.h"
#include "issue.h"
#include "module.h"

/* A caller that sleeps until an entry is due checks at this interval whether it has to stop. */
#define SMQSG_TIMED_SLEEP	(100 * NSEC_PER_MSEC)
/* The same while it waits for others: a slot may be in flight for code that does not wake it. */
#define SMQSG_TIMED_BLOCKED	(10 * NSEC_PER_MSEC)
/*
 * After this many entries without a wait, or a tick, the doorbell rings, and the caller checks
 * likewise.
 */
#define SMQSG_TIMED_COURTESY	64
/* So many entries are checked in a row. */
#define SMQSG_TIMED_CHECKS	1024

#define SMQSG_TIMED_RUN		(SMQ_SG_RUN_LBA | SMQ_SG_RUN_BUFFER)
#define SMQSG_TIMED_FLAGS	(SMQSG_TIMED_RUN | SMQ_SG_TIMED_NUMBER | SMQ_SG_TIMED_AFTER | \
				 SMQ_SG_TIMED_NOTHING)

/**
 * struct smqsg_timed - a timed batch
 * @batch: the batch, whose @elements this is
 * @arg: the caller's structure, in memory that only the kernel writes
 * @user: where the caller's structure is
 * @now: the clock when it was last read, less the start
 * @cancels: value of smqsg_fd_wait.cancels when the batch began
 * @next: the first entry that was not sent and has not ended; up to date while the caller waits
 * @end: behind the last entry
 * @limits: the batch has entries with a limit of commands in flight
 * @waits: the batch has entries that wait for others, or only wait
 * @tracked: as smqsg_batch.tracked
 * @fault: results could not be written
 * @again: commands that have ended, for the next entries
 * @wait: in smqsg_fd_order.wait while the next entry has to wait for others
 * @files: as smqsg_batch.files
 * @entries: a copy of the caller's entries
 *
 * Used by the caller alone; @entries, @next and @batch also by smqsg_timed_wake().
 */
struct smqsg_timed {
	struct smqsg_batch *batch;
	struct smq_sg_timed arg;
	struct smq_sg_timed __user *user;
	s64 now;
	unsigned int cancels;
	bool limits;
	bool waits;
	bool tracked;
	bool fault;
	struct llist_node *again;
	struct wait_queue_entry wait;
	struct smqsg_fd **files;
	const struct smq_sg_timed_entry *next;
	struct smq_sg_timed_entry *end;
	struct smq_sg_timed_entry entries[];
};

/* The file whose slot an entry runs. */
static struct smqsg_fd *smqsg_timed_fd(const struct smqsg_timed *timed,
				       const struct smq_sg_timed_entry *entry)
{
	return timed->files[entry->file];
}

static int smqsg_timed_check_head(struct smq_sg_timed *arg)
{
	u32 *field = &arg->field;

	if (memchr_inv(arg->reserved, 0, sizeof(arg->reserved)))
		return smqsg_refuse(field, RESERVED, -EINVAL, "timed: reserved must be 0");
	if (arg->flags)
		return smqsg_refuse(field, FLAGS, -EINVAL,
				    "timed flags %#x: must be 0", arg->flags);
	if (arg->nr_files > SMQ_SG_MAX_FILES)
		return smqsg_refuse(field, FILES, -EINVAL, "timed nr_files %u: at most %u",
				    arg->nr_files, SMQ_SG_MAX_FILES);
	if (!arg->nr_files && arg->files)
		return smqsg_refuse(field, FILES, -EINVAL,
				    "timed files: must be 0 if nr_files is 0");
	if (arg->start > KTIME_MAX)
		return smqsg_refuse(field, START, -EINVAL, "timed start %llu: at most %llu",
				    arg->start, (u64)KTIME_MAX);
	if (arg->spin > SMQ_SG_MAX_SPIN)
		return smqsg_refuse(field, SPIN, -EINVAL, "timed spin %u: at most %u",
				    arg->spin, SMQ_SG_MAX_SPIN);
	return 0;
}

/* Gets references to the files that the entries name. */
static int smqsg_timed_get_files(struct smqsg_timed *timed)
{
	const s32 __user *user = u64_to_user_ptr(timed->arg.files);
	struct smqsg_batch *batch = timed->batch;
	struct smqsg_fd *fd;
	struct file *file;
	s32 number;

	if (!timed->arg.nr_files)
		batch->files[batch->nr_files++] = get_file(batch->fd->file)->private_data;
	while (batch->nr_files < timed->arg.nr_files) {
		if (get_user(number, &user[batch->nr_files]))
			return -EFAULT;
		file = fget(number);
		if (file && file->f_op != batch->fd->file->f_op) {
			fput(file);
			file = NULL;
		}
		if (!file)
			return smqsg_refuse(&timed->arg.field, FILES, -EBADF,
					    "timed file %d: not an open node", number);
		fd = file->private_data;
		batch->files[batch->nr_files++] = fd;
		if (!smqsg_may_run(&fd->owner))
			return smqsg_refuse(&timed->arg.field, FILES, -EPERM,
					    "timed file %d: its slots belong to others", number);
	}
	return 0;
}

static noinline int smqsg_timed_refuse_lba(u32 *field)
{
	return smqsg_refuse(field, LBA, -EINVAL, "timed lba: must be 0 without SMQ_SG_RUN_LBA");
}

/*
 * Checks an entry of which others may wait, that waits for others, or that has more than a slot of
 * the first file and an LBA. @last: the highest number before it, updated.
 */
static noinline int smqsg_timed_check_more(struct smqsg_timed *timed,
					   struct smq_sg_timed_entry *entry, u32 *last)
{
	u32 *field = &timed->arg.field, flags = entry->run.flags;

	if (entry->reserved)
		return smqsg_refuse(field, RESERVED, -EINVAL, "timed entry: reserved must be 0");
	if (flags & ~SMQSG_TIMED_FLAGS ||
	    (flags & SMQ_SG_TIMED_NOTHING && flags & SMQSG_TIMED_RUN) ||
	    (flags & SMQ_SG_TIMED_AFTER && !(flags & SMQ_SG_TIMED_NUMBER)))
		return smqsg_refuse(field, FLAGS, -EINVAL,
				    "timed flags %#x of an entry: unknown, or not allowed together",
				    flags);
	if (flags & SMQ_SG_TIMED_NUMBER ? entry->number <= *last : entry->number)
		return smqsg_refuse(field, NUMBER, -EINVAL,
				    "timed number %u: above %u, or 0 without SMQ_SG_TIMED_NUMBER",
				    entry->number, *last);
	if (flags & SMQ_SG_TIMED_AFTER ? entry->after - 1 >= entry->number - 1 : entry->after)
		return smqsg_refuse(field, AFTER, -EINVAL,
				    "timed after %u: 1 to below %u, or 0 without SMQ_SG_TIMED_AFTER",
				    entry->after, entry->number);
	if (entry->run.buffer && !(flags & SMQ_SG_RUN_BUFFER))
		return smqsg_refuse(field, BUFFER, -EINVAL,
				    "timed buffer %u: must be 0 without SMQ_SG_RUN_BUFFER",
				    entry->run.buffer);
	if (entry->run.slot && flags & SMQ_SG_TIMED_NOTHING)
		return smqsg_refuse(field, SLOT, -EINVAL,
				    "timed slot %u: must be 0 with SMQ_SG_TIMED_NOTHING",
				    entry->run.slot);
	if (entry->run.lba && flags & SMQ_SG_TIMED_NOTHING)
		return smqsg_timed_refuse_lba(field);
	if (entry->file >= timed->batch->nr_files)
		return smqsg_refuse(field, FILE, -EINVAL, "timed file %u: must be below %u",
				    entry->file, timed->batch->nr_files);
	entry->file = array_index_nospec(entry->file, timed->batch->nr_files);
	*last = max(*last, entry->number);
	timed->limits |= entry->inflight;
	timed->waits |= entry->after | entry->inflight | (flags & SMQ_SG_TIMED_NOTHING);
	return 0;
}

/* Checks the slot of an entry. The slot may be filled anew meanwhile. */
static __always_inline int smqsg_timed_check_slot(struct smqsg_timed *timed, struct smqsg_fd *fd,
						  const struct smq_sg_run *run)
{
	u32 *field = &timed->arg.field, number = run->slot;
	const struct smqsg_slot *slot = smqsg_slot_find(fd, &number);
	int ret;

	if (unlikely(!slot))
		return smqsg_refuse(field, SLOT, -EINVAL, "timed slot %u: no such slot", number);
	/* data_race: sending checks again, with the slot's byte set. */
	if (unlikely(!data_race(slot->cdb_len)))
		return smqsg_refuse(field, SLOT, -ENODATA, "timed slot %u: empty", number);
	if (!(run->flags & SMQ_SG_RUN_LBA))
		return likely(!run->lba) ? 0 : smqsg_timed_refuse_lba(field);
	ret = smqsg_lba_fits(READ_ONCE(slot->lba_bits), run->lba);
	return likely(!ret) ? 0 : smqsg_refuse(field, LBA, ret, "timed lba %llu: slot %u", run->lba,
					       number);
}

/*
 * Checks an entry, which is due between @earliest and @latest. @fd: the first file; @last: as for
 * smqsg_timed_check_more().
 */
static __always_inline int smqsg_timed_check_entry(struct smqsg_timed *timed, struct smqsg_fd *fd,
						   struct smq_sg_timed_entry *entry, u64 earliest,
						   u64 latest, u32 *last)
{
	u32 *field = &timed->arg.field, flags = entry->run.flags;
	int ret;

	/* Number and after are one word, and so are all members behind them. */
	if (unlikely((flags & ~SMQ_SG_RUN_LBA) | entry->run.buffer |
		     *(const u64 *)&entry->number | *(const u64 *)&entry->inflight)) {
		ret = smqsg_timed_check_more(timed, entry, last);
		if (ret)
			return ret;
		fd = smqsg_timed_fd(timed, entry);
	}
	if (unlikely(entry->due < earliest || entry->due > latest))
		return smqsg_refuse(field, DUE, -EINVAL, "timed due %llu: %llu to %llu", entry->due,
				    earliest, latest);
	if (unlikely(flags & SMQ_SG_TIMED_NOTHING))
		return 0;
	return smqsg_timed_check_slot(timed, fd, &entry->run);
}

static int smqsg_timed_check(struct smqsg_timed *timed)
{
	struct smq_sg_timed_entry *part, *entry = timed->entries;
	struct smqsg_fd *fd = timed->files[0];
	struct smq_sg_timed *arg = &timed->arg;
	u64 earliest, latest, now = ktime_get_ns();
	u32 last = 0;
	int ret;

	arg->start = arg->start ?: now;
	timed->now = now - arg->start;
	earliest = max_t(s64, timed->now, 0);
	earliest -= min(earliest, arg->max_past);
	latest = KTIME_MAX - arg->start;
	while (entry < timed->end) {
		part = min(entry + SMQSG_TIMED_CHECKS, timed->end);
		for (; entry < part; entry++) {
			ret = smqsg_timed_check_entry(timed, fd, entry, earliest, latest, &last);
			if (unlikely(ret)) {
				arg->index = entry - timed->entries;
				return ret;
			}
			earliest = entry->due;
		}
		cond_resched();
	}
	timed->tracked = arg->results || last || timed->limits;
	timed->batch->tracked = timed->tracked;
	return last ? smqsg_order_number(&timed->batch->fd->order) : 0;
}

/* Allocates a batch's struct smqsg_timed, copies the caller's entries, and checks them. */
static int smqsg_timed_load(struct smqsg_batch *batch, u32 count, const struct smq_sg_timed *arg)
{
	struct smqsg_timed *timed;
	size_t size = struct_size(timed, entries, count);

	timed = kvmalloc(size + max(arg->nr_files, 1U) * sizeof(*batch->files), GFP_KERNEL_ACCOUNT);
	if (!timed)
		return -ENOMEM;
	*timed = (struct smqsg_timed) { .batch = batch, .arg = *arg };
	timed->next = timed->entries;
	timed->end = timed->entries + count;
	batch->elements = timed;
	timed->files = (void *)timed + size;
	batch->files = timed->files;
	if (copy_from_user(timed->entries, u64_to_user_ptr(arg->entries),
			   array_size(count, sizeof(*timed->entries))))
		return -EFAULT;
	return smqsg_timed_get_files(timed) ?: smqsg_timed_check(timed);
}

/**
 * smqsg_timed_start() - fills a timed batch from its caller's request
 * @batch: the batch, with all that is common to batches
 * @arg: the request, for which smqsg_batch_check() has returned 0
 *
 * Return: 0, or an errno as described at struct smq_sg_timed. Process context.
 */
int smqsg_timed_start(struct smqsg_batch *batch, const struct smq_sg_batch *arg)
{
	struct smq_sg_timed __user *user = u64_to_user_ptr(arg->list);
	struct smqsg_timed *timed;
	struct smq_sg_timed head;
	int ret;

	if (copy_from_user(&head, user, sizeof(head)))
		return -EFAULT;
	head.spun = 0;
	head.done = 0;
	head.index = arg->count;
	head.field = SMQ_SG_FIELD_NONE;
	/* Its commands are not those of @batch->ios. */
	batch->count = U32_MAX;
	ret = smqsg_timed_check_head(&head);
	if (!ret)
		ret = smqsg_timed_load(batch, arg->count, &head);
	timed = batch->elements == batch->few ? NULL : batch->elements;
	if (ret && copy_to_user(user, timed ? &timed->arg : &head, sizeof(head)))
		return -EFAULT;
	if (ret)
		return ret;
	timed->user = user;
	return 0;
}

/* Gives the caller the result of an entry. Process context, with no place reserved. */
static void smqsg_timed_report(struct smqsg_timed *timed, u32 index,
			       struct smq_sg_timed_result result)
{
	struct smq_sg_timed_result __user *user = u64_to_user_ptr(timed->arg.results);

	if (copy_to_user(&user[index], &result, sizeof(result)))
		timed->fault = true;
}

static noinline void smqsg_timed_report_all(struct smqsg_timed *timed, struct llist_node *node)
{
	const struct smqsg_timed_io *io;

	for (; node; node = node->next) {
		io = &llist_entry(node, struct smqsg_io, ended)->timed;
		smqsg_timed_report(timed, io->index, io->result);
	}
}

/* Gives the caller the results of commands that have ended. Returns the commands. */
static __always_inline struct llist_node *smqsg_timed_reap(struct smqsg_timed *timed)
{
	struct llist_node *first = llist_del_all(&timed->batch->ended);

	if (timed->arg.results)
		smqsg_timed_report_all(timed, first);
	return first;
}

/* Returns a command for an entry, if possible one that has ended; NULL if there is no memory. */
static __always_inline struct smqsg_io *smqsg_timed_take(struct smqsg_timed *timed,
							 struct smqsg_fd *fd)
{
	struct llist_node *node = timed->again;
	struct smqsg_io *io;

	if (!node && !llist_empty(&timed->batch->ended))
		node = smqsg_timed_reap(timed);
	if (likely(node)) {
		io = llist_entry(node, struct smqsg_io, ended);
		timed->again = node->next;
		smqsg_slot_put_buffer(io);
		if (likely(io->fd == fd))
			return io;
		smqsg_io_put(io);
	}
	io = smqsg_io_get(fd);
	if (likely(io))
		io->batch = timed->batch;
	return io;
}

/* Ends an entry that has no command, or whose command was not sent. @error: 0, or an errno. */
static void smqsg_timed_unsent(struct smqsg_timed *timed, const struct smq_sg_timed_entry *entry,
			       int error)
{
	u64 start = timed->arg.start;
	/* It may end before the start. */
	u64 now = timed->arg.results ? max(ktime_get_ns(), start) - start : 0;

	if (error)
		atomic_inc(&timed->batch->failed);
	timed->batch->unsent++;
	smqsg_order_mark(&timed->batch->fd->order, entry->number);
	if (timed->arg.results)
		smqsg_timed_report(timed, entry - timed->entries, (struct smq_sg_timed_result) {
			.issued = now, .ended = now, .result = error });
}

/* Keeps when a command is sent, if the caller wants results. */
static void smqsg_timed_note_issue(struct smqsg_io *io)
{
	if (io->batch->tracked && io->timed.start)
		io->timed.result.issued = ktime_get_ns() - io->timed.start;
}

/* Wakes the caller, which sleeps in smqsg_timed_wait_place(); @io may be gone on return. */
static void smqsg_timed_waited(struct smqsg_io *io, int error)
{
	io->timed.error = error;
	complete(&io->batch->caller.done);
}

static int smqsg_timed_send_granted(struct smqsg_io *io)
{
	int ret;

	smqsg_timed_note_issue(io);
	ret = smqsg_slot_send_placed(io, 0, NULL);
	/* Even if the command has ended, only the caller puts @io back. */
	if (!ret)
		smqsg_timed_waited(io, 0);
	return ret;
}

/* smqsg_waiter.grant of a command that waits for a place or a tag. */
static void smqsg_timed_grant(struct smqsg_waiter *waiter, int got)
{
	struct smqsg_io *io = container_of(waiter, struct smqsg_io, waiter);
	int ret = smqsg_io_granted(io, got, smqsg_timed_send_granted);

	/* 0: sent, or it waits again, and another context may call this function. */
	if (ret)
		smqsg_timed_waited(io, ret);
}

/*
 * Returns 0, or why the batch has to stop: -ENODEV, the device is gone; -ECANCELED, by
 * SMQ_SG_CANCEL or a signal. Freezes the caller if need be.
 */
static int smqsg_timed_stopped(struct smqsg_timed *timed)
{
	struct smqsg_fd *fd = timed->batch->fd;

	if (unlikely(smqsg_caller_stops())) {
		timed->batch->cancelled = true;
		return -ECANCELED;
	}
	if (unlikely(!READ_ONCE(fd->sg->sdev) || READ_ONCE(fd->sg->depth.claimed)))
		return -ENODEV;
	return unlikely(READ_ONCE(fd->wait.cancels) != timed->cancels) ? -ECANCELED : 0;
}

/* How the caller may sleep: after a signal that does not count, another sleep would end at once. */
static unsigned int smqsg_timed_state(void)
{
	return signal_pending(current) ? TASK_KILLABLE : TASK_INTERRUPTIBLE;
}

/* Sleeps until a command that found no place or tag was sent. Returns 0, or why it was not. */
static noinline int smqsg_timed_wait_place(struct smqsg_timed *timed, struct smqsg_io *io)
{
	struct completion *done = &timed->batch->caller.done;
	const unsigned long most = nsecs_to_jiffies(SMQSG_TIMED_SLEEP);
	int ret;

	/* Without a task: the caller itself sees that it has to stop. */
	ret = smqsg_io_wait(io, NULL, SMQSG_NO_SLOT, SMQSG_TIMEOUT, smqsg_timed_grant);
	if (ret)
		return ret;
	while ((smqsg_timed_state() == TASK_KILLABLE ?
		wait_for_completion_killable_timeout(done, most) :
		wait_for_completion_interruptible_timeout(done, most)) <= 0) {
		ret = smqsg_timed_stopped(timed);
		if (!ret)
			continue;
		if (smqsg_unwait(&io->waiter))
			return ret;
		/* smqsg_timed_grant() is being called, and the command waits for no tag again. */
		wait_for_completion(done);
		break;
	}
	return io->timed.error;
}

/*
 * Fills smqsg_timed_io of an entry's command, and counts the command. Returns false if too
 * many are in flight.
 */
static noinline bool smqsg_timed_track(struct smqsg_timed *timed, struct smqsg_io *io,
				       const struct smq_sg_timed_entry *entry)
{
	io->timed = (struct smqsg_timed_io) {
		.counted = timed->limits,
		.start = timed->arg.results ? timed->arg.start : 0,
		.index = entry - timed->entries,
		.number = entry->number,
	};
	smqsg_timed_note_issue(io);
	return !timed->limits || smqsg_order_enter(&timed->batch->fd->order, entry->inflight);
}

/*
 * Sends the command of an entry. Returns 0, or why it was not sent; -EBUSY: its slot is in flight,
 * or too many commands are.
 */
static __always_inline int smqsg_timed_send(struct smqsg_timed *timed,
					    const struct smq_sg_timed_entry *entry)
{
	struct smqsg_fd *fd = smqsg_timed_fd(timed, entry);
	/* smqsg_timed_check_slot() has checked that it exists. */
	u32 number = entry->run.slot, varied = 0;
	struct smqsg_slot *slot = &fd->slots.array[number];
	struct smqsg_io *io = smqsg_timed_take(timed, fd);
	struct smqsg_send send;
	int ret;

	if (unlikely(!io)) {
		smqsg_slot_refused(fd, number, -ENOMEM);
		return -ENOMEM;
	}
	if (entry->run.flags & SMQSG_TIMED_RUN)
		varied = smqsg_run_vary(io, entry->run.lba, entry->run.buffer,
					entry->run.flags & SMQSG_TIMED_RUN);
	ret = smqsg_slot_take(io, fd, slot, number, varied);
	if (unlikely(ret))
		goto out;
	if (unlikely(timed->tracked) && !smqsg_timed_track(timed, io, entry)) {
		ret = -EBUSY;
		smqsg_slot_drop(io, 0);
		goto out;
	}
	send = smqsg_slot_how(slot, varied, BLK_MQ_REQ_NOWAIT, 0, NULL);
	ret = smqsg_slot_send(io, fd, &send);
	if (unlikely(ret == -EAGAIN))
		ret = smqsg_timed_wait_place(timed, io);
	if (likely(!ret))
		return 0;
	if (timed->limits)
		atomic_dec(&timed->batch->fd->order.inflight);
	smqsg_slot_drop(io, ret);
out:
	smqsg_io_put(io);
	return ret;
}

/* Whether the next entry has to wait for others, though it is due. Any context. */
static bool smqsg_timed_blocked(const struct smqsg_timed *timed)
{
	const struct smq_sg_timed_entry *entry = timed->next;

	if (smqsg_order_holds(&timed->batch->fd->order, entry))
		return true;
	return !(entry->run.flags & SMQ_SG_TIMED_NOTHING) &&
	       READ_ONCE(smqsg_timed_fd(timed, entry)->slots.busy[entry->run.slot]);
}

/* smqsg_timed.wait.func: wakes the caller only if its next entry need not wait any more. */
static int smqsg_timed_wake(struct wait_queue_entry *wait, unsigned int mode, int flags, void *key)
{
	const struct smqsg_timed *timed = container_of(wait, struct smqsg_timed, wait);

	return smqsg_timed_blocked(timed) ? 0 : autoremove_wake_function(wait, mode, flags, key);
}

/* Sleeps until @until, in ns from the start. */
static void smqsg_timed_sleep(const struct smqsg_timed *timed, ktime_t until)
{
	until += timed->arg.start;
	set_current_state(smqsg_timed_state());
	schedule_hrtimeout(&until, HRTIMER_MODE_ABS);
}

/*
 * Sleeps until @until, or until the next entry, which is due, need not wait for others; if too many
 * callers wait for that already, only until @until.
 */
static void smqsg_timed_sleep_blocked(struct smqsg_timed *timed, ktime_t until)
{
	struct smqsg_fd_order *order = &timed->batch->fd->order;

	if (!atomic_add_unless(&order->waiters, 1, SMQSG_ORDER_WAITERS)) {
		smqsg_timed_sleep(timed, until);
		return;
	}
	until += timed->arg.start;
	init_wait_entry(&timed->wait, 0);
	timed->wait.func = smqsg_timed_wake;
	prepare_to_wait(&order->wait, &timed->wait, smqsg_timed_state());
	if (smqsg_timed_blocked(timed))
		schedule_hrtimeout(&until, HRTIMER_MODE_ABS);
	finish_wait(&order->wait, &timed->wait);
	atomic_dec(&order->waiters);
}

static void smqsg_timed_read_clock(struct smqsg_timed *timed)
{
	timed->now = ktime_get_ns() - timed->arg.start;
}

/* Whether an entry is due. Reads the clock only if it must. */
static __always_inline bool smqsg_timed_due(struct smqsg_timed *timed,
					    const struct smq_sg_timed_entry *entry)
{
	if (timed->now < (s64)entry->due)
		smqsg_timed_read_clock(timed);
	return timed->now >= (s64)entry->due;
}

/* Waits until the next entry may be sent. Returns 0 or an errno. */
static int smqsg_timed_wait(struct smqsg_timed *timed)
{
	const struct smq_sg_timed_entry *entry = timed->next;
	s64 before, end_spin, due = entry->due, spin = timed->arg.spin;
	int ret;

	if (smqsg_timed_due(timed, entry) && !smqsg_timed_blocked(timed))
		return 0;
	smqsg_timed_read_clock(timed);
	/* A spin ends when the entry is due. If it then has to wait for others, one begins. */
	end_spin = max(due, timed->now) + spin;
	while (!smqsg_timed_due(timed, entry) || smqsg_timed_blocked(timed)) {
		ret = smqsg_timed_stopped(timed);
		if (ret)
			return ret;
		smqsg_batch_put_back(smqsg_timed_reap(timed));
		before = timed->now;
		if (before < due && due - before > spin) {
			smqsg_timed_sleep(timed, min(due - spin, before + SMQSG_TIMED_SLEEP));
		} else if (before >= due && before >= end_spin) {
			smqsg_timed_sleep_blocked(timed, before + SMQSG_TIMED_BLOCKED);
		} else {
			cond_resched();
			cpu_relax();
			smqsg_timed_read_clock(timed);
			timed->arg.spun += timed->now - before;
			continue;
		}
		smqsg_timed_read_clock(timed);
	}
	return 0;
}

/* Ends the entries that were not sent, with an error. */
static void smqsg_timed_refuse_rest(struct smqsg_timed *timed, int error)
{
	const struct smq_sg_timed_entry *entry;

	for (entry = timed->next; entry < timed->end; entry++) {
		if (!(entry->run.flags & SMQ_SG_TIMED_NOTHING))
			smqsg_slot_refused(smqsg_timed_fd(timed, entry), entry->run.slot, error);
		smqsg_timed_unsent(timed, entry, error);
		cond_resched();
	}
}

/* Whether an entry has no command. */
static __always_inline bool smqsg_timed_only_waits(const struct smqsg_timed *timed,
						   const struct smq_sg_timed_entry *entry)
{
	return unlikely(timed->waits) && entry->run.flags & SMQ_SG_TIMED_NOTHING;
}

/* Rings the doorbell, and waits until an entry may be sent. Returns 0, or why the batch stops. */
static noinline int smqsg_timed_pause(struct smqsg_timed *timed, struct blk_plug *plug,
				      const struct smq_sg_timed_entry *entry)
{
	int ret;

	timed->next = entry;
	blk_finish_plug(plug);
	ret = smqsg_timed_wait(timed) ?: smqsg_timed_stopped(timed);
	cond_resched();
	blk_start_plug(plug);
	return ret;
}

/* Sends all entries, or until the batch has to stop. Returns 0, or why it stopped. */
static int smqsg_timed_send_all(struct smqsg_timed *timed)
{
	const struct smq_sg_timed_entry *entry = timed->entries;
	struct smqsg_fd_order *order = &timed->batch->fd->order;
	unsigned long tick = jiffies;
	unsigned int courtesy = 1;
	struct blk_plug plug;
	int ret = 0;

	blk_start_plug(&plug);
	while (entry < timed->end) {
		/* That the slot is free shows when it is taken. */
		if (!--courtesy || time_after(jiffies, tick) || !smqsg_timed_due(timed, entry) ||
		    (unlikely(timed->waits) && smqsg_order_holds(order, entry))) {
			courtesy = SMQSG_TIMED_COURTESY;
			ret = smqsg_timed_pause(timed, &plug, entry);
			if (ret)
				break;
			tick = jiffies;
		}
		if (likely(!smqsg_timed_only_waits(timed, entry))) {
			ret = smqsg_timed_send(timed, entry);
			if (likely(!ret)) {
				entry++;
				continue;
			}
			if (ret == -EBUSY) {
				courtesy = 1;
				continue;
			}
		}
		smqsg_timed_unsent(timed, entry++, ret);
		/* It may have failed because the batch has to stop. */
		ret = ret ? smqsg_timed_stopped(timed) : 0;
		if (ret)
			break;
	}
	timed->next = entry;
	blk_finish_plug(&plug);
	smqsg_batch_put_back(timed->again);
	return ret;
}

/**
 * smqsg_timed_begin() - sends the entries of a timed batch, each when it is due
 * @batch: filled by smqsg_timed_start()
 *
 * Sleeps. Process context.
 */
void smqsg_timed_begin(struct smqsg_batch *batch)
{
	struct smqsg_timed *timed = batch->elements;
	struct smqsg_fd *fd = batch->fd;
	int ret;

	spin_lock(&fd->sg->lock);
	fd->order.runs++;
	timed->cancels = fd->wait.cancels;
	spin_unlock(&fd->sg->lock);
	ret = smqsg_timed_send_all(timed);
	spin_lock(&fd->sg->lock);
	fd->order.runs--;
	spin_unlock(&fd->sg->lock);
	timed->arg.done = timed->next - timed->entries;
	if (ret)
		smqsg_timed_refuse_rest(timed, ret);
	timed->arg.index = 0;
	if (copy_to_user(timed->user, &timed->arg, sizeof(timed->arg)))
		timed->fault = true;
	smqsg_batch_drop_remaining(batch, batch->unsent + 1);
}

/**
 * smqsg_timed_finish() - gives the caller the last results
 * @batch: has ended
 *
 * Return: 0, or -EFAULT: not all results could be written. Process context.
 */
int smqsg_timed_finish(struct smqsg_batch *batch)
{
	struct smqsg_timed *timed = batch->elements;

	smqsg_batch_put_back(smqsg_timed_reap(timed));
	return timed->fault ? -EFAULT : 0;
}
