// SPDX-License-Identifier: GPL-2.0
/* Watches a run: progress, signals, commands that never complete. */
#include <err.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "issue/paths/paths.h"
#include "issue/workers/workers.h"
#include "run.h"
#include "signals.h"

#define TICK_MS		200
/* The time that error handling may take after a command's own timeout. */
#define GRACE_NS	(60 * NS_PER_S)
/* How often sd tries a command of block I/O. */
#define SD_TRIES	6

struct watch {
	struct run *run;
	struct worker *workers;
	unsigned int nr;
	bool terminal;
	__u64 patience_ns;
	__u64 last_ns;		/* time of the last progress line */
	__u64 last_done;
};

static __u64 patience(const struct run *run)
{
	__u64 longest = run->file->max_timeout_ms * 1000000ULL;
	unsigned int i;
	__s64 s;

	if (run->engine != &engine_block)
		return longest + GRACE_NS;
	longest = 0;
	for (i = 0; i < run->nr_targets; i++) {
		s = sysfs_number(run->targets[i].dev->sysfs, "timeout");
		if (s > 0 && s * NS_PER_S > longest)
			longest = s * NS_PER_S;
	}
	return longest * SD_TRIES + GRACE_NS;
}

static void show_progress(struct watch *w, __u64 now)
{
	const struct run *run = w->run;
	__u64 done = 0, bad = 0;
	double elapsed = (now - run->start_ns) / 1e9, share = 0;
	char of[48] = "";
	unsigned int i;

	for (i = 0; i < w->nr; i++) {
		done += atomic_load_explicit(&w->workers[i].done, memory_order_relaxed);
		bad += atomic_load_explicit(&w->workers[i].bad, memory_order_relaxed);
	}
	if (run->total) {
		share = 100.0 * done / run->total;
		snprintf(of, sizeof(of), "/%llu", run->total);
	}
	if (run->time_ns && 100e9 * elapsed / run->time_ns > share)
		share = 100e9 * elapsed / run->time_ns;
	dprintf(STDERR_FILENO, "\r%3.0f%%  %llu%s commands  %.0f/s  %llu not good  %.0f s\033[K",
		share < 100 ? share : 100, done, of,
		(done - w->last_done) * 1e9 / (now - w->last_ns + 1), bad, elapsed);
	w->last_done = done;
	w->last_ns = now;
}

/* Counts the commands of workers that have made no progress for too long. */
static unsigned int count_stuck(const struct watch *w, __u64 now)
{
	unsigned int i, n = 0;
	__u64 last;

	for (i = 0; i < w->nr; i++) {
		if (atomic_load(&w->workers[i].finished))
			continue;
		last = atomic_load_explicit(&w->workers[i].progress_ns, memory_order_relaxed);
		if (now > last && now - last > w->patience_ns)
			n += atomic_load_explicit(&w->workers[i].busy, memory_order_relaxed);
	}
	return n;
}

static unsigned int count_finished(const struct watch *w)
{
	unsigned int i, n = 0;

	for (i = 0; i < w->nr; i++)
		n += worker_lost(&w->workers[i]) || atomic_load(&w->workers[i].finished);
	return n;
}

/* Returns true if the monitor is to stop waiting although workers have not finished. */
static bool give_up(struct watch *w, int signals)
{
	unsigned int stuck = count_stuck(w, clock_ns());

	if (w->terminal && (stuck || signals > 1))
		dprintf(STDERR_FILENO, "\r\033[K");
	if (stuck)
		warnx("%u commands did not end within %llu s: giving up", stuck,
		      w->patience_ns / NS_PER_S);
	else if (signals > 1)
		warnx("not waiting for the commands in flight");
	return stuck || signals > 1;
}

/* Prints and writes what is due. Returns how long to wait for the next time, in ms. */
static int tick(struct watch *w, const struct monitor_output *out)
{
	__u64 now = clock_ns(), wait = TICK_MS * 1000000ULL, next;

	if (w->terminal && now - w->last_ns >= TICK_MS * 1000000ULL)
		show_progress(w, now);
	if (out->log && log_write(out->log, w->run, out->opt, w->workers, w->nr))
		wait = 0;
	if (out->intervals) {
		next = intervals_tick(out->intervals, now);
		wait = next < wait ? next : wait;
	}
	return (wait + 999999) / 1000000;
}

int monitor(struct run *run, const struct monitor_output *out, struct worker *workers,
	    unsigned int nr, bool *gave_up)
{
	struct watch w = {
		.run = run, .workers = workers, .nr = nr,
		.terminal = isatty(STDERR_FILENO), .patience_ns = patience(run),
		.last_ns = run->start_ns,
	};
	struct pollfd fds[2] = {
		{ .fd = run->wake_fd, .events = POLLIN }, { .events = POLLIN },
	};
	int first_signal = 0, signals = 0, number;
	eventfd_t wakes;

	fds[1].fd = signals_open();
	*gave_up = false;
	while (count_finished(&w) < nr) {
		poll(fds, 2, tick(&w, out));
		if (fds[0].revents)
			eventfd_read(run->wake_fd, &wakes);
		number = signals_take(fds[1].fd);
		if (number) {
			first_signal = first_signal ?: number;
			signals++;
			atomic_store(&run->stop, true);
		}
		if (give_up(&w, signals)) {
			*gave_up = true;
			atomic_store(&run->stop, true);
			break;
		}
	}
	if (w.terminal)
		dprintf(STDERR_FILENO, "\r\033[K");
	if (fds[1].fd >= 0)
		close(fds[1].fd);
	return first_signal;
}
