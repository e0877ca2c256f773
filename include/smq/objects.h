/* SPDX-License-Identifier: GPL-2.0 */
/*
 * smq: hosts, hardware queues, LUNs and commands, as LLDs and policies see them. <smq/lld.h>
 * includes this file. Each object ends with a private area of the LLD.
 */
#ifndef SMQ_OBJECTS_H
#define SMQ_OBJECTS_H

#include <linux/atomic.h>
#include <linux/bits.h>
#include <linux/blk-mq.h>
#include <linux/cache.h>
#include <linux/compiler.h>
#include <linux/list.h>
#include <linux/rcupdate.h>
#include <linux/workqueue.h>
#include <scsi/scsi_cmnd.h>
#include <scsi/scsi_device.h>
#include <scsi/scsi_host.h>

struct smq_attached;
struct smq_host_core;
struct smq_hwq_core;
struct smq_lld;
struct smq_lun_core;
struct smq_policy;
struct smq_policy_cmd;
struct smq_stats;

/**
 * enum smq_status - result of queue_cmd
 * @SMQ_DONE: the command is finished, its result and residual are set; the layer
 *	completes it in the caller's context
 * @SMQ_QUEUED: the LLD owns the command and calls smq_cmd_done() exactly once, perhaps
 *	before queue_cmd returns; or the LLD has given it to smq_cmd_defer()
 * @SMQ_HWQ_BUSY: refused, because the hardware queue has no room. The layer holds the command
 *	and tries it again when a command of that hardware queue ends, or after 3 ms; later
 *	commands for that queue wait behind it. Other hardware queues are not affected
 * @SMQ_HOST_BUSY: refused; the mid-layer stops the whole host, all its LUNs and hardware
 *	queues, until one of its commands ends
 * @SMQ_DEVICE_BUSY: refused; tried again when a command of the LUN ends, after 3 ms,
 *	or when the LLD calls smq_lun_room()
 * @SMQ_TARGET_BUSY: refused; the mid-layer tries again when the target has room
 */
enum smq_status {
	SMQ_DONE,
	SMQ_QUEUED,
	SMQ_HWQ_BUSY,
	SMQ_HOST_BUSY,
	SMQ_DEVICE_BUSY,
	SMQ_TARGET_BUSY,
};

/*
 * Which code may complete a command. Only the owner calls scsi_done(). The LLD's completion and
 * error handling may claim a command at the same time; because both leave SMQ_OWNED by
 * atomic_cmpxchg(), only one of them becomes the owner.
 */
enum smq_cmd_state {
	SMQ_FREE,	/* with the mid-layer */
	SMQ_OWNED,	/* with the LLD, or in the layer's worker for it */
	SMQ_SUBMITTING,	/* with the LLD, whose queue_cmd has not returned: see smq_cmd_enter() */
	SMQ_ENDED,	/* ended before queue_cmd returned: the submitter completes it */
	SMQ_HELD,	/* in a list of the layer or a policy; changes under that list's lock */
	SMQ_RETURNING,	/* on its way from a list to the mid-layer, which alone ends it */
	SMQ_WITHHELD,	/* by fault injection; changes under smq_host_faults.hits_lock */
	SMQ_LATE,	/* of an attached host: with the LLD, but its timer has expired */
	SMQ_SETTLED,	/* a late command whose end the layer accounts for */
};

/**
 * struct smq_cmd - the layer's part of a command, in front of the LLD's own
 * @hwq: the hardware queue that it is on, or was on last; only the owner changes it
 * @state: enum smq_cmd_state; atomic because completion and error handling
 *	compete for it
 * @fault: fault injection has changed or recorded the command; only the owner uses this field
 * @seen: the dispatch policy's part of it, NULL while no policy has seen it. Written by the
 *	owner, read by error handling inside an RCU read-side section
 * @node: entry in a list: of the layer or the policy while the command is held, else of the LLD
 * @scmd: the mid-layer's command; always the same, except on an attached host
 * @lun: on an attached host, the layer's part of the LUN; valid while a policy sees the command
 * @work: for smq_cmd_defer()
 * @priv: the LLD's private area
 *
 * Lifetime: behind struct scsi_cmnd, in the tag set from smq_host_add() to the end of
 * smq_host_remove(), whichever LUN uses the tag meanwhile. blk-mq has one more command per hardware
 * queue of a LUN, which lives as long as the LUN's request queue: a flush (SYNCHRONIZE CACHE for a
 * LUN with a write-back cache) is queued in it, under the tag of a request that asked for it. An
 * attached host has its commands in an array of its own (see <smq/attached.h>).
 */
struct smq_cmd {
	struct smq_hwq *hwq;
	atomic_t state;
	bool fault;
	struct smq_policy_cmd *seen;
	struct list_head node;
	struct scsi_cmnd *scmd;
	struct smq_lun_core *lun;
	struct work_struct work;
	unsigned char priv[] __aligned(8);
};

/* Bits of smq_hwq.detour. */
#define SMQ_DETOUR_POLICY	0	/* the host has an effective policy */
#define SMQ_DETOUR_FULL		1	/* commands wait for room in the hardware queue */

/**
 * struct smq_hwq - a hardware queue
 * @host: its host
 * @stats: per CPU
 * @detour: the reasons why commands may not go to the LLD at once, SMQ_DETOUR_*; 0: they may. One
 *	word, so that a command needs one test only. Atomic: one bit changes under the host's policy
 *	lock, the other under the lock of smq_hwq_core.refused
 * @core: the layer's own part
 * @index: as in the mid-layer's hctx->queue_num
 * @type: HCTX_TYPE_DEFAULT or HCTX_TYPE_POLL
 * @priv: the LLD's private area
 *
 * All fields except @priv and @detour are written at set-up only, so CPUs share the cache line
 * without cost; @detour changes only with a policy or a full queue.
 * Lifetime: smq_host_alloc() to smq_host_free().
 */
