/* SPDX-License-Identifier: GPL-2.0 */
/*
 * smq: the layer in front of a host of another driver, in place. smq_conv is the only user.
 *
 * An attached host is a Scsi_Host that its own driver (LLD) has allocated and added. The layer's
 * part of it lies beside it: a struct smq_host, and a struct smq_cmd for each tag. The LLD's
 * private areas of the host, its LUNs and its commands stay the LLD's.
 *
 * Differences from the layer's own hosts: the layer never completes a command that the LLD has, and
 * cannot hold one again after TASK SET FULL. It learns from smq_attached_done() that a command has
 * ended. A command whose timer has expired may end without that: smq_attached_check() finds it. The
 * host advertises no more than it did before, so a policy that holds commands gets a smaller inner
 * depth instead.
 */
#ifndef SMQ_ATTACHED_H
#define SMQ_ATTACHED_H

#include <smq/attached_cmds.h>

/**
 * smq_attached_alloc() - allocates the layer's part of a host of another driver
 * @lld: its queue_cmd gives a command to the host's driver; host_size is the caller's private area
 * @tmpl: only its enter and dispatch are used
 * @shost: the host, added, with LUNs; the caller holds a reference until smq_attached_free()
 *
 * Context: may sleep.
 * Return: the layer's part or an ERR_PTR.
 */
struct smq_host *smq_attached_alloc(const struct smq_lld *lld, const struct smq_template *tmpl,
				    struct Scsi_Host *shost);

/**
 * smq_attached_show() - adds the layer's attributes to the host in sysfs and debugfs
 * @host: the layer's part
 *
 * Context: may sleep.
 * Return: 0 or a negative errno.
 */
int smq_attached_show(struct smq_host *host);

/**
 * smq_attached_hide() - undoes smq_attached_show()
 * @host: the layer's part; its policy does not change after the call
 *
 * Context: may sleep; the host's scan_mutex may be held.
 */
void smq_attached_hide(struct smq_host *host);

/**
 * smq_attached_drain() - makes the host run as "direct", and gives held commands to the LLD
 * @host: the layer's part, hidden
 *
 * Commands that fault injection withholds are requeued. The call waits up to two seconds for a full
 * device; commands that are held after that go to the LLD when others end.
 *
 * Context: may sleep.
 */
void smq_attached_drain(struct smq_host *host);

/**
 * smq_attached_end() - ends the layer's part of commands that ended unseen
 * @host: the layer's part, hidden and drained. All commands have ended, and the host has its own
 *	template again
 *
 * Context: may sleep.
 */
void smq_attached_end(struct smq_host *host);

/**
 * smq_attached_stop() - ends the layer's work for a host that has no commands
 * @host: the layer's part, hidden; no function of the layer is called for a command any more
 *
 * Context: may sleep; the host's scan_mutex may be held.
 */
void smq_attached_stop(struct smq_host *host);

/**
 * smq_attached_free() - frees the layer's part
 * @host: stopped, or never shown
 *
 * Context: may sleep.
 */
void smq_attached_free(struct smq_host *host);

/**
 * smq_attached_add_lun() - sets up the layer's part of a LUN
 * @host: the layer's part of the host
 * @sdev: the LUN; it has no commands
 *
 * Context: may sleep.
 * Return: 0 or -ENOMEM.
 */
int smq_attached_add_lun(struct smq_host *host, struct scsi_device *sdev);

/**
 * smq_attached_remove_lun() - frees the layer's part of a LUN
 * @host: the layer's part of the host
 * @sdev: the LUN; all its commands have ended. Those that ended unseen end for the layer, too
 *
 * Context: may sleep.
 */
void smq_attached_remove_lun(struct smq_host *host, struct scsi_device *sdev);

/**
 * smq_attached_lun() - finds the layer's part of a LUN
 * @host: the layer's part of the host
 * @sdev: the LUN
 *
 * Context: inside an RCU read-side section.
 * Return: NULL if it has none.
 */
struct smq_lun_core *smq_attached_lun(struct smq_host *host, const struct scsi_device *sdev);

/**
 * smq_attached_depth() - adapts a LUN's inner depth to a change of its queue_depth
 * @cmd: a command of the LUN, with its lun set
 *
 * Context: any.
 */
void smq_attached_depth(struct smq_cmd *cmd);

/**
 * smq_attached_seen_done() - ends a command that the LLD has completed, if there is more to do than
 *	to mark it as free
 * @cmd: the caller owns it; the mid-layer ends it after the call
 *
 * Context: any.
 */
