/* SPDX-License-Identifier: GPL-2.0 */
/* A thread or process that keeps commands in flight, and what all of them share. */
#ifndef SG_IO_WORKER_H
#define SG_IO_WORKER_H

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

#include "cmdfile.h"
#include "device.h"
#include "hist.h"
#include "outcome.h"

#define NS_PER_S	1000000000ULL
/* How often a waiting worker checks whether it is to stop. */
#define SLICE_NS	(NS_PER_S / 10)

struct target {
	const struct device *dev;
	__u32 block_size;		/* logical, 0: not known */
	__u64 capacity;			/* bytes of the disk, 0: not known */
	__u64 max_transfer;		/* bytes of one command, 0: not known */
	__u64 limit;			/* commands to issue */
	bool warned_unheld;		/* already, that its slots may keep no requests */
	char apart[64];			/* all workers write to what follows */
	atomic_ullong next;		/* sequence number to hand out */
};

struct worker;
struct slot;
struct lane;

struct run {
	const struct engine *engine;
	const struct cmdfile *file;
	struct target *targets;
	unsigned int nr_targets;
	unsigned int depth;		/* of each job on each target */
	unsigned int batch;
	unsigned int nr_jobs;
	bool poll;
	bool writes;			/* some command changes the medium */
	double interval_ns;		/* between commands of one target, 0: no pacing */
	__u64 time_ns;			/* 0: no end by time */
	cpu_set_t cpus;			/* CPUs on which sg_io was started */
	struct lane *lanes;		/* of a replay, a worker for each; NULL: no replay */
	unsigned int nr_lanes;
	__u64 lead_ns;			/* of a replay: from start_ns to time 0 of FILE */
	/* Checks the data of a command that ended well; called by several workers at a time. */
	void (*check)(struct run *run, const struct slot *slot);
	void *check_arg;

	pthread_barrier_t ready;	/* threads wait here for the start */
	__u64 start_ns;
	__u64 stop_at_ns;		/* 0: never */
	int wake_fd;			/* eventfd: a worker has finished */
	atomic_bool stop;
	bool lost;			/* a process ended before its commands did */
	atomic_int fatal;		/* errno that ends the run */
	const struct device *fatal_dev;	/* its device; set with fatal */
};

struct slot {
	struct target *target;
	unsigned int index;		/* in the worker */
	const struct command *cmd;	/* NULL: nothing taken */
	__u64 sequence;
	__u64 due_ns;
	__u64 submit_ns;
	bool in_flight;
	bool overtaken;			/* of a replay: it is counted as overtaken */
	void *in;			/* data-in buffer, page aligned */
	struct outcome out;
};

struct worker {
	struct run *run;
	pthread_t thread;
	pid_t pid;			/* its process, until waited for; 0: a thread */
	void *priv;			/* private data of the engine */
	struct slot *slots;
	unsigned int nr_slots;
	struct slot **free;
	struct slot **scratch;
	unsigned int nr_free;
	unsigned int in_flight;
	unsigned int queued;		/* commands queued since the last submit */
	__u32 max_held;			/* least number of requests that slots may keep */
	bool full;			/* the path takes no command until one ends */
	int cpu;			/* the CPU to which the worker is pinned, or CPU_ANY */
	bool refused;			/* a slot in @free has a command to queue again */
	void (*work)(struct worker *w);	/* of a replay; NULL: takes commands in turn */
	struct lane *lane;		/* of a replay */
	void *buffers;
	size_t buffer_bytes;

	struct hist latency;
	struct tally tally;
	bool tally_short;		/* there was no memory for an entry */
	__u64 last_ns;			/* when its last command finished */

	/* The monitor reads these. */
	atomic_ullong done;
	atomic_ullong bad;
	atomic_ullong progress_ns;
	atomic_uint busy;
	atomic_bool finished;
};

static inline __u64 clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

/* The bytes that a slot needs for data-in, rounded up to pages. */
size_t worker_slot_bytes(const struct cmdfile *file);

/**
 * worker_init() - allocates slots and buffers; the caller opens the engine
 * @w: zeroed
 * @run: the run
 * @first: its first target
 * @nr: how many targets from there
 */
int worker_init(struct worker *w, struct run *run, struct target *first, unsigned int nr);
/* A worker's main function, from the start of the run to the worker's end. */
void worker_work(struct worker *w);
/*
 * Pins the worker to @cpu; CPU_ANY: to all of the run's CPUs. Returns false with errno if that
 * fails.
 */
bool worker_move(struct worker *w, int cpu);
/* Frees the memory of worker_init() and of the engine; the counts stay. */
void worker_exit(struct worker *w);

/* For engines: the command of @slot has ended, with the outcome slot->out. */
void worker_done(struct worker *w, struct slot *slot);
/* The same for a command that did not reach the device. */
void worker_failed(struct worker *w, struct slot *slot, int error);

/*
 * For engines: the path has no room for the command of @slot (EAGAIN). The command is queued again
 * when one of those in flight has ended; if there are none, it has failed.
 */
void worker_refused(struct worker *w, struct slot *slot);

#endif
