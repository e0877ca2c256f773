// SPDX-License-Identifier: GPL-2.0
/*
 * The work of one job: each place reads a chunk, then writes or verifies it. Commands of places
 * that became ready together are queued together, so that a path that has batches makes batches.
 */
#include <stdlib.h>
#include <string.h>

#include "copy.h"
#include "util.h"

#define TRIES		3
#define WAIT_NS		1000000		/* on one device, while the other may end commands too */
#define ILLEGAL_REQUEST	5

struct place {
	enum copy_step step;
	bool sent;		/* the command of @step is in flight */
	unsigned int tries;	/* commands of @step that failed */
	__u64 at;		/* first block of its command, from the first one of all */
	__u32 blocks;		/* of its command: a chunk, or 1 after the chunk has failed */
	__u32 left;		/* blocks of that chunk that come after this one */
	__u32 skip;		/* blocks at its beginning that an earlier chunk has, too */
};

struct copy_job {
	struct copy *copy;
	struct worker *workers[SIDES];
	struct place *places;
	unsigned int nr;		/* places */
	__u64 ended;			/* commands */
};

static unsigned int side_of(enum copy_step step)
{
	return step == STEP_READ ? FIRST : SECOND;
}

bool copy_jobs_new(struct copy *c)
{
	unsigned int i;

	c->jobs = calloc(c->nr_jobs, sizeof(*c->jobs));
	for (i = 0; c->jobs && i < c->nr_jobs; i++) {
		c->jobs[i].copy = c;
		c->jobs[i].places = calloc(c->opt->depth, sizeof(struct place));
		if (!c->jobs[i].places)
			return false;
	}
	return c->jobs;
}

void copy_jobs_free(struct copy *c)
{
	unsigned int i;

	for (i = 0; c->jobs && i < c->nr_jobs; i++)
		free(c->jobs[i].places);
	free(c->jobs);
}

/*
 * Takes the next block of a chunk that failed, or the next chunk. The last chunk is as long as the
 * others, so it may begin before the end of the one before.
 */
static bool take_blocks(struct copy *c, struct place *p)
{
	__u64 nth;

	if (atomic_load_explicit(&c->sides[FIRST].run.stop, memory_order_relaxed) ||
	    atomic_load_explicit(&c->sides[SECOND].run.stop, memory_order_relaxed))
		return false;
	if (p->left) {
		*p = (struct place){
			.step = STEP_READ, .at = p->at + 1, .blocks = 1, .left = p->left - 1,
		};
		return true;
	}
	nth = atomic_fetch_add_explicit(&c->next, 1, memory_order_relaxed);
	if (nth >= c->nr_chunks)
		return false;
	*p = (struct place){ .step = STEP_READ, .at = nth * c->chunk, .blocks = c->chunk };
	if (p->at + c->chunk > c->blocks) {
		p->skip = p->at + c->chunk - c->blocks;
		p->at -= p->skip;
	}
	return true;
}

/* Counts the blocks of a command that were copied or compared. */
static void count_done(struct copy_job *job, const struct place *p)
{
	struct copy *c = job->copy;

	pthread_mutex_lock(&c->lock);
	c->done += p->blocks - p->skip;
	pthread_mutex_unlock(&c->lock);
}

static void note_failure(struct copy_job *job, const struct place *p,
			 const struct outcome_class *outcome)
{
	struct copy *c = job->copy;
	unsigned int side = side_of(p->step);

	pthread_mutex_lock(&c->lock);
	if (c->nr_failures < c->opt->max_errors)
		c->failures[c->nr_failures] = (struct copy_failure){
			.side = side, .what = c->ops[p->step]->name,
			.lba = c->sides[side].first + p->at, .blocks = p->blocks,
			.outcome = *outcome,
		};
	c->nr_failures++;
	if (c->nr_failures >= c->opt->max_errors)
		atomic_store(&c->sides[SECOND].run.stop, true);
	pthread_mutex_unlock(&c->lock);
}

/* Called with the lock held. */
static void add_difference(struct copy *c, __u64 lba)
{
	struct copy_difference *d = c->nr_differences ? &c->differences[c->nr_differences - 1] :
		NULL;

	c->differ++;
	if (d && d->lba + d->blocks == lba) {
		d->blocks++;
		return;
	}
	if (!array_make_room(&c->differences, sizeof(*c->differences), c->nr_differences,
			     &c->room)) {
		c->short_list = true;
		return;
	}
	c->differences[c->nr_differences++] = (struct copy_difference){ .lba = lba, .blocks = 1 };
}

static void compare_chunk(struct copy_job *job, const struct place *p, unsigned int index)
{
	struct copy *c = job->copy;
	const char *a = job->workers[FIRST]->requests[index].buffer;
	const char *b = job->workers[SECOND]->requests[index].buffer;
	size_t size = c->block_size, i;

	if (!memcmp(a, b, p->blocks * size))
		return;
	pthread_mutex_lock(&c->lock);
	for (i = p->skip; i < p->blocks; i++)
		if (memcmp(a + i * size, b + i * size, size))
			add_difference(c, c->sides[FIRST].first + p->at + i);
	pthread_mutex_unlock(&c->lock);
}

