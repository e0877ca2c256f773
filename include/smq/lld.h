/* SPDX-License-Identifier: GPL-2.0 */
/*
 * smq: what a low-level driver (LLD) includes.
 *
 * An LLD fills one static const struct smq_lld, names it in SMQ_LLD_TEMPLATE()
 * and registers hosts with smq_host_alloc() and smq_host_add(). The macro, in
 * <smq/lld_template.h> which comes with this header, instantiates the layer's
 * queuecommand for that LLD, so that the compiler sees the structure as a
 * constant: queue_cmd and commit are direct calls, and what the LLD does not have
 * costs nothing. (Both are best static in the file that has the macro: of a
 * function elsewhere the kernel's compiler flags do not let the compiler assume
 * that there is one.) drivers/core/README.md tells the life of a command.
 */
#ifndef SMQ_LLD_H
#define SMQ_LLD_H

#include <linux/atomic.h>
#include <linux/blk-mq.h>
#include <linux/cache.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/rcupdate.h>
#include <linux/workqueue.h>
#include <scsi/scsi_cmnd.h>
#include <scsi/scsi_device.h>
#include <scsi/scsi_host.h>
#include <smq/compat.h>

struct smq_cmd;
struct smq_hold;
struct smq_host;
struct smq_hwq;
struct smq_legacy;
struct smq_legacy_queue;
struct smq_legacy_rq;
struct smq_policy;

/**
 * enum smq_status - what became of a command given to queue_cmd
 * @SMQ_DONE: it is finished, its result and residual are set; the layer
 *	completes it in the caller's context
 * @SMQ_QUEUED: the LLD owns it and calls smq_cmd_done() exactly once, perhaps
 *	before queue_cmd returns; or it has been given to smq_cmd_defer()
 * @SMQ_HOST_BUSY: not taken; the mid-layer tries again when the host has room
 * @SMQ_DEVICE_BUSY: not taken; the mid-layer tries again when the LUN has room
 * @SMQ_TARGET_BUSY: not taken; the mid-layer tries again when the target has room
 */
enum smq_status {
	SMQ_DONE,
	SMQ_QUEUED,
	SMQ_HOST_BUSY,
	SMQ_DEVICE_BUSY,
	SMQ_TARGET_BUSY,
};

