// SPDX-License-Identifier: GPL-2.0
/*
 * sg_io_level PACE DEVICE US DELAY: replays the recording on standard input with --mode load in
 * simulated time. A line is the time of issue in us and the time that the command took in ns.
 * PACE is user or kernel. Commands take US: each (fixed), 0.25 to 1.75 times as long (random), or
 * one after the other (serial). DELAY is the time in us from the end of a command until the next
 * one can be issued; each issue takes half of it.
 *
 * Prints when each command was issued and ended, in ns.
 */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replay/timed/build.h"
#include "replay/timed/collect.h"

struct result {
	__u64 issued;
	__u64 ended;
};

static struct {
	const char *device;
	__u64 took_ns;
	__u64 delay_ns;
	__u64 free_ns;		/* of the serial device */
	__u64 now;
	struct flight flight;
} sim;

/* What the files of sg_io call of libsmq. */
int smq_prepare(struct smq_device *dev, __u32 first, const struct smq_sg_slot *slots, __u32 count,
		__u32 *done, __u32 *field)
{
	(void)dev;
	(void)first;
	(void)slots;
	(void)field;
	*done = count;
	return 0;
}

const struct smq_sg_status *smq_status(const struct smq_device *dev, __u32 slot)
{
	(void)dev;
	(void)slot;
	abort();
}

static __u64 end_of(void)
{
	if (!strcmp(sim.device, "random"))
		return sim.now + sim.took_ns / 4 + random() % (sim.took_ns * 3 / 2);
	if (strcmp(sim.device, "serial"))
		return sim.now + sim.took_ns;
	sim.free_ns = (sim.now > sim.free_ns ? sim.now : sim.free_ns) + sim.took_ns;
	return sim.free_ns;
}

static struct result issue(__u32 cmd)
{
	struct result r = { .issued = sim.now += sim.delay_ns / 2 };

	r.ended = end_of();
	if (!flight_add(&sim.flight, (struct flight_end){ r.ended, cmd }))
		errx(2, "no memory");
	return r;
}

/* Ends what has ended by now, or the next command. */
static void wait_for_end(void)
{
	if (!sim.flight.nr || sim.flight.ends[0].ns <= sim.now)
		return;
	sim.now = sim.flight.ends[0].ns + sim.delay_ns;
}

static void replay_by_user(struct plan *p, struct result *results)
{
	__u32 cmd;

	for (cmd = 0; cmd < p->file->nr; cmd++) {
		while (!plan_admits(p, cmd)) {
			wait_for_end();
			for (; sim.flight.nr && sim.flight.ends[0].ns <= sim.now;
			     flight_remove(&sim.flight))
				plan_ended(p, sim.flight.ends[0].cmd, sim.flight.ends[0].ns);
		}
		results[cmd] = issue(cmd);
		plan_issued(p, cmd, results[cmd].issued);
	}
}

/* What the kernel has written of a chunk by now. Return: whether all of it has ended. */
static bool write_results(struct chunk *c, const struct result *results, __u32 issued)
{
	const struct result *r = &results[c->first];
	bool ended = true;
	unsigned int i;

	for (i = 0; i < c->nr; i++) {
		if (c->first + i >= issued || r[i].ended > sim.now) {
			ended = false;
			continue;
		}
		c->parts[0].results[c->refs[i].entry] = (struct smq_sg_timed_result){
			.issued = r[i].issued, .ended = r[i].ended,
		};
	}
	return ended;
}

static void build_and_collect(struct timed *t, const struct result *results, __u32 issued)
{
	struct chunk *c;

	while (t->ended < t->built) {
		c = timed_chunk(t, t->ended);
		if (!write_results(c, results, issued))
			break;
		c->running = 0;
		timed_collect(t);
	}
	while (t->built - t->ended < CHUNKS && (t->has_step || stream_has_next(t->stream))) {
		timed_chunk(t, t->built)->running = 1;
		if (!timed_build(t))
			errx(2, "no memory");
	}
}

/* The chunk that has a command. */
static struct chunk *chunk_of(struct timed *t, __u32 cmd)
{
	unsigned int nth = t->ended;

	while (cmd >= timed_chunk(t, nth)->first + timed_chunk(t, nth)->nr)
		nth++;
	return timed_chunk(t, nth);
}

static void replay_by_kernel(struct timed *t, struct result *results)
{
	const __u32 nr = t->stream->plan->file->nr;
	struct chunk *c;
	unsigned int limit;
	__u32 cmd;

	for (cmd = 0; cmd < nr; cmd++) {
		build_and_collect(t, results, cmd);
		c = chunk_of(t, cmd);
		limit = c->parts[0].entries[c->refs[cmd - c->first].entry].inflight;
		for (;;) {
			while (sim.flight.nr && sim.flight.ends[0].ns <= sim.now)
				flight_remove(&sim.flight);
			if (sim.flight.nr < limit)
				break;
			wait_for_end();
		}
		results[cmd] = issue(cmd);
	}
}

static struct timed *make_timed(struct worker *w, struct plan *plan)
{
	static struct timed *t;
	int i;

	t = calloc(1, sizeof(*t));
	if (!t)
		errx(2, "no memory");
	t->w = w;
	t->stream = stream_new(plan, 1);
	t->lanes = calloc(1, sizeof(*t->lanes));
	t->targets = calloc(1, sizeof(*t->targets));
	t->depth = 0xffff;
	pthread_mutex_init(&t->lock, NULL);
	chunk_measure(plan->file, t);
	t->targets->slots = calloc(t->targets->room, sizeof(*t->targets->slots));
	t->targets->which = calloc(t->targets->room, sizeof(*t->targets->which));
	for (i = 0; i < CHUNKS; i++) {
		t->chunks[i].parts = calloc(1, sizeof(struct part));
		t->chunks[i].refs = calloc(CHUNK_COMMANDS, sizeof(struct ref));
	}
	return t;
}

int main(int argc, char **argv)
{
	static struct target target;
	static struct cmdfile file;
	static struct run run = { .file = &file, .targets = &target, .nr_targets = 1 };
	static struct share share;
	static struct worker w = { .run = &run, .nr_targets = 1, .shares = &share };
	struct plan_options opt = { .mode = PLAN_LOAD };
	static struct result *results;
	static struct plan *plan;
	size_t room = 1 << 20, i;
	double took;

	if (argc != 5)
		errx(2, "PACE DEVICE US DELAY");
	opt.streamed = !strcmp(argv[1], "kernel");
	sim.device = argv[2];
	sim.took_ns = strtoull(argv[3], NULL, 10) * 1000;
	sim.delay_ns = strtoull(argv[4], NULL, 10) * 1000;
	file.cmds = calloc(room, sizeof(*file.cmds));
	file.took = calloc(room, sizeof(*file.took));
	results = calloc(room, sizeof(*results));
	if (!file.cmds || !file.took || !results)
		errx(2, "no memory");
	for (; file.nr < room && scanf("%llu %lf", &file.cmds[file.nr].at_us, &took) == 2;
	     file.nr++) {
		file.cmds[file.nr].cdb_len = 6;
		file.cmds[file.nr].cpu = CPU_ANY;
		file.took[file.nr] = took;
	}
	plan = plan_new(&file, &opt);
	run.lanes = plan ? lanes_new(plan, &run.nr_lanes) : NULL;
	if (!run.lanes)
		errx(2, "no memory");
	if (opt.streamed)
		replay_by_kernel(make_timed(&w, plan), results);
	else
		replay_by_user(plan, results);
	for (i = 0; i < file.nr; i++)
		printf("%llu %llu\n", results[i].issued, results[i].ended);
	return 0;
}
