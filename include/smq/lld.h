/* SPDX-License-Identifier: GPL-2.0 */
/*
 * smq: what a low-level driver (LLD) includes.
 *
 * An LLD fills one static const struct smq_lld, passes it to SMQ_LLD_TEMPLATE() and registers hosts
 * with smq_host_alloc() and smq_host_add(). The macro, in <smq/lld_template.h> which this header
 * includes, instantiates the layer's queuecommand for that LLD, so that the compiler sees the
 * structure as a constant: queue_cmd and commit are direct calls, and operations that the LLD does
 * not have cost nothing. (Define both as static functions in the file that has the macro. The
 * kernel is compiled with -fno-delete-null-pointer-checks, so the compiler keeps a test for NULL if
 * the function is in another file.) drivers/core/README.md describes the life of a command.
 */
#ifndef SMQ_LLD_H
#define SMQ_LLD_H

#include <smq/compat.h>
#include <smq/fault.h>
#include <smq/objects.h>

/**
 * struct smq_lld - description of a low-level driver
 * @name: proc_name of its hosts, also the prefix of its messages
 * @cmd_size: bytes of its private area per command, preallocated with the tag,
 *	zeroed once and never again; 0 if none
 * @hwq_size: bytes of its private area per hardware queue, zeroed, starting on a
 *	cache line of its own; 0 if none
 * @host_size: bytes of its private area per host, zeroed; 0 if none
 * @lun_size: bytes of its private area per LUN, zeroed before lun_init, on cache
 *	lines of its own; 0 if none
 * @max_cmd_len: longest CDB that it accepts, in bytes, 6 to 32
 * @sg_tablesize: most scatterlist entries per command, 1 to SG_MAX_SEGMENTS
 * @max_sectors: most 512-byte sectors per command
 * @any_hwq: accepts a command on any hardware queue of HCTX_TYPE_DEFAULT, not only on the
 *	request's own. Two commands of a queue may then have the same tag, so the LLD must
 *	identify them by more than the tag. Not needed for a host with host_tagset, whose
 *	tags are unique
 *
 * @init_cmd: sets up the private area of a command, once, before its first use;
 *	may sleep. Must allocate nothing, because there is no exit_cmd. Optional.
 * @init_hwq: sets up a hardware queue; may sleep; 0 or a negative errno, which
 *	fails smq_host_alloc(). Optional.
 * @exit_hwq: undoes @init_hwq, when no command is left; may sleep. Optional.
 * @queue_cmd: takes one command. Called by several CPUs at once, also for one hardware queue, in
 *	process context with interrupts on, always inside an RCU read-side section: may not sleep.
 *	The mid-layer holds no lock. Returns SMQ_HWQ_BUSY when the hardware queue has no room. The
 *	LLD must make room before it calls smq_cmd_done(), because that call makes the layer try
 *	held commands again.
 * @queuecommand_lck: instead of @queue_cmd, the entry of an old driver, as for the kernel's
 *	DEF_SCSI_QCMD(): called under host_lock with interrupts off; returns 0 or SCSI_MLQUEUE_*. It
 *	may drop host_lock and take it again. Its host has one hardware queue. The driver calls
 *	smq_scsi_done() where it called scsi_done(). The driver gets its host by
 *	smq_sdev_to_host(scmd->device), and its private area of the command by
 *	smq_cmd_priv(smq_scmd_to_cmd(scmd)).
 * @commit: rings the doorbell: called after the last queue_cmd of a batch, in the same context,
 *	but perhaps in a later RCU read-side section; sometimes called without a new command, and
 *	before each reset. Optional: without it queue_cmd rings the doorbell itself.
 * @poll: completes the commands that are ready on a queue of HCTX_TYPE_POLL and returns
 *	their number; called by several CPUs at once, may not sleep. Required with poll
 *	queues. The layer also calls it when a polled command times out, but never for
 *	commands of the error handler (scmd->submitter): queue_cmd must not put these
 *	on a queue that only @poll completes.
 * @work: runs a command given to smq_cmd_defer(), in process context, may sleep (allocations
 *	GFP_NOIO | __GFP_RETRY_MAYFAIL: memory reclaim may wait for this very command, and error
 *	handling waits for the work item). Returns SMQ_DONE, or SMQ_QUEUED if the command completes
 *	later.
 * @timed_out: called when the block timer of a command has expired and the LLD has the command.
 *	Returns true to start the timer again, because a host below the LLD times the command too.
 *	Any context; may not sleep. Optional: without it error handling begins.
 * @abort: takes one command back, or releases what the LLD keeps for a command that the layer's
 *	worker had not started yet. Called in the mid-layer's error handling workqueue or thread,
 *	may sleep; commands may be queued and resets may run meanwhile. 0 means that the LLD no
 *	longer has the command and will not touch it again; a negative errno escalates to a reset.
 *	Optional: without it resets end the commands.
 * @lun_reset: LOGICAL UNIT RESET (SAM-6, 7.5): 0 means that the LLD will no longer touch any
 *	command that was queued for @sdev before the call. The doorbells of these commands have
 *	rung. May sleep; the host gets no new command while it runs. Called for LUNs between
 *	@lun_init and @lun_exit only. A negative errno escalates.
 * @target_reset: the same for all LUNs of a target
 * @host_reset: the same for the whole host, as the last resort. If a bus has to settle, the LLD
 *	waits here. A negative errno means that the host no longer works: the layer ends all
 *	commands even so, and the mid-layer takes the LUNs offline
 *
 * @lun_init: called when a LUN is probed. Returns 0, or -ENXIO if there is no LUN at that address.
 *	May sleep. Optional. A scan asks LUN 0 for the list of a target's LUNs: an LLD that is the
 *	target itself accepts LUN 0 even if there is none, see smq_lun_absent().
 * @lun_exit: undoes a @lun_init that returned 0. Called when the LUN is removed, after its last
 *	command. May sleep. Optional.
 * @lun_configure: called when the LUN's INQUIRY data is known: sets limits of its request
 *	queue in @lim, timeouts in @sdev, its depth by smq_change_queue_depth(). May
 *	sleep. 0, or a negative errno that drops the LUN. Optional.
 * @map_queues: maps the hardware queues of one type to CPUs by interrupt
 *	affinity. Optional: without it the queues are spread evenly.
 * @faults: kinds of faults that only this LLD can inject. Optional.
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
	bool any_hwq;

	void (*init_cmd)(struct smq_cmd *cmd);
	int (*init_hwq)(struct smq_hwq *hwq);
	void (*exit_hwq)(struct smq_hwq *hwq);
	enum smq_status (*queue_cmd)(struct smq_hwq *hwq, struct smq_cmd *cmd);
	smq_qc_t (*queuecommand_lck)(struct scsi_cmnd *scmd);
	void (*commit)(struct smq_hwq *hwq);
	int (*poll)(struct smq_hwq *hwq);
	enum smq_status (*work)(struct smq_hwq *hwq, struct smq_cmd *cmd);
	bool (*timed_out)(struct smq_hwq *hwq, struct smq_cmd *cmd);
	int (*abort)(struct smq_hwq *hwq, struct smq_cmd *cmd);
	int (*lun_reset)(struct smq_host *host, struct scsi_device *sdev);
	int (*target_reset)(struct smq_host *host, struct scsi_target *starget);
	int (*host_reset)(struct smq_host *host);
	int (*lun_init)(struct smq_host *host, struct scsi_device *sdev);
	void (*lun_exit)(struct smq_host *host, struct scsi_device *sdev);
	int (*lun_configure)(struct smq_host *host, struct scsi_device *sdev,
			     struct queue_limits *lim);
	void (*map_queues)(struct smq_host *host, struct blk_mq_queue_map *map,
			   enum hctx_type type);
	const struct smq_fault_kinds *faults;
};

/**
 * struct smq_host_config - configuration of one host of an LLD
 * @hw_queues: hardware queues of HCTX_TYPE_DEFAULT, at least 1. If there are fewer CPUs, the layer
 *	uses the number of CPUs, with a message
 * @poll_queues: further queues of HCTX_TYPE_POLL, 0 if none; limited likewise
 * @depth: commands that the host takes at once on each hardware queue, and a LUN's
 *	first queue_depth: 1 to SMQ_MAX_DEPTH
 * @extra: further commands that a dispatch policy may hold for each hardware queue, 0 to
 *	SMQ_MAX_DEPTH. Tags are allocated for @depth and @extra commands. If @extra is not 0 and
 *	there are several LUNs, then with the policy "direct" queue_cmd may be called for more
 *	than @depth commands, and returns SMQ_HWQ_BUSY for those beyond @depth
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

/**
 * struct smq_template - what SMQ_LLD_TEMPLATE() instantiates for an LLD
 * @sht: for the mid-layer
 * @enter: gives one command to the LLD's queue_cmd or queuecommand_lck. Context: as queue_cmd
 * @dispatch: gives a list of commands to queue_cmd, in order, until it refuses one: that
 *	one and the rest stay in the list. Then commits if @commit. Returns the last
 *	result of queue_cmd. Context: as queue_cmd
 */
