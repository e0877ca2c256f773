// SPDX-License-Identifier: GPL-2.0
/* Checks the promises of the policy "steer" in every state. Run by test_steer.py. */
#include <stdio.h>
#include <stdlib.h>

#include "../../drivers/policy/steer_choice.h"

static void expect(int line, int ok, const char *what)
{
	if (ok)
		return;
	printf("line %d: %s\n", line, what);
	exit(1);
}

#define EXPECT(cond)	expect(__LINE__, (cond), #cond)

/* Checks to which hardware queues commands may go, and which of them are preferred. */
static void walk_ranks(void)
{
	unsigned int threshold, inflight, flags;

	for (threshold = 1; threshold <= 100; threshold++)
		for (inflight = 0; inflight <= 200; inflight++)
			for (flags = 0; flags < 8; flags++) {
				struct smq_steer_queue q = {
					.inflight = inflight, .open = flags & 1,
					.elsewhere = flags & 2, .near = flags & 4,
				};
				unsigned int rank = smq_steer_rank(&q, threshold);

				EXPECT(rank <= SMQ_STEER_BEST);
				EXPECT(!rank == (!q.open || inflight > threshold / 4));
				/*
				 * A queue that may get the command is not busy even with that
				 * command, so no command is moved a second time.
				 */
				EXPECT(!rank || !smq_steer_is_busy(inflight + 1, threshold));
				if (!rank)
					continue;
				EXPECT((rank == SMQ_STEER_BEST) == (q.elsewhere && q.near));
				EXPECT((rank == 1) == !q.elsewhere);
			}
}

/* If steering never helps, less than 1 % of the commands are steered after the first trial. */
static void walk_losses(void)
{
	unsigned int i, late, pending = 0, left = 0;
	struct smq_steer s;

	/* @late: how many steered commands are in flight before the first is judged. */
	for (late = 0; late <= 100; late += 10) {
		smq_steer_init(&s);
		left = 0;
		pending = 0;
		for (i = 1; i <= 200000; i++) {
			if (smq_steer_wants(&s)) {
				smq_steer_leaves(&s);
				left++;
				pending++;
			}
			if (pending > late || (pending && i % SMQ_STEER_PRICE == 0)) {
				EXPECT(!smq_steer_judge(&s, 17, 17));
				pending--;
			}
			EXPECT(!s.on);
			/* The first trial begins with the first command. */
			EXPECT(left <= SMQ_STEER_WINDOW + i / SMQ_STEER_PRICE);
		}
		EXPECT(left > SMQ_STEER_WINDOW);
	}
}

/* Checks when steering begins, continues and ends, for windows with each number of wins. */
static void walk_windows(void)
{
	unsigned int wins, i, began = 0;

	for (wins = 0; wins <= SMQ_STEER_WINDOW; wins++) {
		struct smq_steer s;

		smq_steer_init(&s);
		for (i = 0; i < SMQ_STEER_WINDOW; i++) {
			EXPECT(smq_steer_wants(&s));
			smq_steer_leaves(&s);
		}
		EXPECT(!smq_steer_wants(&s));
		for (i = 0; i < SMQ_STEER_WINDOW; i++)
			EXPECT(!smq_steer_judge(&s, 20, i < wins ? 9 : 10));
		EXPECT(s.on == (wins >= SMQ_STEER_BEGIN));
		began += s.on;
	}
	EXPECT(began == SMQ_STEER_WINDOW - SMQ_STEER_BEGIN + 1);

	for (wins = 0; wins <= SMQ_STEER_LONG_WINDOW; wins++) {
		struct smq_steer s = { .on = 1 };
		bool gave_up = 0;

		for (i = 0; i < SMQ_STEER_LONG_WINDOW; i++) {
			EXPECT(smq_steer_wants(&s) && !gave_up);
			smq_steer_leaves(&s);
			gave_up = smq_steer_judge(&s, 20, i < wins ? 0 : 20);
		}
		EXPECT(gave_up == (wins < SMQ_STEER_GO_ON) && s.on == !gave_up);
		EXPECT(!gave_up || !smq_steer_wants(&s));
	}
}

/* Checks that a look leads to a new trial: the more commands came before the look, the sooner. */
static void walk_looks(void)
{
	struct smq_steer s;
	unsigned int i;

	smq_steer_init(&s);
	smq_steer_look(&s, ~0ULL);
	EXPECT(s.credit == SMQ_STEER_TRIAL);
	s = (struct smq_steer) { .on = 1 };
	smq_steer_look(&s, SMQ_STEER_TRIAL - 2);
	for (i = 0; i < 2; i++)
		EXPECT(!smq_steer_wants(&s));
	EXPECT(smq_steer_wants(&s));
	/* A second call also returns true, because no command was steered after the first call. */
	EXPECT(smq_steer_wants(&s) && !s.trying);
}

int main(void)
{
	walk_ranks();
	walk_losses();
	walk_windows();
	walk_looks();
	return 0;
}
