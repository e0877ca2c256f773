/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Claims of places in the device's queue depth: the part that every command runs.
 */
#ifndef SMQSG_DEPTH_H
#define SMQSG_DEPTH_H

#include "sg.h"

unsigned int smqsg_claim_turn(struct smqsg_fd *fd);
unsigned int smqsg_claim_slowly(struct smqsg_fd *fd, unsigned int want);
void smqsg_contended(struct smqsg_fd *fd);
void smqsg_kick(struct smqsg_dev *sg);

/**
 * smqsg_claim() - claims places for commands
 * @fd: whose
 * @want: how many, at least 1
 *
 * Return: how many places there were, 0 to @want. 0 while anybody waits: the turn
 * is his; see smqsg_wait(). Any context. Each place is given back by
 * smqsg_release().
 */
static __always_inline unsigned int smqsg_claim(struct smqsg_fd *fd, unsigned int want)
{
	unsigned int depth = READ_ONCE(fd->sdev->queue_depth);
	struct smqsg_dev *sg = fd->sg;

	if (unlikely(READ_ONCE(sg->slowly)))
		return smqsg_claim_slowly(fd, want);
	/*
	 * Too many for a moment, at worst: who is refused for that waits, and looks once
	 * more when he does.
	 */
	if (unlikely(atomic_add_return(want, &sg->inflight) > (int)depth)) {
		atomic_sub(want, &sg->inflight);
		return smqsg_claim_slowly(fd, want);
	}
	atomic_add(want, &fd->inflight);
	return want;
}

/**
 * smqsg_release() - gives places back
 * @fd: whose; something must keep it from being closed: the command itself, until
 *	after this
 * @count: how many
 *
 * Called from the end of a command, before the mid-layer has looked for others who
 * want the place. Any context.
 */
static __always_inline void smqsg_release(struct smqsg_fd *fd, unsigned int count)
{
	struct smqsg_dev *sg = fd->sg;

	if (unlikely(atomic_read(&fd->sdev->restarts)))
		smqsg_contended(fd);
	atomic_sub(count, &fd->inflight);
	atomic_sub(count, &sg->inflight);
	/* Pairs with the barrier of smqsg_wait(): one of the two sees the other. */
	smp_mb__after_atomic();
	if (unlikely(atomic_read(&sg->waiting)))
		smqsg_kick(sg);
}

#endif /* SMQSG_DEPTH_H */
