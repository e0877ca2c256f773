/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The policy "bucket": which CPU dispatches. This code does not depend on the kernel:
 * tests/host runs it through every interleaving of a few CPUs.
 *
 * A hardware queue has one word: a bit for the dispatch right, and a bit for each bucket
 * that may have commands for the dispatcher. A CPU that finds no bit set takes the right, and
 * its command goes to the LLD at once, as without a policy. Otherwise it puts the command in
 * its bucket, then sets its bit and asks for the right in one atomic operation. If it gets
 * the right, it dispatches what all buckets have. If not, the dispatcher finds the bit: it
 * gives the right back by a compare-and-exchange that fails while any bit is set, and looks
 * again. So no command is left behind, whenever its bit was set.
 *
 * A third kind of bit asks for the doorbell. The last command of a batch of the block layer
 * may be in a bucket while others of that batch have gone to the LLD. The dispatcher rings
 * the doorbell for these even if it finds the bucket empty because the last command was
 * aborted.
 *
 * A dispatcher stops after a number of commands that are not its own. It then gives the
 * right back, and starts a worker for each bucket whose bit is set.
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
/* For a dispatcher that has no bucket of its own: a worker, or a CPU that has emptied its own. */
#define SMQ_BUCKET_NONE		SMQ_BUCKET_MAX
/* A bit of smq_bucket.word: a CPU has the dispatch right. */
#define SMQ_BUCKET_HELD		0x40000000
/* Another: the LLD has commands without a doorbell. The SMQ_BUCKET_MAX bits below are buckets'. */
#define SMQ_BUCKET_COMMIT	0x20000000

/* Whether the policy pays is judged by this many commands or more. */
#define SMQ_BUCKET_ENOUGH	64

/**
 * struct smq_bucket - which CPU dispatches for a hardware queue
 * @word: SMQ_BUCKET_HELD, SMQ_BUCKET_COMMIT and a bit for each bucket; atomic because every
 *	CPU that queues a command reads it and may write it
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

/*
 * The includer defines this function and the next four. Returns whether a bucket is empty; reads it
 * without a lock, on the CPU whose bucket it is.
 */
static bool smq_bucket_is_empty(struct smq_bucket *b, unsigned int bucket);
/* Adds a command to a bucket, behind those that are in it. */
static void smq_bucket_add(struct smq_bucket *b, unsigned int bucket, struct smq_cmd *cmd);
/* Takes up to @most commands from a bucket, in order. Returns how many. */
static unsigned int smq_bucket_take(struct smq_bucket *b, unsigned int bucket, unsigned int most);
/*
 * Gives the LLD the commands that were taken, in that order, and rings the doorbell; with @commit
 * rings it even if no command was taken. Called with the right, as smq_bucket_take() is.
 */
static void smq_bucket_issue(struct smq_bucket *b, bool commit);
/* Makes a worker call smq_bucket_work() for each bucket of a mask. */
static void smq_bucket_kick(struct smq_bucket *b, unsigned int buckets);

/*
 * A command comes, on a CPU that has the bucket @own. Returns true if the caller has got the right:
 * it gives the command to the LLD at once, and then calls smq_bucket_passed(). Returns false also
 * if there are commands in @own, which go first.
 */
static inline bool smq_bucket_pass(struct smq_bucket *b, unsigned int own)
{
	/* Fully ordered: what the last dispatcher did is seen. */
	if (atomic_read(&b->word) || !smq_bucket_is_empty(b, own) ||
	    atomic_cmpxchg(&b->word, 0, SMQ_BUCKET_HELD) != 0)
		return false;
	b->all++;
	return true;
}

/*
 * A bucket has got a command, and the block layer's batch is over. Returns true if the caller is
 * the dispatcher now. If not, the present dispatcher will look at the bucket. @commit: 0, or
 * SMQ_BUCKET_COMMIT if the dispatcher has to ring the doorbell in any case.
 */
static inline bool smq_bucket_enter(struct smq_bucket *b, unsigned int bucket, int commit)
{
	int all = SMQ_BUCKET_HELD | commit | 1 << bucket;

	/*
	 * The command is in the bucket before the word is read. Pairs with the exchange in
	 * smq_bucket_run(): if all bits are still set here, that exchange comes later, and the
	 * dispatcher sees the command. So only the first CPU has to write the word.
	 */
	smp_mb();
	if ((atomic_read(&b->word) & all) == all)
		return false;
	/* Fully ordered, for the same reason. */
	return !(atomic_fetch_or(all, &b->word) & SMQ_BUCKET_HELD);
}

/*
 * A bucket has got a command, and more commands of the block layer's batch follow. If there is a
 * dispatcher, it takes the command as well; if not, the CPU on which the batch ends becomes the
 * dispatcher.
 */
static inline void smq_bucket_mark(struct smq_bucket *b, unsigned int bucket)
{
	/* As in smq_bucket_enter(). */
	smp_mb();
	if (!(atomic_read(&b->word) & 1 << bucket))
		atomic_or(1 << bucket, &b->word);
}

/* Returns the bucket of a mask whose turn it is. */
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
		b->foreign += taken;
		*left -= taken;
		/* If not as many as asked for were taken, the bucket is empty. */
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
		 * Fully ordered: commands whose bits were set before this are seen in their
		 * buckets, bits that are set after it are found below.
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
	/* Fully ordered, as above. Bits that others have set meanwhile are among these. */
	rest = atomic_fetch_andnot(SMQ_BUCKET_HELD, &b->word);
	smq_bucket_kick(b, rest & ~(SMQ_BUCKET_HELD | SMQ_BUCKET_COMMIT));
}

/* The LLD has the command that smq_bucket_pass() was called for, or has refused it. */
static inline void smq_bucket_passed(struct smq_bucket *b, unsigned int budget)
{
	/* Fully ordered: the next dispatcher sees what this one did. */
	if (atomic_cmpxchg(&b->word, SMQ_BUCKET_HELD, 0) != SMQ_BUCKET_HELD)
		smq_bucket_run(b, SMQ_BUCKET_NONE, budget);
}

/*
 * Takes a command that does not go to the LLD at once, on a CPU that has the bucket @own. @last: no
 * more commands of the block layer's batch follow. @uncommitted, with @last: others of the batch
 * may have gone to the LLD without a doorbell. @budget: see smq_bucket_run().
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

/* The block layer's batch is over, and its last command is in no bucket. */
static inline void smq_bucket_end(struct smq_bucket *b, unsigned int budget)
{
	int word = atomic_read(&b->word);

	/* If there is a dispatcher, it finds the bits of this batch, which this task has set. */
	if (word && !(word & SMQ_BUCKET_HELD) &&
	    !(atomic_fetch_or(SMQ_BUCKET_HELD, &b->word) & SMQ_BUCKET_HELD))
		smq_bucket_run(b, SMQ_BUCKET_NONE, budget);
}

/* For a worker: dispatches the commands of a bucket, and those of the others. */
static inline void smq_bucket_work(struct smq_bucket *b, unsigned int bucket, unsigned int budget)
{
	if (smq_bucket_enter(b, bucket, 0))
		smq_bucket_run(b, SMQ_BUCKET_NONE, budget);
}

/*
 * Whether the policy pays, judged by the commands that were dispatched since the last call. If
 * these are too few, returns @before, the result of the last call. @share: the policy pays if at
 * least one command in @share was dispatched by another CPU; 0: always.
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
