// SPDX-License-Identifier: GPL-2.0
/*
 * A command of SG_IO or write(), from the reservation of its place to its end.
 *
 * A command may end in any context, and after its caller was killed. Data can be unmapped in
 * process context only: by the caller, or by a work item.
 *
 * Maps the data of SG_IO and write(). If there is much data, and the device can use the caller's
 * pages directly, it transfers to and from those pages; otherwise, or if write() would pin more
 * than the user may lock, to and from pages of this module.
 *
 * This module's pages are first filled from the caller's memory, whatever the direction of the
 * transfer: so bytes that the device does not write keep the caller's values.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/blk-mq.h>
#include <linux/completion.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/poll.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/uio.h>

#include "compat_cmd.h"
#include "issue.h"
#include "module.h"
#include "owner.h"
#include "place.h"
#include "sg.h"

/* Preferred order of this module's pages: large pages need fewer segments. */
#define SMQSG_PIECE_ORDER	3

/**
 * smqsg_pages_free() - frees the pages through which data was copied, if there are any
 * @pages: the pages
 */
static void smqsg_pages_free(struct smqsg_pages *pages)
{
	while (pages->nr)
		__free_pages(pages->pages[--pages->nr], pages->order);
	kvfree(pages->pages);
	pages->pages = NULL;
}

/* Allocates pages->pages for @len bytes, all of one order. */
static int smqsg_pages_try(struct smqsg_pages *pages, size_t len, unsigned int order,
			   unsigned int most)
{
	gfp_t gfp = GFP_KERNEL_ACCOUNT | __GFP_ZERO | __GFP_COMP | __GFP_NOWARN;
	unsigned int count = DIV_ROUND_UP(len, PAGE_SIZE << order);

	if (count > most)
		return -EINVAL;
	if (order)
		gfp |= __GFP_NORETRY;
	pages->pages = kvcalloc(count, sizeof(*pages->pages), GFP_KERNEL_ACCOUNT);
	if (!pages->pages)
		return -ENOMEM;
	pages->order = order;
	while (pages->nr < count) {
		struct page *page = fatal_signal_pending(current) ? NULL : alloc_pages(gfp, order);

		cond_resched();
		if (!page) {
			smqsg_pages_free(pages);
			return -ENOMEM;
		}
		pages->pages[pages->nr++] = page;
	}
	return 0;
}

static int smqsg_pages_alloc(struct smqsg_pages *pages, size_t len, unsigned int most)
{
	unsigned int order = min(get_order(len), SMQSG_PIECE_ORDER);
	int ret = smqsg_pages_try(pages, len, order, most);

	/* Try smaller pieces. If the device does not take that many, return -ENOMEM. */
	while (ret == -ENOMEM && order && DIV_ROUND_UP(len, PAGE_SIZE << (order - 1)) <= most)
		ret = smqsg_pages_try(pages, len, --order, most);
	return ret;
}

/* Copies the caller's data into the pages. Does not advance @iter. */
static int smqsg_pages_fill(struct smqsg_pages *pages, const struct iov_iter *iter)
{
	struct iov_iter from = *iter;
	unsigned int i;

	from.data_source = ITER_SOURCE;
	for (i = 0; i < pages->nr; i++) {
		size_t count = min_t(size_t, PAGE_SIZE << pages->order, iov_iter_count(&from));

		if (fatal_signal_pending(current) ||
		    copy_page_from_iter(pages->pages[i], 0, count, &from) != count)
			return -EFAULT;
		cond_resched();
	}
	return 0;
}

static int smqsg_pages_copy(struct smqsg_pages *pages, struct request *rq,
			    const struct iov_iter *iter, bool no_memory)
{
	struct rq_map_data map = { .null_mapped = no_memory };
	int ret;

	ret = smqsg_pages_alloc(pages, iov_iter_count(iter), queue_max_segments(rq->q));
	if (ret)
		return ret;
	/* For data-out blk_rq_map_user_iov() copies the data. */
	if (rq_data_dir(rq) == READ && !no_memory)
		ret = smqsg_pages_fill(pages, iter);
	if (!ret) {
		map.pages = pages->pages;
		map.page_order = pages->order;
		map.nr_entries = pages->nr;
		ret = blk_rq_map_user_iov(rq->q, rq, &map, iter, GFP_KERNEL);
	}
	if (ret)
		smqsg_pages_free(pages);
	return ret;
}