/**
 * struct smq_lld - a low-level driver as the layer sees it
 * @name: proc_name of its hosts, also the prefix of its messages
 * @cmd_size: bytes of its private area per command, preallocated with the tag,
 *	zeroed once and never again; 0 if none
 * @hwq_size: bytes of its private area per hardware queue, zeroed, starting on a
 *	cache line of its own; 0 if none
 * @host_size: bytes of its private area per host, zeroed; 0 if none
 * @lun_size: bytes of its private area per LUN, zeroed before lun_init, on cache
 *	lines of its own; 0 if none
 * @max_cmd_len: longest CDB it takes, in bytes, 6 to 32
 * @sg_tablesize: most scatterlist entries per command, 1 to SG_MAX_SEGMENTS
 * @max_sectors: most 512-byte sectors per command
 *
 * @init_cmd: sets up the private area of a command, once, before its first use;
 *	may sleep. Has no counterpart: it allocates nothing. Optional.
 * @init_hwq: sets up a hardware queue; may sleep; 0 or a negative errno, which
 *	fails smq_host_alloc(). Optional.
 * @exit_hwq: undoes it, when no command is left; may sleep. Optional.
 * @queue_cmd: takes one command. Called by several CPUs at once, also for one
 *	hardware queue, in process context with interrupts on, always inside an
 *	RCU read-side section: may not sleep. Holds no lock of the mid-layer's.
 * @queuecommand_lck: instead of @queue_cmd, the entry of an old driver as the kernel's
 *	DEF_SCSI_QCMD() has it: called under host_lock with interrupts off, 0 or
 *	SCSI_MLQUEUE_*. It may drop host_lock and take it again. Its host has one
 *	hardware queue, as it always had; what it called scsi_done() for it calls
 *	smq_scsi_done() for. It finds its host with
 *	smq_sdev_to_host(scmd->device), its private area of the command
 *	with smq_cmd_priv(smq_scmd_to_cmd(scmd)).
 * @commit: the doorbell: called after the last queue_cmd of a batch, same
 *	context, and now and then with nothing new to tell. Optional: without it
 *	queue_cmd rings its own.
 * @poll: completes what is ready on a queue of HCTX_TYPE_POLL and returns how
 *	many; called by several CPUs at once, may not sleep. Needed by an LLD that
 *	offers poll queues. The layer calls it also when such a command times
 *	out, but not for those that the error handler sends itself: queue_cmd
 *	does not leave these (scmd->submitter) to polling.
 * @work: runs a command given to smq_cmd_defer(), in process context, may sleep
 *	(allocations GFP_NOIO | __GFP_RETRY_MAYFAIL: reclaim may wait for this very
 *	command, and error handling waits for its worker). Returns SMQ_DONE, or
 *	SMQ_QUEUED where completion comes later.
 * @abort: takes one command back, or lets go of what it keeps for one that was still
 *	waiting for its worker. Called in the mid-layer's error handling
 *	workqueue or thread, may sleep; commands may be queued and resets may run
 *	meanwhile. 0 means
 *	the LLD neither holds nor will touch the command again; a negative errno
 *	escalates to a reset. An LLD that has none leaves commands to the resets.
 * @lun_reset: LOGICAL UNIT RESET (SAM-6, 7.5): 0 means that no command which was
 *	queued for @sdev when it was called will be touched again. May sleep; the
 *	host takes no new command while it runs. A negative errno escalates.
 * @target_reset: the same for all LUNs of a target
 * @host_reset: the same for the whole host, last resort: waits itself where a bus has
 *	to settle. A negative errno says that the host no longer works, not that the LLD
 *	still has commands: they all end, and the mid-layer takes the LUNs offline
 *
 * @lun_init: a LUN is probed: 0, or -ENXIO if there is none at that address.
 *	May sleep. Optional.
 * @lun_exit: undoes a lun_init that returned 0: that LUN goes away, no command left.
 *	May sleep. Optional.
 * @map_queues: maps the hardware queues of one type to CPUs by interrupt
 *	affinity. Optional: they are spread evenly.
 */
struct smq_lld {
	const char *name;
	unsigned int cmd_size;
	unsigned int hwq_size;
	unsigned int host_size;
	unsigned int lun_size;
	unsigned short max_cmd_len;
	unsigned short sg_tablesize;
	unsigned int max_sectors;

	void (*init_cmd)(struct smq_cmd *cmd);
	int (*init_hwq)(struct smq_hwq *hwq);
	void (*exit_hwq)(struct smq_hwq *hwq);
	enum smq_status (*queue_cmd)(struct smq_hwq *hwq, struct smq_cmd *cmd);
	smq_qc_t (*queuecommand_lck)(struct scsi_cmnd *scmd);
	void (*commit)(struct smq_hwq *hwq);
	int (*poll)(struct smq_hwq *hwq);
	enum smq_status (*work)(struct smq_hwq *hwq, struct smq_cmd *cmd);
	int (*abort)(struct smq_hwq *hwq, struct smq_cmd *cmd);
	int (*lun_reset)(struct smq_host *host, struct scsi_device *sdev);
	int (*target_reset)(struct smq_host *host, struct scsi_target *starget);
	int (*host_reset)(struct smq_host *host);
	int (*lun_init)(struct smq_host *host, struct scsi_device *sdev);
	void (*lun_exit)(struct smq_host *host, struct scsi_device *sdev);
	void (*map_queues)(struct smq_host *host, struct blk_mq_queue_map *map,
			   enum hctx_type type);
};

/**
 * struct smq_host_config - what differs between hosts of one LLD
 * @hw_queues: default hardware queues, at least 1; more than there are CPUs are
 *	cut to that many, with a message
 * @poll_queues: queues of HCTX_TYPE_POLL beside them, 0 if none, cut likewise
 * @depth: commands the host takes at once on each hardware queue, and a LUN's
 *	first queue_depth: 1 to SMQ_MAX_DEPTH
 * @extra: commands beyond these that a dispatch policy may hold for each hardware
 *	queue, 0 to SMQ_MAX_DEPTH; tags are allocated for both. With more than one
 *	LUN an LLD that says more than 0 may be given more than @depth by the
 *	policy "direct", and answers SMQ_HOST_BUSY
 * @max_id: targets per channel, at least 1
 * @max_lun: LUN addresses per target, at least 1
 */
