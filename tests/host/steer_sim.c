// SPDX-License-Identifier: GPL-2.0
/*
 * Simulates the choices of the policy "steer": each task keeps up to qd commands in flight on its
 * own hardware queue. A command takes link_ns on a link that all hardware queues share, and then
 * hwq_ns in its hardware queue. The link and each hardware queue serve one command at a time. Then
 * the device works on the command for service_ns, on any number of commands at once. The policy's
 * own header makes the decisions. Run by test_steer.py.
 *
 * steer_sim KEY=VALUE... prints the results, and checks that each command ends.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../drivers/policy/steer_choice.h"

#define MAX_QUEUES	16
#define MAX_CMDS	4096

typedef unsigned long long u64;

static struct {
	unsigned int steer, threshold, queues, tasks, qd, commands, closed;
	unsigned int hwq_ns, link_ns, service_ns, jitter, cpu_ns, hwq_depth, seed;
	unsigned int hwq_ns_later, link_ns_later;	/* for the second half of the commands */
} set = {
	.steer = 1, .threshold = 16, .queues = 4, .tasks = 1, .qd = 32, .commands = 50000,
	.closed = MAX_QUEUES, .cpu_ns = 1000, .seed = 1, .hwq_ns_later = ~0U, .link_ns_later = ~0U,
};

static const struct { const char *name; unsigned int *value; } options[] = {
#define OPTION(_name)	{ #_name, &set._name }
	OPTION(steer), OPTION(threshold), OPTION(queues), OPTION(tasks), OPTION(qd),
	OPTION(commands), OPTION(closed), OPTION(hwq_ns), OPTION(link_ns), OPTION(service_ns),
	OPTION(jitter), OPTION(cpu_ns), OPTION(hwq_depth), OPTION(seed),
	OPTION(hwq_ns_later), OPTION(link_ns_later),
};

struct cmd {
	unsigned int task, at, ahead, mark;
	int steered;
	u64 due;
};

struct queue {
	struct smq_steer choice;
	unsigned int queued, done, next;
	u64 free, steered, fell_back, backed_off;
};

static struct queue queues[MAX_QUEUES];
static struct cmd inflight[MAX_CMDS];
static unsigned int nr_inflight;
static unsigned int outstanding[MAX_QUEUES];	/* commands in flight, of each task */
static u64 cpu_free[MAX_QUEUES];		/* when each task's CPU is free */
static u64 now, link_free, random_state;
static u64 submitted, done, won, stopped_at;

static void fail(const char *what)
{
	fprintf(stderr, "%s\n", what);
	exit(1);
}

static unsigned int random_below(unsigned int below)
{
	random_state = random_state * 6364136223846793005ULL + 1442695040888963407ULL;
	return below ? (random_state >> 33) % below : 0;
}

static unsigned int busy(const struct queue *q)
{
	return q->queued - q->done;
}

static void judge(struct queue *own, unsigned int ahead, unsigned int ended)
{
	bool was_on = own->choice.on;
	bool gave_up = smq_steer_judge(&own->choice, ahead, ended);

	if (gave_up != (was_on && !own->choice.on))
		fail("smq_steer_judge() returned the wrong answer");
	own->backed_off += gave_up;
	won += 2 * ended < ahead;
	if (gave_up)
		stopped_at = done;
}

/* Does what steer_find() does. */
static unsigned int find(unsigned int at)
{
	unsigned int i, rank, best = 0, found = at;
	struct queue *own = &queues[at];

	for (i = 0; i < set.queues && best < SMQ_STEER_BEST; i++) {
		struct smq_steer_queue q = {};

		own->next = (own->next + 1) % set.queues;
		if (own->next == at)
			continue;
		q.inflight = busy(&queues[own->next]);
		q.open = own->next != set.closed;
		q.elsewhere = 1;
		q.near = 1;
		rank = smq_steer_rank(&q, set.threshold);
		if (rank > best) {
			best = rank;
			found = own->next;
		}
	}
	return found;
}

