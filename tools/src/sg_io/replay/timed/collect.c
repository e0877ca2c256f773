// SPDX-License-Identifier: GPL-2.0
/* Takes the results of the commands, in the order of the file. */
#include <err.h>
#include <errno.h>

#include "collect.h"

/* After this time without progress it is worth counting what has not ended. */
#define SLOW_NS	NS_PER_S
/* Each time that a chunk has ended, what earlier ones had counts this much less. */
#define LOAD_WEIGHT	0.8

static const struct smq_sg_timed_result *result_of(const struct chunk *c, const struct ref *ref)
{
	return &c->parts[ref->lane].results[ref->entry];
}

/* Whether the kernel has begun to write a result. */
static bool is_written(const struct chunk *c, unsigned int nth)
{
	return !__atomic_load_n(&result_of(c, &c->refs[nth])->reserved, __ATOMIC_ACQUIRE);
}

static struct outcome outcome_of(const struct smq_sg_timed_result *r)
{
	struct smq_outcome got;
	struct outcome out;

	smq_timed_outcome(r, &got);
	out = (struct outcome){
		.error = got.error, .status = got.status, .host = got.host, .resid = got.resid,
	};
	/* Descriptor format, of which the kernel has kept these. */
	if (r->result > 0 && r->result & SMQ_SG_RESULT_SENSE) {
		out.sense_len = 8;
		out.sense[0] = 0x72;
		out.sense[1] = got.key;
		out.sense[2] = got.asc;
		out.sense[3] = got.ascq;
	}
	return out;
}

/* When the last command that @ref's waited for has ended; 0: it waited for none. */
static __u64 waited_until(const struct timed *t, const struct part *p, const struct ref *ref)
{
	const struct smq_sg_timed_entry *e = &p->entries[ref->entry];
	__u64 until = 0, end;

	for (; e->after; e--) {
		end = t->ends[e->after % SMQ_SG_TIMED_WINDOW];
		until = end > until ? end : until;
		if (e == p->entries || !(e[-1].run.flags & SMQ_SG_TIMED_NOTHING))
			break;
	}
	return until;
}

/*
 * Adds a command to what is known about its lane. @due, @issued: in ns from the start. @in_flight:
 * how many were in flight before it when it was due, or issued, see take().
 */
static void note_issue(struct timed *t, const struct chunk *c, const struct ref *ref, __u64 due,
		       __u64 issued, size_t in_flight)
{
	struct run *run = t->w->run;
	const struct stop_when *when = &run->stop_when;
	struct lane *l = &run->lanes[ref->lane];
	struct timed_lane *known = &t->lanes[ref->lane];
	__u64 late = issued > due ? issued - due : 0, free;

	free = known->issued > due ? known->issued : due;
	known->issued = issued;
	if (t->start_ns + issued < run_counts_from(run))
		return;
	l->held += waited_until(t, &c->parts[ref->lane], ref) > free;
	if (when->in_flight && in_flight + 1 > when->in_flight)
		run_stop(run, STOP_IN_FLIGHT);
	if (l->plan->opt.mode != PLAN_TIME)
		return;
	hist_add(&l->late, late);
	l->waited += in_flight >= t->depth;
	if (when->late_ns && late > when->late_ns)
		run_stop(run, STOP_LATE);
}

/* Adds the load up to the issue of @cmd. @area, @busy: those of t->level before that. */
static void note_load(struct timed *t, const struct chunk *c, __u32 cmd, double area, double busy)
{
	t->feedback.allowed += t->feedback.now * (t->level.busy - busy);
	t->feedback.had += t->level.area - area;
	t->feedback.now = plan_load(t->stream->plan, cmd) * c->gain;
}

static void take(struct timed *t, struct chunk *c, unsigned int nth)
{
	const double area = t->level.area, busy = t->level.busy;
	const struct ref *ref = &c->refs[nth];
	const struct part *p = &c->parts[ref->lane];
	struct run *run = t->w->run;
	struct lane *l = &run->lanes[ref->lane];
	struct smq_sg_timed_result r = *result_of(c, ref);
	const struct smq_sg_timed_entry *e = &p->entries[ref->entry];
	const struct command *cmd = &run->file->cmds[c->first + nth];
	struct request rq = {
		.target = &run->targets[cmd->dev], .cmd = cmd, .sequence = c->first + nth,
		.buffer = t->memory + ref->page * CHUNK_PAGE,
	};

	/* The batch has failed as a whole. */
	if (r.reserved) {
		r = (struct smq_sg_timed_result){ .result = p->error ?: -EINTR };
		r.issued = clock_ns() - t->start_ns;
		r.ended = r.issued;
	}
	/* It was never issued. */
	if (t->stop && (r.result == -ECANCELED || r.result == -EINTR))
		return;
	if (ref->error)
		r.result = -ref->error;
	l->next++;
	t->ends[e->number % SMQ_SG_TIMED_WINDOW] = r.ended;
	level_until(&t->level, l->plan->opt.mode == PLAN_TIME && !run->stop_when.in_flight ?
		   e->due : r.issued);
	if (l->plan->opt.mode == PLAN_LOAD)
		note_load(t, c, c->first + nth, area, busy);
	note_issue(t, c, ref, e->due, r.issued, t->level.flight.nr);
	if (!flight_add(&t->level.flight, (struct flight_end){ r.ended })) {
		warnx("no memory for the commands in flight");
		run->lost = true;
		atomic_store(&run->stop, true);
	}
	rq.submit_ns = t->start_ns + r.issued;
	rq.out = outcome_of(&r);
	worker_count(t->w, &rq, t->start_ns + r.ended);
}

/* Tells the monitor how many commands should have ended, if the oldest was due long ago. */
static void note_progress(struct timed *t)
{
	const struct chunk *c = timed_chunk(t, t->ended);
	__u64 now = clock_ns(), last = t->w->last_ns, due;
	unsigned int busy = 0, i;

	for (i = c->taken; t->ended < t->built && i < c->nr; i++) {
		due = t->start_ns + plan_due(t->stream->plan, c->first + i);
		last = !busy && due > last ? due : last;
		if (due > now || now - last < SLOW_NS)
			break;
		busy += !is_written(c, i);
	}
	atomic_store_explicit(&t->w->progress_ns, busy ? last : now, memory_order_relaxed);
	atomic_store_explicit(&t->w->busy, busy, memory_order_relaxed);
}

static bool has_ended(struct timed *t, const struct chunk *c)
{
	bool ended;

	pthread_mutex_lock(&t->lock);
	ended = !c->running;
	pthread_mutex_unlock(&t->lock);
	return ended;
}

/*
 * The kernel may be writing a result while this function looks at it. So until a chunk has ended,
 * it takes what was there when it looked the last time.
 */
void timed_collect(struct timed *t)
{
	struct chunk *c;
	bool ended = true;

	while (ended && t->ended < t->built) {
		c = timed_chunk(t, t->ended);
		ended = has_ended(t, c);
		for (; c->taken < (ended ? c->nr : c->written); c->taken++)
			take(t, c, c->taken);
		t->ended += ended;
		t->feedback.allowed *= ended ? LOAD_WEIGHT : 1;
		t->feedback.had *= ended ? LOAD_WEIGHT : 1;
		while (!ended && c->written < c->nr && is_written(c, c->written))
			c->written++;
	}
	note_progress(t);
}
