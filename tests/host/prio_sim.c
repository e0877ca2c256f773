// SPDX-License-Identifier: GPL-2.0
/*
 * Simulates the choices of the policy "prio": a LUN takes DEPTH commands at a time, and each
 * command takes SERVICE_NS. The policy's own header makes the decisions. Run by test_prio.py.
 *
 * prio_sim DEPTH SERVICE_NS RATIO MAX_MS RATE LATE_NS END_NS COMMANDS...
 * COMMANDS is CLASS,BYTES,FROM_NS,NR: at FROM_NS, NR commands are queued at once; or
 * CLASS,BYTES,FROM_NS,NR,again: each of them is queued again when it has ended, until END_NS.
 * Timers expire LATE_NS late. Prints the results.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../drivers/policy/prio_choice.h"

#define MAX_COMMANDS	4096

typedef unsigned long long u64;

struct command {
	enum smq_prio_class class;
	unsigned int bytes;
	u64 came;
	u64 due;
	int again;
	enum { COMES, WAITS, RUNS, ENDED } state;
};

struct tally {
	u64 done, bytes, worst, sum, last;
};

static const char * const names[SMQ_PRIO_CLASSES] = { "rt", "read", "sync", "async", "idle" };
static struct command commands[MAX_COMMANDS];
static unsigned int nr_commands;
static unsigned int order[SMQ_PRIO_CLASSES][MAX_COMMANDS];	/* rings of waiting commands */
static unsigned int first[SMQ_PRIO_CLASSES], waiting[SMQ_PRIO_CLASSES];
static struct tally tally[SMQ_PRIO_CLASSES];
static struct smq_prio choice;
static struct smq_prio_limits limits;
static unsigned int depth, inflight;
static u64 now, service, late, end, timer;

static void add(const char *text)
{
	char name[16], again[16] = "";
	unsigned int nr, i;
	struct command one = { 0 };

	if (sscanf(text, "%15[a-z],%u,%llu,%u,%15s", name, &one.bytes, &one.came, &nr, again) < 4)
		exit(2);
	while (strcmp(names[one.class], name)) {
		if (++one.class == SMQ_PRIO_CLASSES)
			exit(2);
	}
	one.again = !strcmp(again, "again");
	for (i = 0; i < nr; i++) {
		if (nr_commands == MAX_COMMANDS)
			exit(2);
		commands[nr_commands++] = one;
	}
}

static void wait_in_class(unsigned int i)
{
	enum smq_prio_class class = commands[i].class;

	commands[i].state = WAITS;
	order[class][(first[class] + waiting[class]++) % MAX_COMMANDS] = i;
	smq_prio_begin(&choice, class, now);
}

static void dispatch(void)
{
	enum smq_prio_class class;
	struct command *c;
	u64 delay;

	while (inflight < depth) {
		class = smq_prio_choose(&choice, &limits, now);
		if (class == SMQ_PRIO_NONE)
			return;
		c = &commands[order[class][first[class]]];
		delay = smq_prio_delay(&choice, &limits, c->bytes, now);
		if (delay) {
			if (!timer)
				timer = now + delay + late;
			return;
		}
		first[class] = (first[class] + 1) % MAX_COMMANDS;
		waiting[class]--;
		smq_prio_issued(&choice, &limits, c->bytes, waiting[class], now);
		c->state = RUNS;
		c->due = now + service;
		inflight++;
	}
}

static void ended(struct command *c)
{
	struct tally *t = &tally[c->class];
	u64 took = now - c->came;

	inflight--;
	t->done++;
	t->bytes += c->bytes;
	t->sum += took;
	t->last = now;
	if (took > t->worst)
		t->worst = took;
	c->state = ENDED;
	if (c->again && now < end) {
		c->came = now;
		c->state = COMES;
	}
}

/* Handles all events that are due now. Returns the time of the next event, 0 for never. */
static u64 step(void)
{
	u64 soonest = 0;
	unsigned int i;

	if (timer && timer <= now)
		timer = 0;
	for (i = 0; i < nr_commands; i++) {
		if (commands[i].state == RUNS && commands[i].due <= now)
			ended(&commands[i]);
	}
	for (i = 0; i < nr_commands; i++) {
		if (commands[i].state == COMES && commands[i].came <= now)
			wait_in_class(i);
	}
	dispatch();
	soonest = timer;
	for (i = 0; i < nr_commands; i++) {
		u64 at = commands[i].state == COMES ? commands[i].came :
			 commands[i].state == RUNS ? commands[i].due : 0;

		if (at && (!soonest || at < soonest))
			soonest = at;
	}
	return soonest;
}

int main(int argc, char **argv)
{
	enum smq_prio_class class;
	int i;

	if (argc < 9)
		return 2;
	depth = atoi(argv[1]);
	service = strtoull(argv[2], NULL, 10);
	limits.ratio = atoi(argv[3]);
	limits.max_ns = strtoull(argv[4], NULL, 10) * 1000000;
	limits.rate = strtoull(argv[5], NULL, 10);
	late = strtoull(argv[6], NULL, 10);
	end = strtoull(argv[7], NULL, 10);
	for (i = 8; i < argc; i++)
		add(argv[i]);
	smq_prio_init(&choice);
	/* The clock does not begin with 0, because step() returns 0 for "never". */
	for (now = 1; now; now = step())
		;
	printf("{");
	for (class = 0; class < SMQ_PRIO_CLASSES; class++) {
		const struct tally *t = &tally[class];

		if (waiting[class]) {
			fprintf(stderr, "%u commands of class %s were never issued\n",
				waiting[class], names[class]);
			return 1;
		}
		printf("%s\"%s\": {\"done\": %llu, \"bytes\": %llu, \"worst\": %llu, "
		       "\"mean\": %llu, \"last\": %llu}", class ? ", " : "", names[class], t->done,
		       t->bytes, t->worst, t->done ? t->sum / t->done : 0, t->last);
	}
	printf("}\n");
	return 0;
}
