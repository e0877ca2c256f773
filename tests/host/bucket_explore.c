// SPDX-License-Identifier: GPL-2.0
/*
 * Explores the protocol of the policy "bucket" in every interleaving of up to three CPUs. The
 * explored code is the policy's own header; buckets, their locks and the worker are models. Built
 * and run by test_bucket.py.
 *
 * bucket_explore BUDGET WORKERS ABORT MOVE PATTERN...
 *
 * PATTERN: what a CPU does, one for each CPU. l: it queues the last command of a batch; n: it
 * queues a command that is not the last one; e: it ends a batch without a last command. BUDGET: how
 * many commands of other CPUs a dispatcher may dispatch. WORKERS: how many workers run at once.
 * ABORT: the number of a command that is aborted at any time; -1: none. MOVE: 1: after each command
 * the task moves to the next CPU.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "explore.h"

#ifndef CHOICE
#define CHOICE	"../../drivers/policy/bucket_choice.h"
#endif
#include CHOICE

#define CPUS		3
#define COMMANDS	3
#define ALL		(CPUS * COMMANDS)
#define NOBODY		9

enum place { NOT_YET, IN_BUCKET, TAKEN, ISSUED, ABORTED };

/* A command; its index in cmds[] is its number: CPU * COMMANDS + its place in the CPU's pattern. */
struct smq_cmd {
	char unused;
};

static struct smq_cmd cmds[ALL];

/* The state that the threads share. Lists have commands in the order in which they came. */
static struct {
	struct smq_bucket choice;
	signed char bucket[CPUS][ALL];
	signed char nr[CPUS];
	signed char taken[ALL];
	signed char nr_taken;
	signed char place[ALL];
	signed char issued[CPUS];	/* place in a CPU's pattern after its last issued command */
	/* Commands of other CPUs that each thread has issued in its present call. */
	signed char by_other[EXPLORE_THREADS];
	signed char dispatcher;		/* thread that dispatches, or NOBODY */
	bool kicked[CPUS];
	bool unrung[CPUS];		/* the LLD has commands whose doorbell was not rung */
	bool ended[CPUS];		/* the CPU has submitted its whole pattern */
	bool uncommitted;		/* smq_policy_hwq.uncommitted */
	signed char owing;		/* CPUs in smq_bucket_submit() that took @uncommitted */
} world;

static unsigned int budget;
static int cpus, aborted, move;
static const char *pattern[CPUS];

static bool smq_bucket_is_empty(struct smq_bucket *b, unsigned int i)
{
	explore_step("is_empty");
	return !world.nr[i];
}

static void smq_bucket_add(struct smq_bucket *b, unsigned int i, struct smq_cmd *cmd)
{
	explore_step("add");
	world.bucket[i][world.nr[i]++] = cmd - cmds;
	world.place[cmd - cmds] = IN_BUCKET;
}

/*
 * From the first command that a dispatcher takes to the last one that it issues, no other thread
 * may take commands.
 */
static void take(int cmd)
{
	EXPLORE_EXPECT(world.dispatcher == NOBODY || world.dispatcher == explore_self());
	world.dispatcher = explore_self();
	world.taken[world.nr_taken++] = cmd;
	world.place[cmd] = TAKEN;
}

static unsigned int smq_bucket_take(struct smq_bucket *b, unsigned int i, unsigned int most)
{
	unsigned int nr = 0;

	explore_step("take");
	while (world.nr[i] && nr < most) {
		take(world.bucket[i][0]);
		memmove(world.bucket[i], world.bucket[i] + 1, --world.nr[i]);
		world.bucket[i][world.nr[i]] = 0;
		nr++;
	}
	return nr;
}

static void issue(int cmd)
{
	int cpu = cmd / COMMANDS, self = explore_self();

	EXPLORE_EXPECT(world.place[cmd] == TAKEN);
	world.place[cmd] = ISSUED;
	/* A CPU's commands are issued in order; aborted ones are missing. */
	if (!move)
		EXPLORE_EXPECT(world.issued[cpu] <= cmd % COMMANDS);
	world.issued[cpu] = cmd % COMMANDS + 1;
	if (cpu != self)
		EXPLORE_EXPECT(++world.by_other[self] <= (int)budget || move);
}

static void ring(void)
{
	memset(world.unrung, 0, sizeof(world.unrung));
}

static void smq_bucket_issue(struct smq_bucket *b, bool commit)
{
	int i, nr;

	explore_step("issue");
	nr = world.nr_taken;
	if (nr || commit)
		ring();
	for (i = 0; i < nr; i++) {
		EXPLORE_EXPECT(world.dispatcher == explore_self());
		issue(world.taken[i]);
	}
	memset(world.taken, 0, sizeof(world.taken));
	world.nr_taken = 0;
	world.dispatcher = NOBODY;
}

static void smq_bucket_kick(struct smq_bucket *b, unsigned int buckets)
{
	int i;

	for (i = 0; i < cpus; i++) {
		if (buckets & 1 << i) {
			explore_step("kick");
			world.kicked[i] = true;
		}
	}
}

