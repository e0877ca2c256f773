/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The policy "bucket": which CPU rings the doorbell. This code does not depend on the kernel:
 * tests/host runs it through every interleaving of a few CPUs.
 *
 * A hardware queue has one word. A CPU whose command the LLD has got sets SMQ_BUCKET_RINGING, rings
 * the doorbell, and clears the bit. A CPU that finds the bit set sets SMQ_BUCKET_AGAIN and leaves:
 * the other CPU clears its own bit by a compare-and-exchange, which fails while SMQ_BUCKET_AGAIN is
 * set. Then it rings once more, for all CPUs that have left meanwhile.
 *
 * A CPU stops after a number of doorbells, its budget: it clears the word, and only then rings for
 * the last time. If another CPU had left before, that doorbell is for it, too; a later one finds
 * the word clear and rings itself. So no command is left behind, and no worker is needed.
 *
 * The file that includes this one provides the kernel's atomic operations, or others with the same
 * names and ordering, and defines the function that is declared below.
 */
#ifndef SMQ_BUCKET_CHOICE_H
#define SMQ_BUCKET_CHOICE_H

#ifdef __KERNEL__
#include <linux/atomic.h>
#include <linux/types.h>
#else
#include <stdbool.h>
#endif

/* Bits of smq_bucket.word: a CPU rings the doorbell; it has to ring once more. */
#define SMQ_BUCKET_RINGING	1
#define SMQ_BUCKET_AGAIN	2

/* smq_bucket_pays() needs at least this many doorbells to decide. */
#define SMQ_BUCKET_ENOUGH	64

/**
 * struct smq_bucket - who rings a hardware queue's doorbell
 * @word: the bits above; atomic because every CPU that has a doorbell to ring reads it and may
 *	write it
 * @rung: doorbells rung; wraps. Only the CPU that rings changes this and @shared; the last one
 *	of a budget is not counted
 * @shared: of @rung, those that were rung for other CPUs
 */
struct smq_bucket {
	atomic_t word;
	unsigned int rung;
	unsigned int shared;
};

/* Rings the hardware queue's doorbell. */
static void smq_bucket_doorbell(struct smq_bucket *b);

/* Whether the caller is to ring the doorbell for a command that the LLD has got. */
static inline bool smq_bucket_begin(struct smq_bucket *b)
{
	/* Fully ordered: this CPU sees what the last one did. */
	if (!atomic_read(&b->word) && !atomic_cmpxchg(&b->word, 0, SMQ_BUCKET_RINGING))
		return true;
	/*
	 * The LLD has the command before the word is read. Pairs with the exchange in
	 * smq_bucket_ring(): if both bits are set here, that exchange comes later, and the doorbell
	 * after it is for this command, too. So this CPU need not write the word.
	 */
	smp_mb();
	if (atomic_read(&b->word) == (SMQ_BUCKET_RINGING | SMQ_BUCKET_AGAIN))
		return false;
	/* Fully ordered, for the same reason. */
	return !(atomic_fetch_or(SMQ_BUCKET_RINGING | SMQ_BUCKET_AGAIN, &b->word) &
		 SMQ_BUCKET_RINGING);
}

/* Makes sure that the doorbell is rung for a command that the LLD has got. */
static inline void smq_bucket_ring(struct smq_bucket *b, unsigned int budget)
{
	unsigned int rung = 0;

	if (!smq_bucket_begin(b))
		return;
	do {
		smq_bucket_doorbell(b);
		/* WRITE_ONCE: the policy reads the counters without the right to ring. */
		WRITE_ONCE(b->shared, b->shared + !!rung++);
		WRITE_ONCE(b->rung, b->rung + 1);
		/* Fully ordered: the next CPU sees what this one did. */
		if (atomic_cmpxchg(&b->word, SMQ_BUCKET_RINGING, 0) == SMQ_BUCKET_RINGING)
			return;
		/*
		 * Fully ordered: if SMQ_BUCKET_AGAIN was set before the exchange, the LLD has that
		 * command; if it is set later, the compare-and-exchange above finds it.
		 */
	} while (rung < budget && atomic_xchg(&b->word, SMQ_BUCKET_RINGING));
	/* Fully ordered, as above. */
	atomic_xchg(&b->word, 0);
	smq_bucket_doorbell(b);
}

/*
 * Whether the policy pays, to judge by the doorbells since the last call: @rung, of these @shared
 * for other CPUs. If @rung is too small, returns @before, the result of the last call. @share: the
 * policy pays if at least one doorbell in @share is for other CPUs; 0: it always pays.
 */
static inline bool smq_bucket_pays(unsigned int rung, unsigned int shared, unsigned int share,
				   bool before)
{
	if (!share)
		return true;
	if (rung < SMQ_BUCKET_ENOUGH)
		return before;
	return shared >= rung / share;
}

#endif /* SMQ_BUCKET_CHOICE_H */
