/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The policy "bucket": which CPU dispatches. This code does not depend on the kernel:
 * tests/host runs it through every interleaving of a few CPUs.
 *
 * A hardware queue has one word: a bit for the right to dispatch, and a bit for each bucket that
 * may have commands for the dispatcher. If a CPU finds no bit set, it takes the right, and its
 * command goes to the LLD at once, as without a policy. If a bit is set, the CPU puts the command
 * into its bucket. Then it sets the bucket's bit and asks for the right in one atomic operation. If
 * the CPU gets the right, it dispatches the commands of all buckets. If not, the present dispatcher
 * finds the bit: it gives the right back by a compare-and-exchange that fails while any other bit
 * is set. If this fails, the dispatcher dispatches once more. So no command is left behind,
 * whenever its bit was set.
 *
 * One more bit asks for the doorbell. The last command of a batch of the block layer may be in a
 * bucket while the LLD has others of that batch, without a doorbell. The bit makes the dispatcher
 * ring the doorbell for these, even if the bucket is empty because the last command was aborted.
 *
 * A dispatcher stops after a number of commands of other CPUs, its budget. It then gives the right
 * back, and starts a worker for each bucket whose bit is set.
 *
 * The file that includes this one provides struct smq_cmd, and the kernel's atomic operations or
 * others with the same names and ordering. It defines the functions that are declared below.
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

/* The most buckets that a hardware queue has. If there are more CPUs, CPUs share buckets. */
#define SMQ_BUCKET_MAX		29
/* The value of @own for a worker, and for a CPU that has emptied its bucket. */
#define SMQ_BUCKET_NONE		SMQ_BUCKET_MAX
/* A bit of smq_bucket.word: a CPU has the right to dispatch. */
#define SMQ_BUCKET_HELD		0x40000000
/*
 * Another bit: the LLD has commands without a doorbell. Each of the SMQ_BUCKET_MAX lower bits is
 * for a bucket.
 */
#define SMQ_BUCKET_COMMIT	0x20000000

/* smq_bucket_pays() needs at least this many commands to decide. */
#define SMQ_BUCKET_ENOUGH	64

/**
 * struct smq_bucket - which CPU dispatches for a hardware queue
 * @word: SMQ_BUCKET_HELD, SMQ_BUCKET_COMMIT and a bit for each bucket; atomic because every
 *	CPU that queues a command reads it and may write it
 * @next: the bucket that the dispatcher looks at first, so that each has its turn; only the
 *	dispatcher changes this field and the next two
 * @all: commands dispatched; wraps
 * @by_other: of @all, those that another CPU than the one that queued them has dispatched
 */
struct smq_bucket {
	atomic_t word;
	unsigned int next;
	unsigned int all;
	unsigned int by_other;
};

struct smq_cmd;

/*
 * The file that includes this one defines this function and the next four. Returns whether a bucket
 * is empty; reads the bucket without a lock, on the CPU whose bucket it is.
 */
static bool smq_bucket_is_empty(struct smq_bucket *b, unsigned int bucket);
/* Adds a command at the end of a bucket. */
static void smq_bucket_add(struct smq_bucket *b, unsigned int bucket, struct smq_cmd *cmd);
/* Takes up to @most commands from a bucket, in order. Returns how many. */
static unsigned int smq_bucket_take(struct smq_bucket *b, unsigned int bucket, unsigned int most);
/*
 * Gives the LLD the commands that were taken, in that order, and rings the doorbell. With @commit
 * it rings the doorbell even if no command was taken. Only the dispatcher calls this function and
 * smq_bucket_take().
 */
static void smq_bucket_issue(struct smq_bucket *b, bool commit);
/* Makes a worker call smq_bucket_work() for each bucket of a mask. */
static void smq_bucket_kick(struct smq_bucket *b, unsigned int buckets);

/*
 * Tries to let a new command pass, on a CPU with the bucket @own. Returns true if the caller has
 * got the right: it gives the command to the LLD at once and then calls smq_bucket_end_pass().
 * Returns false if any bit of the word is set, or if there are commands in @own: these go first.
 */
static inline bool smq_bucket_try_pass(struct smq_bucket *b, unsigned int own)
{
	/* Fully ordered: this CPU sees what the last dispatcher did. */
	if (atomic_read(&b->word) || !smq_bucket_is_empty(b, own) ||
	    atomic_cmpxchg(&b->word, 0, SMQ_BUCKET_HELD) != 0)
		return false;
	b->all++;
	return true;
}

/*
 * Called when a bucket has got a command and the block layer's batch is over. Returns true if the
 * caller is the dispatcher now. If not, the present dispatcher will look at the bucket. @commit: 0,
 * or SMQ_BUCKET_COMMIT if the dispatcher has to ring the doorbell in any case.
 */
static inline bool smq_bucket_enter(struct smq_bucket *b, unsigned int bucket, int commit)
{
	int all = SMQ_BUCKET_HELD | commit | 1 << bucket;

	/*
	 * The command is in the bucket before the word is read. Pairs with the exchange in
	 * smq_bucket_run(): if all bits are still set here, that exchange comes later, and the
	 * dispatcher sees the command. So this CPU need not write the word again.
	 */
	smp_mb();
	if ((atomic_read(&b->word) & all) == all)
		return false;
	/* Fully ordered, for the same reason. */
	return !(atomic_fetch_or(all, &b->word) & SMQ_BUCKET_HELD);
}

