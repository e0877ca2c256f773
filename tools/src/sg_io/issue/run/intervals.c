// SPDX-License-Identifier: GPL-2.0
/* --interval: what happened since the last line, while the run lasts. */
#include <err.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "run.h"

struct intervals {
	const struct run *run;
	const struct run_options *opt;
	const struct worker *workers;
	unsigned int nr;
	__u64 period_ns;
	__u64 begin_ns;		/* when the warm-up has ended */
	__u64 last_ns;		/* the end of the last line's interval */
	__u64 next_ns;
	__u64 bad;		/* until @last_ns */
	struct hist all;
	struct hist *now;	/* by target, as all below */
	struct hist *before;	/* until @last_ns */
};

struct intervals *intervals_new(const struct run *run, const struct run_options *opt,
				const struct worker *workers, unsigned int nr)
{
	struct intervals *it = calloc(1, sizeof(*it));

	if (!it)
		goto nomem;
	it->run = run;
	it->opt = opt;
	it->workers = workers;
	it->nr = nr;
	it->period_ns = opt->interval * NS_PER_S;
	it->begin_ns = run_counts_from(run);
	it->last_ns = it->begin_ns;
	it->next_ns = it->begin_ns + it->period_ns;
	it->now = calloc(run->nr_targets, sizeof(*it->now));
	it->before = calloc(run->nr_targets, sizeof(*it->before));
	if (it->now && it->before)
		return it;
	intervals_free(it);
nomem:
	warnx("--interval: no memory");
	return NULL;
}

void intervals_free(struct intervals *it)
{
	if (it) {
		free(it->now);
		free(it->before);
	}
	free(it);
}

/* Fills @it->now. Returns how many commands have failed. */
static __u64 measure(struct intervals *it)
{
	unsigned int i, t, nr = it->run->nr_targets;
	const struct worker *w;
	__u64 bad = 0;

	memset(it->now, 0, nr * sizeof(*it->now));
	for (i = 0; i < it->nr; i++) {
		w = &it->workers[i];
		bad += atomic_load_explicit(&w->bad, memory_order_relaxed);
		for (t = 0; t < w->nr_targets; t++)
			hist_merge(&it->now[w->targets - it->run->targets + t],
				   &w->shares[t].latency);
	}
	return bad;
}

static void print_text(const struct hist *h, double seconds)
{
	printf("%llu commands, %.0f IOPS, p50 %.1f us, p99 %.1f us", h->count, h->count / seconds,
	       hist_percentile(h, 500) / 1e3, hist_percentile(h, 990) / 1e3);
}

static void add_json(struct json_object *o, const struct hist *h, double seconds)
{
	report_number(o, "commands", h->count);
	report_real(o, "iops", h->count / seconds);
	json_object_object_add(o, "lat_ns", report_percentiles(h));
}

static void print_json(const struct intervals *it, double from, double to, __u64 bad)
{
	struct json_object *o = json_object_new_object(), *list = json_object_new_array(), *d;
	unsigned int t;

	report_real(o, "from", from);
	report_real(o, "to", to);
	add_json(o, &it->all, to - from);
	report_number(o, "not_good", bad);
	for (t = 0; t < it->run->nr_targets; t++) {
		d = json_object_new_object();
		report_string(d, "device", it->opt->devs[t]);
		add_json(d, &it->now[t], to - from);
		json_object_array_add(list, d);
	}
	json_object_object_add(o, "devices", list);
	puts(json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN |
					    JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(o);
}

/* Prints a line for the time from the last line to @now. @last: only if something happened. */
static void print(struct intervals *it, __u64 now, bool last)
{
	double from = (it->last_ns - it->begin_ns) / 1e9, to = (now - it->begin_ns) / 1e9;
	__u64 bad = measure(it), new_bad = bad - it->bad;
	unsigned int t, nr = it->run->nr_targets;

	memset(&it->all, 0, sizeof(it->all));
	for (t = 0; t < nr; t++) {
		/* @before receives what there is now, @now what is new. */
		hist_subtract(&it->now[t], &it->before[t]);
		hist_merge(&it->before[t], &it->now[t]);
		hist_merge(&it->all, &it->now[t]);
	}
	if (last && !it->all.count)
		return;
	if (it->opt->json) {
		print_json(it, from, to, new_bad);
	} else {
		printf("%.3f to %.3f s: ", from, to);
		print_text(&it->all, to - from);
		printf(", %llu not good\n", new_bad);
		for (t = 0; nr > 1 && t < nr; t++) {
			printf("  %s: ", it->opt->devs[t]);
			print_text(&it->now[t], to - from);
			putchar('\n');
		}
	}
	fflush(stdout);
	it->bad = bad;
	it->last_ns = now;
}

__u64 intervals_tick(struct intervals *it, __u64 now)
{
	struct pollfd fd = { .fd = STDOUT_FILENO, .events = POLLOUT };

	if (now < it->next_ns)
		return it->next_ns - now;
	/* The monitor must not wait for a slow reader: this interval becomes longer. */
	if (poll(&fd, 1, 0) == 1)
		print(it, now, false);
	while (it->next_ns <= now)
		it->next_ns += it->period_ns;
	return it->next_ns - now;
}

void intervals_end(struct intervals *it)
{
	__u64 now = clock_ns();

	if (now > it->last_ns)
		print(it, now, true);
}
