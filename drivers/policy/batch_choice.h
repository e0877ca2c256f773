/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The choices of the policy "batch", free of the kernel: tests/host drives them
 * in user space. Callers serialise (the lock of struct smq_hold) and bring the
 * figures.
 *
 * Holding pays where the doorbell is expensive, so its cost is measured: now and then
 * one command is given to the LLD alone and its commit timed. Noise only ever
 * adds, so the least of the last few samples counts.
 */
#ifndef SMQ_BATCH_CHOICE_H
#define SMQ_BATCH_CHOICE_H

#ifdef __KERNEL__
#include <linux/types.h>
#else
#include <stdbool.h>
#endif

/* Commands are held for a doorbell of EXPENSIVE, and no longer for one below CHEAP, in ns. */
#define SMQ_BATCH_EXPENSIVE_NS	1000
#define SMQ_BATCH_CHEAP_NS	700
#define SMQ_BATCH_SAMPLES	4
/* Batches between two samples: the first few come soon, to know where we are. */
#define SMQ_BATCH_EVERY		256
#define SMQ_BATCH_EVERY_FIRST	8
/* What a sample can say at most: more was an interruption. */
#define SMQ_BATCH_SAMPLE_MAX	1000000000U

/**
 * struct smq_batch - what the choice remembers of a hardware queue
 * @cost: the last samples of what a doorbell costs, in ns
 * @nr_samples: of these, valid; SMQ_BATCH_SAMPLES from then on
 * @next: the sample to be replaced next
 * @batches: since the last sample
 * @peak: most commands there were at once, held and in flight; fades with each
 *	batch
 * @run: commands of the block layer's batch that is being queued
 * @natural: how many its last batch had
 * @look: samples that are wanted soon
 * @expensive: holding pays
 */
struct smq_batch {
	unsigned int cost[SMQ_BATCH_SAMPLES];
	unsigned int nr_samples;
	unsigned int next;
	unsigned int batches;
	unsigned int peak;
	unsigned int run;
	unsigned int natural;
	unsigned int look;
	bool expensive;
};

/**
 * struct smq_batch_now - the state a command finds, itself included
 * @held: commands held
 * @bytes: that they move
 * @inflight: commands with the device
 * @last: no more commands follow at once
 */
struct smq_batch_now {
	unsigned int held;
	unsigned int bytes;
	unsigned int inflight;
	bool last;
};

/* What to do with the commands held. */
enum smq_batch_choice {
	SMQ_BATCH_WAIT,		/* for more, or for the time to be over */
	SMQ_BATCH_GO,		/* to the LLD, all of them */
};

/* The cheapest doorbell of the last samples, in ns; 0 if there are none. */
static inline unsigned int smq_batch_cost(const struct smq_batch *b)
{
	unsigned int i, least = b->nr_samples ? b->cost[0] : 0;

	for (i = 1; i < b->nr_samples; i++) {
		if (b->cost[i] < least)
			least = b->cost[i];
	}
	return least;
}

/* A batch begins or passes by: whether its doorbell is to be timed. */
static inline bool smq_batch_sample_due(struct smq_batch *b)
{
	bool soon = b->look || b->nr_samples < SMQ_BATCH_SAMPLES;
	unsigned int every = soon ? SMQ_BATCH_EVERY_FIRST : SMQ_BATCH_EVERY;

	if (++b->batches < every)
		return 0;
	b->batches = 0;
	return 1;
}

/* Nothing was sampled for a while: the next batch is, and some soon after it. */
static inline void smq_batch_look(struct smq_batch *b)
{
	b->look = SMQ_BATCH_SAMPLES;
	b->batches = SMQ_BATCH_EVERY_FIRST - 1;
}

/* Takes a sample. An expensive doorbell is believed after all samples say so. */
static inline void smq_batch_sample(struct smq_batch *b, unsigned long long ns)
{
	unsigned int cost;

	b->cost[b->next] = ns < SMQ_BATCH_SAMPLE_MAX ? ns : SMQ_BATCH_SAMPLE_MAX;
	b->next = (b->next + 1) % SMQ_BATCH_SAMPLES;
	if (b->nr_samples < SMQ_BATCH_SAMPLES)
		b->nr_samples++;
	if (b->look)
		b->look--;
	cost = smq_batch_cost(b);
	if (b->expensive)
		b->expensive = cost >= SMQ_BATCH_CHEAP_NS;
	else
		b->expensive = b->nr_samples == SMQ_BATCH_SAMPLES && cost >= SMQ_BATCH_EXPENSIVE_NS;
}

/*
 * A command comes: whether it may pass though doorbells are expensive. The block layer's
 * own batches share one already where they are large: holding them costs more than
 * it could win.
 */
static inline bool smq_batch_passes(struct smq_batch *b, unsigned int max_held, bool last)
{
	bool large = 2 * b->natural >= max_held;

	if (!b->expensive)
		return 1;
	b->run++;
	if (last) {
		b->natural = b->run;
		b->run = 0;
	}
	return large && max_held > 1;
}

/*
 * What is to be done after a command was held. An idle device is never made to
 * wait. A busy one has at least twice as many commands as are held, of those there
 * usually are: so at low queue depth nothing is held, and the device does not run
 * dry for a batch.
 */
static inline enum smq_batch_choice
smq_batch_choose(struct smq_batch *b, unsigned int max_held, unsigned int max_bytes,
		 const struct smq_batch_now *now)
{
	unsigned int all = now->held + now->inflight;
	enum smq_batch_choice choice = SMQ_BATCH_GO;

	if (all > b->peak)
		b->peak = all;
	if (now->held >= max_held || now->bytes >= max_bytes)
		choice = SMQ_BATCH_GO;
	else if (!now->last ||
		 (b->expensive && now->inflight && now->held < (b->peak - now->held) / 2))
		choice = SMQ_BATCH_WAIT;
	if (choice == SMQ_BATCH_GO)
		b->peak -= (b->peak - all + 7) / 8;
	return choice;
}

#endif /* SMQ_BATCH_CHOICE_H */