struct smq_template {
	struct scsi_host_template sht;
	enum smq_status (*enter)(struct smq_hwq *hwq, struct smq_cmd *cmd);
	enum smq_status (*dispatch)(struct smq_hwq *hwq, struct list_head *cmds, bool commit);
};

/**
 * smq_host_alloc() - allocates a host with its hardware queues
 * @lld: its LLD
 * @tmpl: what SMQ_LLD_TEMPLATE() defined for the LLD
 * @cfg: the host's numbers of queues, commands, targets and LUNs; not used after the call
 *
 * Between this call and smq_host_add() the LLD fills its private areas and may
 * still change limits in host->shost.
 *
 * Context: may sleep.
 * Return: the host, or an ERR_PTR: -EINVAL after a message that names the field and its limit,
 * -ENOMEM, or what init_hwq returned.
 */
struct smq_host *smq_host_alloc(const struct smq_lld *lld, struct smq_template *tmpl,
				const struct smq_host_config *cfg);

/**
 * smq_host_add() - makes a host known to the mid-layer
 * @host: from smq_host_alloc()
 * @parent: the host's parent in sysfs
 *
 * The LLD may get commands from here on. The LLD then calls scsi_scan_host() or scsi_add_device()
 * to find its targets.
 *
 * Context: may sleep.
 * Return: 0 or a negative errno. After an error the LLD calls only smq_host_free().
 */
