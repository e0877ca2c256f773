/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The layer's private state of hosts, hardware queues and LUNs, which LLDs do not see. Each
 * subject has a struct, declared in the header of that subject.
 */
#ifndef SMQ_CORE_CORE_H
#define SMQ_CORE_CORE_H

#include <linux/workqueue.h>
#include <smq/attached_cmds.h>
#include <smq/lld.h>

#include "choice.h"
#include "depth.h"
#include "eh.h"
#include "fault.h"
#include "hold.h"
#include "policy_move.h"

/**
 * struct smq_host_core - the layer's own part of a host
 * @host: the host
 * @wq: runs deferred commands; WQ_MEM_RECLAIM because reclaim may wait for such a command
 * @dispatch: gives held commands to the LLD; instantiated together with the LLD's queuecommand
 * @choice: the host's choice of a policy
 * @no_policy: memory for commands that the layer holds without a policy, because their hardware
 *	queue is full. NULL until the host is added, and if the allocation failed
 * @hold: all held commands
 * @move: CPU hotplug, for policies that move commands
 * @raised: the host advertises more commands than the device takes; under @choice.lock
 * @lowering: the host no longer does so, but commands beyond the depth may be in flight, for which
 *	the layer keeps enforcing the inner depth; under @choice.lock
 * @eh: error handling
 * @faults: fault injection
 * @attached: for a host of another driver, else unused
 * @debugfs: the host's directory in debugfs smq/
 *
 * Lives as long as struct Scsi_Host, in which it lies behind the LLD's private area. After
 * smq_host_free() only @eh is used: a reset by ioctl on a file that was opened before may read it.
 */
struct smq_host_core {
	struct smq_host *host;
	struct workqueue_struct *wq;
	enum smq_status (*dispatch)(struct smq_hwq *hwq, struct list_head *cmds, bool commit);
	struct smq_choice choice;
	struct smq_policy *no_policy;
	struct smq_host_holds hold;
	struct smq_host_move move;
	bool raised;
	bool lowering;
	struct smq_host_eh eh;
	struct smq_host_faults faults;
	struct smq_attached attached;
	struct dentry *debugfs;
};

/**
 * struct smq_hwq_core - the layer's own part of a hardware queue
 * @hwq: the hardware queue
 * @refused: commands that the LLD refused because the queue was full, and later commands. A
 *	command that has room in the inner depth keeps that room. SMQ_DETOUR_FULL is set while the
 *	list has commands, or while some of them are on their way to the LLD
 * @move: commands of other hardware queues that are moved here; on cache lines of its own,
 *	because all CPUs write it
 *
 * Lives as long as the hardware queue.
 */
struct smq_hwq_core {
	struct smq_hwq *hwq;
	struct smq_hold refused;
	struct smq_hwq_move move ____cacheline_aligned_in_smp;
};

/**
 * struct smq_lun_core - the layer's own part of a LUN
 * @sdev: the LUN
 * @probed: lun_init has returned 0, and lun_exit must be called; under the host's eh lock, so
 *	that no reset works on a LUN that is being removed
 * @policy: the chosen policy's part of the LUN; written under the host's policy lock, read
 *	inside an RCU read-side section
 * @depth: its inner depth
 * @attached: in smq_attached.luns of an attached host
 *
 * Lives as long as the struct smq_lun in @sdev's hostdata; on an attached host from
 * smq_attached_add_lun() to smq_attached_remove_lun().
 */
struct smq_lun_core {
	struct scsi_device *sdev;
	bool probed;
	struct smq_policy_lun __rcu *policy;
	struct smq_depth depth;
	struct hlist_node attached;
};

static inline struct smq_lun_core *smq_sdev_to_core(const struct scsi_device *sdev)
{
	return smq_sdev_to_lun(sdev)->core;
}

/* Context: smq_attached.lock, or inside an RCU read-side section. */
static inline struct smq_lun_core *smq_attached_find(const struct smq_attached *attached,
						     const struct scsi_device *sdev)
{
	struct smq_lun_core *lun;

	hash_for_each_possible_rcu(attached->luns, lun, attached, (unsigned long)sdev,
				   lockdep_is_held(&attached->lock)) {
		if (lun->sdev == sdev)
			return lun;
	}
	return NULL;
}

/*
 * The layer's part of a LUN; NULL if the LUN is being added or removed. Context: policy lock, or
 * inside an RCU read-side section.
 */
static inline struct smq_lun_core *smq_host_lun(struct smq_host *host,
						const struct scsi_device *sdev)
{
	if (host->attached)
		return smq_attached_find(host->attached, sdev);
	return sdev->hostdata ? smq_sdev_to_core(sdev) : NULL;
}

static inline struct smq_lun_core *smq_cmd_lun(struct smq_cmd *cmd)
{
	struct smq_lun_core *lun = cmd->lun;

	return unlikely(lun) ? lun : smq_sdev_to_core(smq_cmd_to_scmd(cmd)->device);
}

/*
 * How many commands the tags of a hardware queue come after those of the one before. 0: all queues
 * have the same tags.
 */
static inline unsigned int smq_host_tag_step(const struct smq_host *host)
{
	return host->shost->host_tagset ? 0 : host->shost->tag_set.queue_depth;
}

/* How many commands a host has: one for each tag. */
static inline unsigned int smq_host_nr_cmds(const struct smq_host *host)
{
	return (host->nr_hwqs - 1) * smq_host_tag_step(host) + host->shost->tag_set.queue_depth;
}

/* The command of a started request of the host. */
static inline struct smq_cmd *smq_rq_to_cmd(struct smq_host *host, struct request *rq)
{
	if (unlikely(host->attached))
		return smq_attached_cmd(host->attached, rq);
	return smq_scmd_to_cmd(blk_mq_rq_to_pdu(rq));
}

/* trace.c */

void smq_trace_init(void);

#endif /* SMQ_CORE_CORE_H */
