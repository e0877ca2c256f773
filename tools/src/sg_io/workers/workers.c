// SPDX-License-Identifier: GPL-2.0
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "commands.h"
#include "engine.h"
#include "lane.h"
#include "util.h"
#include "workers.h"

/*
 * The most kinds of failures that a lane counts separately: its process cannot enlarge the shared
 * memory.
 */
#define LANE_ENTRIES	1024

/* How many struct share a lane has: its process could not give others to its parent. */
static unsigned int shares_of(const struct run *run)
{
	return run->nr_targets > 1 ? run->nr_targets : 0;
}

/*
 * The size of all workers, and of what follows them: their slowest commands, and the entries of the
 * lanes' tallies, and their shares.
 */
static size_t bytes_of(const struct run *run, unsigned int nr)
{
	return nr * (sizeof(struct worker) + run->slowest * sizeof(struct slow) +
		     (run_forks(run) ? LANE_ENTRIES * sizeof(struct tally_entry) +
		      shares_of(run) * sizeof(struct share) : 0));
}

static void lend_slowest(const struct run *run, struct worker *workers, unsigned int nr)
{
	struct slow *entries = (struct slow *)&workers[nr];
	unsigned int i;

	for (i = 0; i < nr; i++) {
		workers[i].slowest.entries = entries + i * run->slowest;
		workers[i].slowest.room = run->slowest;
	}
}

static int open_node(const struct worker *w, const struct device *dev)
{
	const char *node = dev->node[w->run->engine->node];
	/*
	 * sg and bsg accept all commands only on a read-write file. A disk is opened for writing
	 * only if the commands write: when such a file is closed, udev probes the disk again.
	 */
	bool write = w->run->engine->node != NODE_BLOCK || w->run->writes;
	int fd = open(node, w->run->engine->flags | O_CLOEXEC | (write ? O_RDWR : O_RDONLY));
	char state[DEVICE_STATE];

	if (fd < 0 && errno == EMFILE)
		warnx("%s: out of file descriptors (ulimit -n); lower --depth or --jobs", node);
	else if (fd < 0)
		warnx("%s: %s%s", node, device_strerror(errno), device_state(dev, state));
	return fd;
}

int worker_open(struct worker *w)
{
	const struct engine *engine = w->run->engine;
	unsigned int each = 1, nr;
	int fd;

	if (engine->per_file)
		each = (w->run->depth + engine->per_file - 1) / engine->per_file;
	nr = engine->flags == OPENS_ITSELF ? 0 : each * w->nr_targets;
	w->files = calloc(nr + 1, sizeof(*w->files));
	if (!w->files) {
		warnx("no memory");
		return -1;
	}
	for (; w->nr_files < nr; w->nr_files++) {
		fd = open_node(w, w->targets[w->nr_files / each].dev);
		if (fd < 0)
			return -1;
		w->files[w->nr_files] = fd;
	}
	return engine->open ? engine->open(w) : 0;
}

static int init_worker(struct run *run, struct worker *w, unsigned int nth)
{
	int ret;

	if (run->engine->sync)
		ret = worker_init(w, run, &run->targets[nth % run->nr_targets], 1);
	else
		ret = worker_init(w, run, run->targets, run->nr_targets);
	if (ret) {
		warnx("no memory for the commands in flight");
		return -1;
	}
	return worker_open(w);
}

static void *thread_main(void *arg)
{
	struct worker *w = arg;

	pthread_barrier_wait(&w->run->ready);
	worker_work(w);
	return NULL;
}

static void note_start(struct run *run)
{
	run->start_ns = clock_ns();
	if (run->time_ns)
		run->stop_at_ns = run->start_ns + run->warm_up_ns + run->time_ns;
}

static int start_threads(struct run *run, struct worker *workers, unsigned int nr)
{
	unsigned int i;
	int ret;

	for (i = 0; i < nr; i++) {
		if (init_worker(run, &workers[i], i))
			return -1;
		workers[i].log = run->logs ? &run->logs[i] : NULL;
	}
	pthread_barrier_init(&run->ready, NULL, nr + 1);
	for (i = 0; i < nr; i++) {
		ret = pthread_create(&workers[i].thread, NULL, thread_main, &workers[i]);
		if (ret) {
			/* Exit: the threads started so far would wait at the barrier forever. */
			warnx("thread %u of %u: %s; lower --jobs or --depth", i + 1, nr,
			      strerror(ret));
			exit(EXIT_DEVICE);
		}
	}
	note_start(run);
	pthread_barrier_wait(&run->ready);
	return 0;
}

/*
 * Touches each page, because the first access is a page fault, which would delay a command that is
 * due. Writes what was there, in a way that the compiler does not remove.
 */
static void touch(void *mem, size_t bytes)
{
	size_t page = sysconf(_SC_PAGESIZE), at;
	char *p = mem;

	for (at = 0; at < bytes; at += page)
		__atomic_fetch_or(&p[at], 0, __ATOMIC_RELAXED);
	__atomic_fetch_or(&p[bytes - 1], 0, __ATOMIC_RELAXED);
}

/*
 * The main function of a lane's process. The process itself opens its files, and allocates the
 * memory that it lends: if the parent had lent it, the device would use the parent's pages.
 */