/*
 * Counts the caller's pages of a command of write() as locked memory. They stay pinned until
 * read() fetches the result, which may be never: a program may have SMQSG_MOST_V3 such commands for
 * each open file. Returns false if they are too many.
 */
static bool smqsg_pages_lock(struct smqsg_pages *pages, const struct iov_iter *iter)
{
	pages->locked = iov_iter_npages(iter, INT_MAX);
	return !smqsg_lock_pages(pages->locked, &pages->owner);
}

static void smqsg_pages_unlock(struct smqsg_pages *pages)
{
	smqsg_unlock_pages(pages->locked, pages->owner);
	pages->owner = NULL;
}

static int smqsg_pages_map_iter(struct smqsg_pages *pages, struct request *rq,
				struct iov_iter *iter, bool no_memory, bool sync)
{
	struct request_queue *q = rq->q;
	int ret;

	if (!iov_iter_count(iter) ||
	    iov_iter_count(iter) > (u64)queue_max_hw_sectors(q) << SECTOR_SHIFT)
		return -EINVAL;
	if (no_memory || !blk_rq_aligned(q, iov_iter_alignment(iter), 0) ||
	    (queue_virt_boundary(q) && (queue_virt_boundary(q) & iov_iter_gap_alignment(iter))) ||
	    (!sync && !smqsg_pages_lock(pages, iter)))
		return smqsg_pages_copy(pages, rq, iter, no_memory);

	ret = blk_rq_map_user_iov(q, rq, NULL, iter, GFP_KERNEL);
	pages->direct = !ret;
	if (ret)
		smqsg_pages_unlock(pages);
	/* -EINVAL: more pieces of memory than the device takes. A copy needs fewer and may fit. */
	return ret == -EINVAL ? smqsg_pages_copy(pages, rq, iter, false) : ret;
}

/**
 * smqsg_cmd_map() - maps a command's data, before the command has a place and a request
 * @cmd: the command
 * @xfer: where the data is
 *
 * Return: 0; -EINVAL: more data than the device takes in one command, or a wrong iovec; -EFAULT;
 * -ENOMEM. Called in the caller's context; sleeps as long as the caller's memory does not come.
 */
static int smqsg_cmd_map(struct smqsg_cmd *cmd, const struct smqsg_xfer *xfer)
{
	struct request rq = {
		.q = cmd->fd->q,
		.cmd_flags = xfer->out ? REQ_OP_DRV_OUT : REQ_OP_DRV_IN,
	};
	int dir = xfer->out ? ITER_SOURCE : ITER_DEST;
	struct iovec fast[UIO_FASTIOV], *iov = fast;
	struct iov_iter iter;
	int ret;

	if (xfer->iovec_count) {
		ret = import_iovec(dir, xfer->addr, xfer->iovec_count, UIO_FASTIOV, &iov, &iter);
		if (ret < 0)
			return ret;
		/* Transfer @len bytes, or all bytes of the iovecs if those are fewer. */
		iov_iter_truncate(&iter, xfer->len);
	} else {
		if (!xfer->no_memory && !access_ok(xfer->addr, xfer->len))
			return -EFAULT;
		fast[0].iov_base = xfer->addr;
		fast[0].iov_len = xfer->len;
		iov_iter_init(&iter, dir, fast, 1, xfer->len);
		iov = NULL;
	}
	ret = smqsg_pages_map_iter(&cmd->pages, &rq, &iter, xfer->no_memory, cmd->sync);
	kfree(iov);
	if (!ret)
		smqsg_data_mapped(&cmd->io->data, &rq);
	return ret;
}