struct smq_host_config {
	unsigned int hw_queues;
	unsigned int poll_queues;
	unsigned int depth;
	unsigned int extra;
	unsigned int max_id;
	u64 max_lun;
};

/* The mid-layer's own limit on a device's queue_depth (drivers/scsi/scsi.c). */
#define SMQ_MAX_DEPTH	4096

/*
 * Who may complete a command. Only the owner calls the mid-layer's done, and
 * leaving SMQ_OWNED by atomic_cmpxchg makes the owner one: the LLD's completion
 * and error handling may reach for a command at the same time.
 */
enum smq_cmd_state {
	SMQ_FREE,	/* with the mid-layer */
	SMQ_OWNED,	/* with the LLD, or in the layer's worker for it */
	SMQ_SUBMITTING,	/* with the LLD, whose queue_cmd has not returned: see smq_cmd_enter() */
	SMQ_ENDED,	/* completed during that: the submitter completes it */
	SMQ_HELD,	/* with a dispatch policy; left under the lock of its smq_hold */
	SMQ_BACK,	/* on its way from there to the mid-layer: nobody else ends it */
};

/* What a policy has to be told of when a command ends; bits of smq_cmd.flags. */
#define SMQ_CMD_COUNTED	BIT(0)	/* in smq_lun.inflight */
#define SMQ_CMD_BATCHED	BIT(1)	/* in smq_hold.inflight */
#define SMQ_CMD_WAITING	BIT(2)	/* in smq_lun.waiting */
#define SMQ_CMD_MODELLED BIT(3)	/* by the policy legacy-model */

/**
 * struct smq_cmd - the layer's part of a command, in front of the LLD's own
 * @hwq: the hardware queue it was last queued on; stable while it is owned
 * @state: enum smq_cmd_state; atomic because completion and error handling
 *	compete for it
 * @flags: SMQ_CMD_*, 0 unless a policy is at work; the owner's
 * @since: when it was first held, in jiffies | 1; 0 if it never was
 * @given: when it was given to the LLD after that, in jiffies
 * @legacy: what the policy legacy-model has allocated for it
 * @node: free for the owner: the LLD's lists, the policy's while it is held
 * @work: smq_cmd_defer()
 * @priv: the LLD's private area
 *
 * Lifetime: behind struct scsi_cmnd, in the tag set from smq_host_add() to the end
 * of smq_host_remove(), whoever uses the tag meanwhile. blk-mq has one more per
 * hardware queue of a LUN, which lives as long as the LUN's request queue: a flush
 * (SYNCHRONIZE CACHE for a LUN with a write-back cache) is queued in it, under the
 * tag of a request that asked for it.
 */
struct smq_cmd {
	struct smq_hwq *hwq;
	atomic_t state;
	u8 flags;
	unsigned long since;
	unsigned long given;
	struct smq_legacy_rq *legacy;
	struct list_head node;
	struct work_struct work;
	unsigned char priv[] __aligned(8);
};

/* Counted on the CPU where it happens, summed when read. */
struct smq_stats {
	u64 queued;	/* accepted by the LLD or still on the way there */
	u64 done;	/* completed, whatever the result */
	u64 errors;	/* of these, with a result other than GOOD */
	u64 busy;	/* handed back to the mid-layer */
	u64 deferred;	/* sent through the worker */
	u64 polled;	/* found by poll */
	u64 kept;	/* by a policy, because the device was full */
};

/**
 * struct smq_hwq - a hardware queue
 * @host: its host
 * @stats: per CPU
 * @hold: what a policy holds for it
 * @index: as in the mid-layer's hctx->queue_num
 * @type: HCTX_TYPE_DEFAULT or HCTX_TYPE_POLL
 * @priv: the LLD's private area
 *
 * All but @priv is written at set-up only, so CPUs share the line unharmed.
 * Lifetime: smq_host_alloc() to smq_host_free().
 */
struct smq_hwq {
	struct smq_host *host;
	struct smq_stats __percpu *stats;
	struct smq_hold *hold;
	unsigned int index;
	enum hctx_type type;
	unsigned char priv[] ____cacheline_aligned;
};

