// SPDX-License-Identifier: GPL-2.0
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "supervisor.h"
#include "file.h"
#include "task_run.h"
#include "process.h"
#include "random.h"
#include "tally.h"

#define NAP_USEC		10000
#define PROGRESS_SECONDS	10
#define MOST_WORKERS		64
/* Seconds after which a task that still runs counts as hung. */
#define TASK_LIMIT		240
/* Seconds in which killed processes, and children of killed tasks, must end. */
#define REAP_LIMIT		120
#define SIGNAL_EVERY		0.05
#define STOP_SECONDS		0.2
/* Used in place of a worker's number for the supervisor's own random choices. */
#define CHOICES_OF_SUPERVISOR		(~0ULL)

static struct worker {
	pid_t pid;		/* 0: none at this moment */
	unsigned long tasks;
	double started;
	double stopped;		/* 0: it is not stopped */
} workers[MOST_WORKERS];

static unsigned int running;
static atomic_bool stop_requested;

static void on_sigterm(int number)
{
	(void)number;
	stop_requested = true;
}

static void start_task(const struct options *options, unsigned int index)
{
	struct worker *worker = &workers[index];
	struct rnd r = rnd_of(options->seed, index);
	uint64_t seed = rnd_of(rnd64(&r), worker->tasks).state;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid < 0)
		err(2, "fork");
	if (!pid) {
		/* The task's children will be in its process group. */
		setpgid(0, 0);
		signal(SIGTERM, SIG_DFL);
		/* The kernel sends SIGHUP to a stopped process group whose first process ends. */
		signal(SIGHUP, SIG_IGN);
		task_run(options, index, worker->tasks, seed);
	}
	setpgid(pid, pid);
	worker->pid = pid;
	worker->started = seconds_now();
	worker->stopped = 0;
	worker->tasks++;
	running++;
	tally(OP_TASK, 0);
}

/*
 * Reports a failure if a process ended in a way that the load does not cause. SIGUSR1 is no
 * failure: it kills a task that has executed another program.
 */
static void check_exit(pid_t pid, int status)
{
	if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL && WTERMSIG(status) != SIGUSR1)
		report("process %d died of signal %d", pid, WTERMSIG(status));
	else if (WIFEXITED(status) && WEXITSTATUS(status))
		report("process %d ended with status %d", pid, WEXITSTATUS(status));
}

/* Reaps all processes that have ended. Returns false if no process is left. */
static bool reap(const struct options *options)
{
	unsigned int i;
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		check_exit(pid, status);
		for (i = 0; i < options->workers; i++) {
			if (workers[i].pid != pid)
				continue;
			/*
			 * The task's children may be stopped: continue them. They are now
			 * children of this process, and will end.
			 */
			kill(-pid, SIGCONT);
			workers[i].pid = 0;
			running--;
		}
	}
	return !(pid < 0 && errno == ECHILD);
}

static void kill_all(const struct options *options)
{
	unsigned int i;

	for (i = 0; i < options->workers; i++)
		if (workers[i].pid)
			kill(-workers[i].pid, SIGKILL);
}

static void show_stack(pid_t pid)
{
	char path[64], line[256];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stack", pid);
	file = fopen(path, "r");
	while (file && fgets(line, sizeof(line), file))
		fprintf(stderr, "  %s", line);
	if (file)
		fclose(file);
}

static void kill_late_tasks(const struct options *options)
{
	double limit = TASK_LIMIT * options->time_factor;
	unsigned int i;

	for (i = 0; i < options->workers; i++) {
		struct worker *worker = &workers[i];

		if (!worker->pid || seconds_now() < worker->started + limit)
			continue;
		report("worker %u task %lu hangs, process %d", i, worker->tasks - 1, worker->pid);
		show_stack(worker->pid);
		kill(-worker->pid, SIGKILL);
		worker->started = seconds_now();
	}
}

static void continue_stopped(const struct options *options, bool all)
{
	unsigned int i;

	for (i = 0; i < options->workers; i++) {
		struct worker *worker = &workers[i];

		if (!worker->pid || !worker->stopped)
			continue;
		if (all || seconds_now() > worker->stopped + STOP_SECONDS) {
			kill(-worker->pid, SIGCONT);
			worker->stopped = 0;
		}
	}
}

