/* SPDX-License-Identifier: GPL-2.0 */
/* A worker: a thread or process that keeps commands in flight. A run: what all workers share. */
#ifndef SG_IO_WORKER_H
#define SG_IO_WORKER_H

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

#include "hist.h"
#include "issue/cmdfile/cmdfile.h"
#include "issue/device/device.h"
#include "log_ring.h"
#include "outcome.h"
#include "slowest.h"

#define NS_PER_S	1000000000ULL
/* The longest time for which a worker waits before it checks run.stop again. */
#define SLICE_NS	(NS_PER_S / 10)

struct target {
	const struct device *dev;
	__u32 block_size;		/* logical, 0: not known */
	__u64 limit;			/* commands to issue */
	char apart[64];			/* gives @next its own cache line: all workers write it */
	atomic_ullong next;		/* sequence number of the next command */
};

struct worker;
struct request;
struct lane;
struct copy_job;

/* Why a replay ends early. */
enum stop {
	STOP_NONE,
	STOP_LATE,
	STOP_ERRORS,
	STOP_IN_FLIGHT,
};

/* Each is a limit; 0: none. */
struct stop_when {
	__u64 late_ns;		/* of a command */
	__u64 errors;		/* commands that were not good */
	unsigned int in_flight;
};

struct run {
	const struct engine *engine;
	const struct cmdfile *file;
	struct target *targets;
	unsigned int nr_targets;
	unsigned int depth;		/* of each job on each target */
	unsigned int batch;
	unsigned int nr_jobs;
	bool poll;
	unsigned int slowest;		/* how many of the slowest commands to note */
	bool logs;			/* the workers log all commands */
	bool by_device;			/* a target gets the commands with its index in dev */
	bool writes;			/* some command changes the medium */
	bool moving;			/* a command may have another LBA each time: request.lba */
	/* The work of a worker, from the start of the run to its end; NULL: issue the file. */
	void (*work)(struct worker *w);
	double interval_ns;		/* between commands of one target, 0: no pacing */
	__u64 time_ns;			/* 0: no end by time */
	__u64 warm_up_ns;		/* at the start: what ends in it is not counted */
	cpu_set_t cpus;			/* CPUs on which sg_io may run */
	unsigned int nr_workers;	/* 0: as depth, nr_jobs and the targets say */
	bool forks;			/* each worker is a process */
	bool any_target;		/* requests may go to any target; buffers have all data */
	__u64 memory;			/* for data, in bytes; 0: the buffers of the requests */
	__u64 total;			/* commands, 0: not known */
	/* Called for each worker before its process is started. */
	void (*assign)(struct worker *w, unsigned int nth);
	struct lane *lanes;		/* of a replay */
	unsigned int nr_lanes;
	__u64 lead_ns;			/* of a replay: from start_ns to time 0 of FILE */
	__u64 passes;			/* of a replay: how often it issues FILE; 0: no end */
	struct stop_when stop_when;	/* of a replay */
	/* Checks the data of a command that did not fail. Several workers may call it at once. */
	void (*check)(struct run *run, const struct request *rq);
	void *check_arg;

	pthread_barrier_t ready;	/* threads wait here for the start */
	__u64 start_ns;
	__u64 stop_at_ns;		/* 0: never */
	int wake_fd;			/* eventfd: a worker has finished */
	atomic_bool stop;
	atomic_int stopped;		/* enum stop, why the run ended early */
	atomic_ullong nr_bad;		/* commands, if stop_when.errors is set */
	bool lost;			/* a process ended before its commands did */
	atomic_int fatal;		/* errno that ends the run */
	const struct device *fatal_dev;	/* the device with that error */
};

struct request {
	struct target *target;
	unsigned int index;		/* in the worker */
	unsigned int place;		/* among those that may use the same target */
	const struct command *cmd;	/* NULL: the request has no command */
	__u64 sequence;
	__u64 lba;			/* of a run that is moving, the same as in the CDB */
	__u64 due_ns;
	__u64 submit_ns;
	bool in_flight;
	unsigned int tries;		/* how often the command was sent again */
	bool overtaken;			/* of a replay: its command was counted as overtaken */
	void *buffer;			/* for data-in, or all data. Page aligned */
	struct outcome out;
};

