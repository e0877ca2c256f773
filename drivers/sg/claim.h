/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Claims of places in the device's queue depth: the part that every command runs.
 */
#ifndef SMQSG_CLAIM_H
#define SMQSG_CLAIM_H

#include "depth.h"
#include "sg.h"

/**
 * smqsg_claim() - claims places for commands
 * @fd: the file
 * @want: how many, at least 1
 *
 * Return: how many places there were, 0 to @want. 0 while any command waits: it comes first; see
 * smqsg_wait(). Process context. Each place is given back by smqsg_release().
 */
static __always_inline unsigned int smqsg_claim(struct smqsg_fd *fd, unsigned int want)
{
	unsigned int depth = READ_ONCE(fd->sdev->queue_depth);
	struct smqsg_dev *sg = fd->sg;

	if (unlikely(READ_ONCE(sg->depth.slowly)))
		return smqsg_claim_slowly(fd, want);
	/*
	 * Too many for a moment, at worst: a command that is refused for that waits, and
	 * smqsg_wait() looks once more.
	 */
	if (unlikely(atomic_add_return(want, &sg->depth.inflight) > (int)depth)) {
		atomic_sub(want, &sg->depth.inflight);
		return smqsg_claim_slowly(fd, want);
	}
	atomic_add(want, &fd->depth.inflight);
	/* Pairs with smqsg_shares_on(): one of the two sees the other. */
	smp_mb__after_atomic();
	if (unlikely(!READ_ONCE(fd->depth.shares)))
		smqsg_enter(fd);
	return want;
}

/**
 * smqsg_unclaim() - gives back places whose commands have not been sent
 * @fd: the file, which the caller keeps open
 * @count: how many
 *
 * Any context.
 */
static __always_inline void smqsg_unclaim(struct smqsg_fd *fd, unsigned int count)
{
	struct smqsg_dev *sg = fd->sg;

	atomic_sub(count, &fd->depth.inflight);
	atomic_sub(count, &sg->depth.inflight);
	/* Pairs with the barrier of smqsg_wait(): one of the two sees the other. */
	smp_mb__after_atomic();
	if (unlikely(atomic_read(&sg->depth.waiting)))
		smqsg_kick(sg);
}

/**
 * smqsg_release() - gives back places whose commands have ended
 * @fd: the file, which the caller keeps open: a command does, until after this
 * @count: how many
 *
 * Called from the end of a command, before the mid-layer looks for others that want the place. Any
 * context.
 */
static __always_inline void smqsg_release(struct smqsg_fd *fd, unsigned int count)
{
	if (unlikely(atomic_read(&fd->sdev->restarts)))
		smqsg_contended(fd);
	smqsg_unclaim(fd, count);
}

int smqsg_claim_wait(struct smqsg_fd *fd, unsigned long timeout);

#endif /* SMQSG_CLAIM_H */
