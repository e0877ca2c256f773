/* SPDX-License-Identifier: GPL-2.0 */
/*
 * smq_load: a load that the kernel itself issues, for measurements at native speed: there a system
 * call costs more than the command it submits.
 *
 * There is one run at a time. The spec is parsed and its devices are opened; then one job on each
 * CPU works through its commands. The times of chunks of LOAD_CHUNK commands are kept until the
 * next run. The write of the spec returns when the run has ended.
 */
#ifndef SMQ_LOAD_H
#define SMQ_LOAD_H

#include <linux/blk-mq.h>
#include <linux/cpumask.h>
#include <linux/llist.h>

#define LOAD_MAX_DEVS	64
#define LOAD_MAX_JOBS	8
#define LOAD_CHUNK	250	/* commands */
#define LOAD_ERROR	160
#define LOAD_CDB	10	/* bytes of the longest */

enum load_op {
	LOAD_TUR,	/* TEST UNIT READY, a passthrough request */
	LOAD_READ_10,	/* READ(10) of spec->bs bytes, the same of each slot, likewise */
	LOAD_READ,	/* a bio of spec->bs bytes at a random place */
	LOAD_DELAY,	/* no command: spec->delay_ns by udelay() and ndelay() */
	LOAD_SPIN,	/* no command: a fixed piece of work in registers */
};

struct load_dev {
	struct file *file;		/* keeps all of it, from load_spec_parse() on */
	struct block_device *bdev;
	unsigned int nr_blocks;		/* of spec->bs bytes, at most what 32 bits hold */
};

/* The run as its spec describes it. Valid from load_spec_parse() to load_spec_release(). */
struct load_spec {
	enum load_op op;
	unsigned int qd;		/* commands in flight, of each job */
	unsigned int batch;		/* submitted at a time, under a plug if above 1 */
	unsigned int requests;		/* that this plug takes from the tags at a time */
	unsigned int bs;
	unsigned int count;		/* of each job; the first job that is done ends the run */
	unsigned int warmup;
	unsigned int delay_ns;
	unsigned int seconds;		/* no longer than this */
	unsigned int spin;		/* wait without sleeping */
	unsigned int marked;		/* markers for a counting plugin around what is measured */
	cpumask_var_t cpus;		/* a job each */
	unsigned int nr_devs;
	struct load_dev devs[LOAD_MAX_DEVS];
};

static inline bool load_is_passthrough(const struct load_spec *spec)
{
	return spec->op == LOAD_TUR || spec->op == LOAD_READ_10;
}

struct load_chunk {
	u32 commands;
	u32 ns;
};

/* Lives as long as its run: load_run() frees it once nothing is in flight. */
struct load_slot {
	struct llist_node node;		/* in job->completed, or nowhere */
	struct load_slot *next;		/* in job->free */
	struct load_job *job;
	struct bio *bio;
	struct page *page;
	u8 cdb[LOAD_CDB];		/* of passthrough requests, made before they run */
	u8 cdb_len;
};

/*
 * While a job runs, only its thread uses it, except @completed and @nr_completed. Lives until
 * load_result_free().
 */
struct load_job {
	struct load_run *run;
	struct task_struct *task;	/* until load_run() has stopped it */
	unsigned int cpu;
	unsigned int nr_devs;
	struct load_dev *devs[LOAD_MAX_DEVS];	/* in turn, a command each */
	unsigned int next_dev;
	u64 random;
	struct load_slot *slots;	/* spec->qd of them */
	struct load_slot *free;		/* a stack */
	unsigned int nr_free;
	unsigned int nr_taken;		/* from @completed, ever */
	unsigned int nr_errors;
	int first_error;
	struct load_chunk *chunks;
	unsigned int nr_chunks, max_chunks;
	u64 ns;				/* of the measured part */
	u64 commands;

	/* Written by completions, on any CPU: */
	struct llist_head completed ____cacheline_aligned_in_smp;
	/*
	 * Incremented after the slot was added to @completed: a CPU that has read the number finds
	 * at least as many slots. Wraps.
	 */
	atomic_t nr_completed;
	int wake_at;			/* @nr_completed at which to wake @task */
};

struct load_run {
	struct load_spec *spec;		/* until load_run() returns */
	struct load_job *jobs[LOAD_MAX_JOBS];
	unsigned int nr_jobs;		/* that are wanted */
	unsigned int nr_made;		/* of @jobs, while they are made */
	atomic_t nr_ready;		/* jobs that wait for the others to begin */
	atomic_t nr_running;		/* jobs that have not come to their end */
	struct completion ended;	/* the last job has come to its end */
	bool stop;
	bool timed_out;
};

/* spec.c; @error gets what is wrong with @text, in words. May sleep. */
int load_spec_parse(struct load_spec *spec, char *text, char error[LOAD_ERROR]);
void load_spec_release(struct load_spec *spec);

/*
 * run.c: runs the spec. Returns 0, -EINTR after a signal, -ETIME, -EIO for commands that failed, or
 * -ENOMEM. In each case the caller frees the results in @run by load_result_free(). May sleep for
 * long.
 */
int load_run(struct load_run *run, struct load_spec *spec, char error[LOAD_ERROR]);
void load_result_free(struct load_run *run);

/* issue.c: issues one command, or an operation in its place; its end calls load_job_done(). */
void load_issue(struct load_job *job, struct load_slot *slot);
int load_slot_init(struct load_slot *slot, struct load_job *job);
void load_slot_exit(struct load_slot *slot);

/* run.c: in any context, of any CPU. */
void load_job_done(struct load_slot *slot, int err);

#endif /* SMQ_LOAD_H */
