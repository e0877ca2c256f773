// SPDX-License-Identifier: GPL-2.0
#include <err.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "file.h"
#include "live.h"
#include "own.h"
#include "process.h"
#include "ring.h"
#include "steps.h"
#include "tally.h"

#define LEAST_STEPS	50
#define MORE_STEPS	300
#define LIFE_SECONDS	4

/* Stands for a step's number in the choices before the first step. */
#define CHOICES_OF_BIRTH	(~0ULL)

static const struct {
	void (*step)(struct life *life, struct rnd *r);
	unsigned int weight;
} steps[] = {
	{ step_run, 30 }, { step_batch, 20 }, { step_reap, 20 }, { step_own, 20 },
	{ step_adhoc, 15 }, { step_run_ioctl, 8 }, { step_prepare, 12 }, { step_cancel, 12 },
	{ step_lend, 8 }, { step_take_back, 5 }, { step_sg_io3, 5 }, { step_sg_io4, 5 },
	{ step_write, 6 }, { step_read, 6 }, { step_poll, 3 }, { step_query, 3 },
	{ step_info, 3 }, { step_setup, 1 }, { step_map, 3 }, { step_unmap, 1 },
	{ step_excl, 1 }, { step_ring, 2 }, { step_pass, 1 }, { step_race, 1 },
	{ step_fork, 1 }, { step_fate, 3 },
};

static void one_step(struct life *life, unsigned int number)
{
	struct rnd r = rnd_of(life->seed, number);
	unsigned int total = 0, choice, i;

	for (i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		total += steps[i].weight;
	choice = rnd(&r, total);
	for (i = 0; choice >= steps[i].weight; i++)
		choice -= steps[i].weight;
	steps[i].step(life, &r);
}

static void do_steps(struct life *life, unsigned int count)
{
	life->steps_left = count;
	life->end = seconds_now() + LIFE_SECONDS * life->options->time_factor;
	while (life->steps_left && !life->over && seconds_now() < life->end) {
		life->steps_left--;
		one_step(life, life->next_step++);
	}
}

static void be_born(struct life *life, struct rnd *r)
{
	int flags = O_RDWR | (once_in(r, 2) ? O_CLOEXEC : 0) | (once_in(r, 2) ? O_NONBLOCK : 0);
	unsigned int i;

	life->area = mmap(NULL, AREA_SIZE + GUARD_SIZE, PROT_NONE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (life->area == MAP_FAILED || mprotect(life->area, AREA_SIZE, PROT_READ | PROT_WRITE))
		err(2, "memory");
	life->fd = open_node(r, flags);
	if (life->fd < 0)
		return;
	own_open(life, r);
	if (once_in(r, 4))
		become_nobody();
	step_setup(life, r);
	for (i = 0; i < BUFFERS; i++)
		step_lend(life, r);
	for (i = 0; i < SLOTS / 4; i++)
		step_prepare(life, r);
	for (i = 0; i < RINGS; i++)
		ring_open(life, &life->rings[i], r);
}

void live(const struct options *options, unsigned int worker, unsigned long number, uint64_t seed)
{
	static struct life life;
	struct rnd r = rnd_of(seed, CHOICES_OF_BIRTH);
	unsigned int i;

	fault_name(worker, number, seed);
	handle_signals();
	life = (struct life){ .options = options, .seed = seed };
	own_choose(&life.own, worker, number, options->workers);
	be_born(&life, &r);
	if (life.fd >= 0) {
		do_steps(&life, LEAST_STEPS + rnd(&r, MORE_STEPS));
		for (i = 0; i < RINGS && !life.abandon; i++)
			ring_drain(&life, &life.rings[i]);
	} else {
		/* A LUN that was removed soon comes back. */
		usleep(20000);
	}
	_exit(0);
}
