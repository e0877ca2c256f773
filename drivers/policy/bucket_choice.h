/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The policy "bucket": which CPU dispatches, free of the kernel: tests/host runs this
 * code through every interleaving of a few CPUs.
 *
 * A hardware queue has one word: a bit for the dispatch right, and a bit for each bucket
 * that may have commands for the dispatcher. A CPU puts its command in its bucket, then
 * sets its bit and asks for the right in one atomic operation. If it gets the right, it
 * dispatches what all buckets have. If not, the dispatcher finds the bit: it gives the
 * right back by a compare-and-exchange that fails while any bit is set, and looks again.
 * So no command is left behind, whenever its bit was set.
 *
 * A dispatcher stops after a number of commands that are not its own. It then has a
 * worker look at each bucket whose bit is set, and gives the right back.
 *
 * The includer has the atomic operations of the kernel, or others of the same names and
 * ordering, struct smq_cmd, and defines the functions that are declared below.
 */
#ifndef SMQ_BUCKET_CHOICE_H
#define SMQ_BUCKET_CHOICE_H

#ifdef __KERNEL__
#include <linux/atomic.h>
#include <linux/bitops.h>
#include <linux/limits.h>
#include <linux/types.h>
#else
#include <limits.h>
#include <stdbool.h>
#include <strings.h>
#endif

/* Buckets of a hardware queue at most; more CPUs than these share them. */
#define SMQ_BUCKET_MAX		30
/* A dispatcher that has no bucket: a worker, or one that has looked at its own. */
#define SMQ_BUCKET_NONE		SMQ_BUCKET_MAX
/* In the word: a CPU has the dispatch right. The SMQ_BUCKET_MAX bits below are of buckets. */
#define SMQ_BUCKET_HELD		0x40000000

/* The policy has use where a share of this many commands or more was looked at. */
#define SMQ_BUCKET_ENOUGH	64

/**
 * struct smq_bucket - who dispatches for a hardware queue
 * @word: SMQ_BUCKET_HELD and a bit for each bucket; atomic because every CPU that
 *	queues a command reads it and may write it
 * @next: the bucket that the dispatcher looks at first, so that each has its turn;
 *	changed by the CPU that has the right, as are the next two
 * @all: commands dispatched; wraps
 * @foreign: of these, dispatched by another CPU than the one that queued them
 */
struct smq_bucket {
	atomic_t word;
	unsigned int next;
	unsigned int all;
	unsigned int foreign;
};

struct smq_cmd;

/* What the includer defines. Whether a bucket is empty; a glance, by the CPU that has it. */
static bool smq_bucket_is_empty(struct smq_bucket *b, unsigned int bucket);
/* Adds a command to a bucket, behind those that are in it. */
static void smq_bucket_add(struct smq_bucket *b, unsigned int bucket, struct smq_cmd *cmd);
/* Takes commands from a bucket, in order, at most so many. Returns how many. */
static unsigned int smq_bucket_take(struct smq_bucket *b, unsigned int bucket, unsigned int most);
/* Takes a command that is in no bucket. */
static void smq_bucket_take_one(struct smq_bucket *b, struct smq_cmd *cmd);
/* Gives the LLD what was taken, in that order. With the right, as the two before. */
static void smq_bucket_issue(struct smq_bucket *b);
/* Has a worker call smq_bucket_work() for each bucket of a mask that is not empty. */
static void smq_bucket_kick(struct smq_bucket *b, unsigned int buckets);

/* The right, if no CPU has it and no bucket has commands: for one that is in no bucket. */
static inline bool smq_bucket_try(struct smq_bucket *b)
{
	return !atomic_read(&b->word) &&
	       /* Fully ordered: what the last dispatcher did is seen. */
	       atomic_cmpxchg(&b->word, 0, SMQ_BUCKET_HELD) == 0;
}

/*
 * A bucket has got a command, and the block layer's batch is over: true if the caller is
 * the dispatcher now. If not, the dispatcher there is will look at the bucket.
 */
static inline bool smq_bucket_enter(struct smq_bucket *b, unsigned int bucket)
{
	int both = SMQ_BUCKET_HELD | 1 << bucket;

	/*
	 * The command is in the bucket before the word is read. Pairs with the exchange in
	 * smq_bucket_run(): if both bits are still set here, that comes later, and the
	 * dispatcher sees the command. It spares all but the first the line of the word.
	 */
	smp_mb();
	if ((atomic_read(&b->word) & both) == both)
		return false;
	/* Fully ordered, for the same reason. */
	return !(atomic_fetch_or(both, &b->word) & SMQ_BUCKET_HELD);
}

/*
 * A bucket has got a command that more of the block layer's batch follow. A dispatcher
 * takes it along; if there is none, the end of the batch brings one, on whatever CPU.
 */
static inline void smq_bucket_mark(struct smq_bucket *b, unsigned int bucket)
{
	/* As in smq_bucket_enter(). */
	smp_mb();
	if (!(atomic_read(&b->word) & 1 << bucket))
		atomic_or(1 << bucket, &b->word);
}

