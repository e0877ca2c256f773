// SPDX-License-Identifier: GPL-2.0
#include <err.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "issue/workers/engine.h"
#include "lane.h"
#include "util.h"

/*
 * A process that sleeps wakes up late, by an unknown time. So if a command is due within awake_ns,
 * its lane reads the clock in a loop, and in the last SILENT_NS it does nothing else: it does not
 * reap.
 */
#define SILENT_NS	40000
/*
 * A lane whose next command is held looks again at once, for @awake_ns and HELD_NS_MAX; then after
 * an eighth of the time that it has waited. It cannot be woken: a wakeup would cost the other lane
 * a system call.
 */
#define HELD_NS_MIN	10000
#define HELD_NS_MAX	1000000
/* Time for all processes to see that a pass has ended, before the first command is due. */
#define LEAD_NS		(NS_PER_S / 50)
#define PASS_WAIT_NS	200000

static bool has_stopped(const struct run *run)
{
	return atomic_load_explicit(&run->stop, memory_order_relaxed);
}

static __u64 due_ns(const struct lane *l)
{
	return l->begin_ns + plan_due(l->plan, l->cmds[l->next]);
}

static void note_late(struct worker *w, const struct request *rq)
{
	const struct stop_when *when = &w->run->stop_when;
	__u64 late = rq->submit_ns > rq->due_ns ? rq->submit_ns - rq->due_ns : 0;
	struct lane *l = w->lane;

	if (l->plan->opt.mode != PLAN_TIME || rq->submit_ns < run_counts_from(w->run))
		return;
	hist_add(&l->late, late);
	l->waited += rq->due_ns <= l->room_ns;
	if (when->late_ns && late > when->late_ns)
		run_stop(w->run, STOP_LATE);
}

/* Takes the free request with the earliest refused command; NULL if there is none. */
static struct request *take_refused(struct worker *w)
{
	unsigned int i, found = w->nr_free;
	struct request *rq;

	for (i = 0; w->refused && i < w->nr_free; i++)
		if (w->free[i]->cmd && (found == w->nr_free ||
					w->free[i]->sequence < w->free[found]->sequence))
			found = i;
	if (found == w->nr_free) {
		w->refused = false;
		return NULL;
	}
	rq = w->free[found];
	w->free[found] = w->free[--w->nr_free];
	return rq;
}

/* Whether a command that comes later in the file than @rq's has been issued. */
static bool is_overtaken(const struct lane *l, const struct request *rq)
{
	return l->next && l->cmds[l->next - 1] > rq->sequence;
}

static void send(struct worker *w, struct request *rq)
{
	w->run->engine->queue(w, rq);
	if (w->run->engine->submit)
		w->run->engine->submit(w);
}

static void issue_refused(struct worker *w, struct request *rq)
{
	/* A command may be refused more than once, but counts once. */
	if (!rq->overtaken && is_overtaken(w->lane, rq)) {
		rq->overtaken = true;
		w->lane->overtaken++;
	}
	worker_begin(w, rq);
	send(w, rq);
}

/*
 * Gives the next command and its data to a request, if one is free and no refused command has to be
 * issued first. Return: whether the next command has a request.
 */
static bool prepare_next(struct worker *w)
{
	struct lane *l = w->lane;
	struct request *rq;

	if (l->rq || w->refused || l->next == l->nr || !w->nr_free)
		return l->rq;
	rq = w->free[--w->nr_free];
	rq->sequence = l->cmds[l->next];
	rq->cmd = &w->run->file->cmds[rq->sequence];
	rq->target = &w->run->targets[rq->cmd->dev];
	rq->overtaken = false;
	if (rq->cmd->dir == DIR_OUT)
		cmdfile_fill(rq->cmd, rq->buffer);
	l->rq = rq;
	return true;
}

static bool has_room(const struct worker *w)
{
	return w->lane->rq || w->nr_free;
}

