// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine.h"

#define NEVER		(~0ULL)
#define PAGE		4096u

static void run_fail(struct run *run, const struct device *dev, int error)
{
	int none = 0;

	if (atomic_compare_exchange_strong(&run->fatal, &none, error))
		run->fatal_dev = dev;
	atomic_store(&run->stop, true);
}

static void add_to_log(struct worker *w, const struct request *rq, __u64 now, bool good,
		       const struct outcome_class *what)
{
	struct log_entry entry = {
		.issued_ns = rq->submit_ns, .ns = now - rq->submit_ns, .cmd = rq->cmd,
		.what = *what, .resid = rq->out.resid, .good = good,
	};

	log_ring_add(&w->log, &entry);
}

/* Adds a command to the measurements. */
static void count(struct worker *w, const struct request *rq, __u64 now, bool good,
		  const struct outcome_class *what)
{
	struct share *share = &w->shares[w->nr_targets > 1 ? what->device : 0];

	hist_add(&share->latency, now - rq->submit_ns);
	share->last_ns = now > share->last_ns ? now : share->last_ns;
	tally_add(&w->tally, rq->cmd, good, what, rq->sequence);
	slowest_add(&w->slowest, &(struct slow){
		.ns = now - rq->submit_ns, .issued_ns = rq->submit_ns, .cmd = rq->cmd,
		.device = what->device, .bad = !good,
	});
	if (w->run->check && good)
		w->run->check(w->run, rq);
	if (!good && w->run->stop_when.errors &&
	    atomic_fetch_add(&w->run->nr_bad, 1) + 1 == w->run->stop_when.errors)
		run_stop(w->run, STOP_ERRORS);
}

/* A request is free; it keeps its command if that has not been issued for the last time. */
static void release(struct worker *w, struct request *rq)
{
	rq->in_flight = false;
	w->free[w->nr_free++] = rq;
	w->in_flight--;
	atomic_store_explicit(&w->busy, w->in_flight, memory_order_relaxed);
}

/*
 * Whether the command is to be sent again (repeat=). If so, its request is free, and keeps the
 * command until it is due.
 */
static bool sends_again(struct worker *w, struct request *rq, const struct expect *e, __u64 now)
{
	struct outcome_class what;

	if (!e || rq->tries + 1 >= e->tries || outcome_classify(rq->cmd, &rq->out, &what) ||
	    what.error == ENODEV || what.error == ENXIO)
		return false;
	rq->tries++;
	rq->due_ns = now + e->wait_us * 1000;
	release(w, rq);
	atomic_store_explicit(&w->progress_ns, now, memory_order_relaxed);
	return true;
}

void worker_count(struct worker *w, const struct request *rq, __u64 now)
{
	const struct expect *expect = expect_of(w->run->file, rq->cmd);
	const struct outcome *out = &rq->out;
	struct outcome_class what;
	bool good;

	good = outcome_judge(rq->cmd, out, expect, rq->buffer, &what);
	what.device = rq->target - w->run->targets;
	if (w->log.room)
		add_to_log(w, rq, now, good, &what);
	if (now < run_counts_from(w->run))
		w->uncounted++;
	else
		count(w, rq, now, good, &what);
	/* Without its device the run cannot continue. */
	if (out->error == ENODEV || out->error == ENXIO)
		run_fail(w->run, rq->target->dev, out->error);
	w->last_ns = now > w->last_ns ? now : w->last_ns;
	atomic_store_explicit(&w->done, w->tally.good + w->tally.bad + w->uncounted,
			      memory_order_relaxed);
	atomic_store_explicit(&w->bad, w->tally.bad, memory_order_relaxed);
}

void worker_done(struct worker *w, struct request *rq)
{
	__u64 now = clock_ns();

	if (sends_again(w, rq, expect_of(w->run->file, rq->cmd), now))
		return;
	worker_count(w, rq, now);
	if (w->ended)
		w->ended(w, rq);
	rq->cmd = NULL;
	release(w, rq);
	w->full = false;
	atomic_store_explicit(&w->progress_ns, now, memory_order_relaxed);
}

void worker_failed(struct worker *w, struct request *rq, int error)
{
	if (error == EAGAIN && w->in_flight > 1) {
		/* fill() or the lane issues it again. */
		release(w, rq);
		w->full = true;
		/* @full does not suffice: a later completion in the same reap clears it. */
		w->refused = true;
		return;
	}
	rq->out = (struct outcome){ .error = error };
	worker_done(w, rq);
}

/* Takes the next command of the request's target; returns false if there is none left. */
static bool take_command(struct worker *w, struct request *rq)
{
	const struct expect *expect;
	const struct run *run = w->run;
	struct target *t = rq->target;

	rq->sequence = atomic_fetch_add_explicit(&t->next, 1, memory_order_relaxed);
	if (rq->sequence >= t->limit)
		return false;
	rq->cmd = &run->file->cmds[rq->sequence % run->file->nr];
	rq->due_ns = run->start_ns + (__u64)(rq->sequence * run->interval_ns);
	rq->tries = 0;
	expect = expect_of(run->file, rq->cmd);
	if (expect && expect->wait_us)
		rq->due_ns = clock_ns() + expect->wait_us * 1000;
	return true;
}

static void submit(struct worker *w)
{
	if (w->queued && w->run->engine->submit)
		w->run->engine->submit(w);
	w->queued = 0;
}