/*
 * Called when a bucket has got a command and more commands of the block layer's batch follow. If
 * there is a dispatcher, it dispatches this command, too. If not, the CPU on which the batch ends
 * becomes the dispatcher.
 */
static inline void smq_bucket_mark(struct smq_bucket *b, unsigned int bucket)
{
	/* As in smq_bucket_enter(). */
	smp_mb();
	if (!(atomic_read(&b->word) & 1 << bucket))
		atomic_or(1 << bucket, &b->word);
}

/* Returns the bucket whose turn it is, of those in @mask. */
static inline unsigned int smq_bucket_turn(const struct smq_bucket *b, unsigned int mask)
{
	unsigned int from = mask & -(1U << b->next);

	return ffs(from ? from : mask) - 1;
}

/*
 * Takes commands from the buckets of a mask until @left commands of other CPUs are taken. The
 * commands in bucket @own, unless that is SMQ_BUCKET_NONE, come first and do not count. Returns the
 * buckets that may have more.
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
		b->by_other += taken;
		*left -= taken;
		/* If the bucket had fewer commands than @left, it is empty now. */
		if (*left)
			mask &= ~(1U << bucket);
	}
	return mask;
}

/*
 * Dispatches until no bucket has commands, or until @budget commands were dispatched. Commands
 * that are in the caller's bucket, @own, at the start do not count. The caller has the right.
 */
static inline void smq_bucket_run(struct smq_bucket *b, unsigned int own, unsigned int budget)
{
	unsigned int left = budget, rest;
	bool commit;

	do {
		/*
		 * Fully ordered: if a bit was set before the exchange, this CPU sees the command in
		 * its bucket; if it is set later, the compare-and-exchange below finds it.
		 */
		rest = atomic_xchg(&b->word, SMQ_BUCKET_HELD) & ~SMQ_BUCKET_HELD;
		commit = rest & SMQ_BUCKET_COMMIT;
		rest = smq_bucket_round(b, rest & ~SMQ_BUCKET_COMMIT, own, &left);
		own = SMQ_BUCKET_NONE;
		smq_bucket_issue(b, commit);
		/* Fully ordered: the next dispatcher sees what this one did. */
		if (!rest && atomic_cmpxchg(&b->word, SMQ_BUCKET_HELD, 0) == SMQ_BUCKET_HELD)
			return;
	} while (left);

	if (rest)
		atomic_or(rest, &b->word);
	/* Fully ordered, as above. The result includes bits that other CPUs have set meanwhile. */
	rest = atomic_fetch_andnot(SMQ_BUCKET_HELD, &b->word);
	smq_bucket_kick(b, rest & ~(SMQ_BUCKET_HELD | SMQ_BUCKET_COMMIT));
}

/*
 * Gives the right back: the LLD has taken or refused the command that smq_bucket_try_pass() let
 * pass.
 */
static inline void smq_bucket_end_pass(struct smq_bucket *b, unsigned int budget)
{
	/* Fully ordered: the next dispatcher sees what this one did. */
	if (atomic_cmpxchg(&b->word, SMQ_BUCKET_HELD, 0) != SMQ_BUCKET_HELD)
		smq_bucket_run(b, SMQ_BUCKET_NONE, budget);
}

/*
 * Puts a command into the bucket of this CPU, @own, and makes sure that it is dispatched. @last: no
 * more commands of the block layer's batch follow. @uncommitted, with @last: the LLD may have
 * earlier commands of the batch without a doorbell. @budget: see smq_bucket_run().
 */
static inline void smq_bucket_submit(struct smq_bucket *b, unsigned int own, struct smq_cmd *cmd,
				     bool last, bool uncommitted, unsigned int budget)
{
	smq_bucket_add(b, own, cmd);
	if (!last)
		smq_bucket_mark(b, own);
	else if (smq_bucket_enter(b, own, uncommitted ? SMQ_BUCKET_COMMIT : 0))
		smq_bucket_run(b, own, budget);
}

/* Called when the block layer's batch is over and its last command is in no bucket. */
static inline void smq_bucket_end(struct smq_bucket *b, unsigned int budget)
{
	int word = atomic_read(&b->word);

	/* If there is a dispatcher, it finds the bits that this task has set for its batch. */
	if (word && !(word & SMQ_BUCKET_HELD) &&
	    !(atomic_fetch_or(SMQ_BUCKET_HELD, &b->word) & SMQ_BUCKET_HELD))
		smq_bucket_run(b, SMQ_BUCKET_NONE, budget);
}

/* Called by a worker: dispatches the commands of a bucket, and those of all others. */
static inline void smq_bucket_work(struct smq_bucket *b, unsigned int bucket, unsigned int budget)
{
	if (smq_bucket_enter(b, bucket, 0))
		smq_bucket_run(b, SMQ_BUCKET_NONE, budget);
}

/*
 * Whether the policy pays, to judge by the commands since the last call: @all were dispatched,
 * @by_other of these by another CPU. If @all is too small, returns @before, the result of the last
 * call. @share: the policy pays if at least one command in @share is by_other; 0: it always pays.
 */
static inline bool smq_bucket_pays(unsigned int all, unsigned int by_other, unsigned int share,
				   bool before)
{
	if (!share)
		return true;
	if (all < SMQ_BUCKET_ENOUGH)
		return before;
	return by_other >= all / share;
}

#endif /* SMQ_BUCKET_CHOICE_H */
