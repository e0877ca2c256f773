// SPDX-License-Identifier: GPL-2.0
/*
 * Reserves a place for a task, which sleeps until it gets one.
 */
#include <linux/completion.h>
#include <linux/jiffies.h>
#include <linux/sched/signal.h>

#include "place.h"

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
 * smqsg_reserve_wait() - reserves a place for one command, and sleeps until there is one
 * @fd: the file
 * @timeout: jiffies to wait at most
 *
 * Return: 0: a place is reserved; -EAGAIN, -ENODEV: as smqsg_wait(); -ETIMEDOUT; -ECANCELED:
 * smqsg_cancel() ended the waiting; -EINTR: the task is killed.
 */
int smqsg_reserve_wait(struct smqsg_fd *fd, unsigned long timeout)
{
	struct smqsg_sleeper sleeper = {
		.waiter.deadline = jiffies + timeout,
		.waiter.slot = SMQSG_NO_SLOT,
		.waiter.want = 1,
		.waiter.grant = smqsg_wake,
	};
	int ret;

	if (smqsg_reserve(fd))
		return 0;
	init_completion(&sleeper.done);
	ret = smqsg_wait(fd, &sleeper.waiter);
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
