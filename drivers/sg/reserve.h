/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reserves places in the device's queue depth: the fast path, which every command takes.
 */
#ifndef SMQSG_RESERVE_H
#define SMQSG_RESERVE_H

#include "depth.h"
#include "sg.h"

/**
 * smqsg_reserve() - reserves places for commands
 * @fd: the file
 * @want: how many, at least 1
 *
 * Return: how many places were reserved, 0 to @want. 0 while any command waits, because waiting
 * commands come first; see smqsg_wait(). The end of a sent command gives its place back by
 * smqsg_release(). The caller gives back the others by smqsg_unreserve(). Process context.
 */
static __always_inline unsigned int smqsg_reserve(struct smqsg_fd *fd, unsigned int want)
{
	unsigned int depth = READ_ONCE(fd->sdev->queue_depth);
	struct smqsg_dev *sg = fd->sg;
	atomic_t *kept = raw_cpu_ptr(sg->depth.kept);
	int here = atomic_read(kept);

	if (unlikely(READ_ONCE(sg->depth.slow_path)))
		return smqsg_reserve_slow(fd, want);
	/* The depth may be lower than it was when the places were first reserved. */
	if (likely(here >= (int)want && atomic_read(&sg->depth.inflight) <= (int)depth &&
		   atomic_try_cmpxchg(kept, &here, here - want))) {
		/* @inflight includes the places in @kept already. */
	/*
	 * @inflight may be too high for a moment. At worst another command therefore gets no place:
	 * it waits, and smqsg_wait() checks once more.
	 */
	} else if (unlikely(atomic_add_return(want, &sg->depth.inflight) > (int)depth)) {
		atomic_sub(want, &sg->depth.inflight);
		return smqsg_reserve_slow(fd, want);
	}
	atomic_add(want, &fd->depth.inflight);
	/* Pairs with smqsg_still_shares(): at least one of the two sees what the other wrote. */
	smp_mb__after_atomic();
	if (unlikely(!READ_ONCE(fd->depth.shares)))
		smqsg_enter(fd);
	return want;
}

/**
 * smqsg_unreserve() - gives back places whose commands have not been sent
 * @fd: the file, which the caller keeps open
 * @count: how many
 *
 * Any context.
 */
static __always_inline void smqsg_unreserve(struct smqsg_fd *fd, unsigned int count)
{
	struct smqsg_dev *sg = fd->sg;

	atomic_sub(count, &fd->depth.inflight);
	atomic_sub(count, &sg->depth.inflight);
	/* Pairs with the barrier of smqsg_wait(): at least one sees what the other wrote. */
	smp_mb__after_atomic();
	if (unlikely(atomic_read(&sg->depth.waiting)))
		smqsg_kick(sg);
}

/**
 * smqsg_release() - gives back places whose commands have ended
 * @fd: the file, which the caller keeps open
 * @count: how many
 *
 * Called when a command ends, before the mid-layer looks for other commands that want its place.
 * Any context.
 */
static __always_inline void smqsg_release(struct smqsg_fd *fd, unsigned int count)
{
	struct smqsg_dev *sg = fd->sg;
	atomic_t *kept = raw_cpu_ptr(sg->depth.kept);

	if (unlikely(atomic_read(&fd->sdev->restarts)))
		smqsg_contended(fd);
	if (unlikely(atomic_read(kept) >= (int)READ_ONCE(sg->depth.keep) ||
		     READ_ONCE(sg->depth.slow_path))) {
		smqsg_unreserve(fd, count);
		return;
	}
	atomic_sub(count, &fd->depth.inflight);
	atomic_add(count, kept);
	/* Pairs with the barrier of smqsg_wait(): at least one sees what the other wrote. */
	smp_mb__after_atomic();
	if (unlikely(READ_ONCE(sg->depth.slow_path)))
		smqsg_kept_wanted(sg);
}

int smqsg_reserve_wait(struct smqsg_fd *fd, unsigned long timeout);

#endif /* SMQSG_RESERVE_H */