/**
 * struct smq_lun - the layer's part of a LUN, in scsi_device.hostdata
 * @sdev: the LUN
 * @depth: inner depth: commands its device takes at once while a policy holds
 * @max: what @depth may grow to
 * @last_full: when the device last said TASK SET FULL, in jiffies
 * @last_ramp: when @depth last grew, in jiffies
 * @lock: protects changes of the four above: completions on all CPUs move them
 * @inflight: commands with the device, counted while a policy holds; atomic
 *	because all CPUs queue and complete
 * @waiting: held commands that wait for room in @depth; atomic likewise
 * @legacy: the policy legacy-model's, NULL until it is chosen for the first time
 * @probed: lun_init has returned 0, lun_exit is due
 * @priv: the LLD's private area, on lines of its own
 *
 * Lifetime: that of the scsi_device between sdev_init and sdev_destroy, which
 * comes after its last command.
 */
struct smq_lun {
	struct scsi_device *sdev;
	unsigned int depth;
	unsigned int max;
	unsigned long last_full;
	unsigned long last_ramp;
	spinlock_t lock;	/* protects the four above */
	atomic_t inflight;
	atomic_t waiting;
	struct smq_legacy_queue *legacy;
	bool probed;
	unsigned char priv[] ____cacheline_aligned;
};

/**
 * struct smq_batch_limits - when the policy "batch" waits no longer
 * @requests: commands held for a hardware queue
 * @bytes: that they move
 * @usecs: since the first of them was held
 *
 * Read with READ_ONCE: settings take effect on the commands that follow.
 */
struct smq_batch_limits {
	unsigned int requests;
	unsigned int bytes;
	unsigned int usecs;
};

/* Error handling of a host, counted: rare, so shared atomics do no harm. */
struct smq_eh_stats {
	atomic_t timeouts;
	atomic_t aborts;
	atomic_t lun_resets;
	atomic_t target_resets;
	atomic_t host_resets;
	atomic_t reset_cmds;	/* completed with DID_RESET by a reset */
};

/**
 * struct smq_host - a host, in the mid-layer's hostdata
 * @hwq: its hardware queues, default ones first, poll queues after them
 * @policy: its dispatch policy, NULL for "direct"; changed under @policy_lock,
 *	read inside the RCU read-side section in which commands are queued and
 *	completed
 * @passes: its holding policy has nothing to hold: commands pass without being counted,
 *	nor asked for but the last of a batch; changed and read as @policy is
 * @frozen: a reset is under way: nothing held goes to the LLD, nor do commands of
 *	the error handler's own; set before the grace period that ends queuecommand
 * @shost: the mid-layer's host that it is part of
 * @lld: its LLD
 * @wq: runs deferred commands; WQ_MEM_RECLAIM: one may be needed to free memory
 * @nr_hwqs: all hardware queues
 * @nr_poll: of these, poll queues
 * @depth: commands the device takes at once on each hardware queue
 * @extra: further commands a policy may hold for each
 * @dispatch: gives held commands to the LLD, instantiated with its queuecommand
 * @policy_lock: taken by changes of policy, which sleep
 * @raised: more is advertised than the device takes
 * @adapt: sets @raised, and clears @passes, while the policy has something to hold
 * @kept_at: when a command was last held because its device was full, in jiffies;
 *	whoever holds one writes it, without a lock: any of two times will do
 * @recovery: gives back what is held once the mid-layer's recovery is to begin; runs
 *	from a timeout on until no abort is left that may lead there
 * @eh_near: it is to look once more; written without a lock: who loses a race has one
 *	look less
 * @limits: what the policy "batch" goes by
 * @legacy: the policy legacy-model's while it has commands; read as @policy is
 * @legacy_era: enum smq_legacy_era, for the commands that follow
 * @legacy_wrapper: era 2013: the LLD's queuecommand is wrapped by DEF_SCSI_QCMD
 * @eh_lock: taken by resets, which sleep, and by removal
 * @removing: no more resets by ioctl
 * @eh: error handling counters
 * @debugfs: its directory below debugfs smq/
 * @priv: the LLD's private area
 *
 * Lifetime: part of struct Scsi_Host, whose reference smq_host_free() drops;
 * an open file on a device of the host may keep it longer, without using it.
 */
