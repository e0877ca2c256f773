// SPDX-License-Identifier: GPL-2.0
#include <err.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "file.h"
#include "task_run.h"
#include "own.h"
#include "process.h"
#include "ring.h"
#include "steps.h"
#include "tally.h"

#define LEAST_STEPS	50
#define MORE_STEPS	300
#define TASK_SECONDS	4

/* For the random choices before the first step: stands for the step's number. */
#define CHOICES_OF_BEGIN	(~0ULL)

static const struct {
	void (*step)(struct task *task, struct rnd *r);
	unsigned int weight;
} steps[] = {
	{ step_run, 30 }, { step_batch, 20 }, { step_reap, 20 }, { step_own, 20 },
	{ step_adhoc, 15 }, { step_run_ioctl, 8 }, { step_prepare, 12 }, { step_cancel, 12 },
	{ step_lend, 8 }, { step_take_back, 5 }, { step_sg_io3, 5 }, { step_sg_io4, 5 },
	{ step_write, 6 }, { step_read, 6 }, { step_poll, 3 }, { step_query, 3 },
	{ step_info, 3 }, { step_setup, 1 }, { step_map, 3 }, { step_unmap, 1 },
	{ step_excl, 1 }, { step_ring, 2 }, { step_pass, 1 }, { step_race, 1 },
	{ step_fork, 1 }, { step_exit, 3 },
};

static void one_step(struct task *task, unsigned int number)
{
	struct rnd r = rnd_of(task->seed, number);
	unsigned int total = 0, choice, i;

	for (i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		total += steps[i].weight;
	choice = rnd(&r, total);
	for (i = 0; choice >= steps[i].weight; i++)
		choice -= steps[i].weight;
	steps[i].step(task, &r);
}

static void do_steps(struct task *task, unsigned int count)
{
	task->steps_left = count;
	task->end = seconds_now() + TASK_SECONDS * task->options->time_factor;
	while (task->steps_left && !task->over && seconds_now() < task->end) {
		task->steps_left--;
		one_step(task, task->next_step++);
	}
}

static void task_begin(struct task *task, struct rnd *r)
{
	int flags = O_RDWR | (once_in(r, 2) ? O_CLOEXEC : 0) | (once_in(r, 2) ? O_NONBLOCK : 0);
	unsigned int i;

	task->area = mmap(NULL, AREA_SIZE + GUARD_SIZE, PROT_NONE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (task->area == MAP_FAILED || mprotect(task->area, AREA_SIZE, PROT_READ | PROT_WRITE))
		err(2, "memory");
	task->fd = open_node(r, flags);
	if (task->fd < 0)
		return;
	own_open(task, r);
	if (once_in(r, 4))
		become_nobody();
	step_setup(task, r);
	for (i = 0; i < BUFFERS; i++)
		step_lend(task, r);
	for (i = 0; i < SLOTS / 4; i++)
		step_prepare(task, r);
	for (i = 0; i < RINGS; i++)
		ring_open(task, &task->rings[i], r);
}

void task_run(const struct options *options, unsigned int worker, unsigned long number,
	      uint64_t seed)
{
	static struct task task;
	struct rnd r = rnd_of(seed, CHOICES_OF_BEGIN);
	unsigned int i;

	report_as(worker, number, seed);
	handle_signals();
	task = (struct task){ .options = options, .seed = seed };
	own_choose(&task.own, worker, number, options->workers);
	task_begin(&task, &r);
	if (task.fd >= 0) {
		do_steps(&task, LEAST_STEPS + rnd(&r, MORE_STEPS));
		for (i = 0; i < RINGS && !task.abandon; i++)
			ring_drain(&task, &task.rings[i]);
	} else {
		/* No node could be opened. Wait: a removed LUN is soon restored. */
		usleep(20000);
	}
	_exit(0);
}