int smq_host_add(struct smq_host *host, struct device *parent);

/**
 * smq_host_remove() - removes a host from the mid-layer
 * @host: an added host
 *
 * Waits until every command has ended: the LLD must keep completing its commands, with or
 * without an error. After the call no operation of the LLD runs or will be called for this host,
 * except exit_hwq.
 *
 * Context: may sleep.
 */
void smq_host_remove(struct smq_host *host);

/**
 * smq_host_free() - frees a host that was never added or has been removed
 * @host: invalid after the call
 *
 * Context: may sleep.
 */
void smq_host_free(struct smq_host *host);

struct config_group;

/**
 * smq_configfs_register() - adds an LLD's group below /sys/kernel/config/smq
 * @group: initialised, its type owned by the LLD's module
 *
 * Context: may sleep.
 * Return: 0 or a negative errno.
 */
int smq_configfs_register(struct config_group *group);

/**
 * smq_configfs_unregister() - removes an LLD's group
 * @group: registered; it has no items, because each item references the LLD's module
 *
 * Context: may sleep.
 */
void smq_configfs_unregister(struct config_group *group);

/**
 * smq_cmd_done() - completes a command for which the LLD returned SMQ_QUEUED
 * @cmd: the LLD has set its result and, if less than the whole buffer was transferred, its
 *	residual
 *
 * Context: any, interrupts included; takes no lock. Does nothing to a command that error
 * handling has taken meanwhile. So a late completion is harmless if it comes before the LLD's
 * abort or reset returns: the tag is not used again before that.
 *
 * Return: whether the LLD still owned the command.
 */
bool smq_cmd_done(struct smq_cmd *cmd);

/**
 * smq_scsi_done() - replaces scsi_done() in an LLD with queuecommand_lck
 * @scmd: a command that the LLD was given; its result and residual are set
 *
 * Context: any, with or without host_lock held: in queuecommand_lck for this command
 * or another, on another CPU while queuecommand_lck has dropped host_lock, in interrupts,
 * in abort and reset handlers. Like smq_cmd_done(), it does nothing to a command that error
 * handling has taken.
 */
void smq_scsi_done(struct scsi_cmnd *scmd);

/**
 * smq_cmd_defer() - makes the worker call the LLD's work() for a command, in process context
 * @cmd: a command that queue_cmd owns; the worker owns it after the call
 *
 * For commands that have to sleep, because queue_cmd may not sleep. The worker runs on the
 * submitting CPU, unless that CPU goes offline. Allocates nothing.
 *
 * Context: queue_cmd.
 * Return: SMQ_QUEUED, for queue_cmd to return.
 */
enum smq_status smq_cmd_defer(struct smq_cmd *cmd);

/**
 * smq_lun_room() - tells the layer that the LLD accepts commands of a LUN again
 * @sdev: a LUN for which the LLD has returned SMQ_DEVICE_BUSY
 *
 * Waiting commands are issued again soon. Without the call they are issued after 3 ms or, if the
 * LUN has commands in flight, when one of those ends. The call has no effect on a command
 * whose refusal has not reached the mid-layer yet.
 *
 * Context: any; @sdev is referenced, or has commands. The LUN may have been removed.
 */
void smq_lun_room(struct scsi_device *sdev);

/**
 * smq_lun_absent() - executes a command for a LUN 0 that does not exist
 * @scmd: a command that the LLD has; any but REPORT LUNS, which the LLD executes itself
 *
 * For an LLD that is the target itself. A scan finds a target's LUNs by REPORT LUNS, which it sends
 * to LUN 0, after an INQUIRY. So lun_init accepts LUN 0, and INQUIRY says that there is no logical
 * unit (SPC-5, peripheral qualifier 011b): the mid-layer then adds no device for it. All other
 * commands are refused.
 *
 * Sets the result and the residual; the caller completes the command.
 *
 * Context: any.
 */
void smq_lun_absent(struct scsi_cmnd *scmd);

/**
 * smq_change_queue_depth() - sets how many commands the device of a LUN may have
 * @sdev: the LUN
 * @depth: commands, at least 1; cut to what the host takes
 *
 * For a write to sysfs, and for an LLD that knows a LUN's depth: from lun_configure, or
 * later. With a holding policy it sets the inner depth, and the mid-layer's queue_depth is
 * larger. So LLDs must not call scsi_change_queue_depth().
 *
 * Context: may sleep.
 * Return: the mid-layer's new queue_depth, which also limits held commands.
 */
int smq_change_queue_depth(struct scsi_device *sdev, int depth);

/* SMQ_LLD_TEMPLATE(tmpl, ops) */
#include <smq/lld_template.h>

#endif /* SMQ_LLD_H */