/* Whether the next command must wait until earlier ones have been issued or have ended. */
static bool is_held(struct worker *w, __u64 now)
{
	struct lane *l = w->lane;
	size_t next = l->cmds[l->next];
	bool waits = !plan_admits(l->plan, next), held = !waits &&
		plan_hold(l->plan, &l->view, next);

	if (!waits && !held) {
		l->held_ns = 0;
		l->holds = false;
		return false;
	}
	if (!l->held_ns)
		l->held_ns = now;
	if (held && !l->holds && now >= run_counts_from(w->run))
		l->held++;
	l->holds |= held;
	return true;
}

static __u64 held_wait(const struct lane *l, __u64 now)
{
	__u64 held = now - l->held_ns;

	if (held < l->awake_ns && held < HELD_NS_MAX)
		return 0;
	if (held / 8 < HELD_NS_MIN)
		return HELD_NS_MIN;
	return held / 8 < HELD_NS_MAX ? held / 8 : HELD_NS_MAX;
}

static void issue_next(struct worker *w)
{
	struct lane *l = w->lane;
	struct request *rq = l->rq;
	unsigned int most = w->run->stop_when.in_flight;

	rq->due_ns = due_ns(l);
	worker_begin(w, rq);
	note_late(w, rq);
	l->rq = NULL;
	l->next++;
	if (plan_issued(l->plan, rq->sequence, rq->submit_ns - l->begin_ns) > most && most &&
	    rq->submit_ns >= run_counts_from(w->run))
		run_stop(w->run, STOP_IN_FLIGHT);
	send(w, rq);
}

/*
 * Issues all commands that are due at @now, as long as there are free requests. Submits each by a
 * system call of its own, even to a ring: the kernel plugs commands that it gets together, and
 * Linux up to 6.9 reverses the order of plugged commands.
 */
static void issue_due(struct worker *w, __u64 now)
{
	/* A refused command is in a free request, and is issued first. */
	while (!has_stopped(w->run) && !w->full && !w->refused && prepare_next(w)) {
		if (due_ns(w->lane) > now || is_held(w, now))
			break;
		issue_next(w);
	}
}

/*
 * Waits in a loop until @due, which is near, and reaps meanwhile. Returns early if a command was
 * refused, or the run is to stop.
 *
 * Return: the current time, so that the caller need not read the clock, which may be a system call.
 */
static __u64 stay_awake(struct worker *w, __u64 due)
{
	const struct run *run = w->run;
	__u64 now;

	while ((now = clock_ns()) < due && !w->refused && !has_stopped(run))
		if (w->in_flight && due - now > SILENT_NS)
			run->engine->reap(w, 1, 0);
	return now;
}

static void sleep_for(__u64 ns)
{
	struct timespec ts = { .tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S };

	clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, NULL);
}

/* Issues all commands that can be issued now. Return: for how many ns the caller may wait. */
static __u64 advance(struct worker *w)
{
	struct lane *l = w->lane;
	struct request *rq;
	__u64 due, now;

	/* If the path is full, there is room again when a command has ended. */
	if (w->full && w->in_flight)
		return SLICE_NS;
	w->full = false;
	rq = take_refused(w);
	if (rq) {
		issue_refused(w, rq);
		return 0;
	}
	if (l->next == l->nr)
		return SLICE_NS;
	now = clock_ns();
	due = due_ns(l);
	if (!prepare_next(w))
		return due > now && due - now < SLICE_NS ? due - now : SLICE_NS;
	if (due > now && due - now > l->awake_ns)
		return due - now - l->awake_ns < SLICE_NS ? due - now - l->awake_ns : SLICE_NS;
	if (due > now)
		now = stay_awake(w, due);
	issue_due(w, now);
	return l->held_ns ? held_wait(l, now) : 0;
}

static void note_end(struct worker *w, const struct request *rq)
{
	plan_ended(w->lane->plan, rq->sequence, clock_ns() - w->lane->begin_ns);
}

