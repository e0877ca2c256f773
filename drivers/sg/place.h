/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Places in the device's queue depth, and tokens: what each command does about them.
 *
 * A command on the node's own queue has a token of the device's budget, and the budget is as large
 * as the queue depth: so the token is its place. It needs no other while no command waits. One on
 * the device's queue gets its token later, in the mid-layer. So a place is reserved for it in
 * smqsg_dev_depth.places, as for every command while one waits.
 */
#ifndef SMQSG_PLACE_H
#define SMQSG_PLACE_H

#include <linux/percpu.h>
#include <linux/percpu-refcount.h>
#include <smq/straight.h>

#include "depth.h"
#include "sg.h"

/* straight.c */

int smqsg_token_find(struct scsi_device *sdev, int last);
void smqsg_token_put(struct scsi_device *sdev, int token);
void smqsg_straight_init(void);
void smqsg_straight_exit(void);
bool smqsg_straight_issue(struct smqsg_fd *fd, struct request *rq, int token);

/* Whether a command may be sent on the own queue without a reservation. Process context. */
static __always_inline bool smqsg_is_open(const struct smqsg_fd *fd)
{
	return likely(!READ_ONCE(fd->sg->depth.slow_path));
}

/* Counts a command that is about to be sent on the own queue, with a token. Process context. */
static __always_inline void smqsg_count_sent(struct smqsg_fd *fd)
{
	this_cpu_inc(fd->depth.own->sent);
	this_cpu_inc(*fd->depth.inflight);
}

/*
 * Counts the end of a command of the own queue. A full barrier follows before smqsg_kick_waiting().
 * Any context.
 */
static __always_inline void smqsg_count_ended(struct smqsg_fd *fd)
{
	this_cpu_dec(*fd->depth.inflight);
	this_cpu_inc(fd->depth.own->ended);
}

/*
 * Starts the dispatcher if commands wait. Called after a command's place became free and a full
 * barrier, which pairs with that of smqsg_wait(): at least one sees what the other wrote. Any
 * context.
 */
static __always_inline void smqsg_kick_waiting(struct smqsg_dev *sg)
{
	if (unlikely(atomic_read(&sg->depth.waiting)))
		smqsg_kick(sg);
}

/*
 * A command of the own queue ended, without a barrier, and the mid-layer has counted that; or it
 * was not sent after all. Any context.
 */
static inline void smqsg_count_out(struct smqsg_fd *fd)
{
	this_cpu_inc(fd->depth.own->ended_slowly);
	/* Pairs with smqsg_count_for_device(): whoever sees the end sees that the device has it. */
	smp_wmb();
	smqsg_count_ended(fd);
	/* Pairs with smqsg_wait(). */
	smp_mb();
	smqsg_kick_waiting(fd->sg);
}

/* Counts @more places as reserved. Any context. */
static __always_inline void smqsg_count_places(struct smqsg_fd *fd, int more)
{
	this_cpu_add(*fd->depth.inflight, more);
	atomic_add(more, &fd->sg->depth.places);
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
	smqsg_count_places(fd, -(int)count);
	/* Pairs with smqsg_wait(). */
	smp_mb__after_atomic();
	smqsg_kick_waiting(fd->sg);
}

/**
 * smqsg_release() - gives back the place of a command of the device's queue that has ended
 * @fd: the file, which the caller keeps open
 *
 * Called when a command ends, before the mid-layer looks for other commands that want its place.
 * Any context.
 */
static __always_inline void smqsg_release(struct smqsg_fd *fd)
{
	if (unlikely(atomic_read(&fd->sdev->restarts)))
		smqsg_contended(fd);
	smqsg_unreserve(fd, 1);
}

/**
 * smqsg_token_take() - takes a token, as scsi_dev_queue_ready() does
 * @sdev: the device
 * @last: the token that the command had last, which it gets again if that is free; or below 0
 *
 * Does not tell the mid-layer that the command waits if there is no token.
 *
 * Return: the token; below 0: there is none; or the device is blocked, which only the mid-layer's
 * function ends; or block I/O waits for a token: the command then waits with it, in the same queue,
 * because others would otherwise take every token that is given back. Process context.
 */
static __always_inline int smqsg_token_take(struct scsi_device *sdev, int last)
{
	if (unlikely(atomic_read(&sdev->device_blocked) || atomic_read(&sdev->restarts)))
		return -1;
	return likely(smq_token_again(sdev, last)) ? last : smqsg_token_find(sdev, last);
}

/*
 * Called at the end of a request that smqsg_straight_issue() has sent: drops its reference to
 * the device's queue. Any context.
 */
static __always_inline void smqsg_straight_ended(struct smqsg_fd *fd)
{
	percpu_ref_put(&fd->q->q_usage_counter);
}

#endif /* SMQSG_PLACE_H */
