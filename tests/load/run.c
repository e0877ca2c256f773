// SPDX-License-Identifier: GPL-2.0
/*
 * A run: one thread per CPU keeps spec->qd commands in flight, and records the time after every
 * LOAD_CHUNK commands.
 */
#include <linux/blkdev.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/rcupdate.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include <marker.h>

#include "load.h"

#define SPINS	64	/* reads of the counter between two calls of cond_resched() */

void load_job_done(struct load_slot *slot, int err)
{
	struct load_job *job = slot->job;
	int completed;

	/* job and job->task stay until load_run() has waited for this section. */
	rcu_read_lock();
	if (unlikely(err)) {
		WRITE_ONCE(job->last_error, err);
		/* Not atomic: only whether it is 0 must be exact. */
		WRITE_ONCE(job->nr_errors, job->nr_errors + 1);
	}
	/* Both operations are full barriers: the slot is in the list before it is counted. */
	llist_add(&slot->node, &job->completed);
	completed = atomic_inc_return(&job->nr_completed);
	if (completed == READ_ONCE(job->wake_at))
		wake_up_process(job->task);
	rcu_read_unlock();
}

/*
 * Waits until @target commands have completed since the run began. The wait always ends, because
 * the mid-layer's error handling ends a lost command.
 */
static void load_wait(struct load_job *job, int target)
{
	unsigned int spins = 0;

	if (job->run->spec->spin) {
		while (atomic_read_acquire(&job->nr_completed) - target < 0) {
			cpu_relax();
			if (++spins % SPINS == 0)
				cond_resched();
		}
		return;
	}
	WRITE_ONCE(job->wake_at, target);
	for (;;) {
		/*
		 * A full barrier: either this thread sees that @target is reached, or the
		 * load_job_done() that reaches it sees wake_at.
		 */
		set_current_state(TASK_UNINTERRUPTIBLE);
		if (atomic_read(&job->nr_completed) - target >= 0)
			break;
		schedule();
	}
	__set_current_state(TASK_RUNNING);
}

/*
 * Waits until there are @need free slots, and takes the completed ones. Returns how many it took.
 */
static unsigned int load_reap(struct load_job *job, unsigned int need)
{
	struct load_slot *slot, *next;
	unsigned int came = 0;

	if (job->nr_free < need)
		load_wait(job, job->nr_taken + need - job->nr_free);
	/* Often the list is empty, and this check is cheaper than the exchange below. */
	if (llist_empty(&job->completed))
		return 0;
	llist_for_each_entry_safe(slot, next, llist_del_all(&job->completed), node) {
		slot->next = job->free;
		job->free = slot;
		came++;
	}
	job->nr_free += came;
	job->nr_taken += came;
	return came;
}

static void load_submit(struct load_job *job, unsigned int n)
{
	struct blk_plug plug;
	unsigned int i;

	if (n > 1) {
		blk_start_plug(&plug);
		/* blk_start_plug_nr_ios() does the same, but is not exported. */
		plug.nr_ios = job->run->spec->requests;
	}
	for (i = 0; i < n; i++) {
		struct load_slot *slot = job->free;

		job->free = slot->next;
		job->nr_free--;
		load_issue(job, slot);
	}
	if (n > 1)
		blk_finish_plug(&plug);
}

static bool load_note(struct load_job *job, unsigned int came, u64 *since, u64 end)
{
	struct load_chunk *chunk = &job->chunks[job->nr_chunks];
	u64 now;

	chunk->commands += came;
	if (chunk->commands < LOAD_CHUNK)
		return true;
	now = ktime_get_ns();
	/* The time of a chunk that takes more than four seconds is not recorded correctly. */
	chunk->ns = min_t(u64, now - *since, U32_MAX);
	job->commands += chunk->commands;
	job->ns += now - *since;
	*since = now;
	if (now > end)
		WRITE_ONCE(job->run->timed_out, true);
	return ++job->nr_chunks < job->max_chunks && now <= end;
}

static void load_warm_up(struct load_job *job)
{
	const struct load_spec *spec = job->run->spec;
	unsigned int came = 0;

	while (came < spec->warmup && !READ_ONCE(job->run->stop)) {
		load_submit(job, spec->batch);
		came += load_reap(job, spec->batch);
		cond_resched();
	}
}

/*
 * The measured part, which all jobs run at the same time. The first job that finishes ends the run.
 */
static void load_measure(struct load_job *job)
{
	struct load_run *run = job->run;
	bool marks = run->spec->marked && job == run->jobs[0];
	u64 since, end;

	atomic_inc(&run->nr_ready);
	while (atomic_read(&run->nr_ready) < run->nr_jobs && !READ_ONCE(run->stop)) {
		cpu_relax();
		cond_resched();
	}
	if (marks)
		marker(MARKER_START);
	since = ktime_get_ns();
	end = since + run->spec->seconds * (u64)NSEC_PER_SEC;
	while (!READ_ONCE(run->stop)) {
		load_submit(job, run->spec->batch);
		if (!load_note(job, load_reap(job, run->spec->batch), &since, end) ||
		    READ_ONCE(job->nr_errors))
			WRITE_ONCE(run->stop, true);
		cond_resched();
	}
	if (marks)
		marker(MARKER_STOP);
}

