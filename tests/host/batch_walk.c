// SPDX-License-Identifier: GPL-2.0
/*
 * Checks the promises of the policy "batch" for each possible state and for random
 * sequences of samples. Built and run by test_batch.py.
 */
#include <stdio.h>
#include <stdlib.h>

#include "../../drivers/policy/batch_choice.h"

static void expect(int line, int ok, const char *what)
{
	if (ok)
		return;
	printf("line %d: %s\n", line, what);
	exit(1);
}

#define EXPECT(cond)	expect(__LINE__, (cond), #cond)

/* Checks for one state whether the policy waits exactly when it may. */
static void check_state(unsigned int limit, unsigned int held, unsigned int inflight, bool last,
			bool expensive)
{
	struct smq_batch batch = { .expensive = expensive };
	struct smq_batch_now now = {
		.held = held, .bytes = held * 4096, .inflight = inflight, .last = last,
	};
	bool waits = smq_batch_choose(&batch, limit, 65536, &now) == SMQ_BATCH_WAIT;

	if (held == limit || held >= 16)
		EXPECT(!waits);		/* a limit is reached */
	else if (!last)
		EXPECT(waits);		/* more commands of the batch follow */
	else if (!expensive || !inflight)
		EXPECT(!waits);		/* a cheap doorbell, or an idle device */
	else
		EXPECT(waits == (held < (held + inflight) / SMQ_BATCH_SHARE));
}

static void walk_states(void)
{
	unsigned int limit, held, inflight, flags;

	for (limit = 1; limit <= 20; limit++)
		for (held = 1; held <= limit; held++)
			for (inflight = 0; inflight <= 70; inflight++)
				for (flags = 0; flags < 4; flags++)
					check_state(limit, held, inflight, flags & 1, flags & 2);
}

/* A cheap doorbell with noisy samples never counts as expensive. */
static void walk_noise(void)
{
	struct smq_batch batch = {};
	unsigned int i, j;

	for (i = 0; i < 100000; i++) {
		unsigned int noise = rand() % 4 ? rand() % 300 : rand() % 1000000;

		/* At most three noisy samples in a row: every fourth sample has no noise. */
		if (i % SMQ_BATCH_SAMPLES == 0)
			noise = rand() % 300;
		smq_batch_sample(&batch, 300 + noise);
		EXPECT(!batch.expensive);
		EXPECT(smq_batch_cost(&batch) >= 300);
	}
	smq_batch_sample(&batch, 300);
	/* A doorbell that becomes expensive counts as such after SMQ_BATCH_SAMPLES samples. */
	for (i = 0; i < SMQ_BATCH_SAMPLES; i++) {
		EXPECT(!batch.expensive);
		smq_batch_sample(&batch, 5000 + rand() % 1000000);
	}
	EXPECT(batch.expensive);
	/* A cost between the two bounds does not change the result. */
	for (j = 0; j < 20; j++) {
		smq_batch_sample(&batch, SMQ_BATCH_CHEAP_NS + rand() % 300);
		EXPECT(batch.expensive);
	}
	/* A doorbell that becomes cheap counts as such with the first sample. */
	smq_batch_sample(&batch, SMQ_BATCH_CHEAP_NS - 1);
	EXPECT(!batch.expensive);
	for (j = 0; j < 20; j++) {
		smq_batch_sample(&batch, SMQ_BATCH_CHEAP_NS + rand() % 300);
		EXPECT(!batch.expensive);
	}
	/* The largest possible sample does not wrap. */
	for (i = 0; i < SMQ_BATCH_SAMPLES; i++)
		smq_batch_sample(&batch, ~0ULL);
	EXPECT(batch.expensive && smq_batch_cost(&batch) == SMQ_BATCH_SAMPLE_MAX);
}

/* Samples are frequent enough to notice changes, and rare enough to cost next to nothing. */
static void walk_samples(void)
{
	struct smq_batch batch = {};
	unsigned int i, samples = 0, first = 0;

	for (i = 1; i <= 64000; i++) {
		if (!smq_batch_sample_due(&batch))
			continue;
		smq_batch_sample(&batch, 100);
		if (++samples == SMQ_BATCH_SAMPLES)
			first = i;
	}
	EXPECT(first == SMQ_BATCH_SAMPLES * SMQ_BATCH_EVERY_FIRST);
	EXPECT(samples <= 64000 / SMQ_BATCH_EVERY + SMQ_BATCH_SAMPLES);
	EXPECT(samples >= 64000 / SMQ_BATCH_EVERY - 1);
}

/* For the next few batches the policy remembers the largest number of concurrent commands. */
static void walk_peak(void)
{
	struct smq_batch batch = { .expensive = 1 };
	struct smq_batch_now now = { .held = 11, .inflight = 21, .last = 1 };
	unsigned int batches = 0;

	EXPECT(smq_batch_choose(&batch, 16, 65536, &now) == SMQ_BATCH_GO);
	now = (struct smq_batch_now) { .held = 5, .inflight = 4, .last = 1 };
	EXPECT(smq_batch_choose(&batch, 16, 65536, &now) == SMQ_BATCH_WAIT);
	/* At a depth of two the policy holds no command after a few batches. */
	now = (struct smq_batch_now) { .held = 1, .inflight = 1, .last = 1 };
	while (smq_batch_choose(&batch, 16, 65536, &now) == SMQ_BATCH_WAIT) {
		struct smq_batch_now idle = { .held = 1, .inflight = 0, .last = 1 };

		EXPECT(smq_batch_choose(&batch, 16, 65536, &idle) == SMQ_BATCH_GO);
		EXPECT(++batches < 30);
	}
	EXPECT(batches > 3);
}

/*
 * With an expensive doorbell large batches of the block layer pass, and small ones do not; with a
 * cheap doorbell all pass.
 */
static void walk_natural(void)
{
	struct smq_batch batch = { .expensive = 1 };
	unsigned int size, i, repeat;

	for (size = 1; size <= 40; size++) {
		for (repeat = 0; repeat < 3; repeat++) {
			for (i = 1; i <= size; i++) {
				bool passes = smq_batch_passes(&batch, 16, i == size);

				/* After the first batch the policy knows how large batches are. */
				EXPECT(!repeat || passes == (size >= 8));
			}
		}
		batch.expensive = 0;
		EXPECT(smq_batch_passes(&batch, 16, 1));
		batch.expensive = 1;
	}
	/* A limit of one held command lets no command pass, however large batches are. */
	batch.natural = 1;
	EXPECT(!smq_batch_passes(&batch, 1, 1));
}

int main(int argc, char **argv)
{
	srand(argc > 1 ? atoi(argv[1]) : 1);
	EXPECT(smq_batch_cost(&(struct smq_batch) {}) == 0);
	walk_states();
	walk_noise();
	walk_samples();
	walk_peak();
	walk_natural();
	return 0;
}
