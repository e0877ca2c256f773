/* SPDX-License-Identifier: GPL-2.0 */
/*
 * smq: what the layer keeps beside a host of another driver, in front of which it is attached (see
 * attached.h), and how a command is found there.
 */
#ifndef SMQ_ATTACHED_CMDS_H
#define SMQ_ATTACHED_CMDS_H

#include <linux/hashtable.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <smq/lld.h>

#define SMQ_ATTACHED_LUN_BITS	6

/**
 * struct smq_attached_cmd - a command of an attached host
 * @cmd: the command
 * @seen_in: the last check, by smq_attached.checks, in which the mid-layer had it in flight, or in
 *	which its timer expired; under smq_attached.late_lock
 *
 * The size, a power of 2, makes the address cheap to compute.
 */
struct smq_attached_cmd {
	struct smq_cmd cmd;
	unsigned int seen_in;
} __aligned(128);

/**
 * struct smq_attached_hwq - what a command of a hardware queue needs first
 * @hwq: the hardware queue
 * @cmds: its commands, by tag
 */
struct smq_attached_hwq {
	struct smq_hwq *hwq;
	struct smq_attached_cmd *cmds;
};

/**
 * struct smq_attached - what the layer keeps beside an attached host
 * @hwqs: for each hardware queue
 * @cmds: a command for each tag of each hardware queue, or of the host if its queues share their
 *	tags
 * @nr: number of @cmds
 * @luns: struct smq_lun_core.attached; changed under @lock, read inside an RCU read-side section
 * @node: in the list of all attached hosts
 * @shown: the host has the layer's attributes in sysfs and debugfs
 * @lock: protects changes of @luns; one smq_attached_check() at a time
 * @late_lock: protects @checks and smq_attached_cmd.seen_in; a command leaves SMQ_LATE under this
 *	lock, unless the LLD completes it
 * @checks: number of checks so far
 * @resets: resets that run now; under the host's eh lock
 * @unseen: commands of which the layer learned only later that they had ended
 *
 * Lifetime: smq_attached_alloc() to smq_attached_free().
 */
struct smq_attached {
	struct smq_attached_hwq *hwqs;
	struct smq_attached_cmd *cmds;
	unsigned int nr;
	DECLARE_HASHTABLE(luns, SMQ_ATTACHED_LUN_BITS);
	struct list_head node;
	bool shown;
	struct mutex lock;	/* see @lock above */
	spinlock_t late_lock;	/* see @late_lock above */
	unsigned int checks;
	unsigned int resets;
	atomic_t unseen;
};

static __always_inline struct smq_attached_hwq *
smq_attached_hwq(struct smq_attached_hwq *hwqs, const struct request *rq)
{
	return &hwqs[rq->mq_hctx->queue_num];
}

/* The command of a request; the request has a tag. */
static __always_inline struct smq_cmd *smq_attached_cmd(const struct smq_attached *attached,
							const struct request *rq)
{
	return &smq_attached_hwq(attached->hwqs, rq)->cmds[rq->tag].cmd;
}

#endif /* SMQ_ATTACHED_CMDS_H */