void smq_attached_seen_done(struct smq_cmd *cmd);

/**
 * smq_attached_done_late() - as smq_attached_done(), for a command whose timer has expired
 * @cmd: the command of the tag
 * @scmd: the command that the mid-layer ends after the call
 *
 * Context: any.
 */
void smq_attached_done_late(struct smq_cmd *cmd, const struct scsi_cmnd *scmd);

/**
 * smq_attached_taken() - ends a late command that error handling has taken from the LLD
 * @cmd: the command; error handling ends it after the call
 *
 * Context: any.
 */
void smq_attached_taken(struct smq_cmd *cmd);

/**
 * smq_attached_used_again() - ends the layer's part of a command that ended unseen
 * @cmd: the mid-layer uses its tag again
 *
 * Context: any.
 */
void smq_attached_used_again(struct smq_cmd *cmd);

/**
 * smq_attached_abort() - takes a command back that the LLD does not have
 * @cmd: its timer has expired, and the mid-layer has marked it
 *
 * Context: may sleep.
 * Return: true if the LLD does not have it: it must not be asked to abort it.
 */
bool smq_attached_abort(struct smq_cmd *cmd);

/**
 * smq_attached_timed_out() - called when the timer of a command has expired
 * @cmd: the command
 *
 * A command that fault injection withholds ends for the layer.
 *
 * Context: any.
 * Return: whether the timer must start again, because the layer holds the command or
 * held it for long.
 */
bool smq_attached_timed_out(struct smq_cmd *cmd);

/**
 * smq_attached_late() - called when error handling gets a command
 * @cmd: the command, after smq_attached_timed_out(). The LLD may still complete it
 *
 * Context: any.
 */
void smq_attached_late(struct smq_cmd *cmd);

enum smq_attached_step {
	SMQ_ATTACHED_LUN_RESET,
	SMQ_ATTACHED_TARGET_RESET,
	SMQ_ATTACHED_HOST_RESET,
};

/**
 * smq_attached_reset_begin() - counts a reset, and keeps held commands from the LLD while it runs
 * @host: the layer's part
 * @step: a bus reset counts as one of a target
 *
 * Context: may sleep.
 * Return: false if fault injection makes the reset fail: then the LLD must not
 * be called. The caller calls smq_attached_reset_end() in either case.
 */
bool smq_attached_reset_begin(struct smq_host *host, enum smq_attached_step step);

/**
 * smq_attached_reset_end() - undoes smq_attached_reset_begin()
 * @host: the layer's part
 *
 * Context: may sleep.
 */
void smq_attached_reset_end(struct smq_host *host);

/**
 * smq_attached_check() - finds late commands that ended without the layer seeing it
 * @host: the layer's part
 *
 * Context: may sleep.
 * Return: whether the host has late commands after that.
 */
bool smq_attached_check(struct smq_host *host);

/**
 * smq_host_is_own() - whether the layer itself has added a host
 * @shost: the host
 *
 * Context: any.
 * Return: true if so.
 */
bool smq_host_is_own(const struct Scsi_Host *shost);

/*
 * Begins a command in a new use of its tag, if the last use has ended for the layer, too. The
 * number of commands that have ended is not counted: the statistics count those that have not.
 */
static __always_inline void smq_attached_begin(struct smq_hwq *hwq, struct smq_cmd *cmd,
					       struct scsi_cmnd *scmd)
{
	cmd->hwq = hwq;
	cmd->scmd = scmd;
	/* As in smq_queue_one(): a plain store is enough. */
	atomic_set(&cmd->state, SMQ_OWNED);
	this_cpu_inc(hwq->stats->queued);
}

/*
 * Called when the LLD completes a command, before the mid-layer ends it. If the hardware queue is
 * full, only a command that a policy has seen starts the dispatch of those that wait; else the
 * timer does. Context: any.
 */
static __always_inline void smq_attached_done(struct smq_cmd *cmd, const struct scsi_cmnd *scmd)
{
	int state = SMQ_OWNED;

	if (unlikely(!atomic_try_cmpxchg(&cmd->state, &state, SMQ_FREE))) {
		if (state == SMQ_LATE)
			smq_attached_done_late(cmd, scmd);
		return;
	}
	if (unlikely((unsigned long)cmd->seen | (unsigned int)scmd->result) ||
	    static_branch_unlikely(&smq_faults) || tracepoint_enabled(smq_done))
		smq_attached_seen_done(cmd);
}

#endif /* SMQ_ATTACHED_H */