struct smq_host {
	struct smq_hwq **hwq;
	const struct smq_policy __rcu *policy;
	bool passes;
	bool frozen;
	struct Scsi_Host *shost;
	const struct smq_lld *lld;
	struct workqueue_struct *wq;
	unsigned int nr_hwqs;
	unsigned int nr_poll;
	unsigned int depth;
	unsigned int extra;
	enum smq_status (*dispatch)(struct smq_hwq *hwq, struct list_head *cmds, bool commit);
	struct mutex policy_lock;	/* one change at a time; protects raised, passes */
	bool raised;
	struct delayed_work adapt;
	unsigned long kept_at;
	struct delayed_work recovery;
	bool eh_near;
	struct smq_batch_limits limits;
	struct smq_legacy __rcu *legacy;
	u8 legacy_era;
	bool legacy_wrapper;
	struct mutex eh_lock;	/* one reset at a time; protects removing */
	bool removing;
	struct smq_eh_stats eh;
	struct dentry *debugfs;
	unsigned char priv[] __aligned(8);
};

/**
 * struct smq_template - what SMQ_LLD_TEMPLATE() instantiates for an LLD
 * @sht: for the mid-layer
 * @dispatch: gives a list of commands to queue_cmd, in order, until one is not
 *	taken: that one and the rest stay in the list; then commits if told to.
 *	Returns what queue_cmd said last. Context: as queue_cmd
 */
struct smq_template {
	struct scsi_host_template sht;
	enum smq_status (*dispatch)(struct smq_hwq *hwq, struct list_head *cmds, bool commit);
};

struct smq_host *smq_host_alloc(const struct smq_lld *lld, struct smq_template *tmpl,
				const struct smq_host_config *cfg);
int smq_host_add(struct smq_host *host, struct device *parent);
void smq_host_remove(struct smq_host *host);
void smq_host_free(struct smq_host *host);

struct config_group;
int smq_configfs_register(struct config_group *group);
void smq_configfs_unregister(struct config_group *group);

bool smq_cmd_done(struct smq_cmd *cmd);
void smq_scsi_done(struct scsi_cmnd *scmd);
enum smq_status smq_cmd_defer(struct smq_cmd *cmd);

static inline void *smq_host_priv(struct smq_host *host)
{
	return host->priv;
}

static inline void *smq_hwq_priv(struct smq_hwq *hwq)
{
	return hwq->priv;
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

static inline struct scsi_cmnd *smq_cmd_to_scmd(struct smq_cmd *cmd)
{
	return (struct scsi_cmnd *)cmd - 1;
}

/**
 * smq_cmd_enter() - leaves completions of a command to the CPU that submits it
 * @cmd: the command that queue_cmd was called for
 *
 * For a queue_cmd that calls into something that may complete the command before it
 * returns, and does not say so. From here to smq_cmd_leave() smq_cmd_done() only notes
 * that the command has ended; the submitter completes it, without a softirq and with no
 * frame of the LLD's on the stack.
 *
 * Context: queue_cmd.
 */
static inline void smq_cmd_enter(struct smq_cmd *cmd)
{
	/* Ordered before its completion as the store of SMQ_OWNED is. */
	atomic_set(&cmd->state, SMQ_SUBMITTING);
}

/**
 * smq_cmd_leave() - ends what smq_cmd_enter() began
 * @cmd: the same command
 *
 * Context: queue_cmd. Return: for queue_cmd to return: SMQ_DONE if the command has ended
 * meanwhile, on whatever CPU; SMQ_QUEUED if it is still to end.
 */
static inline enum smq_status smq_cmd_leave(struct smq_cmd *cmd)
{
	/* Fully ordered: the result is seen with SMQ_ENDED. */
	return atomic_cmpxchg(&cmd->state, SMQ_SUBMITTING, SMQ_OWNED) == SMQ_SUBMITTING ?
	       SMQ_QUEUED : SMQ_DONE;
}

/*
 * Whether the LLD has a command, as far as it has not said that it ended. Error handling
 * that sees it gone waits for a grace period before the tag is used anew.
 */
static inline bool smq_cmd_is_with_lld(const struct smq_cmd *cmd)
{
	int state = atomic_read(&cmd->state);

	return state == SMQ_OWNED || state == SMQ_SUBMITTING;
}

/* SMQ_LLD_TEMPLATE(tmpl, ops) */
#include <smq/lld_template.h>

#endif /* SMQ_LLD_H */
