// SPDX-License-Identifier: GPL-2.0
/*
 * Places in the queue depth that CPUs keep for their next commands.
 */
#include <linux/cpumask.h>
#include <linux/percpu.h>

#include "kept.h"
#include "sg.h"

/* The most places that a CPU keeps. */
#define SMQSG_KEEP		32U

/**
 * smqsg_keep_set() - sets how many places a CPU may keep
 * @sg: the node
 * @sdev: its device
 *
 * All CPUs together keep at most half of the depth. So a submitter takes places from other CPUs
 * only if the other half is in use. Any context.
 */
void smqsg_keep_set(struct smqsg_dev *sg, struct scsi_device *sdev)
{
	unsigned int most = READ_ONCE(sdev->queue_depth) / 2 / num_online_cpus();

	most = min(most, SMQSG_KEEP);
	if (READ_ONCE(sg->depth.keep) != most)
		WRITE_ONCE(sg->depth.keep, most);
}

/**
 * smqsg_unkeep() - frees the places that CPUs keep
 * @sg: the node
 *
 * Return: true if any place was freed. Any context.
 */
bool smqsg_unkeep(struct smqsg_dev *sg)
{
	unsigned int cpu;
	int kept, sum = 0;

	for_each_possible_cpu(cpu) {
		atomic_t *here = per_cpu_ptr(sg->depth.kept, cpu);

		if (!atomic_read(here))
			continue;
		kept = atomic_xchg(here, 0);
		atomic_sub(kept, &sg->depth.inflight);
		sum += kept;
	}
	return sum;
}

/**
 * smqsg_inflight() - how many commands of a device are in flight
 * @sg: the node
 *
 * Return: their number; not exact if commands are sent or end during the call.
 */
unsigned int smqsg_inflight(struct smqsg_dev *sg)
{
	int inflight = atomic_read(&sg->depth.inflight);
	unsigned int cpu;

	for_each_possible_cpu(cpu)
		inflight -= atomic_read(per_cpu_ptr(sg->depth.kept, cpu));
	return max(inflight, 0);
}

/**
 * smqsg_kept_init() - sets up a node's kept places
 * @sg: the node
 *
 * Return: 0 or -ENOMEM. May sleep.
 */
int smqsg_kept_init(struct smqsg_dev *sg)
{
	sg->depth.kept = alloc_percpu(atomic_t);
	return sg->depth.kept ? 0 : -ENOMEM;
}

/**
 * smqsg_kept_exit() - frees the memory of kept places, when the node is freed
 * @sg: the node
 */
void smqsg_kept_exit(struct smqsg_dev *sg)
{
	free_percpu(sg->depth.kept);
}
