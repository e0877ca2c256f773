// SPDX-License-Identifier: GPL-2.0
/*
 * Explores what timed batches of smq_sg wait for, in every interleaving: numbers of entries that
 * have ended, and a caller that sleeps until its command was sent. cut.py has taken the functions
 * out of the module's files, unchanged. Built and run by test_order_explore.py.
 *
 * order_world THREAD...
 *
 * Threads: end=N: an entry with this number ends. after=N: a caller waits for it. grant: a command
 * that waited for a place is sent; its caller sleeps until then, and puts the command back. again:
 * the first grant makes the command wait again, and another context grants it.
 */
#include "explore_kernel.h"
#include "explore_words.h"

#define SMQ_SG_TIMED_WINDOW	2
#define POISON			(-1)

typedef unsigned int u32;

struct smq_sg_timed_result {
	int result;
};

struct smq_sg_timed_entry {
	u32 after;
	u32 inflight;
};

typedef struct {
	bool woken;	/* the caller need not sleep */
	bool queued;
} wait_queue_head_t;

#include TYPES

struct completion {
	bool done;
};

struct smqsg_batch {
	struct {
		struct completion done;
	} caller;
};

struct smqsg_waiter {
	int unused;
};

struct smqsg_io {
	struct smqsg_batch *batch;
	struct smqsg_waiter waiter;
	struct smqsg_timed_io timed;
};

static struct {
	struct smqsg_fd_order order;
	u32 ended[SMQ_SG_TIMED_WINDOW];
	struct smq_sg_timed_entry next;	/* of the caller that waits */
	struct smqsg_batch batch;
	struct smqsg_io io;
	bool put;			/* the caller has put @io back */
	bool again;			/* the next grant makes the command wait again */
	bool waits;			/* it did */
	struct explore_rcu rcu;
} world;

static bool again;

static struct explore_rcu *explore_rcu(void)
{
	return &world.rcu;
}

static bool explore_needs_no_step(const void *at)
{
	(void)at;
	return false;
}

static bool try_cmpxchg(u32 *at, u32 *old, u32 new)
{
	u32 was;

	explore_step("try_cmpxchg");
	was = *at;
	if (was == *old)
		*at = new;
	else
		*old = was;
	return *at == new && was != new;
}

/* A step, as in the kernel: smqsg_order_wake() calls it behind a barrier. */
static bool waitqueue_active(const wait_queue_head_t *head)
{
	explore_step("waitqueue_active");
	return head->queued;
}

static bool smqsg_order_holds_back(const struct smqsg_fd_order *order,
				   const struct smq_sg_timed_entry *entry);

/* As smqsg_timed_wake(). */
static void wake_up_all(wait_queue_head_t *head)
{
	if (!smqsg_order_holds_back(&world.order, &world.next))
		head->woken = true;
}

static void complete(struct completion *c)
{
	explore_step("complete");
	EXPLORE_EXPECT(!world.put);
	c->done = true;
	/* The caller goes on at once. */
	explore_step("completed");
}

static int smqsg_slot_send_placed(struct smqsg_io *io, int flags, void *plug)
{
	(void)io;
	(void)flags;
	(void)plug;
	explore_step("send");
	return 0;
}

static int smqsg_io_granted(struct smqsg_io *io, int got, int (*send)(struct smqsg_io *io))
{
	(void)got;
	if (world.again) {
		explore_step("wait again");
		world.again = false;
		world.waits = true;
		explore_step("waits");
		return 0;
	}
	return send(io);
}

static void smqsg_timed_note_issue(struct smqsg_io *io)
{
	(void)io;
}

#include FUNCTIONS

static void ender(int number)
{
	smqsg_order_mark(&world.order, number);
}

static bool is_woken(long unused)
{
	(void)unused;
	return world.order.wait.woken;
}

/* As smqsg_timed_sleep(), which looks again from time to time: so only a lost number counts. */
static void waiter(int after)
{
	explore_step("prepare_to_wait");
	world.next.after = after;
	world.order.wait.queued = true;
	if (smqsg_order_holds_back(&world.order, &world.next))
		explore_wait(is_woken, 0, "sleep");
	explore_step("finish_wait");
	world.order.wait.queued = false;
}

static bool waits_again(long unused)
{
	(void)unused;
	return world.waits;
}

static void granter(int other)
{
	if (other)
		explore_wait(waits_again, 0, "dispatch");
	smqsg_timed_grant(&world.io.waiter, 0);
}

static bool is_sent(long unused)
{
	(void)unused;
	return world.batch.caller.done.done;
}

static void caller(int unused)
{
	(void)unused;
	explore_wait(is_sent, 0, "wait_for_completion");
	EXPLORE_EXPECT(!world.io.timed.error);
	world.put = true;
	world.io.timed.error = POISON;
}

static void begin(void)
{
	world.order.ended = world.ended;
	world.io.batch = &world.batch;
	world.io.timed.error = POISON;
	world.again = again;
}

static bool parse(const char *word)
{
	int nr;

	if (sscanf(word, "end=%d", &nr) == 1) {
		thread(ender, nr);
	} else if (sscanf(word, "after=%d", &nr) == 1) {
		thread(waiter, nr);
	} else if (!strcmp(word, "grant")) {
		thread(granter, 0);
		thread(caller, 0);
	} else if (!strcmp(word, "again")) {
		again = true;
		thread(granter, 1);
	} else {
		return false;
	}
	return true;
}

int main(int argc, char **argv)
{
	what.shared = &world;
	what.size = sizeof(world);
	what.begin = begin;
	read_words(argc, argv, parse);
	return explore_all();
}
