// SPDX-License-Identifier: GPL-2.0
/* Fills chunks with the commands of the file. */
#include <err.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "build.h"

#define GROUP		16	/* slots filled by one call, which nothing may interrupt */
/*
 * With PLAN_LOAD a chunk tells how many to allow in later ones: so it is small at first, but large
 * enough for the commands in flight.
 */
#define LOAD_COMMANDS	16
#define LOAD_SHARE	8	/* then it has this fraction of the commands before it */
#define LOAD_GAIN	1.5	/* the most by which the recording's load is multiplied */

/* Whether an entry of chunk @nth may not have ended when the next chunk is sent. */
static bool is_near(const struct timed *t, unsigned int nth)
{
	return nth + CHUNKS > t->built;
}

/*
 * Collects the numbers that the stream's command waits for, in @after. The lane's part before this
 * one must have been sent; with PLAN_LOAD also the command before it, of whatever lane. Return: how
 * many; 0 without memory for the entry that tells of that command.
 */
static int find_waits(struct timed *t, struct chunk *c, unsigned int lane, __u32 *after,
		      unsigned int *nr)
{
	const struct stream *s = t->stream;
	const struct timed_lane *before;
	struct smq_sg_timed_entry *e;
	unsigned int i, other;

	*nr = 0;
	if (!c->parts[lane].nr && t->lanes[lane].sent && is_near(t, t->lanes[lane].chunk))
		after[(*nr)++] = t->lanes[lane].sent;
	if (s->plan->opt.mode == PLAN_LOAD && s->next > 1) {
		other = t->lane_of[s->plan->file->cmds[s->next - 2].cpu - CPU_ANY];
		before = &t->lanes[other];
		if (other != lane && c->nr) {
			e = chunk_add_entry(t, &c->parts[other], 0, 0);
			if (!e)
				return -1;
			after[(*nr)++] = e->number;
		} else if (other != lane && is_near(t, before->chunk)) {
			after[(*nr)++] = before->sent;
		}
	}
	for (i = 0; i < s->nr_waits; i++)
		if (s->waits[i] >= s->first)
			after[(*nr)++] = t->numbers[s->waits[i] % STREAM_WINDOW];
	return 0;
}

static void fill_slot(struct timed *t, const struct chunk *c, const struct command *cmd,
		      struct ref *ref)
{
	const struct cmdfile *file = t->w->run->file;
	struct timed_target *g = &t->targets[cmd->dev];
	struct smq_sg_slot *s = &g->slots[g->nr];
	__u64 own = chunk_own_bytes(file, cmd), at = 0;

	g->which[g->nr++] = c->nr;
	*s = (struct smq_sg_slot){ .cdb_len = cmd->cdb_len, .timeout_ms = cmd->timeout_ms };
	memcpy(s->cdb, cdb_of(cmd), cmd->cdb_len);
	if (own) {
		at = t->in_bytes + (c - t->chunks) * t->chunk_bytes + t->used;
		t->used += own;
	}
	ref->page = at / CHUNK_PAGE;
	if (cmd->dir == DIR_NONE || !cmd->bytes)
		return;
	s->direction = cmd->dir == DIR_IN ? SMQ_SG_IN : SMQ_SG_OUT;
	s->length = cmd->bytes;
	s->offset = at;
	if (cmd->dir == DIR_OUT)
		cmdfile_fill(cmd, t->memory + at);
}

/* With how many in flight, itself included, a command may be issued. */
static unsigned int limit_of(struct timed *t, const struct chunk *c, __u32 cmd)
{
	const struct plan *p = t->stream->plan;
	const unsigned int most = t->w->run->stop_when.in_flight;
	unsigned int limit = t->depth, load;
	double wanted;

	if (p->opt.mode == PLAN_LOAD) {
		/* Until it is issued, the load is that of the one before it. */
		wanted = plan_load(p, cmd ? cmd - 1 : 0) * c->gain + t->feedback.rest;
		load = level_limit(wanted, p->most);
		t->feedback.rest = fmax(-1, fmin(1, wanted - load));
		limit = load < limit ? load : limit;
	}
	return most && most < limit ? most + 1 : limit;
}

/* Adds the stream's command to a chunk. Return: false without memory. */
static bool add_command(struct timed *t, struct chunk *c, unsigned int lane)
{
	static __u32 after[CHUNK_NUMBERS];
	const struct stream *s = t->stream;
	const __u32 nth = s->next - 1;
	const struct command *cmd = &s->plan->file->cmds[nth];
	const __u64 due = plan_due(s->plan, nth);
	struct part *p = &c->parts[lane];
	struct ref *ref = &c->refs[c->nr];
	unsigned int nr, i;
	struct smq_sg_timed_entry *e;

	if (find_waits(t, c, lane, after, &nr))
		return false;
	for (i = 0; i + 1 < nr; i++)
		if (!chunk_add_entry(t, p, due, after[i]))
			return false;
	e = chunk_add_entry(t, p, due, nr ? after[nr - 1] : 0);
	if (!e)
		return false;
	t->numbers[nth % STREAM_WINDOW] = e->number;
	e->run.flags &= ~SMQ_SG_TIMED_NOTHING;
	e->inflight = limit_of(t, c, nth);
	e->file = cmd->dev;
	e->run.slot = (c - t->chunks) * t->targets[cmd->dev].room + t->targets[cmd->dev].nr;
	*ref = (struct ref){ .entry = p->nr - 1, .lane = lane };
	fill_slot(t, c, cmd, ref);
	c->nr++;
	return true;
}