static void go_on(struct copy_job *job, struct place *p, unsigned int index)
{
	const struct copy *c = job->copy;

	p->tries = 0;
	switch (p->step) {
	case STEP_READ:
		p->step = c->opt->compare && c->no_verify ? STEP_READ_BACK : STEP_WRITE;
		return;
	case STEP_READ_BACK:
		compare_chunk(job, p, index);
		break;
	default:
		break;
	}
	count_done(job, p);
	p->step = STEP_IDLE;
}

static void fail(struct copy_job *job, struct place *p, const struct outcome_class *outcome)
{
	struct copy *c = job->copy;

	/* A VERIFY that fails found a difference, or is not known to the device. */
	if (c->opt->compare && p->step == STEP_WRITE && !outcome->error) {
		if (outcome->key == ILLEGAL_REQUEST)
			c->no_verify = true;
		p->step = STEP_READ_BACK;
		p->tries = 0;
		return;
	}
	if (++p->tries < TRIES)
		return;
	if (p->blocks > 1) {
		*p = (struct place){
			.step = STEP_READ, .at = p->at + p->skip, .blocks = 1,
			.left = p->blocks - p->skip - 1,
		};
		return;
	}
	note_failure(job, p, outcome);
	p->step = STEP_IDLE;
}

/* A command of a worker of the job has ended. */
static void note_end(struct worker *w, const struct request *rq)
{
	struct copy_job *job = w->job;
	struct place *p = &job->places[rq->index];
	struct outcome_class outcome;

	job->ended++;
	p->sent = false;
	if (outcome_classify(rq->cmd, &rq->out, &outcome))
		go_on(job, p, rq->index);
	else
		fail(job, p, &outcome);
}

/* The place in the side's file of the command for a place's step. */
static __u64 nth_command(const struct copy_job *job, const struct place *p)
{
	const struct copy *c = job->copy;

	return c->starts[p->step][p->blocks < c->chunk] + (job - c->jobs) * c->opt->depth +
		(p - job->places);
}

static void send_command(struct copy_job *job, struct place *p)
{
	struct copy *c = job->copy;
	struct copy_side *side = &c->sides[side_of(p->step)];
	struct worker *w = job->workers[side_of(p->step)];
	struct request *rq = &w->requests[p - job->places];
	struct command *cmd;

	rq->sequence = nth_command(job, p);
	rq->lba = side->first + p->at;
	cmd = &side->file.cmds[rq->sequence];
	cdb_set_blocks(c->ops[p->step], rq->lba, p->blocks, cmd->cdb);
	rq->cmd = cmd;
	p->sent = true;
	/* worker_done() makes the request free: only the number matters here. */
	w->nr_free--;
	worker_begin(w, rq);
	side->run.engine->queue(w, rq);
}

/* Whether the path had no room for the command of a place: it has to be sent again. */
static bool was_refused(const struct copy_job *job, const struct place *p)
{
	return p->sent && !job->workers[side_of(p->step)]->requests[p - job->places].in_flight;
}

/* Sends what can be sent. Return: false if nothing is left to do. */
static bool advance(struct copy_job *job)
{
	bool found = false;
	struct place *p;

	for (p = job->places; p < job->places + job->nr; p++) {
		if (p->step == STEP_IDLE && !take_blocks(job->copy, p))
			continue;
		found = true;
		if (!p->sent || was_refused(job, p))
			send_command(job, p);
	}
	return found;
}

static void reap(struct copy_job *job, unsigned int side, __u64 wait_ns)
{
	struct worker *w = job->workers[side];

	/* An engine that sends each command at once, or that is synchronous, may have no reap. */
	if (w->in_flight && w->run->engine->reap)
		w->run->engine->reap(w, 1, wait_ns);
}

void copy_job_work(struct worker *w)
{
	struct copy *c = w->run->check_arg;
	struct copy_job *job = &c->jobs[atomic_fetch_add(&c->started, 1)];
	struct worker *first = &c->sides[FIRST].workers[job - c->jobs];
	__u64 ended;

	job->workers[FIRST] = first;
	job->workers[SECOND] = w;
	job->nr = first->nr_requests < w->nr_requests ? first->nr_requests : w->nr_requests;
	first->job = job;
	w->job = job;
	first->ended = note_end;
	w->ended = note_end;
	for (;;) {
		ended = job->ended;
		if (!advance(job))
			break;
		reap(job, FIRST, 0);
		reap(job, SECOND, 0);
		if (job->ended == ended)
			reap(job, first->in_flight > w->in_flight ? FIRST : SECOND, WAIT_NS);
		/* The monitor looks at the second device's worker only. */
		atomic_store_explicit(&w->busy, first->in_flight + w->in_flight,
				      memory_order_relaxed);
		if (job->ended != ended)
			atomic_store_explicit(&w->progress_ns, clock_ns(), memory_order_relaxed);
	}
}