/* The bucket of a mask whose turn it is. */
static inline unsigned int smq_bucket_turn(const struct smq_bucket *b, unsigned int mask)
{
	unsigned int from = mask & -(1U << b->next);

	return ffs(from ? from : mask) - 1;
}

/*
 * Takes from the buckets of a mask until @left others' commands are taken. What @own
 * has, unless it is SMQ_BUCKET_NONE, comes first and does not count. Returns the buckets
 * that may have more.
 */
static inline unsigned int smq_bucket_round(struct smq_bucket *b, unsigned int mask,
					    unsigned int own, unsigned int *left)
{
	if (own != SMQ_BUCKET_NONE) {
		b->all += smq_bucket_take(b, own, UINT_MAX);
		mask &= ~(1U << own);
	}
	while (mask && *left) {
		unsigned int bucket = smq_bucket_turn(b, mask);
		unsigned int taken = smq_bucket_take(b, bucket, *left);

		b->next = bucket + 1 < SMQ_BUCKET_MAX ? bucket + 1 : 0;
		b->all += taken;
		b->foreign += taken;
		*left -= taken;
		/* A bucket that gave less than it might has no more. */
		if (*left)
			mask &= ~(1U << bucket);
	}
	return mask;
}

/*
 * Dispatches, by the CPU that has the right, until no bucket has commands or @budget
 * commands were dispatched that are not in the caller's bucket, @own, when it begins.
 */
static inline void smq_bucket_run(struct smq_bucket *b, unsigned int own, unsigned int budget)
{
	unsigned int left = budget, rest;

	do {
		/*
		 * Fully ordered: commands whose bits were set before this are seen in their
		 * buckets, bits that are set after it are found below.
		 */
		rest = atomic_xchg(&b->word, SMQ_BUCKET_HELD) & ~SMQ_BUCKET_HELD;
		rest = smq_bucket_round(b, rest, own, &left);
		own = SMQ_BUCKET_NONE;
		smq_bucket_issue(b);
		/* Fully ordered: the next dispatcher sees what this one did. */
		if (!rest && atomic_cmpxchg(&b->word, SMQ_BUCKET_HELD, 0) == SMQ_BUCKET_HELD)
			return;
	} while (left);

	if (rest)
		atomic_or(rest, &b->word);
	/* Fully ordered, as above. Bits that others have set meanwhile are among these. */
	rest = atomic_fetch_andnot(SMQ_BUCKET_HELD, &b->word) & ~SMQ_BUCKET_HELD;
	smq_bucket_kick(b, rest);
}

/*
 * A command comes, on a CPU that has the bucket @own; @last: no more commands of the
 * block layer's batch follow at once. @budget: see smq_bucket_run().
 */
static inline void smq_bucket_submit(struct smq_bucket *b, unsigned int own, struct smq_cmd *cmd,
				     bool last, unsigned int budget)
{
	/* What is in the own bucket goes first. */
	if (last && smq_bucket_is_empty(b, own) && smq_bucket_try(b)) {
		b->all++;
		smq_bucket_take_one(b, cmd);
		smq_bucket_issue(b);
		/* Fully ordered: the next dispatcher sees what this one did. */
		if (atomic_cmpxchg(&b->word, SMQ_BUCKET_HELD, 0) != SMQ_BUCKET_HELD)
			smq_bucket_run(b, SMQ_BUCKET_NONE, budget);
		return;
	}
	smq_bucket_add(b, own, cmd);
	if (!last)
		smq_bucket_mark(b, own);
	else if (smq_bucket_enter(b, own))
		smq_bucket_run(b, own, budget);
}

/* The block layer's batch is over, and its last command is in no bucket. */
static inline void smq_bucket_end(struct smq_bucket *b, unsigned int budget)
{
	int word = atomic_read(&b->word);

	/* A dispatcher that there is finds the bits of this batch, which this task has set. */
	if (word && !(word & SMQ_BUCKET_HELD) &&
	    !(atomic_fetch_or(SMQ_BUCKET_HELD, &b->word) & SMQ_BUCKET_HELD))
		smq_bucket_run(b, SMQ_BUCKET_NONE, budget);
}

/* A worker looks at a bucket that is not empty, and at the others. */
static inline void smq_bucket_work(struct smq_bucket *b, unsigned int bucket, unsigned int budget)
{
	if (smq_bucket_enter(b, bucket))
		smq_bucket_run(b, SMQ_BUCKET_NONE, budget);
}

/*
 * Whether the policy pays, by what was dispatched since it was last asked: @before, or
 * what it said then, where that was too little to tell. @share: pays from one command of
 * so many on that another CPU dispatched; 0: always.
 */
static inline bool smq_bucket_pays(unsigned int all, unsigned int foreign, unsigned int share,
				   bool before)
{
	if (!share)
		return true;
	if (all < SMQ_BUCKET_ENOUGH)
		return before;
	return foreign >= all / share;
}

#endif /* SMQ_BUCKET_CHOICE_H */
