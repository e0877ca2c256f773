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
#include "util.h"
#include "workers.h"

/* The most kinds of failures that all workers together count separately, and the least of each. */
#define KINDS		65536u
#define KINDS_MIN	256u

static unsigned int kinds_of(unsigned int nr)
{
	return KINDS / nr > KINDS_MIN ? KINDS / nr : KINDS_MIN;
}

/* The bytes of what each worker has behind all workers: its process could not allocate it. */
static size_t more_bytes(const struct run *run, unsigned int nr)
{
	return worker_targets(run) * sizeof(struct share) + run->slowest * sizeof(struct slow) +
		kinds_of(nr) * sizeof(struct tally_entry) +
		(run->logs ? log_ring_room(nr) * sizeof(struct log_entry) : 0);
}

static size_t bytes_of(const struct run *run, unsigned int nr)
{
	return nr * (sizeof(struct worker) + more_bytes(run, nr));
}

struct worker *workers_new(const struct run *run, unsigned int nr)
{
	struct worker *workers = shared_alloc(bytes_of(run, nr)), *w;
	char *more;

	if (!workers)
		warnx("no memory");
	for (w = workers; w && w < workers + nr; w++) {
		more = (char *)(workers + nr) + (w - workers) * more_bytes(run, nr);
		w->shares = (struct share *)more;
		w->slowest.entries = (struct slow *)(w->shares + worker_targets(run));
		w->slowest.room = run->slowest;
		w->tally.entries = (struct tally_entry *)(w->slowest.entries + run->slowest);
		w->tally.room = kinds_of(nr);
		w->log.entries = (struct log_entry *)(w->tally.entries + w->tally.room);
		w->log.room = run->logs ? log_ring_room(nr) : 0;
		w->log.wake_fd = run->wake_fd;
	}
	return workers;
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
	if (!worker_init(w, run, nth))
		return worker_open(w);
	warnx("no memory for the commands in flight");
	return -1;
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

	for (i = 0; i < nr; i++)
		if (init_worker(run, &workers[i], i))
			return -1;
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
	touch_memory(w, sizeof(*w));
	touch_memory(w->shares, run->nr_targets * sizeof(*w->shares));
	if (run->slowest)
		touch_memory(w->slowest.entries, run->slowest * sizeof(struct slow));
	if (write(ready, &byte, 1) != 1)
		_exit(EXIT_DEVICE);
	close(ready);
	/* If the pipe is closed without a byte, the run does not begin. */
	if (read(go, &byte, 1) == 1)
		worker_work(w);
	worker_exit(w);
	_exit(0);
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
		warn("cpu=%d: fork", w->home);
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
	status = wait_for_process(w->pid);
	w->pid = 0;
	if (WIFSIGNALED(status))
		warnx("cpu=%d: its process was ended by signal %d", w->home,
		      WTERMSIG(status));
	return -1;
}

static int start_processes(struct run *run, struct worker *workers, unsigned int nr)
{
	int go[2], ret = 0;
	unsigned int i;
	char byte = 0;

	if (pipe2(go, O_CLOEXEC)) {
		warn("pipe");
		return -1;
	}
	for (i = 0; i < nr && !ret; i++) {
		workers[i].run = run;
		run->assign(&workers[i], i);
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
	struct worker *w;

	for (w = workers; w < workers + nr; w++) {
		if (!run->forks)
			pthread_join(w->thread, NULL);
		else if (w->pid)
			wait_for_process(w->pid);
		w->pid = 0;
	}
}

void workers_end(const struct run *run, struct worker *workers, unsigned int nr)
{
	unsigned int i;

	if (!workers)
		return;
	/* A process has closed its files and freed its memory itself. */
	for (i = 0; !run->forks && i < nr; i++)
		if (workers[i].run)
			worker_exit(&workers[i]);
	shared_free(workers, bytes_of(run, nr));
}

struct worker *workers_start(struct run *run, unsigned int nr)
{
	struct worker *workers = workers_new(run, nr);
	int ret;

	if (!workers)
		return NULL;
	ret = run->forks ? start_processes(run, workers, nr) : start_threads(run, workers, nr);
	if (!ret)
		return workers;
	if (run->forks)
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
		      w->home, WTERMSIG(status));
	w->run->lost = true;
	atomic_store(&w->run->stop, true);
	atomic_store(&w->finished, true);
	return true;
}