static int load_thread(void *data)
{
	struct load_job *job = data;
	struct load_run *run = job->run;

	load_warm_up(job);
	load_measure(job);
	load_reap(job, run->spec->qd);
	if (atomic_dec_and_test(&run->nr_running))
		complete(&run->ended);
	for (;;) {
		set_current_state(TASK_INTERRUPTIBLE);
		if (kthread_should_stop())
			break;
		schedule();
	}
	__set_current_state(TASK_RUNNING);
	return 0;
}

/* Gives the job devices of its own if there are enough for all jobs; else jobs share devices. */
static void load_deal_devs(struct load_job *job, unsigned int nr)
{
	struct load_spec *spec = job->run->spec;
	unsigned int i;

	if (!spec->nr_devs)
		return;
	for (i = nr % spec->nr_devs; i < spec->nr_devs; i += job->run->nr_jobs)
		job->devs[job->nr_devs++] = &spec->devs[i];
}

static int load_job_init(struct load_job *job, struct load_run *run, unsigned int nr,
			 unsigned int cpu)
{
	unsigned int i;
	int err;

	job->run = run;
	job->cpu = cpu;
	job->random = 88172645463325252ULL * (2 * nr + 1);
	init_llist_head(&job->completed);
	load_deal_devs(job, nr);
	job->max_chunks = DIV_ROUND_UP(run->spec->count, LOAD_CHUNK);
	job->chunks = kvcalloc(job->max_chunks, sizeof(*job->chunks), GFP_KERNEL);
	job->slots = kvcalloc(run->spec->qd, sizeof(*job->slots), GFP_KERNEL);
	if (!job->chunks || !job->slots)
		return -ENOMEM;
	for (i = 0; i < run->spec->qd; i++) {
		err = load_slot_init(&job->slots[i], job);
		if (err)
			return err;
		job->slots[i].next = job->free;
		job->free = &job->slots[i];
		job->nr_free++;
	}
	job->task = kthread_create(load_thread, job, "smq_load/%u", cpu);
	if (IS_ERR(job->task)) {
		err = PTR_ERR(job->task);
		job->task = NULL;
		return err;
	}
	kthread_bind(job->task, cpu);
	return 0;
}

/* Called when no command is in flight. The thread waits to be stopped, or was never woken. */
static void load_job_exit(struct load_job *job)
{
	unsigned int i;

	if (job->task)
		kthread_stop(job->task);
	job->task = NULL;
	for (i = 0; job->slots && i < job->run->spec->qd; i++)
		load_slot_exit(&job->slots[i]);
	kvfree(job->slots);
	job->slots = NULL;
}

void load_result_free(struct load_run *run)
{
	unsigned int i;

	for (i = 0; i < run->nr_jobs; i++) {
		kvfree(run->jobs[i]->chunks);
		kfree(run->jobs[i]);
	}
	memset(run, 0, sizeof(*run));
}

static int load_jobs_init(struct load_run *run)
{
	unsigned int cpu;
	int err;

	run->nr_jobs = cpumask_weight(run->spec->cpus);
	for_each_cpu(cpu, run->spec->cpus) {
		unsigned int nr = run->nr_made;

		run->jobs[nr] = kzalloc(sizeof(*run->jobs[nr]), GFP_KERNEL);
		if (!run->jobs[nr])
			return -ENOMEM;
		run->nr_made++;
		err = load_job_init(run->jobs[nr], run, nr, cpu);
		if (err)
			return err;
	}
	return 0;
}

static int load_verdict(struct load_run *run, char error[LOAD_ERROR])
{
	unsigned int i;

	for (i = 0; i < run->nr_jobs; i++) {
		const struct load_job *job = run->jobs[i];

		if (!job->nr_errors)
			continue;
		snprintf(error, LOAD_ERROR, "cpu %u: %u commands failed, one with error %d",
			 job->cpu, job->nr_errors, job->last_error);
		return -EIO;
	}
	if (run->timed_out) {
		snprintf(error, LOAD_ERROR, "no end within %u seconds", run->spec->seconds);
		return -ETIME;
	}
	return 0;
}

int load_run(struct load_run *run, struct load_spec *spec, char error[LOAD_ERROR])
{
	unsigned int i;
	int err;

	run->spec = spec;
	init_completion(&run->ended);
	err = load_jobs_init(run);
	if (err) {
		snprintf(error, LOAD_ERROR, "no threads or memory for the run: error %d", err);
	} else {
		atomic_set(&run->nr_running, run->nr_jobs);
		for (i = 0; i < run->nr_jobs; i++)
			wake_up_process(run->jobs[i]->task);
		if (wait_for_completion_interruptible(&run->ended)) {
			WRITE_ONCE(run->stop, true);
			wait_for_completion(&run->ended);
			snprintf(error, LOAD_ERROR, "interrupted");
			err = -EINTR;
		}
	}
	/* Wait until the last calls of load_job_done() have returned. */
	synchronize_rcu();
	for (i = 0; i < run->nr_made; i++)
		load_job_exit(run->jobs[i]);
	run->nr_jobs = run->nr_made;
	err = err ?: load_verdict(run, error);
	run->spec = NULL;
	return err;
}