/* As smq_queue_detour() does with a command that passes. */
static void pass(int cpu, int cmd, bool last)
{
	explore_step("pass");
	EXPLORE_EXPECT(world.place[cmd] == NOT_YET);
	take(cmd);
	explore_step("give");
	issue(cmd);
	world.nr_taken = 0;
	world.taken[0] = 0;
	world.dispatcher = NOBODY;
	world.unrung[cpu] = true;
	if (last)
		ring();
	/* Not a separate step: the mark matters only if this CPU's last command does not pass. */
	world.uncommitted |= !last;
}

/* Reads and clears the mark, as smq_bucket_queue() does. */
static bool take_uncommitted(void)
{
	bool uncommitted;

	explore_step("take uncommitted");
	uncommitted = world.uncommitted;
	world.uncommitted = false;
	return uncommitted;
}

/*
 * Checks that no command of a CPU whose batch is over waits for a doorbell that rings only when
 * another CPU's batch ends.
 */
static void check_rung(void)
{
	int cpu;

	if (world.choice.word.counter || world.owing)
		return;
	for (cpu = 0; cpu < cpus; cpu++)
		EXPLORE_EXPECT(!world.unrung[cpu] || !world.ended[cpu]);
}

static void submitter(int cpu)
{
	struct smq_bucket *b = &world.choice;
	int i, own, cmd;
	bool last, owes;

	for (i = 0; pattern[cpu][i]; i++) {
		own = move ? (cpu + i) % cpus : cpu;
		cmd = cpu * COMMANDS + i;
		last = pattern[cpu][i] == 'l';
		if (pattern[cpu][i] == 'e') {
			smq_bucket_end(b, budget);
			explore_step("commit_rqs");
			check_rung();
			ring();
		} else if (smq_bucket_try_pass(b, own)) {
			pass(cpu, cmd, last);
			smq_bucket_end_pass(b, budget);
		} else {
			owes = last && take_uncommitted();
			world.owing += owes;
			smq_bucket_submit(b, own, &cmds[cmd], last, owes, budget);
			world.owing -= owes;
		}
		world.by_other[cpu] = 0;
	}
	world.ended[cpu] = true;
}

static bool is_kicked(long unused)
{
	return world.kicked[0] || world.kicked[1] || world.kicked[2];
}

/* Handles the kicked bucket with the lowest number, and begins again while a bucket is kicked. */
static void worker(int unused)
{
	int i;

	for (;;) {
		explore_wait(is_kicked, 0, "work");
		for (i = 0; !world.kicked[i]; i++)
			;
		world.kicked[i] = false;
		explore_step("work");
		smq_bucket_work(&world.choice, i, budget);
		world.by_other[explore_self()] = 0;
	}
}

/* Error handling takes a command out of its bucket, if it is in one. */
static void aborter(int cmd)
{
	int i, j;

	explore_step("abort");
	for (i = 0; i < cpus; i++) {
		for (j = 0; j < world.nr[i]; j++) {
			if (world.bucket[i][j] != cmd)
				continue;
			memmove(world.bucket[i] + j, world.bucket[i] + j + 1, world.nr[i] - j - 1);
			world.bucket[i][--world.nr[i]] = 0;
			world.place[cmd] = ABORTED;
			return;
		}
	}
}

static void begin(void)
{
	world.dispatcher = NOBODY;
}

static void end(void)
{
	unsigned int all = 0, gone = 0;
	int cpu, i;

	for (cpu = 0; cpu < cpus; cpu++) {
		EXPLORE_EXPECT(!world.nr[cpu]);
		EXPLORE_EXPECT(!world.unrung[cpu]);
		for (i = 0; pattern[cpu][i]; i++) {
			int place = world.place[cpu * COMMANDS + i];

			if (pattern[cpu][i] == 'e')
				continue;
			EXPLORE_EXPECT(place == ISSUED || place == ABORTED);
			all++;
			gone += place == ABORTED;
		}
	}
	EXPLORE_EXPECT(!(world.choice.word.counter & SMQ_BUCKET_HELD));
	EXPLORE_EXPECT(world.dispatcher == NOBODY);
	EXPLORE_EXPECT(world.choice.all == all - gone);
	EXPLORE_EXPECT(world.choice.by_other <= world.choice.all);
}

/* Clears counters on which no later step depends. */
static void forget(void *copy)
{
	struct smq_bucket *b = copy;

	b->all = 0;
	b->by_other = 0;
}

int main(int argc, char **argv)
{
	static struct explore what = {
		.shared = &world,
		.size = sizeof(world),
		.begin = begin,
		.forget = forget,
		.end = end,
	};
	int workers, i;

	if (argc < 6 || argc > 5 + CPUS)
		return 2;
	budget = atoi(argv[1]);
	workers = atoi(argv[2]);
	aborted = atoi(argv[3]);
	move = atoi(argv[4]);
	for (cpus = 0; cpus < argc - 5; cpus++) {
		pattern[cpus] = argv[5 + cpus];
		what.threads[what.nr].arg = cpus;
		what.threads[what.nr++].run = submitter;
	}
	for (i = 0; i < workers; i++) {
		what.threads[what.nr].idle = true;
		what.threads[what.nr++].run = worker;
	}
	if (aborted >= 0) {
		what.threads[what.nr].arg = aborted;
		what.threads[what.nr++].run = aborter;
	}
	explore(&what);
	printf("%lu states, %lu steps\n", what.states, what.steps);
	return 0;
}
