/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The choices of the policy "batch". This code does not depend on the kernel: tests/host runs it in
 * user space. Callers serialise the calls by the lock of struct smq_hold, and pass counts and
 * times.
 *
 * Holding commands pays if the doorbell is expensive. So the policy measures the doorbell's cost:
 * now and then it gives one command to the LLD alone, and times its commit. Noise can only make a
 * sample larger, so the smallest of the last few samples counts.
 */
#ifndef SMQ_BATCH_CHOICE_H
#define SMQ_BATCH_CHOICE_H

#ifdef __KERNEL__
#include <linux/types.h>
#else
#include <stdbool.h>
#endif

/* Commands are held once a doorbell costs EXPENSIVE, and until it costs less than CHEAP, in ns. */
#define SMQ_BATCH_EXPENSIVE_NS	1000
#define SMQ_BATCH_CHEAP_NS	700
#define SMQ_BATCH_SAMPLES	4
/* Batches from one sample to the next; the first few samples are taken sooner. */
#define SMQ_BATCH_EVERY		256
#define SMQ_BATCH_EVERY_FIRST	8
/* At most 1/SHARE of the commands that a device usually has is held. */
#define SMQ_BATCH_SHARE		3
/* The largest sample, in ns: if the time was longer, the CPU was interrupted. */
#define SMQ_BATCH_SAMPLE_MAX	1000000000U

/**
 * struct smq_batch - state of the choice for a hardware queue
 * @cost: the last samples: time that a doorbell took, in ns
 * @nr_samples: how many of these are valid, up to SMQ_BATCH_SAMPLES
 * @next: index of the sample that the next one replaces
 * @batches: number of batches since the last sample
 * @peak: the largest number of commands, held and in flight; decreases a little with each batch
 * @run: number of commands so far in the block layer's present batch
 * @natural: number of commands in the block layer's last complete batch
 * @look: how many samples are to be taken soon
 * @expensive: the doorbell is expensive, so it may pay to hold commands
 * @pass: commands pass all the same, because the policy is slower or is being compared
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
	bool pass;
};

/**
 * struct smq_batch_now - the state after a command was held, that command included
 * @held: commands held
 * @bytes: data of the held commands, in bytes
 * @inflight: commands with the device
 * @last: the command was the last of the block layer's batch
 */
struct smq_batch_now {
	unsigned int held;
	unsigned int bytes;
	unsigned int inflight;
	bool last;
};

/* What to do with the held commands. */
enum smq_batch_choice {
	SMQ_BATCH_WAIT,		/* keep them until more commands come, or their time is over */
	SMQ_BATCH_GO,		/* give all of them to the LLD */
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

/* Counts a batch, held or not. Returns whether its doorbell is to be timed. */
static inline bool smq_batch_sample_due(struct smq_batch *b)
{
	bool soon = b->look || b->nr_samples < SMQ_BATCH_SAMPLES;
	unsigned int every = soon ? SMQ_BATCH_EVERY_FIRST : SMQ_BATCH_EVERY;

	if (++b->batches < every)
		return 0;
	b->batches = 0;
	return 1;
}

/*
 * A look begins: no samples were taken for a while. Makes the next batch a sample, and a few
 * batches soon after it.
 */
static inline void smq_batch_look(struct smq_batch *b)
{
	b->look = SMQ_BATCH_SAMPLES;
	b->batches = SMQ_BATCH_EVERY_FIRST - 1;
}

/* Stores a sample. The doorbell counts as expensive only once all samples say so. */
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

/* Whether commands are held. */
static inline bool smq_batch_holds(const struct smq_batch *b)
{
	return b->expensive && !b->pass;
}

/*
 * Whether a new command goes to the LLD without being held: always while none is held at all. If
 * doorbells are expensive, only while the block layer's batches are large: the commands of such a
 * batch share one doorbell already, and to hold them would cost more than it gains.
 */
static inline bool smq_batch_passes(struct smq_batch *b, unsigned int max_held, bool last)
{
	bool large = 2 * b->natural >= max_held;

	if (!smq_batch_holds(b))
		return 1;
	b->run++;
	if (last) {
		b->natural = b->run;
		b->run = 0;
	}
	return large && max_held > 1;
}

/*
 * What to do after a command was held. An idle device gets all held commands with the last one of
 * the block layer's batch. For a busy device up to a third of its usual commands is held, rounded
 * down: if it has fewer than six, none is held. A device that takes equally long for each command
 * completes them in the groups in which it got them. A remainder that does not fill a group waits
 * until the next group has completed, and delays all later groups. Rounding down keeps that
 * remainder at two commands at most; rounding up would make it up to a third of all commands.
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
		 (smq_batch_holds(b) && now->inflight && now->held < b->peak / SMQ_BATCH_SHARE))
		choice = SMQ_BATCH_WAIT;
	if (choice == SMQ_BATCH_GO)
		b->peak -= (b->peak - all + 7) / 8;
	return choice;
}

#endif /* SMQ_BATCH_CHOICE_H */