static void smqsg_v3_wake_readers(struct smqsg_v3 *v3)
{
	wake_up_interruptible_poll(&v3->wait, EPOLLIN | EPOLLRDNORM | EPOLLOUT | EPOLLWRNORM);
	kill_fasync(&v3->async, SIGIO, POLL_IN);
}

/*
 * Unmaps a command's data, and copies it to the caller unless the current task is a kernel thread.
 * Returns 0 or an errno.
 */
static int smqsg_cmd_unmap(struct smqsg_cmd *cmd)
{
	int ret = smqsg_data_unmap(&cmd->io->data);

	smqsg_pages_free(&cmd->pages);
	smqsg_pages_unlock(&cmd->pages);
	return ret;
}

/*
 * Lets read() fetch the result of a command whose caller was killed, without the data: only another
 * process can fetch it, and the data must not be written to that process's memory.
 */
static void smqsg_cmd_offer(struct smqsg_cmd *cmd)
{
	struct smqsg_v3 *v3 = &cmd->fd->v3;

	smqsg_cmd_unmap(cmd);
	spin_lock_irq(&v3->lock);
	cmd->sync = false;
	cmd->caller.file = NULL;
	spin_unlock_irq(&v3->lock);
	smqsg_v3_wake_readers(v3);
}

/* Unmaps the data of a command without a caller, then frees it or lets read() fetch its result. */
static void smqsg_cmd_orphan(struct work_struct *work)
{
	struct smqsg_cmd *cmd = container_of(work, struct smqsg_cmd, caller.work);
	struct file *file = cmd->caller.file;

	if (!file) {
		/* The file is closed, so there is no pool. */
		smqsg_cmd_unmap(cmd);
		smqsg_io_free(cmd->io);
		return;
	}
	if (!cmd->v4 && READ_ONCE(cmd->fd->v3.keep_orphan)) {
		smqsg_cmd_offer(cmd);
	} else {
		smqsg_cmd_leave(cmd);
		smqsg_cmd_free(cmd);
	}
	fput(file);
}

/**
 * smqsg_cmd_alloc() - allocates a command
 * @fd: the file
 * @sync: for SG_IO
 *
 * Return: the command, with all other fields 0; NULL if there is no memory.
 */
struct smqsg_cmd *smqsg_cmd_alloc(struct smqsg_fd *fd, bool sync)
{
	struct smqsg_io *io = smqsg_io_get(fd);
	struct smqsg_cmd *cmd;

	if (!io)
		return NULL;
	if (io->header)
		memset(io->header, 0, sizeof(*cmd));
	else
		io->header = kzalloc(sizeof(*cmd), GFP_KERNEL_ACCOUNT);
	cmd = io->header;
	if (!cmd) {
		smqsg_io_put(io);
		return NULL;
	}
	smqsg_data_init(&io->data);
	INIT_LIST_HEAD(&cmd->entry);
	smqsg_caller_init(&cmd->caller, smqsg_cmd_orphan);
	cmd->io = io;
	cmd->fd = fd;
	cmd->sync = sync;
	cmd->start = jiffies;
	return cmd;
}

/**
 * smqsg_cmd_free() - unmaps a command's data, and puts the command back into the file's pool
 * @cmd: the command, in no list; it has ended, or was never sent. The file is open
 *
 * Called in the caller's context, because data may be copied to the caller's memory; or in a kernel
 * thread, and then no data is copied.
 *
 * Return: 0, or an errno if the data could not be copied to the caller's memory.
 */
int smqsg_cmd_free(struct smqsg_cmd *cmd)
{
	int ret = smqsg_cmd_unmap(cmd);

	smqsg_io_put(cmd->io);
	return ret;
}

/**
 * smqsg_cmd_enter() - adds a command of interface 3 to its file's list
 * @cmd: the command, parsed and not started
 *
 * Return: 0, or -EDOM if the file has too many commands.
 */
int smqsg_cmd_enter(struct smqsg_cmd *cmd)
{
	struct smqsg_v3 *v3 = &cmd->fd->v3;
	int ret = -EDOM;

	spin_lock_irq(&v3->lock);
	if (v3->nr < SMQSG_MOST_V3) {
		list_add_tail(&cmd->entry, &v3->cmds);
		v3->nr++;
		ret = 0;
	}
	spin_unlock_irq(&v3->lock);
	return ret;
}

