// SPDX-License-Identifier: GPL-2.0
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fidelity.h"
#include "workers/level.h"

#define NS_PER_US	1000ULL
#define LOAD_ERROR	0.02	/* how far the load may differ with --mode load */

static int by_value(const void *a, const void *b)
{
	const __u64 *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* The smallest value that a share of all, in permille, does not exceed. @v: sorted. */
static __u64 percentile(const __u64 *v, size_t nr, unsigned int permille)
{
	size_t i = (nr * permille + 999) / 1000;

	return nr ? v[i ? i - 1 : 0] : 0;
}

static struct spread spread_of(__u64 *v, size_t nr)
{
	qsort(v, nr, sizeof(*v), by_value);
	return (struct spread){
		.nr = nr, .p50 = percentile(v, nr, 500), .p99 = percentile(v, nr, 990),
		.p999 = percentile(v, nr, 999), .max = percentile(v, nr, 1000),
	};
}

static __u64 issued(const struct pair *p)
{
	return p->due + p->late;
}

/* The greatest difference of the shares of values up to x, over all x. @a and @b: sorted. */
static double ks_distance(const __u64 *a, const __u64 *b, size_t nr)
{
	size_t i = 0, k = 0;
	double most = 0, d;
	__u64 x;

	while (i < nr && k < nr) {
		x = a[i] < b[k] ? a[i] : b[k];
		while (i < nr && a[i] == x)
			i++;
		while (k < nr && b[k] == x)
			k++;
		d = fabs((double)i - (double)k) / nr;
		most = d > most ? d : most;
	}
	return most;
}

static void to_gaps(__u64 *at, size_t nr)
{
	size_t i;

	qsort(at, nr, sizeof(*at), by_value);
	for (i = 0; i + 1 < nr; i++)
		at[i] = at[i + 1] - at[i];
	qsort(at, nr ? nr - 1 : 0, sizeof(*at), by_value);
}

/*
 * Sorts by the time of the replay, by merging, and counts pairs that change their order. Commands
 * that the original issued in the same microsecond have no order: before, they stand in that of the
 * replay.
 */
static __u64 count_inversions(struct pair *p, struct pair *space, size_t nr)
{
	size_t half = nr / 2, i = 0, k = half, n = 0;
	__u64 count;

	if (nr < 2)
		return 0;
	count = count_inversions(p, space, half);
	count += count_inversions(p + half, space, nr - half);
	while (i < half || k < nr) {
		if (k == nr || (i < half && issued(&p[i]) <= issued(&p[k]))) {
			space[n++] = p[i++];
			continue;
		}
		/* p[k] was issued before what is left of the first half, but was due later. */
		count += half - i;
		space[n++] = p[k++];
	}
	memcpy(p, space, nr * sizeof(*p));
	return count;
}

static bool find_inversions(struct fidelity *f)
{
	struct pair *copy = calloc(f->nr + 1, sizeof(*copy));
	struct pair *space = calloc(f->nr + 1, sizeof(*space));
	unsigned int dev;
	size_t i, n;

	if (copy && space) {
		memcpy(copy, f->pairs, f->nr * sizeof(*copy));
		f->inversions = count_inversions(copy, space, f->nr);
		for (i = 0; i < f->nr; i++)
			if (f->pairs[i].dev >= f->nr_devs)
				f->nr_devs = f->pairs[i].dev + 1u;
		for (dev = 0; dev < f->nr_devs; dev++) {
			for (n = 0, i = 0; i < f->nr; i++)
				if (f->pairs[i].dev == dev)
					copy[n++] = f->pairs[i];
			f->dev_inversions[dev] = count_inversions(copy, space, n);
		}
	}
	free(copy);
	free(space);
	return copy && space;
}

/* Commands in flight over time. @starts and @ends are sorted; the curve spans @span. */
static void measure_load(struct load *l, const __u64 *starts, const __u64 *ends, size_t nr,
			 __u64 span)
{
	double piece = (double)span / CURVE, from, to;
	unsigned int now = 0, i;
	size_t a = 0, b = 0;
	__u64 at = 0, next;

	while (b < nr) {
		/* A command that ends when another begins was not in flight beside it. */
		next = a < nr && starts[a] < ends[b] ? starts[a] : ends[b];
		/* @now commands were in flight from @at to @next. */
		l->mean += now * (double)(next - at);
		for (i = at / piece; now && i < CURVE && i * piece < next; i++) {
			from = i * piece > at ? i * piece : at;
			to = (i + 1) * piece < next ? (i + 1) * piece : next;
			l->curve[i] += now * (to - from) / piece;
		}
		at = next;
		if (a < nr && starts[a] == next && ends[b] != next) {
			a++;
			now++;
			l->max = now > l->max ? now : l->max;
		} else {
			b++;
			now--;
		}
	}
	l->mean /= at ? at : 1;
}

/* The mean of the means of the groups. Return: false if there is no memory. */
static bool measure_groups(struct load *l, const __u64 *starts, const __u64 *ends, size_t nr)
{
	struct level_means m;
	bool ok = level_means_begin(&m, nr);
	size_t i;

	for (i = 0; ok && i < nr; i++)
		ok = level_means_add(&m, starts[i], ends[i]);
	level_means_end(&m);
	for (i = 0; ok && i < level_groups(nr); i++)
		l->groups += m.means[i] / level_groups(nr);
	free(m.means);
	return ok;
}

/* A command by its end in the original. */
struct end {
	__u64 ns;
	__u64 again;	/* its end in the replay */
};

static int by_end(const void *a, const void *b)
{
	const struct end *x = a, *y = b;

	return (x->ns > y->ns) - (x->ns < y->ns);
}

/*
 * Counts commands that the replay issued before one had ended that had ended before them in the
 * original, not longer before than @window. Recordings have whole microseconds.
 */
static bool find_violations(struct fidelity *f, __u64 window)
{
	struct end *ends = calloc(f->nr + 1, sizeof(*ends));
	/* Places in @ends, whose ends in the replay descend: the first is the latest. */
	size_t *latest = calloc(f->nr + 1, sizeof(*latest)), first = 0, last = 0, next = 0, i;
	const struct pair *p;

	for (i = 0; ends && i < f->nr; i++) {
		p = &f->pairs[i];
		ends[i] = (struct end){ p->due + p->took, issued(p) + p->retook };
	}
	if (ends && latest)
		qsort(ends, f->nr, sizeof(*ends), by_end);
	for (i = 0; ends && latest && i < f->nr; i++) {
		p = &f->pairs[i];
		for (; next < f->nr && ends[next].ns <= p->due; next++) {
			while (last > first && ends[latest[last - 1]].again <= ends[next].again)
				last--;
			latest[last++] = next;
		}
		while (first < last && p->due - ends[latest[first]].ns >= window)
			first++;
		f->violated += first < last &&
			ends[latest[first]].again > issued(p) + NS_PER_US;
	}
	free(latest);
	free(ends);
	return ends && latest;
}

static bool find_loads(struct fidelity *f)
{
	__u64 *v = calloc(4 * f->nr + 1, sizeof(*v));
	__u64 *starts = v, *ends = v + f->nr, *restarts = ends + f->nr, *reends = restarts + f->nr;
	double distance = 0;
	bool ok = true;
	size_t i;

	if (!v)
		return false;
	for (i = 0; i < f->nr; i++) {
		starts[i] = f->pairs[i].due;
		ends[i] = starts[i] + f->pairs[i].took;
		restarts[i] = issued(&f->pairs[i]);
		reends[i] = restarts[i] + f->pairs[i].retook;
		f->span = ends[i] > f->span ? ends[i] : f->span;
		f->span = reends[i] > f->span ? reends[i] : f->span;
	}
	for (i = 0; i < 4; i++)
		qsort(v + i * f->nr, f->nr, sizeof(*v), by_value);
	f->loads = f->nr && f->took.nr == f->nr && f->retook.nr == f->nr && f->span;
	if (f->loads) {
		measure_load(&f->load, starts, ends, f->nr, f->span);
		measure_load(&f->reload, restarts, reends, f->nr, f->span);
		ok = measure_groups(&f->load, starts, ends, f->nr) &&
			measure_groups(&f->reload, restarts, reends, f->nr);
		for (i = 0; i < CURVE; i++)
			distance += fabs(f->load.curve[i] - f->reload.curve[i]) / CURVE;
		f->load_error = f->load.mean ? distance / f->load.mean : 0;
	}
	free(v);
	return ok;
}

bool fidelity_measure(struct fidelity *f, const struct fidelity_how *how)
{
	__u64 *a = calloc(f->nr + 1, sizeof(*a)), *b = calloc(f->nr + 1, sizeof(*b));
	size_t i, n = 0, m = 0, piece;
	bool ok = a && b;

	for (i = 0; ok && i < f->nr; i++) {
		a[i] = f->pairs[i].late;
		f->same_cpu += f->pairs[i].same_cpu;
		f->other_cpu += f->pairs[i].other_cpu;
	}
	if (ok) {
		f->late = spread_of(a, f->nr);
		for (i = 0; i < f->nr; i++) {
			if (f->pairs[i].took)
				a[n++] = f->pairs[i].took;
			if (f->pairs[i].retook)
				b[m++] = f->pairs[i].retook;
		}
		f->took = spread_of(a, n);
		f->retook = spread_of(b, m);
		for (i = 0; i < f->nr; i++) {
			a[i] = f->pairs[i].due;
			b[i] = issued(&f->pairs[i]);
		}
		to_gaps(a, f->nr);
		to_gaps(b, f->nr);
		if (f->nr > 1)
			f->ks = ks_distance(a, b, f->nr - 1);
		ok = find_inversions(f) && find_loads(f);
	}
	if (ok && how->plan.mode == PLAN_DEPEND)
		ok = find_violations(f, how->plan.window_ns);
	for (i = 0; ok && f->span && i < f->nr; i++) {
		piece = (double)f->pairs[i].due * CURVE / f->span;
		piece = piece < CURVE ? piece : CURVE - 1;
		if ((__u64)f->pairs[i].late > f->late_curve[piece])
			f->late_curve[piece] = f->pairs[i].late;
	}
	free(a);
	free(b);
	return ok;
}

/* Whether no replay could be faithful on this machine; if so, there is no verdict. */
static bool was_too_slow(struct fidelity *f, __u64 late_us)
{
	if (f->timer_p99 <= late_us * NS_PER_US)
		return false;
	f->verdict = VERDICT_NONE;
	snprintf(f->why, sizeof(f->why), "the machine was too slow: an empty timer was %.1f us "
		 "late (p99), more than %llu", f->timer_p99 / 1e3, late_us);
	return true;
}

static void judge_time(struct fidelity *f, __u64 late_us)
{
	char *why = f->why;
	size_t size = sizeof(f->why);

	if (was_too_slow(f, late_us))
		return;
	if (f->inversions) {
		f->verdict = VERDICT_REORDERED;
		snprintf(why, size, "%llu pairs of commands were issued in the other order",
			 f->inversions);
	} else if (f->late.p99 > late_us * NS_PER_US) {
		f->verdict = VERDICT_LATE;
		snprintf(why, size, "p99 of the issue error is %.1f us, more than %llu",
			 f->late.p99 / 1e3, late_us);
	} else {
		f->verdict = VERDICT_FAITHFUL;
		snprintf(why, size, "all commands in their order, 99 %% of them at most %.1f us "
			 "late", f->late.p99 / 1e3);
	}
}

/* A load that is that of the original is so on any machine; another may be the machine's fault. */
static void judge_load(struct fidelity *f, __u64 late_us)
{
	double error;

	if (!f->loads) {
		f->verdict = VERDICT_NONE;
		snprintf(f->why, sizeof(f->why), "some lines have no took=");
		return;
	}
	error = f->reload.groups / f->load.groups - 1;
	if (fabs(error) > LOAD_ERROR && was_too_slow(f, late_us))
		return;
	f->verdict = fabs(error) <= LOAD_ERROR ? VERDICT_FAITHFUL : VERDICT_LOAD;
	snprintf(f->why, sizeof(f->why),
		 "while the device was busy, %.2f commands were in flight in the mean, in the original %.2f: %+.1f %%",
		 f->reload.groups, f->load.groups, 100 * error);
}

static void judge_dependencies(struct fidelity *f)
{
	f->verdict = f->violated ? VERDICT_VIOLATED : VERDICT_FAITHFUL;
	snprintf(f->why, sizeof(f->why), "%zu of %zu commands were issued before one that they "
		 "depend on had ended", f->violated, f->nr);
}

void fidelity_judge(struct fidelity *f, const struct fidelity_how *how)
{
	if (!f->nr) {
		f->verdict = VERDICT_NONE;
		snprintf(f->why, sizeof(f->why), "no command is in both recordings");
	} else if (f->missing) {
		f->verdict = VERDICT_INCOMPLETE;
		snprintf(f->why, sizeof(f->why), "%zu of %zu commands are not in the replay",
			 f->missing, f->nr + f->missing);
	} else if (how->plan.mode == PLAN_TIME) {
		judge_time(f, how->late_us);
	} else if (how->plan.mode == PLAN_LOAD) {
		judge_load(f, how->late_us);
	} else if (how->plan.mode == PLAN_DEPEND) {
		judge_dependencies(f);
	} else {
		f->verdict = VERDICT_FAITHFUL;
		snprintf(f->why, sizeof(f->why), "all commands, without their times");
	}
}