/* A worker's measurements of one of its targets. */
struct share {
	struct hist latency;
	__u64 last_ns;			/* when its last command ended */
};

struct worker {
	struct run *run;
	pthread_t thread;
	pid_t pid;			/* its process; 0: a thread, or the process was reaped */
	void *priv;			/* private data of the engine */
	int *files;			/* by target; see engine.flags and engine.per_file */
	unsigned int nr_files;
	struct target *targets;		/* the first one of its targets */
	unsigned int nr_targets;
	struct request *requests;
	unsigned int nr_requests;
	struct request **free;
	struct request **scratch;
	unsigned int nr_free;
	unsigned int in_flight;
	unsigned int queued;		/* commands queued since the last submit */
	bool full;			/* the path has no room until a command ends */
	int cpu;			/* the CPU to which the worker is pinned, or CPU_ANY */
	bool refused;			/* a request in @free has a command to queue again */
	struct lane *lane;		/* of a replay */
	int home;			/* the CPU of its lane, or CPU_ANY */
	struct copy_job *job;		/* of a copy */
	/* Called when a command has ended, before its request is free; NULL: nobody asks. */
	void (*ended)(struct worker *w, const struct request *rq);
	void *buffers;
	size_t buffer_bytes;

	/* Their memory follows that of all workers. */
	struct share *shares;		/* by target */
	struct tally tally;
	struct slowest slowest;
	struct log_ring log;
	__u64 uncounted;		/* commands that ended in the warm-up */
	__u64 last_ns;			/* when its last command ended */

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

/* Time 0 of the file. */
static inline __u64 run_begin(const struct run *run)
{
	return run->start_ns + run->lead_ns;
}

/* When the first command could end that counts. */
static inline __u64 run_counts_from(const struct run *run)
{
	return run_begin(run) + run->warm_up_ns;
}

/* Ends the run early. */
static inline void run_stop(struct run *run, enum stop why)
{
	int none = STOP_NONE;

	atomic_compare_exchange_strong(&run->stopped, &none, why);
	atomic_store(&run->stop, true);
}

/* The file of a request's target, unless engine.per_file is set. */
static inline int request_file(const struct worker *w, const struct request *rq)
{
	return w->files[rq->target - w->targets];
}

/* The data-out of a request's command. */
static inline const void *request_data(const struct worker *w, const struct request *rq)
{
	return w->run->any_target ? rq->buffer : rq->cmd->data;
}

/* The bytes that a request's buffer needs, rounded up to pages. */
size_t worker_request_bytes(const struct run *run);

/*
 * How many targets each worker has: one if the path is synchronous. The first one has the number
 * of the worker then, modulo their number.
 */
unsigned int worker_targets(const struct run *run);

/*
 * Allocates the requests and buffers of the @nth worker; the caller opens the engine. Return: 0 or
 * -ENOMEM.
 */
int worker_init(struct worker *w, struct run *run, unsigned int nth);
/* A worker's main function, from the start of the run to the worker's end. */
void worker_work(struct worker *w);
/*
 * Pins the worker to @cpu; with CPU_ANY it may run on all of the run's CPUs. If that fails, sets
 * errno and returns false.
 */
bool worker_move(struct worker *w, int cpu);
/* Frees the memory of worker_init() and of the engine. */
void worker_exit(struct worker *w);

/* The command of @rq is issued now. */
static inline void worker_begin(struct worker *w, struct request *rq)
{
	rq->submit_ns = clock_ns();
	rq->in_flight = true;
	w->in_flight++;
	atomic_store_explicit(&w->progress_ns, rq->submit_ns, memory_order_relaxed);
	atomic_store_explicit(&w->busy, w->in_flight, memory_order_relaxed);
}

/* For engines: the command of @rq has ended, with the outcome rq->out. */
void worker_done(struct worker *w, struct request *rq);
/*
 * The same for a command that did not reach the device. If the path has no room for it (EAGAIN),
 * the worker queues it again when another command has ended. If none is in flight, it fails.
 */
void worker_failed(struct worker *w, struct request *rq, int error);

/*
 * Adds a command to the log and the measurements: rq->cmd, issued at rq->submit_ns, ended at @now
 * with the outcome rq->out.
 */
void worker_count(struct worker *w, const struct request *rq, __u64 now);

#endif