bool worker_move(struct worker *w, int cpu)
{
	cpu_set_t set;
	int error;

	/* Submit queued commands first: they are to be issued on the present CPU. */
	submit(w);
	CPU_ZERO(&set);
	if (cpu != CPU_ANY)
		CPU_SET(cpu, &set);
	error = pthread_setaffinity_np(pthread_self(), sizeof(set),
				       cpu == CPU_ANY ? &w->run->cpus : &set);
	if (error) {
		errno = error;
		return false;
	}
	w->cpu = cpu;
	return true;
}

static void issue(struct worker *w, struct request *rq)
{
	const struct run *run = w->run;

	worker_begin(w, rq);
	if (rq->cmd->cpu != w->cpu && !worker_move(w, rq->cmd->cpu)) {
		worker_failed(w, rq, errno);
		return;
	}
	run->engine->queue(w, rq);
	if (++w->queued >= run->batch * (run->engine->batch_each ? run->nr_targets : 1))
		submit(w);
}

/*
 * Gives commands to the free requests. Removes a request from the free list if no command is left
 * for it. Return: when the next command is due; NEVER if no command waits for its time.
 */
static __u64 fill(struct worker *w)
{
	struct run *run = w->run;
	unsigned int i, nr = w->nr_free;
	struct request **requests = w->free;
	__u64 now = clock_ns(), next = NEVER;
	struct request *rq;

	/* queue() may end a command at once, which frees its request: collect free ones anew. */
	w->free = w->scratch;
	w->scratch = requests;
	w->nr_free = 0;
	for (i = 0; i < nr; i++) {
		rq = requests[i];
		if (atomic_load_explicit(&run->stop, memory_order_relaxed) ||
		    (run->stop_at_ns && now >= run->stop_at_ns))
			continue;
		if (w->full && w->in_flight) {
			w->free[w->nr_free++] = rq;
			continue;
		}
		if (!rq->cmd && !take_command(w, rq))
			continue;
		if (rq->due_ns > now) {
			if (rq->due_ns < next)
				next = rq->due_ns;
			w->free[w->nr_free++] = rq;
			continue;
		}
		issue(w, rq);
		now = rq->submit_ns;
	}
	return next;
}

static void sleep_until(__u64 when_ns)
{
	struct timespec ts = {
		.tv_sec = when_ns / NS_PER_S, .tv_nsec = when_ns % NS_PER_S,
	};

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
}

static void work(struct worker *w)
{
	const struct run *run = w->run;
	__u64 next, now, wait;
	unsigned int min;

	while (w->nr_free || w->in_flight) {
		next = fill(w);
		wait = SLICE_NS;
		if (next != NEVER) {
			now = clock_ns();
			wait = next <= now ? 0 : next - now;
			if (wait > SLICE_NS)
				wait = SLICE_NS;
			if (!w->in_flight && wait)
				sleep_until(now + wait);
		} else if (w->nr_free && !w->full) {
			wait = 0;
		}
		if (!w->in_flight)
			continue;
		min = 1;
		if (!w->nr_free && run->batch < w->in_flight)
			min = run->batch;
		w->queued = 0;
		run->engine->reap(w, min, wait);
	}
}

void worker_work(struct worker *w)
{
	if (w->run->work)
		w->run->work(w);
	else
		work(w);
	atomic_store(&w->finished, true);
	eventfd_write(w->run->wake_fd, 1);
}

size_t worker_request_bytes(const struct run *run)
{
	__u32 bytes = run->any_target ? run->file->max_bytes : run->file->max_in;

	return (bytes + PAGE - 1) & ~(size_t)(PAGE - 1);
}

unsigned int worker_targets(const struct run *run)
{
	return run->engine->sync ? 1 : run->nr_targets;
}

int worker_init(struct worker *w, struct run *run, unsigned int nth)
{
	unsigned int nr = worker_targets(run);
	size_t each = worker_request_bytes(run);
	unsigned int i;

	w->run = run;
	w->cpu = CPU_ANY;
	w->targets = &run->targets[run->engine->sync ? nth % run->nr_targets : 0];
	w->nr_targets = nr;
	w->nr_requests = (run->any_target ? 1 : nr) * (run->engine->sync ? 1 : run->depth);
	if (!run->engine->queue)
		w->nr_requests = 0;
	w->requests = calloc(w->nr_requests, sizeof(*w->requests));
	w->free = calloc(w->nr_requests, sizeof(struct request *));
	w->scratch = calloc(w->nr_requests, sizeof(struct request *));
	if (!w->requests || !w->free || !w->scratch)
		return -ENOMEM;
	if (each && w->nr_requests) {
		w->buffer_bytes = each * w->nr_requests;
		/* Populated now, so that there are no page faults while commands are in flight. */
		w->buffers = mmap(NULL, w->buffer_bytes, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
		if (w->buffers == MAP_FAILED) {
			w->buffers = NULL;
			return -ENOMEM;
		}
	}
	for (i = 0; i < w->nr_requests; i++) {
		w->requests[i].index = i;
		w->requests[i].place = run->any_target ? i : i / nr;
		w->requests[i].target = &w->targets[i % nr];
		if (each)
			w->requests[i].buffer = (char *)w->buffers + i * each;
		w->free[w->nr_free++] = &w->requests[i];
	}
	return 0;
}

void worker_exit(struct worker *w)
{
	if (w->priv)
		w->run->engine->close(w);
	while (w->nr_files)
		close(w->files[--w->nr_files]);
	free(w->files);
	if (w->buffers)
		munmap(w->buffers, w->buffer_bytes);
	free(w->requests);
	free(w->free);
	free(w->scratch);
}