/* Makes an entry without a command of one whose slot could not be filled. */
static void refuse(struct chunk *c, struct ref *ref, int error)
{
	struct smq_sg_timed_entry *e = &c->parts[ref->lane].entries[ref->entry];

	ref->error = -error;
	e->run = (struct smq_sg_run){ .flags = e->run.flags | SMQ_SG_TIMED_NOTHING };
	e->inflight = 0;
	e->file = 0;
}

static void fill_slots(struct timed *t, struct chunk *c, struct timed_target *g)
{
	unsigned int first = (c - t->chunks) * g->room, at, n;
	__u32 done;
	int ret;

	for (at = 0; at < g->nr; at += done) {
		n = g->nr - at < GROUP ? g->nr - at : GROUP;
		ret = smq_prepare(g->dev, first + at, &g->slots[at], n, &done, NULL);
		if (ret)
			refuse(c, &c->refs[g->which[at + done++]], ret);
	}
	g->nr = 0;
}

static unsigned int most_commands(const struct timed *t)
{
	const struct stream *s = t->stream;
	double most;

	if (s->plan->opt.mode != PLAN_LOAD)
		return CHUNK_COMMANDS;
	most = fmax(2 * plan_load(s->plan, s->next - 1), s->next / LOAD_SHARE);
	return fmin(fmax(most, LOAD_COMMANDS), CHUNK_COMMANDS);
}

/* Whether the stream's command fits into a chunk. An empty one has room for any command. */
static bool fits(const struct timed *t, const struct chunk *c, __u32 numbers)
{
	const struct stream *s = t->stream;
	const struct cmdfile *file = s->plan->file;

	if (!c->nr)
		return true;
	/* An entry for each wait, up to three more, and the last entries of all parts. */
	return c->nr < most_commands(t) &&
		numbers + s->nr_waits + 3 + s->nr_lanes <= CHUNK_NUMBERS &&
		t->used + chunk_own_bytes(file, &file->cmds[s->next - 1]) <= t->chunk_bytes;
}

/* Ends each part with an entry that tells when all before it have been sent. */
static bool end_parts(struct timed *t, struct chunk *c)
{
	struct smq_sg_timed_entry *e;
	unsigned int lane;
	struct part *p;

	for (lane = 0; lane < t->stream->nr_lanes; lane++) {
		p = &c->parts[lane];
		if (!p->nr)
			continue;
		e = chunk_add_entry(t, p, p->entries[p->nr - 1].due, 0);
		if (!e)
			return false;
		t->lanes[lane].sent = e->number;
		t->lanes[lane].chunk = t->built;
	}
	return true;
}

static bool build(struct timed *t, struct chunk *c)
{
	const struct cmdfile *file = t->stream->plan->file;
	struct stream *s = t->stream;
	__u32 base = t->number;
	unsigned int lane;

	c->first = s->next - t->has_step;
	stream_forget(s, t->built < CHUNKS - 1 ? 0 :
		      timed_chunk(t, t->built - (CHUNKS - 1))->first);
	for (;;) {
		if (!t->has_step) {
			if (!stream_has_next(s))
				return true;
			lane = t->lane_of[file->cmds[s->next].cpu - CPU_ANY];
			if (!stream_next(s, lane))
				return false;
			t->has_step = true;
		}
		if (!fits(t, c, t->number - base))
			return true;
		lane = t->lane_of[file->cmds[s->next - 1].cpu - CPU_ANY];
		if (!add_command(t, c, lane))
			return false;
		t->has_step = false;
	}
}

bool timed_build(struct timed *t)
{
	struct chunk *c = timed_chunk(t, t->built);
	unsigned int i;

	c->nr = 0;
	c->taken = 0;
	c->gain = 1;
	if (t->feedback.had > 0)
		c->gain = fmax(1 / LOAD_GAIN,
			       fmin(LOAD_GAIN, t->feedback.allowed / t->feedback.had));
	c->written = 0;
	t->used = 0;
	for (i = 0; i < t->stream->nr_lanes; i++)
		c->parts[i].nr = 0;
	if (!build(t, c) || !end_parts(t, c)) {
		warnx("no memory for the commands in flight");
		return false;
	}
	for (i = 0; i < t->w->run->nr_targets; i++)
		fill_slots(t, c, &t->targets[i]);
	t->built++;
	return true;
}
