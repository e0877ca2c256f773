// SPDX-License-Identifier: GPL-2.0
#include <err.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "engine.h"
#include "lane.h"
#include "util.h"

/*
 * A process that sleeps wakes up late, by an unknown time. So if a command is due within awake_ns,
 * its lane reads the clock in a loop, and in the last SILENT_NS it does nothing else: it does not
 * reap.
 */
#define SILENT_NS	40000
#define FAR_NS		(1ULL << 62)	/* more than a century: a later due time is cut to this */
/*
 * A lane whose next command is held looks again after an eighth of the time that it has waited. It
 * cannot be woken: a wakeup would cost the other lane a system call.
 */
#define HELD_NS_MIN	10000
#define HELD_NS_MAX	1000000

static __u64 due_ns(const struct run *run, const struct lane *l, size_t nth)
{
	__u64 base = run->start_ns + run->lead_ns;
	const struct command *cmd = &run->file->cmds[l->cmds[nth]];
	double ns;

	if (!l->speed)
		return base;
	ns = (cmd->at_us - l->first_us) * 1000 / l->speed;
	return base + (ns < FAR_NS ? (__u64)ns : FAR_NS);
}

static void prepare(struct worker *w, struct request *rq, __u64 due)
{
	__u64 now = clock_ns();

	rq->due_ns = due;
	rq->submit_ns = now;
	rq->in_flight = true;
	w->in_flight++;
	atomic_store_explicit(&w->progress_ns, now, memory_order_relaxed);
	atomic_store_explicit(&w->busy, w->in_flight, memory_order_relaxed);
}

