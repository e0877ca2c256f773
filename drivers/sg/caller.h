/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A task that waits for the end of its batch or command, in SMQ_SG_RUN or SG_IO, until a signal
 * makes it leave.
 */
#ifndef SMQSG_CALLER_H
#define SMQSG_CALLER_H

#include <linux/atomic.h>
#include <linux/completion.h>
#include <linux/file.h>
#include <linux/freezer.h>
#include <linux/fs.h>
#include <linux/sched/signal.h>
#include <linux/workqueue.h>

#include "module.h"

enum smqsg_caller_state {
	SMQSG_CALLER_WAITS,
	SMQSG_CALLER_WOKEN,
	SMQSG_CALLER_LEFT,
};

/**
 * struct smqsg_caller - the caller of a batch or a command
 * @state: enum smqsg_caller_state. Atomic: an exchange decides whether the end came first, or the
 *	signal
 * @done: completed at the end, if the caller has not left
 * @work: queued at the end, if the caller has left
 * @file: a reference that keeps the file open in place of the caller's descriptor; dropped by @work
 *
 * Lives in the batch or command.
 */
struct smqsg_caller {
	atomic_t state;
	struct completion done;
	struct work_struct work;
	struct file *file;
};

bool smqsg_signalled(void);

/* smqsg_signalled(); also freezes the caller if need be. Process context, without locks. */
static inline bool smqsg_caller_stops(void)
{
	if (likely(!signal_pending(current)))
		return false;
	try_to_freeze();
	return smqsg_signalled();
}

static inline void smqsg_caller_init(struct smqsg_caller *caller, work_func_t work)
{
	atomic_set(&caller->state, SMQSG_CALLER_WAITS);
	init_completion(&caller->done);
	INIT_WORK(&caller->work, work);
	caller->file = NULL;
}

/* The end: wakes the caller, or queues @work. @caller may be gone on return. Any context. */
static inline void smqsg_caller_end(struct smqsg_caller *caller)
{
	if (atomic_xchg(&caller->state, SMQSG_CALLER_WOKEN) == SMQSG_CALLER_LEFT)
		queue_work(smqsg_wq, &caller->work);
	else
		complete(&caller->done);
}

/*
 * The caller leaves. Returns false if the end came first; otherwise the caller must not use its
 * batch or command again. Process context.
 */
static inline bool smqsg_caller_leave(struct smqsg_caller *caller, struct file *file)
{
	caller->file = get_file(file);
	if (atomic_xchg(&caller->state, SMQSG_CALLER_LEFT) == SMQSG_CALLER_WAITS)
		return true;
	fput(file);
	wait_for_completion(&caller->done);
	return false;
}

static inline bool smqsg_caller_left(const struct smqsg_caller *caller)
{
	return atomic_read(&caller->state) == SMQSG_CALLER_LEFT;
}

#endif /* SMQSG_CALLER_H */