/**
 * smqsg_cmd_leave() - takes a command out of its file's list
 * @cmd: the command, not running
 *
 * When this function returns, smqsg_cmd_ended() no longer uses the command, and uses the file only
 * if it has a reference of its own.
 */
void smqsg_cmd_leave(struct smqsg_cmd *cmd)
{
	struct smqsg_v3 *v3 = &cmd->fd->v3;

	/* Only this task changes a command that it may take out. */
	if (list_empty(&cmd->entry))
		return;
	spin_lock_irq(&v3->lock);
	list_del_init(&cmd->entry);
	if (v3->nr-- == SMQSG_MOST_V3)
		wake_up_interruptible_poll(&v3->wait, EPOLLOUT | EPOLLWRNORM);
	spin_unlock_irq(&v3->lock);
}

/**
 * struct smqsg_sleeper - a task that sleeps for a place
 * @waiter: in its file's queue
 * @done: smqsg_wake() was called
 * @got: the number of places, or the errno, that smqsg_wake() was called with
 *
 * Lives on the task's stack until @waiter no longer waits.
 */
struct smqsg_sleeper {
	struct smqsg_waiter waiter;
	struct completion done;
	int got;
};

static void smqsg_wake(struct smqsg_waiter *waiter, int got)
{
	struct smqsg_sleeper *sleeper = container_of(waiter, struct smqsg_sleeper, waiter);

	sleeper->got = got;
	complete(&sleeper->done);
}

/**
 * smqsg_cmd_reserve() - reserves a place for a command, and sleeps until there is one
 * @fd: the file
 * @xfer: the header's request: the command waits at most for its own timeout, or for a default if
 *	it has none
 *
 * Return: 0: a place is reserved; -EAGAIN, -ENODEV: as smqsg_wait(); -ETIMEDOUT; -ECANCELED:
 * smqsg_cancel() ended the waiting; -EINTR: the task is killed.
 */
int smqsg_cmd_reserve(struct smqsg_fd *fd, const struct smqsg_xfer *xfer)
{
	unsigned long timeout = xfer->timeout ?: fd->q->rq_timeout ?: SMQSG_TIMEOUT;
	struct smqsg_sleeper sleeper = {
		.waiter.fd = fd,
		.waiter.deadline = jiffies + timeout,
		.waiter.slot = SMQSG_NO_SLOT,
		.waiter.want = 1,
		.waiter.grant = smqsg_wake,
	};
	int ret;

	if (smqsg_reserve(fd))
		return 0;
	init_completion(&sleeper.done);
	ret = smqsg_wait(&sleeper.waiter, false);
	if (ret)
		return ret;
	if (wait_for_completion_killable(&sleeper.done)) {
		if (smqsg_unwait(&sleeper.waiter))
			return -EINTR;
		/* smqsg_wake() is being called, and does not sleep. */
		wait_for_completion(&sleeper.done);
		if (sleeper.got > 0)
			smqsg_unreserve(fd, sleeper.got);
		return -EINTR;
	}
	return sleeper.got < 0 ? sleeper.got : 0;
}

/* Saves the mid-layer's results of a command before its request is freed. */
static void smqsg_cmd_save_result(struct smqsg_cmd *cmd, struct scsi_cmnd *scmd,
				  blk_status_t status)
{
	cmd->result = scmd->result;
	/* There is no result if the command did not reach the mid-layer. */
	if (status != BLK_STS_OK && !cmd->result)
		cmd->result = scsi_device_online(cmd->fd->sdev) ? DID_ERROR << 16 :
								  DID_NO_CONNECT << 16;
	cmd->resid = scmd->resid_len;
	cmd->sense_len = min_t(unsigned int, scmd->sense_len, sizeof(cmd->sense));
	if (cmd->sense_len)
		memcpy(cmd->sense, scmd->sense_buffer, cmd->sense_len);
	cmd->duration = jiffies_to_msecs(jiffies - cmd->start);
}

