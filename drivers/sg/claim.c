// SPDX-License-Identifier: GPL-2.0
/*
 * Claims for which a task sleeps.
 */
#include <linux/completion.h>
#include <linux/jiffies.h>
#include <linux/sched/signal.h>

#include "claim.h"

/**
 * struct smqsg_sleeper - a task that sleeps for a claim
 * @waiter: in its file's queue
 * @done: smqsg_wake() was called
 * @got: as it was called
 *
 * On the task's stack, until @waiter waits no more.
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
 * smqsg_claim_wait() - claims a place for one command, sleeping
 * @fd: the file
 * @timeout: jiffies that it may take
 *
 * Return: 0; -EAGAIN, -ENODEV as smqsg_wait(); -ETIMEDOUT; -ECANCELED: by smqsg_cancel(); -EINTR
 * when killed.
 */
int smqsg_claim_wait(struct smqsg_fd *fd, unsigned long timeout)
{
	struct smqsg_sleeper sleeper = {
		.waiter.deadline = jiffies + timeout,
		.waiter.slot = SMQSG_NO_SLOT,
		.waiter.want = 1,
		.waiter.grant = smqsg_wake,
	};
	int ret;

	if (smqsg_claim(fd, 1))
		return 0;
	init_completion(&sleeper.done);
	ret = smqsg_wait(fd, &sleeper.waiter);
	if (ret)
		return ret;
	if (wait_for_completion_killable(&sleeper.done)) {
		if (smqsg_unwait(&sleeper.waiter))
			return -EINTR;
		/* smqsg_wake() is being called, and waits for nothing. */
		wait_for_completion(&sleeper.done);
		if (sleeper.got > 0)
			smqsg_unclaim(fd, sleeper.got);
		return -EINTR;
	}
	return sleeper.got < 0 ? sleeper.got : 0;
}
