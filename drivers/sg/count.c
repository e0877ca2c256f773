// SPDX-License-Identifier: GPL-2.0
/*
 * Commands on a node's own queue, which are counted per CPU: how many are in flight, and what the
 * device's counters show of them.
 */
#include <linux/percpu.h>
#include <scsi/scsi_device.h>

#include "depth.h"
#include "sg.h"

/* How often smqsg_inflight_own() counts at most. */
#define SMQSG_COUNTS		3

static unsigned int smqsg_sum_sent(const struct smqsg_dev *sg)
{
	unsigned int cpu, sum = 0;

	for_each_possible_cpu(cpu)
		sum += READ_ONCE(per_cpu_ptr(sg->depth.own, cpu)->sent);
	return sum;
}

/**
 * smqsg_inflight_own() - how many commands are on a node's own queue
 * @sg: the node
 *
 * Return: not lower than their number, but higher by those that are sent and end between the two
 * sums: if there are any, this function counts again a few times. Any context.
 */
unsigned int smqsg_inflight_own(const struct smqsg_dev *sg)
{
	unsigned int cpu, tries, ended, sent, before;

	if (!READ_ONCE(sg->own.q))
		return 0;
	sent = smqsg_sum_sent(sg);
	for (tries = 0; tries < SMQSG_COUNTS; tries++) {
		before = sent;
		ended = 0;
		for_each_possible_cpu(cpu)
			ended += READ_ONCE(per_cpu_ptr(sg->depth.own, cpu)->ended);
		/* A command whose end was counted above is counted below, too. */
		smp_rmb();
		sent = smqsg_sum_sent(sg);
		if (sent == before)
			break;
	}
	return sent - ended;
}

/**
 * smqsg_count_for_device() - adds the own queue's commands to the device's counters
 * @sg: the node, with smqsg_dev.lock held
 *
 * The device's iorequest_cnt and iodone_cnt are in one cache line, which all CPUs would write for
 * each command. So commands count per CPU, and are added here: by the scan of pool.c, when a file
 * is closed, and before smq_conv claims the device.
 *
 * Return: true: commands are in flight, and it has to be called again. Any context.
 */
bool smqsg_count_for_device(struct smqsg_dev *sg)
{
	unsigned int requests = 0, done = 0, sent, ended = 0, cpu;

	lockdep_assert_held(&sg->lock);
	if (!sg->sdev)
		return false;
	/*
	 * Read in the reverse order in which a command writes: one whose end is counted is counted
	 * as a whole, and any other one that is counted as sent is in flight here.
	 */
	for_each_possible_cpu(cpu)
		ended += READ_ONCE(per_cpu_ptr(sg->depth.own, cpu)->ended);
	/* Pairs with smqsg_count_out(). */
	smp_rmb();
	for_each_possible_cpu(cpu) {
		const struct smqsg_own_count *own = per_cpu_ptr(sg->depth.own, cpu);

		done -= READ_ONCE(own->ended_slowly);
		requests -= READ_ONCE(own->sent_slowly);
	}
	/* Pairs with the exchange in smqsg_idle_take(), behind smqsg_count_sent(). */
	smp_rmb();
	sent = smqsg_sum_sent(sg);
	requests += sent - sg->depth.requests;
	done += ended - sg->depth.done;
	if (requests || done) {
		atomic_add(requests, &sg->sdev->iorequest_cnt);
		atomic_add(done, &sg->sdev->iodone_cnt);
		sg->depth.requests += requests;
		sg->depth.done += done;
	}
	return sent != ended;
}
