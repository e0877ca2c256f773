// SPDX-License-Identifier: GPL-2.0
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pace.h"
#include "run.h"

#define SCALE		100	/* clock units per instruction at rate 1 */
#define SPINS		300	/* turns of the loop before the first sched_yield() */
#define PATIENCE_NS	(3 * 1000 * 1000)

static struct pace {
	uint64_t clock;
	bool runs;		/* not halted */
	uint32_t rate;		/* clock units per instruction */
	uint32_t left;		/* instructions until the rate changes */
	uint32_t random;
	uint64_t slips;
} __attribute__((aligned(128))) paces[PACED_VCPUS];

static uint64_t window = 60 * SCALE;
static uint32_t seed = 1;

bool pace_option(const char *arg)
{
	if (!strncmp(arg, "window=", 7)) {
		window = strtoull(arg + 7, NULL, 10) * SCALE;
		return window;
	}
	if (!strncmp(arg, "seed=", 5)) {
		seed = strtoul(arg + 5, NULL, 10);
		return true;
	}
	return false;
}

static uint64_t get(const uint64_t *clock)
{
	return __atomic_load_n(clock, __ATOMIC_RELAXED);
}

static void put(uint64_t *clock, uint64_t value)
{
	__atomic_store_n(clock, value, __ATOMIC_RELAXED);
}

static void halted(unsigned int vcpu)
{
	if (vcpu < PACED_VCPUS)
		__atomic_store_n(&paces[vcpu].runs, false, __ATOMIC_SEQ_CST);
}

static void resumed(unsigned int vcpu)
{
	struct pace *me, *other;

	if (vcpu >= PACED_VCPUS)
		return;
	me = &paces[vcpu];
	other = &paces[!vcpu];
	if (get(&me->clock) < get(&other->clock))
		put(&me->clock, get(&other->clock));
	__atomic_store_n(&me->runs, true, __ATOMIC_SEQ_CST);
}

void pace_init(qemu_plugin_id_t id)
{
	on_idle_and_resume(id, halted, resumed);
}

void pace_start(void)
{
	unsigned int i;

	for (i = 0; i < PACED_VCPUS; i++) {
		put(&paces[i].clock, 0);
		paces[i].left = 0;
		paces[i].slips = 0;
		paces[i].random = seed * 7919 + i * 104729 + 1;
	}
}

static void change_rate(struct pace *pace)
{
	pace->random = pace->random * 1664525 + 1013904223;
	pace->rate = SCALE * 4 / 5 + (pace->random >> 16) % (SCALE * 2 / 5);
	pace->left = 1000 + (pace->random >> 8) % 4000;
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

static bool is_ahead(const struct pace *me, const struct pace *other)
{
	return __atomic_load_n(&other->runs, __ATOMIC_RELAXED) &&
	       get(&me->clock) > get(&other->clock) + window &&
	       __atomic_load_n(&run_active, __ATOMIC_RELAXED);
}

void pace_wait(unsigned int vcpu, uint32_t insns)
{
	struct pace *me = &paces[vcpu], *other = &paces[!vcpu];
	unsigned int spins = 0;
	uint64_t until = 0;

	if (me->left < insns)
		change_rate(me);
	me->left -= insns < me->left ? insns : me->left;
	put(&me->clock, me->clock + insns * me->rate);
	me->runs = true;
	while (is_ahead(me, other)) {
		if (++spins < SPINS) {
			__builtin_ia32_pause();
			continue;
		}
		sched_yield();
		if (!until)
			until = now_ns() + PATIENCE_NS;
		/*
		 * The other vCPU may be waiting for this one inside QEMU, so the wait is limited.
		 */
		if (now_ns() > until) {
			me->slips++;
			put(&other->clock, get(&me->clock));
		}
	}
}

uint64_t pace_slips(void)
{
	return paces[0].slips + paces[1].slips;
}