static bool has_work(const struct worker *w)
{
	if (w->in_flight)
		return true;
	if (has_stopped(w->run))
		return false;
	return w->lane->next < w->lane->nr || w->refused;
}

/*
 * Waits until all lanes have issued all commands, and these have ended. Return: whether the lane is
 * to issue its commands once more.
 */
static bool begin_pass(struct worker *w)
{
	const struct run *run = w->run;
	struct lane *l = w->lane;
	struct plan_state *s = l->plan->state;

	if (has_stopped(run) || l->pass + 1 == run->passes)
		return false;
	if (atomic_fetch_add(&s->arrived, 1) + 1 == run->nr_lanes) {
		atomic_store(&s->arrived, 0);
		plan_again(l->plan, clock_ns() + LEAD_NS);
		atomic_store(&s->pass, l->pass + 1);
	}
	while (atomic_load(&s->pass) == l->pass) {
		if (has_stopped(run))
			return false;
		sleep_for(PASS_WAIT_NS);
	}
	l->pass++;
	l->begin_ns = s->start_ns;
	l->next = 0;
	l->view = (struct plan_view){};
	return true;
}

static void work_pass(struct worker *w)
{
	const struct run *run = w->run;
	struct lane *l = w->lane;
	__u64 wait;
	bool full;

	while (has_work(w)) {
		wait = has_stopped(run) ? SLICE_NS : advance(w);
		full = !has_room(w);
		if (w->in_flight)
			run->engine->reap(w, 1, wait);
		else if (wait && !w->full)
			sleep_for(wait);
		if (full && has_room(w))
			l->room_ns = clock_ns();
	}
}

void lane_work(struct worker *w)
{
	struct lane *l = w->lane;

	touch_memory(l, sizeof(*l));
	w->ended = note_end;
	/* By default a timer may be 50 us late. */
	prctl(PR_SET_TIMERSLACK, 1);
	if (l->cpu != CPU_ANY && !worker_move(w, l->cpu))
		warn("cpu=%d: its commands are issued on other CPUs", l->cpu);
	l->begin_ns = run_begin(w->run);
	do
		work_pass(w);
	while (begin_pass(w));
}

void lane_assign(struct worker *w, unsigned int nth)
{
	w->lane = &w->run->lanes[nth];
	w->home = w->lane->cpu;
}

/* Makes a lane for each CPU that @file names. Return: false if there is no memory. */
static bool split(struct plan *plan, struct lane **lanes, unsigned int *nr)
{
	const struct cmdfile *file = plan->file;
	size_t counts[CPU_SETSIZE + 1] = {}, i;
	struct lane *of[CPU_SETSIZE + 1], *l;
	unsigned int k;

	for (i = 0; i < file->nr; i++)
		*nr += !counts[file->cmds[i].cpu - CPU_ANY]++;
	*lanes = shared_alloc(*nr * sizeof(**lanes));
	for (l = *lanes, k = 0; l && k <= CPU_SETSIZE; k++) {
		if (!counts[k])
			continue;
		l->plan = plan;
		l->cpu = k + CPU_ANY;
		l->cmds = calloc(counts[k], sizeof(*l->cmds));
		if (!l->cmds)
			return false;
		of[k] = l++;
	}
	for (i = 0; l && i < file->nr; i++) {
		l = of[file->cmds[i].cpu - CPU_ANY];
		l->cmds[l->nr++] = i;
	}
	return l;
}

struct lane *lanes_new(struct plan *plan, unsigned int *nr)
{
	struct lane *lanes = NULL;

	*nr = 0;
	if (split(plan, &lanes, nr))
		return lanes;
	warnx("no memory for the commands of %u CPUs", *nr);
	lanes_free(lanes, *nr);
	return NULL;
}

void lanes_free(struct lane *lanes, unsigned int nr)
{
	unsigned int i;

	for (i = 0; lanes && i < nr; i++)
		free(lanes[i].cmds);
	shared_free(lanes, nr * sizeof(*lanes));
}
