/* SPDX-License-Identifier: GPL-2.0 */
/*
 * smq_load: the kernel itself issues a load, for measurements at native speed, where a system call
 * would cost more than the command that it submits.
 *
 * There is one run at a time. smq_load parses the spec and opens its devices; then one job on each
 * CPU issues its commands. Each job records the times of chunks of LOAD_CHUNK commands, which are
 * kept until the next run. The write of the spec returns when the run has ended.
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
#define LOAD_CDB	10	/* bytes of the longest CDB */

enum load_op {
	LOAD_TUR,	/* TEST UNIT READY, a passthrough request */
	LOAD_READ_10,	/* READ(10), passthrough, of spec->bs bytes; each slot has a fixed place */
	LOAD_READ,	/* a bio of spec->bs bytes at a random place */
	LOAD_DELAY,	/* no command: spec->delay_ns by udelay() and ndelay() */
	LOAD_SPIN,	/* no command: a fixed piece of work in registers */
};

struct load_dev {
	struct file *file;		/* keeps @bdev open */
	struct block_device *bdev;
	unsigned int nr_blocks;		/* of spec->bs bytes; at most U32_MAX */
};

/* The run as its spec describes it. Valid from load_spec_parse() to load_spec_release(). */
struct load_spec {
	enum load_op op;
	unsigned int qd;		/* commands in flight per job */
	unsigned int batch;		/* commands submitted at a time, under a plug if above 1 */
	unsigned int requests;		/* nr_ios of the plug: tags to allocate at a time */
	unsigned int bs;
	unsigned int count;		/* commands of each job; the run ends with the first job */
	unsigned int warmup;		/* commands of each job before the measured part */
	unsigned int delay_ns;
	unsigned int seconds;		/* longest duration of the measured part */
	unsigned int spin;		/* 1: wait without sleeping */
	unsigned int marked;		/* 1: job 0 marks the measured part for a plugin */
	cpumask_var_t cpus;		/* each runs one job */
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

/* A command of a job. load_run() frees it when no command is in flight. */
struct load_slot {
	struct llist_node node;		/* in job->completed, or in no list */
	struct load_slot *next;		/* in job->free */
	struct load_job *job;
	struct bio *bio;
	struct page *page;
	u8 cdb[LOAD_CDB];		/* for passthrough requests; built before the run */
	u8 cdb_len;
};

/*
 * While a job runs, only its thread uses it, except the fields that completions write. Freed by
 * load_result_free().
 */
struct load_job {
	struct load_run *run;
	struct task_struct *task;	/* NULL once load_run() has stopped it */
	unsigned int cpu;
	unsigned int nr_devs;
	struct load_dev *devs[LOAD_MAX_DEVS];	/* each gets a command in turn */
	unsigned int next_dev;
	u64 random;
	struct load_slot *slots;	/* spec->qd of them */
	struct load_slot *free;		/* a stack */
	unsigned int nr_free;
	unsigned int nr_taken;		/* slots taken from @completed since the run began */
	unsigned int nr_errors;		/* completions write this and @last_error */
	int last_error;
	struct load_chunk *chunks;
	unsigned int nr_chunks, max_chunks;
	u64 ns;				/* duration of the measured part */
	u64 commands;			/* in the measured part */

	/* Written by completions, on any CPU: */
	struct llist_head completed ____cacheline_aligned_in_smp;
	/*
	 * Incremented after the slot was added to @completed: a CPU that reads this count finds at
	 * least as many slots. Wraps.
	 */
	atomic_t nr_completed;
	int wake_at;			/* wake @task when @nr_completed has this value */
};

struct load_run {
	struct load_spec *spec;		/* until load_run() returns */
	struct load_job *jobs[LOAD_MAX_JOBS];
	unsigned int nr_jobs;		/* one for each CPU of the spec */
	unsigned int nr_made;		/* how many of @jobs are allocated */
	atomic_t nr_ready;		/* jobs that are ready for the measured part */
	atomic_t nr_running;		/* jobs that have not ended */
	struct completion ended;	/* completed by the last job that ends */
	bool stop;			/* tells all jobs to end */
	bool timed_out;			/* a job took longer than spec->seconds */
};

/* spec.c: returns 0, or a negative errno if @text is wrong; @error then says why. May sleep. */
int load_spec_parse(struct load_spec *spec, char *text, char error[LOAD_ERROR]);
void load_spec_release(struct load_spec *spec);

/*
 * run.c: runs the spec. Returns 0, -EINTR after a signal, -ETIME after spec->seconds, -EIO if
 * commands failed, or an errno if memory or a thread could not be allocated. In each case the
 * caller frees the results in @run by load_result_free(). Sleeps until the run has ended.
 */
int load_run(struct load_run *run, struct load_spec *spec, char error[LOAD_ERROR]);
void load_result_free(struct load_run *run);

/* issue.c: issues one command or operation, whose completion calls load_job_done(). May sleep. */
void load_issue(struct load_job *job, struct load_slot *slot);
int load_slot_init(struct load_slot *slot, struct load_job *job);
void load_slot_exit(struct load_slot *slot);

/* run.c: notes that a command or operation has ended, with error @err or 0. Any context and CPU. */
void load_job_done(struct load_slot *slot, int err);

#endif /* SMQ_LOAD_H */
