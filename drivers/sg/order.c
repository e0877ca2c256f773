// SPDX-License-Identifier: GPL-2.0
/*
 * What the timed batches of a file wait for: entries that have ended, and commands in flight.
 */
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>

#include "io.h"
#include "order.h"

/**
 * smqsg_order_number() - makes a file remember which entries have ended
 * @order: the file's
 *
 * Return: 0 or -ENOMEM. May sleep.
 */
int smqsg_order_number(struct smqsg_fd_order *order)
{
	u32 *ended;

	if (READ_ONCE(order->ended))
		return 0;
	ended = kvcalloc(SMQ_SG_TIMED_WINDOW, sizeof(*ended), GFP_KERNEL_ACCOUNT);
	if (!ended)
		return -ENOMEM;
	/* Another thread may have been faster. */
	if (cmpxchg(&order->ended, NULL, ended))
		kvfree(ended);
	return 0;
}

/* smqsg_order_holds() for an entry that names something to wait for. */
bool smqsg_order_holds_back(const struct smqsg_fd_order *order,
			    const struct smq_sg_timed_entry *entry)
{
	u32 after = entry->after;

	/* Pairs with smqsg_order_set(): the next command sees what the one before it has left. */
	if (after && smp_load_acquire(&order->ended[after % SMQ_SG_TIMED_WINDOW]) < after)
		return true;
	return entry->inflight && atomic_read(&order->inflight) >= entry->inflight;
}

/**
 * smqsg_order_enter() - counts a command that is about to be sent
 * @order: the file's
 * @limit: how many may be in flight with it; 0: any number
 *
 * Return: false if there are too many. Any context.
 */
bool smqsg_order_enter(struct smqsg_fd_order *order, unsigned int limit)
{
	int inflight = atomic_read(&order->inflight);

	do {
		if (limit && inflight >= (int)limit)
			return false;
	} while (!atomic_try_cmpxchg(&order->inflight, &inflight, inflight + 1));
	return true;
}

static void smqsg_order_set(struct smqsg_fd_order *order, u32 number)
{
	u32 *ended = &order->ended[number % SMQ_SG_TIMED_WINDOW];
	u32 old = READ_ONCE(*ended);

	/* A number of the next window may end on another CPU, and must not be lost. */
	while (old < number && !try_cmpxchg(ended, &old, number))
		;
}

/**
 * smqsg_order_mark() - notes that an entry without a command in flight has ended
 * @order: the file's
 * @number: the entry's number, or 0
 *
 * Any context.
 */
void smqsg_order_mark(struct smqsg_fd_order *order, u32 number)
{
	if (number)
		smqsg_order_set(order, number);
	/* For smqsg_order_wake(). */
	smp_mb();
	smqsg_order_wake(order);
}

/**
 * smqsg_order_note() - notes that a tracked command of a timed batch has ended
 * @order: the file's
 * @io: the command
 * @result: as smq_sg_status.result
 * @resid: as smq_sg_status.resid
 *
 * Its slot's byte was cleared already. The caller then calls smqsg_order_wake(). Any context.
 */
void smqsg_order_note(struct smqsg_fd_order *order, struct smqsg_timed_io *io, int result,
		      u32 resid)
{
	io->result.result = result;
	io->result.resid = resid;
	if (io->start)
		io->result.ended = ktime_get_ns() - io->start;
	if (io->number)
		smqsg_order_set(order, io->number);
	if (io->counted)
		atomic_dec(&order->inflight);
}