/* The end of a command of write(). */
static void smqsg_v3_ended(struct smqsg_cmd *cmd)
{
	struct smqsg_v3 *v3 = &cmd->fd->v3;
	struct file *file = cmd->caller.file;
	unsigned long flags;

	spin_lock_irqsave(&v3->lock, flags);
	cmd->caller.file = NULL;
	cmd->state = SMQSG_ENDED;
	v3->running--;
	v3->full = false;
	spin_unlock_irqrestore(&v3->lock, flags);
	smqsg_v3_wake_readers(v3);
	fput(file);
}

/* A command has ended, and its request was kept or freed. Any context. */
static void smqsg_cmd_ended(struct smqsg_cmd *cmd)
{
	if (!cmd->sync) {
		smqsg_v3_ended(cmd);
		return;
	}
	/* Pairs with smqsg_table_row(). */
	smp_store_release(&cmd->state, SMQSG_ENDED);
	smqsg_caller_end(&cmd->caller);
}

/* smqsg_origin.good of a command. Any context. */
static void smqsg_cmd_good(struct smqsg_io *io, struct request *rq)
{
	smqsg_cmd_save_result(io->header, blk_mq_rq_to_pdu(rq), BLK_STS_OK);
	smqsg_request_good(io, io->fd, rq);
	smqsg_cmd_ended(io->header);
}

/* smqsg_origin.end of a command. Any context. */
static SMQ_END_IO(smqsg_cmd_end, rq, status)
{
	struct smqsg_io *io = rq->end_io_data;
	struct smqsg_cmd *cmd = io->header;

	smqsg_cmd_save_result(cmd, blk_mq_rq_to_pdu(rq), status);
	if (smqsg_request_ended(io, io->fd, rq, cmd->result) == RQ_END_IO_FREE)
		blk_mq_free_request(rq);
	smqsg_cmd_ended(cmd);
	return RQ_END_IO_NONE;
}

static __always_inline void smqsg_cmd_fill(struct smqsg_io *io, struct request *rq,
					   const struct smqsg_send *send)
{
	const struct smqsg_cmd *cmd = io->header;

	smqsg_fill_request(rq, cmd->cdb, cmd->cdb_len, cmd->timeout, io);
	smqsg_data_give(io, rq);
}

static const struct smqsg_origin smqsg_cmd_origin = {
	.fill = smqsg_cmd_fill,
	.good = smqsg_cmd_good,
	.end = smqsg_cmd_end,
};

/**
 * smqsg_cmd_get_data() - maps or copies a command's data, before the command has a place
 * @cmd: the command
 * @xfer: where the data is
 *
 * Return: as smqsg_cmd_map(). Called in the caller's context.
 */
int smqsg_cmd_get_data(struct smqsg_cmd *cmd, const struct smqsg_xfer *xfer)
{
	if (!xfer->len)
		return 0;
	if (xfer->copy && !xfer->no_memory &&
	    smqsg_data_is_small(cmd->fd, xfer->len, xfer->iovec_count))
		return smqsg_data_copy(cmd->io, (uintptr_t)xfer->addr, xfer->len, xfer->out);
	return smqsg_cmd_map(cmd, xfer);
}

/* Sends a command for which a place is reserved; on an error the caller keeps the place. */
static int smqsg_cmd_send_placed(struct smqsg_cmd *cmd, const struct smqsg_xfer *xfer,
				 const struct smqsg_send *send)
{
	struct smqsg_fd *fd = cmd->fd;
	struct request *rq;

	if (!xfer->at_tail && smqsg_send_own(cmd->io, fd, &smqsg_cmd_origin, send, true))
		return 0;
	rq = scsi_alloc_request(fd->q, send->opf, 0);
	if (IS_ERR(rq))
		return PTR_ERR(rq);
	smqsg_cmd_fill(cmd->io, rq, send);
	rq->end_io = smqsg_cmd_end;
	blk_execute_rq_nowait(rq, !xfer->at_tail);
	return 0;
}