struct smq_hwq {
	struct smq_host *host;
	struct smq_stats __percpu *stats;
	unsigned long detour;
	struct smq_hwq_core *core;
	unsigned int index;
	enum hctx_type type;
	unsigned char priv[] ____cacheline_aligned;
};

/**
 * struct smq_lun - the layer's part of a LUN, in scsi_device.hostdata
 * @core: the layer's own part
 * @priv: the LLD's private area, on cache lines of its own
 *
 * Lifetime: from the scsi_device's sdev_init to its sdev_destroy, which comes after its last
 * command.
 */
struct smq_lun {
	struct smq_lun_core *core;
	unsigned char priv[] ____cacheline_aligned;
};

/**
 * struct smq_host - a host, in the mid-layer's hostdata
 * @hwq: its hardware queues, default ones first, poll queues after them
 * @policy: its effective dispatch policy, NULL for "direct" and while the chosen policy has nothing
 *	to do; read inside the RCU read-side section in which commands are queued
 * @frozen: a reset is under way: no held command, and no command of the error handler, goes to the
 *	LLD; set before the grace period that waits for queuecommand
 * @shost: the mid-layer's host that it is part of
 * @lld: its LLD
 * @attached: for a host of another driver: what the layer keeps beside it; else NULL
 * @core: the layer's own part
 * @nr_hwqs: all hardware queues
 * @nr_poll: of these, poll queues
 * @depth: commands the device takes at once on each hardware queue
 * @extra: further commands a policy may hold for each
 * @priv: the LLD's private area
 *
 * Lifetime: part of struct Scsi_Host, to which smq_host_free() drops the layer's reference. An open
 * file on a device of the host may keep this struct longer, but does not use it.
 */
struct smq_host {
	struct smq_hwq **hwq;
	struct smq_policy __rcu *policy;
	bool frozen;
	struct Scsi_Host *shost;
	const struct smq_lld *lld;
	struct smq_attached *attached;
	struct smq_host_core *core;
	unsigned int nr_hwqs;
	unsigned int nr_poll;
	unsigned int depth;
	unsigned int extra;
	unsigned char priv[] __aligned(8);
};

static inline void *smq_host_priv(struct smq_host *host)
{
	return host->priv;
}

static inline void *smq_hwq_priv(struct smq_hwq *hwq)
{
	return hwq->priv;
}

/* Whether commands wait for room in a hardware queue. */
static inline bool smq_hwq_is_full(const struct smq_hwq *hwq)
{
	/*
	 * data_race: the value may be out of date at once. A caller that must not miss a change
	 * holds the lock of the list.
	 */
	return data_race(hwq->detour) & BIT(SMQ_DETOUR_FULL);
}

static inline void *smq_cmd_priv(struct smq_cmd *cmd)
{
	return cmd->priv;
}

static inline struct smq_host *smq_shost_to_host(struct Scsi_Host *shost)
{
	return shost_priv(shost);
}

static inline struct smq_host *smq_sdev_to_host(struct scsi_device *sdev)
{
	return smq_shost_to_host(sdev->host);
}

static inline struct smq_lun *smq_sdev_to_lun(const struct scsi_device *sdev)
{
	return sdev->hostdata;
}

/* The private area that an LLD asked for with lun_size. */
static inline void *smq_lun_priv(const struct scsi_device *sdev)
{
	return smq_sdev_to_lun(sdev)->priv;
}

static inline struct smq_cmd *smq_scmd_to_cmd(struct scsi_cmnd *scmd)
{
	return scsi_cmd_priv(scmd);
}

static inline struct scsi_cmnd *smq_cmd_to_scmd(const struct smq_cmd *cmd)
{
	return cmd->scmd;
}

/**
 * smq_cmd_enter() - leaves the completion of a command to its submitter
 * @cmd: the command that queue_cmd was called for
 *
 * For a queue_cmd that calls code which may complete the command before it returns, and does not
 * report whether it has done so. Until smq_cmd_leave() is called, smq_cmd_done() only records that
 * the command has ended; the submitter completes it, without a softirq and with no frame of the LLD
 * on the stack.
 *
 * Context: queue_cmd.
 */
static inline void smq_cmd_enter(struct smq_cmd *cmd)
{
	/* As for the store of SMQ_OWNED in smq_queue_one(): a plain store is enough. */
	atomic_set(&cmd->state, SMQ_SUBMITTING);
}

/**
 * smq_cmd_leave() - ends what smq_cmd_enter() began
 * @cmd: the same command
 *
 * Context: queue_cmd.
 * Return: the value for queue_cmd to return: SMQ_DONE if the command has ended meanwhile, on any
 * CPU; else SMQ_QUEUED.
 */
static inline enum smq_status smq_cmd_leave(struct smq_cmd *cmd)
{
	if (atomic_cmpxchg(&cmd->state, SMQ_SUBMITTING, SMQ_OWNED) == SMQ_SUBMITTING)
		return SMQ_QUEUED;
	/*
	 * Pairs with smq_cmd_leave_ended(): a CPU that has read SMQ_ENDED also sees the result. A
	 * cmpxchg that fails, as this one has, orders nothing by itself.
	 */
	smp_acquire__after_ctrl_dep();
	return SMQ_DONE;
}

/*
 * Whether the LLD has a command and has not reported its end. If this returns false, error
 * handling waits for a grace period before the tag is used again.
 */
static inline bool smq_cmd_is_with_lld(const struct smq_cmd *cmd)
{
	int state = atomic_read(&cmd->state);

	return state == SMQ_OWNED || state == SMQ_SUBMITTING;
}

#endif /* SMQ_OBJECTS_H */
