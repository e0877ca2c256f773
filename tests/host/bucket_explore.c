// SPDX-License-Identifier: GPL-2.0
/*
 * Explores the protocol of the policy "bucket" in every interleaving of up to three CPUs. The
 * explored code is the policy's own header; the LLD is a model. Built and run by test_bucket.py.
 *
 * bucket_explore BUDGET COMMANDS...
 *
 * COMMANDS: how many commands a CPU gives to the LLD, one after the other; one number for each CPU.
 * BUDGET: how many doorbells a CPU rings before it leaves.
 */
#include <stdio.h>
#include <stdlib.h>

#include "explore.h"

#define WRITE_ONCE(x, value)	((x) = (value))

#ifndef CHOICE
#define CHOICE	"../../drivers/policy/bucket_choice.h"
#endif
#include CHOICE

#define CPUS		3

/* The state that the threads share. */
static struct {
	struct smq_bucket choice;
	unsigned char unrung;		/* commands that the LLD has, without a doorbell */
	unsigned char rings[CPUS];	/* doorbells that each CPU has rung in its present call */
	unsigned char doorbells;	/* all doorbells */
} world;

static unsigned int budget;
static int cpus;

static void smq_bucket_doorbell(struct smq_bucket *b)
{
	explore_step("doorbell");
	world.unrung = 0;
	world.doorbells++;
	/* One more: the last, after the CPU has left. */
	EXPLORE_EXPECT(++world.rings[explore_self()] <= budget + 1);
}

static void submitter(int commands)
{
	while (commands--) {
		explore_step("queue_cmd");
		world.unrung++;
		smq_bucket_ring(&world.choice, budget);
		world.rings[explore_self()] = 0;
	}
}

static void end(void)
{
	EXPLORE_EXPECT(!world.unrung);
	EXPLORE_EXPECT(!world.choice.word.counter);
	EXPLORE_EXPECT(world.choice.rung <= world.doorbells);
	EXPLORE_EXPECT(world.choice.shared <= world.choice.rung);
}

/* Clears counters on which no later step depends. */
static void forget(void *copy)
{
	struct smq_bucket *b = copy;

	b->rung = 0;
	b->shared = 0;
}

int main(int argc, char **argv)
{
	static struct explore what = {
		.shared = &world,
		.size = sizeof(world),
		.forget = forget,
		.end = end,
	};

	if (argc < 3 || argc > 2 + CPUS)
		return 2;
	budget = atoi(argv[1]);
	for (cpus = 0; cpus < argc - 2; cpus++) {
		what.threads[what.nr].arg = atoi(argv[2 + cpus]);
		what.threads[what.nr++].run = submitter;
	}
	explore(&what);
	printf("%lu states, %lu steps\n", what.states, what.steps);
	return 0;
}
