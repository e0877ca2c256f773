// SPDX-License-Identifier: GPL-2.0
/*
 * Simulates the choices of the policy "batch": one CPU keeps up to QD commands in flight on a
 * device, which has a service time and a doorbell that costs CPU time. The policy's own header
 * makes the decisions. Run by test_batch.py.
 *
 * batch_sim direct|batch|compared QD CPU_NS DOORBELL_NS SERVICE_NS BURST JITTER SEED WAIT_NS
 * compared: as batch, and the layer compares it with direct. Commands are queued in batches of
 * BURST. JITTER is in percent of SERVICE_NS. WAIT_NS limits how long commands are held. Checks that
 * every command ends, and prints the results.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../drivers/core/compare.h"
#include "../../drivers/policy/batch_choice.h"

#define COMMANDS	200000
#define MAX_QD		1024
#define MAX_HELD	16
#define MAX_BYTES	65536
#define BYTES		512
/* As in drivers/core/policy_use.c, in ns. */
#define WINDOW		16000000ULL
#define IDLE		5000000000ULL

static unsigned long long now;		/* the simulated time, in ns */
static unsigned long long due[MAX_QD];	/* when each command in flight ends, in ns */
static unsigned int inflight;
static unsigned int held;
static unsigned int passed;		/* commands in the ring whose doorbell was not rung yet */
static unsigned long long opened;	/* when the first of the held commands was held, in ns */
static unsigned long long doorbells, done, busy_ns, idle_waits, longest_wait;
static unsigned long long seed;

static unsigned int doorbell_ns, service_ns, jitter, wait_ns;
static struct smq_batch batch;
static int policy, compared;

static struct smq_compare comparison;
static bool comparing;
static unsigned long long window_start, window_done, idle_end;

static unsigned int random_below(unsigned int below)
{
	seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return below ? (seed >> 33) % below : 0;
}

static void fail(const char *what)
{
	fprintf(stderr, "%s: held %u inflight %u expensive %d\n", what, held, inflight,
		batch.expensive);
	exit(1);
}

static void spend(unsigned long long ns)
{
	now += ns;
	busy_ns += ns;
}

static void ring(unsigned int nr)
{
	spend(doorbell_ns);
	doorbells++;
	if (inflight + nr > MAX_QD)
		fail("more than MAX_QD commands in flight");
	while (nr--)
		due[inflight++] = now + service_ns - jitter + random_below(2 * jitter + 1);
}

static void dispatch(int sample)
{
	unsigned long long before;

	if (passed)
		ring(passed);
	passed = 0;

	if (held && now - opened > longest_wait)
		longest_wait = now - opened;
	if (sample && held) {
		before = now;
		ring(1);
		held--;
		/* Measurements have a small random error; one in 20 has a large one. */
		smq_batch_sample(&batch, now - before + random_below(200) +
				 (random_below(20) ? 0 : random_below(50000)));
	}
	if (held)
		ring(held);
	held = 0;
}

static void hold(void)
{
	if (!held++)
		opened = now;
}

/* Does what smq_batch_queue() and smq_batch_hold() do. */
static void queue(int last)
{
	struct smq_batch_now state;
	int sample = 0;

	if (!policy) {
		hold();
		if (last)
			dispatch(0);
		return;
	}
	if (smq_batch_passes(&batch, MAX_HELD, last) && !held) {
		if (last)
			sample = smq_batch_sample_due(&batch);
		if (!sample) {
			passed++;
			if (last)
				dispatch(0);
			return;
		}
	}
	hold();
	state = (struct smq_batch_now) {
		.held = held, .bytes = held * BYTES, .inflight = inflight, .last = last,
	};
	if (smq_batch_choose(&batch, MAX_HELD, MAX_BYTES, &state) == SMQ_BATCH_GO) {
		if (batch.expensive)
			sample = smq_batch_sample_due(&batch);
		dispatch(sample);
		return;
	}
	if (last && !inflight)
		idle_waits++;
	if (held >= MAX_HELD)
		fail("held beyond the limit");
}

static void complete_due(void)
{
	unsigned int i = 0;

	while (i < inflight) {
		if (due[i] <= now) {
			due[i] = due[--inflight];
			done++;
		} else {
			i++;
		}
	}
	/* Models the work item that a completion starts if the hardware queue is idle. */
	if (policy && held && !inflight)
		dispatch(0);
	if (policy && held && now - opened >= wait_ns)
		dispatch(0);
}

static unsigned long long next_event(void)
{
	unsigned long long next = held ? opened + wait_ns : ~0ULL;
	unsigned int i;

	for (i = 0; i < inflight; i++) {
		if (due[i] < next)
			next = due[i];
	}
	return next;
}

/* Does what the layer does to compare the policy with "direct". */
static void compare(void)
{
	if (!batch.expensive)
		return;
	if (comparing) {
		if (now < window_start + WINDOW)
			return;
		smq_compare_add(&comparison, done - window_done, now - window_start);
		if (comparison.window == SMQ_COMPARE_WINDOWS) {
			comparing = false;
			batch.pass = smq_compare_is_slower(&comparison);
			idle_end = now + IDLE;
			return;
		}
	} else if (now >= idle_end) {
		comparing = true;
		comparison = (struct smq_compare) { 0 };
	} else {
		return;
	}
	batch.pass = !smq_compare_with(&comparison);
	window_start = now;
	window_done = done;
}

int main(int argc, char **argv)
{
	unsigned long long submitted = 0, next;
	unsigned int qd, cpu_ns, burst, i;

	if (argc != 10)
		return 2;
	compared = !strcmp(argv[1], "compared");
	policy = compared || !strcmp(argv[1], "batch");
	qd = atoi(argv[2]);
	cpu_ns = atoi(argv[3]);
	doorbell_ns = atoi(argv[4]);
	service_ns = atoi(argv[5]);
	burst = atoi(argv[6]);
	jitter = service_ns * atoi(argv[7]) / 100;
	seed = atoi(argv[8]);
	wait_ns = atoi(argv[9]);

	while (done < COMMANDS) {
		complete_due();
		if (compared)
			compare();
		if (burst > COMMANDS - submitted)
			burst = COMMANDS - submitted;
		if (burst && submitted - done + burst <= qd) {
			/* A batch of the block layer. */
			for (i = 1; i <= burst; i++) {
				spend(cpu_ns);
				submitted++;
				queue(i == burst);
			}
			continue;
		}
		next = next_event();
		if (next == ~0ULL) {
			if (done < COMMANDS)
				fail("stranded: no event will end these commands");
			break;
		}
		if (next > now)
			now = next;
	}
	if (held || passed || inflight)
		fail("commands are left over");
	printf("{\"ns\": %llu, \"cpu_ns\": %llu, \"doorbells\": %llu, \"commands\": %llu, "
	       "\"idle_waits\": %llu, \"longest_wait\": %llu, \"expensive\": %d, \"cost\": %u}\n",
	       now, busy_ns, doorbells, done, idle_waits, longest_wait, batch.expensive,
	       smq_batch_cost(&batch));
	return 0;
}