static void send_signal(const struct options *options, struct rnd *r)
{
	struct worker *worker = &workers[rnd(r, options->workers)];
	unsigned int kind = rnd(r, 20);

	if (!worker->pid)
		return;
	if (!kind) {
		tally(OP_SIGNAL, result_of(kill(worker->pid, SIGKILL)));
	} else if (kind < 6) {
		tally(OP_SIGNAL, result_of(kill(-worker->pid, SIGSTOP)));
		worker->stopped = seconds_now();
	} else {
		tally(OP_SIGNAL, result_of(kill(worker->pid, SIGUSR1)));
	}
}

static void show_progress(double begun, double *next)
{
	if (seconds_now() < *next)
		return;
	tally_progress(seconds_now() - begun, running);
	*next += PROGRESS_SECONDS;
}

/* Waits for all tasks, and for the children of ended tasks; kills tasks that hang. */
static void end_all(const struct options *options, double begun, double *next)
{
	double limit = seconds_now() + (TASK_LIMIT + REAP_LIMIT) * options->time_factor;

	continue_stopped(options, true);
	if (stop_requested)
		kill_all(options);
	while (reap(options)) {
		show_progress(begun, next);
		kill_late_tasks(options);
		if (seconds_now() > limit) {
			report("processes are left at the end, %u of them tasks", running);
			return;
		}
		usleep(NAP_USEC);
	}
}

void supervise(const struct options *options)
{
	double begun = seconds_now(), next = begun + PROGRESS_SECONDS, signal_at = begun;
	struct rnd r = rnd_of(options->seed, CHOICES_OF_SUPERVISOR);
	unsigned int i;

	if (options->workers > MOST_WORKERS)
		errx(2, "at most %u workers", MOST_WORKERS);
	if (prctl(PR_SET_CHILD_SUBREAPER, 1))
		err(2, "PR_SET_CHILD_SUBREAPER");
	signal(SIGTERM, on_sigterm);
	while (seconds_now() < begun + options->seconds && !failures() && !stop_requested) {
		for (i = 0; i < options->workers; i++)
			if (!workers[i].pid)
				start_task(options, i);
		usleep(NAP_USEC);
		reap(options);
		continue_stopped(options, false);
		kill_late_tasks(options);
		if (seconds_now() > signal_at) {
			send_signal(options, &r);
			signal_at = seconds_now() + SIGNAL_EVERY;
		}
		show_progress(begun, &next);
	}
	end_all(options, begun, &next);
}

/* Lends as much memory as the user NOBODY may lock. Return: 0 or -errno. */
static int lend_whole_limit(int fd)
{
	struct smq_sg_buffer arg = { .length = NOBODY_LOCKS };
	void *memory = mmap(NULL, NOBODY_LOCKS, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	arg.address = ADDRESS(memory);
	return memory == MAP_FAILED ? -ENOMEM : result_of(ioctl(fd, SMQ_SG_BUFFER, &arg));
}

void check_locked_memory(const struct options *options)
{
	/* The kernel frees closed files and rings asynchronously: allow some time. */
	double end = seconds_now() + 10 * options->time_factor;
	struct smq_sg_setup setup = { .slots = 1 };
	struct rnd r = rnd_of(options->seed, CHOICES_OF_SUPERVISOR);
	int fd, ret;

	/* A file that is not freed yet may have been opened with O_EXCL; a device may be new. */
	while ((fd = open_node(&r, O_RDWR)) < 0) {
		if (seconds_now() > end) {
			report("no node can be opened at the end: errno %d", errno);
			return;
		}
		usleep(NAP_USEC);
	}
	become_nobody();
	if (ioctl(fd, SMQ_SG_SETUP, &setup))
		report("SETUP at the end: errno %d", errno);
	do {
		ret = lend_whole_limit(fd);
		if (!ret)
			return;
		usleep(NAP_USEC);
	} while (ret == -ENOMEM && seconds_now() < end);
	report("memory is still locked: lending %u bytes failed with %d", NOBODY_LOCKS, ret);
}