static void note_late(struct lane *l, __u64 due, __u64 now)
{
	if (l->speed)
		hist_add(&l->late, now > due ? now - due : 0);
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

static void issue_refused(struct worker *w, struct request *rq)
{
	/* A command may be refused more than once, but counts once. */
	if (!rq->overtaken && is_overtaken(w->lane, rq)) {
		rq->overtaken = true;
		w->lane->overtaken++;
	}
	prepare(w, rq, rq->due_ns);
	w->run->engine->queue(w, rq);
	if (w->run->engine->submit)
		w->run->engine->submit(w);
}

/*
 * The place in @free of a request for the next command's device; @nr_free if there is none. The
 * requests of a worker use the targets in turn, and those that were used last are at the end.
 */
static unsigned int find_free(const struct worker *w, const struct lane *l)
{
	unsigned int nr = w->run->nr_targets, i, dev;

	if (nr == 1)
		return w->nr_free ? w->nr_free - 1 : 0;
	dev = w->run->file->cmds[l->cmds[l->next]].dev;
	for (i = w->nr_free; i--;)
		if (w->free[i]->index % nr == dev)
			return i;
	return w->nr_free;
}

/* Whether there is a free request for the next command, if there is one. */
static bool has_room(const struct worker *w)
{
	const struct lane *l = w->lane;

	return l->next == l->nr ? w->nr_free : find_free(w, l) < w->nr_free;
}

/* Whether the next command must wait until earlier ones with the same blocks have ended. */
static bool is_held(struct lane *l, __u64 now)
{
	bool held = conflicts_hold(l->conflicts, &l->view, l->cmds[l->next]);

	if (held && !l->held_ns) {
		l->held_ns = now;
		l->held++;
	} else if (!held) {
		l->held_ns = 0;
	}
	return held;
}

static __u64 held_wait(const struct lane *l, __u64 now)
{
	__u64 wait = (now - l->held_ns) / 8;

	if (wait < HELD_NS_MIN)
		return HELD_NS_MIN;
	return wait < HELD_NS_MAX ? wait : HELD_NS_MAX;
}

/*
 * Issues all commands that are due at @now, as long as there are free requests. Submits each by a
 * system call of its own, even to a ring: the kernel plugs commands that it gets together, and
 * Linux up to 6.9 reverses the order of plugged commands.
 */
static void issue_due(struct worker *w, __u64 now)
{
	const struct engine *engine = w->run->engine;
	struct lane *l = w->lane;
	struct request *rq;
	unsigned int at;
	__u64 due;

	/* A refused command is in a free request, and is issued first. */
	while (l->next < l->nr && !w->full && !w->refused) {
		at = find_free(w, l);
		if (at == w->nr_free)
			break;
		due = due_ns(w->run, l, l->next);
		if (due > now || is_held(l, now))
			break;
		rq = w->free[at];
		w->free[at] = w->free[--w->nr_free];
		rq->sequence = l->cmds[l->next++];
		rq->cmd = &w->run->file->cmds[rq->sequence];
		rq->overtaken = false;
		prepare(w, rq, due);
		note_late(l, due, rq->submit_ns);
		l->waited += l->speed && due <= l->room_ns;
		engine->queue(w, rq);
		if (engine->submit)
			engine->submit(w);
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

	while ((now = clock_ns()) < due && !w->refused &&
	       !atomic_load_explicit(&run->stop, memory_order_relaxed))
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
	due = due_ns(w->run, l, l->next);
	if (!has_room(w))
		return due > now && due - now < SLICE_NS ? due - now : SLICE_NS;
	if (due > now && due - now > l->awake_ns)
		return due - now - l->awake_ns < SLICE_NS ? due - now - l->awake_ns : SLICE_NS;
	if (due > now)
		now = stay_awake(w, due);
	if (has_room(w))
		issue_due(w, now);
	return l->held_ns ? held_wait(l, now) : 0;
}

static void note_end(struct worker *w, const struct request *rq)
{
	conflicts_ended(w->lane->conflicts, rq->sequence);
}

static bool has_work(const struct worker *w)
{
	if (w->in_flight)
		return true;
	if (atomic_load_explicit(&w->run->stop, memory_order_relaxed))
		return false;
	return w->lane->next < w->lane->nr || w->refused;
}

void lane_work(struct worker *w)
{
	const struct run *run = w->run;
	struct lane *l = w->lane;
	__u64 wait;
	bool full;

	w->ended = note_end;
	/* By default a timer may be 50 us late. */
	prctl(PR_SET_TIMERSLACK, 1);
	if (l->cpu != CPU_ANY && !worker_move(w, l->cpu))
		warn("cpu=%d: its commands are issued on other CPUs", l->cpu);
	while (has_work(w)) {
		if (atomic_load_explicit(&run->stop, memory_order_relaxed))
			wait = SLICE_NS;
		else
			wait = advance(w);
		full = !has_room(w);
		if (w->in_flight)
			run->engine->reap(w, 1, wait);
		else if (wait && !w->full)
			sleep_for(wait);
		if (full && has_room(w))
			l->room_ns = clock_ns();
	}
}

/* Return: the lane of @cpu, a new one if there was none; NULL if there is no memory. */
static struct lane *find_lane(struct lane **lanes, unsigned int *nr, int cpu)
{
	struct lane *bigger;
	unsigned int i;

	for (i = 0; i < *nr; i++)
		if ((*lanes)[i].cpu == cpu)
			return &(*lanes)[i];
	bigger = realloc(*lanes, (*nr + 1) * sizeof(*bigger));
	if (!bigger)
		return NULL;
	*lanes = bigger;
	bigger[*nr] = (struct lane){ .cpu = cpu };
	return &bigger[(*nr)++];
}

static int split_into_lanes(const struct cmdfile *file, struct lane **lanes, unsigned int *nr)
{
	struct lane *l;
	unsigned int k;
	size_t i;

	for (i = 0; i < file->nr; i++) {
		l = find_lane(lanes, nr, file->cmds[i].cpu);
		if (!l)
			goto nomem;
		l->nr++;
	}
	for (k = 0; k < *nr; k++) {
		l = &(*lanes)[k];
		l->cmds = calloc(l->nr, sizeof(*l->cmds));
		if (!l->cmds)
			goto nomem;
		l->nr = 0;
	}
	for (i = 0; i < file->nr; i++) {
		l = find_lane(lanes, nr, file->cmds[i].cpu);
		l->cmds[l->nr++] = i;
	}
	return 0;
nomem:
	warnx("no memory for the commands of %u CPUs", *nr);
	return -1;
}

/* A CPU's commands are issued in the order of the file, so their times must not decrease. */
static int check_times(const struct cmdfile *file, const struct lane *l)
{
	const struct command *cmd, *last;
	size_t i;

	for (i = 1; i < l->nr; i++) {
		cmd = &file->cmds[l->cmds[i]];
		last = &file->cmds[l->cmds[i - 1]];
		if (cmd->at_us >= last->at_us)
			continue;
		warnx("%s:%u: at=%llu is before at=%llu of line %u, which is issued first on the "
		      "same CPU", file->name, cmd->line, cmd->at_us, last->at_us, last->line);
		return -1;
	}
	return 0;
}

static void free_commands(struct lane *lanes, unsigned int nr)
{
	unsigned int i;

	if (nr)
		conflicts_free(lanes[0].conflicts);
	for (i = 0; lanes && i < nr; i++)
		free(lanes[i].cmds);
}

/* Moves the lanes, but not their lists of commands, to memory shared with their processes. */
static struct lane *share(struct lane *lanes, unsigned int nr)
{
	struct lane *shared = shared_alloc(nr * sizeof(*lanes));

	if (!shared) {
		warnx("no memory for the commands of %u CPUs", nr);
		return NULL;
	}
	memcpy(shared, lanes, nr * sizeof(*lanes));
	free(lanes);
	return shared;
}

struct lane *lanes_new(const struct cmdfile *file, double speed, unsigned int *nr)
{
	struct lane *lanes = NULL, *shared;
	struct conflicts *conflicts;
	__u64 first_us = ~0ULL;
	unsigned int k;
	size_t i;

	*nr = 0;
	if (split_into_lanes(file, &lanes, nr))
		goto fail;
	for (i = 0; i < file->nr; i++)
		if (file->cmds[i].at_us < first_us)
			first_us = file->cmds[i].at_us;
	conflicts = conflicts_new(file, speed);
	if (!conflicts) {
		warnx("no memory for the conflicts of %zu commands", file->nr);
		goto fail;
	}
	for (k = 0; k < *nr; k++)
		lanes[k].conflicts = conflicts;
	for (k = 0; k < *nr; k++) {
		lanes[k].first_us = first_us;
		lanes[k].speed = speed;
		if (speed && check_times(file, &lanes[k]))
			goto fail;
	}
	shared = share(lanes, *nr);
	if (shared)
		return shared;
fail:
	free_commands(lanes, *nr);
	free(lanes);
	return NULL;
}

void lanes_free(struct lane *lanes, unsigned int nr)
{
	free_commands(lanes, nr);
	shared_free(lanes, nr * sizeof(*lanes));
}
