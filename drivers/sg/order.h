/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the timed batches of a file wait for: entries that have ended, and commands in flight.
 */
#ifndef SMQSG_ORDER_H
#define SMQSG_ORDER_H

#include <linux/atomic.h>
#include <linux/types.h>
#include <linux/wait.h>
#include <uapi/scsi/smq_sg.h>

/*
 * So many callers a command's end, which may be a hard interrupt, looks at. Any number may wait:
 * the others look themselves, from time to time.
 */
#define SMQSG_ORDER_WAITERS	64

/**
 * struct smqsg_fd_order - order of the timed batches that were submitted on a file
 * @ended: for each remainder of a division by SMQ_SG_TIMED_WINDOW the highest number of an entry
 *	that has ended. NULL until a batch has numbers. Elements are read and written without a lock
 * @inflight: how many commands are in flight of batches that limit their number. Atomic: commands
 *	end on any CPU
 * @runs: how many batches are being sent; under smqsg_dev.lock
 * @wait: callers that wait for one of the above, or for a slot of their batch
 * @waiters: how many callers are in @wait, at most SMQSG_ORDER_WAITERS. Atomic: they run on any CPU
 *
 * Lives in the file, which a timed batch keeps open.
 */
struct smqsg_fd_order {
	u32 *ended;
	atomic_t inflight;
	unsigned int runs;
	wait_queue_head_t wait;
	atomic_t waiters;
};

/**
 * struct smqsg_timed_io - a command of a timed batch
 * @counted: counted in smqsg_fd_order.inflight
 * @error: why a command that waited was not sent, or 0
 * @start: smq_sg_timed.start; 0: the caller wants no results
 * @index: position of its entry in the list
 * @number: smq_sg_timed_entry.number, or 0
 * @result: the entry's result
 */
struct smqsg_timed_io {
	bool counted;
	int error;
	u64 start;
	u32 index;
	u32 number;
	struct smq_sg_timed_result result;
};

int smqsg_order_number(struct smqsg_fd_order *order);
bool smqsg_order_holds_back(const struct smqsg_fd_order *order,
			    const struct smq_sg_timed_entry *entry);
bool smqsg_order_enter(struct smqsg_fd_order *order, unsigned int limit);
void smqsg_order_mark(struct smqsg_fd_order *order, u32 number);
void smqsg_order_note(struct smqsg_fd_order *order, struct smqsg_timed_io *io, int result,
		      u32 resid);

/* Whether an entry has to wait for others, of any batch of the file. Any context. */
static inline bool smqsg_order_holds(const struct smqsg_fd_order *order,
				     const struct smq_sg_timed_entry *entry)
{
	return entry->after | entry->inflight && smqsg_order_holds_back(order, entry);
}

/*
 * Wakes the callers whose next entry need not wait any more. Called after a full barrier, which
 * pairs with that of prepare_to_wait(): at least one sees what the other wrote. Any context.
 */
static __always_inline void smqsg_order_wake(struct smqsg_fd_order *order)
{
	/* After the caller's barrier. */
	if (unlikely(waitqueue_active(&order->wait)))
		/* wait_queue_entry.func decides which ones wake up. */
		wake_up_all(&order->wait);
}

#endif /* SMQSG_ORDER_H */