/**
 * smqsg_cmd_send() - sends a command
 * @cmd: the command, with its data mapped
 * @xfer: how it is to be sent
 * @reserve: reserves a place, if the command needs one; returns 0 or an errno
 *
 * Return: 0 if the command was sent: smqsg_cmd_ended() will be called for it, and another thread's
 * read() may free it. Else an errno. The caller's context; sleeps for a tag.
 */
int smqsg_cmd_send(struct smqsg_cmd *cmd, const struct smqsg_xfer *xfer,
		   int (*reserve)(struct smqsg_fd *fd, const struct smqsg_xfer *xfer))
{
	const struct smqsg_send send = { .opf = xfer->out ? REQ_OP_DRV_OUT : REQ_OP_DRV_IN };
	struct smqsg_fd *fd = cmd->fd;
	int ret;

	cmd->timeout = xfer->timeout;
	/* A command that is sent at once passes all others, so it is not at the queue's tail. */
	if (!xfer->at_tail && smqsg_is_open(fd) &&
	    smqsg_send_own(cmd->io, fd, &smqsg_cmd_origin, &send, false))
		return 0;
	if (!READ_ONCE(fd->own))
		smqsg_own_ask(fd, SMQSG_OWN_HEADER);
	ret = reserve(fd, xfer);
	if (ret)
		return ret;
	ret = smqsg_cmd_send_placed(cmd, xfer, &send);
	if (ret)
		smqsg_unreserve(fd, 1);
	return ret;
}

/**
 * smqsg_cmd_wait() - waits for a command of SG_IO
 * @cmd: the command, started
 *
 * Return: 0 when the command has ended; -EINTR: the caller is killed, and must not use @cmd again.
 */
int smqsg_cmd_wait(struct smqsg_cmd *cmd)
{
	/*
	 * Only a fatal signal ends the wait: a command that has been sent cannot be cancelled, and
	 * a system call that is restarted after a signal would send it twice.
	 */
	if (wait_for_completion_killable(&cmd->caller.done) &&
	    smqsg_caller_leave(&cmd->caller, cmd->fd->file))
		return -EINTR;
	return 0;
}

/**
 * smqsg_v3_open() - sets interface 3 up for a file
 * @fd: the file
 */
void smqsg_v3_open(struct smqsg_fd *fd)
{
	struct smqsg_v3 *v3 = &fd->v3;

	spin_lock_init(&v3->lock);
	INIT_LIST_HEAD(&v3->cmds);
	init_waitqueue_head(&v3->wait);
	v3->timeout = SG_DEFAULT_TIMEOUT_USER;
	v3->reserved = SG_DEF_RESERVED_SIZE;
}

/**
 * smqsg_v3_release() - frees results that were not read, when the file is released
 * @fd: the file; none of its commands runs
 *
 * Process context.
 */
void smqsg_v3_release(struct smqsg_fd *fd)
{
	struct smqsg_v3 *v3 = &fd->v3;
	struct smqsg_cmd *cmd, *next;

	/* Wait for the lock: smqsg_cmd_ended() of the last command may still hold it. */
	spin_lock_irq(&v3->lock);
	WARN_ON_ONCE(v3->running);
	spin_unlock_irq(&v3->lock);
	list_for_each_entry_safe(cmd, next, &v3->cmds, entry) {
		list_del_init(&cmd->entry);
		/*
		 * A work item unmaps the data, because it must not be copied to the current task's
		 * memory. It may run when the file is freed.
		 */
		smqsg_idle_free(&cmd->io->idle, fd);
		queue_work(smqsg_wq, &cmd->caller.work);
	}
}

/**
 * smqsg_v3_device_removed() - wakes readers of a file whose device is being removed
 * @fd: the file
 *
 * A reader whose file has no command running would otherwise wait for ever. smqsg_dev.sdev is
 * already NULL. Any context.
 */
void smqsg_v3_device_removed(struct smqsg_fd *fd)
{
	wake_up_interruptible_poll(&fd->v3.wait, EPOLLHUP);
}