/* Does what smq_steer_queue() and steer_away() do, then gives the command to the device. */
static void submit(unsigned int task)
{
	unsigned int home = task % set.queues, to = home;
	struct cmd *cmd = &inflight[nr_inflight];
	struct queue *own = &queues[home];
	unsigned int ahead = busy(own);
	u64 due = now;

	*cmd = (struct cmd) { .task = task };
	if (set.steer && smq_steer_is_busy(ahead, set.threshold) &&
	    smq_steer_wants(&own->choice))
		to = find(home);
	if (to != home) {
		if (to == set.closed)
			fail("a closed queue was chosen");
		smq_steer_leaves(&own->choice);
		own->steered++;
		cmd->steered = 1;
		cmd->ahead = ahead;
		cmd->mark = own->done;
		if (set.hwq_depth && busy(&queues[to]) >= set.hwq_depth) {
			own->fell_back++;
			cmd->steered = 0;
			judge(own, ahead, ahead);
			to = home;
		}
	}
	cmd->at = to;
	queues[to].queued++;
	if (set.link_ns) {
		link_free = (link_free > due ? link_free : due) + set.link_ns;
		due = link_free;
	}
	if (set.hwq_ns) {
		queues[to].free = (queues[to].free > due ? queues[to].free : due) + set.hwq_ns;
		due = queues[to].free;
	}
	cmd->due = due + set.service_ns - set.jitter + random_below(2 * set.jitter + 1);
	if (++nr_inflight == MAX_CMDS)
		fail("too many commands");
	outstanding[task]++;
	submitted++;
}

static void complete(unsigned int i)
{
	struct cmd cmd = inflight[i];

	inflight[i] = inflight[--nr_inflight];
	queues[cmd.at].done++;
	outstanding[cmd.task]--;
	done++;
	if (cmd.steered) {
		struct queue *own = &queues[cmd.task % set.queues];

		judge(own, cmd.ahead, own->done - cmd.mark);
	}
	if (done == set.commands / 2) {
		if (set.hwq_ns_later != ~0U)
			set.hwq_ns = set.hwq_ns_later;
		if (set.link_ns_later != ~0U)
			set.link_ns = set.link_ns_later;
	}
}

/* Completes or submits the next command. Returns 0 if there is none. */
static int step(void)
{
	unsigned int i, task = 0, first = 0;
	u64 when = ~0ULL, due = ~0ULL;

	for (i = 0; i < set.tasks && submitted < set.commands; i++) {
		u64 at = cpu_free[i] > now ? cpu_free[i] : now;

		if (outstanding[i] < set.qd && at < when) {
			when = at;
			task = i;
		}
	}
	for (i = 0; i < nr_inflight; i++) {
		if (inflight[i].due < due) {
			due = inflight[i].due;
			first = i;
		}
	}
	if (due <= when && due != ~0ULL) {
		if (due > now)
			now = due;
		complete(first);
	} else if (when != ~0ULL) {
		now = when;
		submit(task);
		cpu_free[task] = now + set.cpu_ns;
	} else {
		return 0;
	}
	return 1;
}

static void parse(const char *word)
{
	const char *value = strchr(word, '=');
	unsigned int i;

	for (i = 0; value && i < sizeof(options) / sizeof(options[0]); i++) {
		if (strlen(options[i].name) == (size_t)(value - word) &&
		    !strncmp(word, options[i].name, value - word)) {
			*options[i].value = strtoul(value + 1, NULL, 0);
			return;
		}
	}
	fail("steer_sim KEY=VALUE...");
}

int main(int argc, char **argv)
{
	u64 steered = 0, fell_back = 0, backed_off = 0;
	unsigned int i;

	for (i = 1; i < (unsigned int)argc; i++)
		parse(argv[i]);
	if (set.queues > MAX_QUEUES || set.tasks > MAX_QUEUES || set.jitter > set.service_ns)
		fail("out of range");
	random_state = set.seed;
	for (i = 0; i < MAX_QUEUES; i++)
		smq_steer_init(&queues[i].choice);
	while (step())
		;
	if (nr_inflight || done != set.commands)
		fail("commands are left over");
	for (i = 0; i < set.queues; i++) {
		if (busy(&queues[i]))
			fail("a queue still counts commands in flight");
		steered += queues[i].steered;
		fell_back += queues[i].fell_back;
		backed_off += queues[i].backed_off;
	}
	printf("{\"ns\": %llu, \"steered\": %llu, \"won\": %llu, \"fell_back\": %llu, "
	       "\"backed_off\": %llu, \"stopped_at\": %llu, \"on_closed\": %u}\n", now, steered,
	       won, fell_back, backed_off, stopped_at, queues[set.closed % MAX_QUEUES].queued);
	return 0;
}