static _Noreturn void process_main(struct run *run, struct worker *w, unsigned int nth,
				   int ready, int go, pid_t parent)
{
	char byte = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent || init_worker(run, w, nth))
		_exit(EXIT_DEVICE);
	touch(w, sizeof(*w));
	touch(w->lane, sizeof(*w->lane));
	if (w->shares)
		touch(w->shares, run->nr_targets * sizeof(*w->shares));
	if (run->slowest)
		touch(w->slowest.entries, run->slowest * sizeof(struct slow));
	if (write(ready, &byte, 1) != 1)
		_exit(EXIT_DEVICE);
	close(ready);
	/* If the pipe is closed without a byte, the run does not begin. */
	if (read(go, &byte, 1) == 1)
		worker_work(w);
	worker_exit(w);
	_exit(0);
}

static void wait_for(struct worker *w, int *status)
{
	while (waitpid(w->pid, status, 0) < 0 && errno == EINTR)
		;
	w->pid = 0;
}

static int start_process(struct run *run, struct worker *w, unsigned int nth, const int *go)
{
	pid_t parent = getpid(), pid;
	int ready[2], status;
	ssize_t got;
	char byte;

	if (pipe2(ready, O_CLOEXEC)) {
		warn("pipe");
		return -1;
	}
	pid = fork();
	if (!pid) {
		close(ready[0]);
		close(go[1]);
		process_main(run, w, nth, ready[1], go[0], parent);
	}
	close(ready[1]);
	if (pid < 0) {
		warn("cpu=%d: fork", w->lane->cpu);
		close(ready[0]);
		return -1;
	}
	/* Only the parent sets this, because the child shares the memory. */
	w->pid = pid;
	got = read(ready[0], &byte, 1);
	close(ready[0]);
	if (got == 1)
		return 0;
	/* The process has printed the reason, unless it was killed. */
	wait_for(w, &status);
	if (WIFSIGNALED(status))
		warnx("cpu=%d: its process was ended by signal %d", w->lane->cpu,
		      WTERMSIG(status));
	return -1;
}

static int start_processes(struct run *run, struct worker *workers, unsigned int nr)
{
	struct slow *slowest = (struct slow *)&workers[nr];
	struct tally_entry *entries = (struct tally_entry *)(slowest + nr * run->slowest);
	struct share *shares = (struct share *)(entries + nr * LANE_ENTRIES);
	int go[2], ret = 0;
	unsigned int i;
	char byte = 0;

	if (pipe2(go, O_CLOEXEC)) {
		warn("pipe");
		return -1;
	}
	run->work = lane_work;
	for (i = 0; i < nr && !ret; i++) {
		workers[i].lane = &run->lanes[i];
		workers[i].log = run->logs ? &run->logs[i] : NULL;
		tally_lend(&workers[i].tally, entries + i * LANE_ENTRIES, LANE_ENTRIES);
		if (shares_of(run))
			workers[i].shares = shares + i * shares_of(run);
		ret = start_process(run, &workers[i], i, go);
	}
	if (!ret)
		note_start(run);
	for (i = 0; i < nr && !ret; i++)
		ret = write(go[1], &byte, 1) == 1 ? 0 : -1;
	close(go[0]);
	/* If there was an error, processes that still wait for a byte end now. */
	close(go[1]);
	return ret;
}

void workers_join(const struct run *run, struct worker *workers, unsigned int nr)
{
	unsigned int i;
	int status;

	for (i = 0; i < nr; i++) {
		if (!run_forks(run))
			pthread_join(workers[i].thread, NULL);
		else if (workers[i].pid)
			wait_for(&workers[i], &status);
	}
}

void workers_end(const struct run *run, struct worker *workers, unsigned int nr)
{
	unsigned int i;

	for (i = 0; i < nr; i++) {
		/* A process has closed its files and freed its memory itself. */
		if (workers[i].run && !run_forks(run))
			worker_exit(&workers[i]);
		tally_free(&workers[i].tally);
	}
	shared_free(workers, bytes_of(run, nr));
}

struct worker *workers_start(struct run *run, unsigned int nr)
{
	struct worker *workers = shared_alloc(bytes_of(run, nr));
	int ret;

	if (!workers) {
		warnx("no memory");
		return NULL;
	}
	lend_slowest(run, workers, nr);
	ret = run_forks(run) ? start_processes(run, workers, nr) : start_threads(run, workers, nr);
	if (!ret)
		return workers;
	if (run_forks(run))
		workers_join(run, workers, nr);
	workers_end(run, workers, nr);
	return NULL;
}

bool worker_lost(struct worker *w)
{
	int status;

	if (!w->pid || waitpid(w->pid, &status, WNOHANG) != w->pid)
		return false;
	w->pid = 0;
	if (atomic_load(&w->finished))
		return false;
	if (WIFSIGNALED(status))
		warnx("cpu=%d: its process was ended by signal %d: the run ends early",
		      w->lane->cpu, WTERMSIG(status));
	w->run->lost = true;
	atomic_store(&w->run->stop, true);
	atomic_store(&w->finished, true);
	return true;
}
