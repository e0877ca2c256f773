// SPDX-License-Identifier: GPL-2.0
/*
 * Error handling. The lower host does the work: an abort or a reset of the upper device makes the
 * timers of the lower requests expire at once, and waits until the lower host's error handler has
 * ended those requests.
 */
#include <linux/blk-mq.h>
#include <linux/delay.h>
#include <linux/jiffies.h>

#include "conv.h"

/* How long an abort or a reset waits. */
#define CONV_WAIT	(60 * HZ)
/*
 * Interval after which timers are made to expire again, because the lower LLD may have restarted
 * them.
 */
#define CONV_AGAIN	HZ

/* Whether a command has a lower request. */
static bool conv_is_below(struct smq_cmd *cmd)
{
	const struct conv_cmd *cc = smq_cmd_priv(cmd);

	/* Pairs with the release in conv_end_io(): if this reads NULL, the result is set. */
	return smp_load_acquire(&cc->rq);
}

/*
 * Restarts the upper timer while there is a lower request, because the lower request has a timer of
 * its own.
 */
bool conv_timed_out(struct smq_hwq *hwq, struct smq_cmd *cmd)
{
	return conv_is_below(cmd);
}

/**
 * struct conv_scope - commands that an abort or a reset ends
 * @host: the upper host
 * @cmd: for an abort: the command; NULL for a reset
 * @sdev: for a reset: only commands of this upper device, if not NULL
 * @starget: for a reset: only commands of this target, if not NULL
 * @found: how many commands in scope have a lower request
 */
struct conv_scope {
	struct smq_host *host;
	const struct smq_cmd *cmd;
	const struct scsi_device *sdev;
	const struct scsi_target *starget;
	unsigned int found;
};

static bool conv_in_scope(const struct conv_scope *scope, struct smq_cmd *cmd)
{
	const struct scsi_cmnd *scmd = smq_cmd_to_scmd(cmd);

	if (scope->cmd)
		return cmd == scope->cmd;
	return cmd->hwq->host == scope->host && (!scope->sdev || scmd->device == scope->sdev) &&
	       (!scope->starget || scsi_target(scmd->device) == scope->starget);
}

/*
 * Makes the timer of a lower request expire, if its command is in the scope. The walk over the tags
 * calls this for requests that were started, and keeps them during the call.
 */
static bool conv_time_out_one(struct request *rq, void *data)
{
	const struct conv_scope *scope = data;
	struct smq_cmd *cmd = rq->end_io_data;
	struct conv_cmd *cc;

	if (rq->end_io != conv_end_io || !conv_in_scope(scope, cmd))
		return true;
	cc = smq_cmd_priv(cmd);
	if (READ_ONCE(cc->rq) != rq)
		return true;
	if (!scope->cmd)
		WRITE_ONCE(cc->reset, true);
	blk_abort_request(rq);
	return true;
}

static void conv_time_out(struct conv_scope *scope)
{
	const struct conv_host *ch = smq_host_priv(scope->host);

	blk_mq_tagset_busy_iter(&ch->lower->tag_set, conv_time_out_one, scope);
}

int conv_abort(struct smq_hwq *hwq, struct smq_cmd *cmd)
{
	struct conv_scope scope = { .host = hwq->host, .cmd = cmd };
	unsigned long deadline = jiffies + CONV_WAIT, again = jiffies;

	rcu_read_lock();
	conv_issue(hwq);
	rcu_read_unlock();
	while (conv_is_below(cmd)) {
		if (time_after(jiffies, deadline))
			return -ETIMEDOUT;
		if (time_after_eq(jiffies, again)) {
			conv_time_out(&scope);
			again = jiffies + CONV_AGAIN;
		}
		usleep_range(1000, 2000);
	}
	/* Waits until conv_end_io() no longer uses the command. */
	synchronize_rcu();
	return 0;
}

static bool conv_count_below(struct request *rq, void *data)
{
	struct smq_cmd *cmd = smq_scmd_to_cmd(blk_mq_rq_to_pdu(rq));
	struct conv_scope *scope = data;

	/* conv_in_scope() reads cmd->hwq, which is set in each command that has a lower request. */
	scope->found += conv_is_below(cmd) && conv_in_scope(scope, cmd);
	return true;
}

/*
 * Whether the upper host's error handler runs. If so, a reset succeeds even if it finds no command:
 * after a failed reset the error handler would go on to a wider one.
 */
static bool conv_in_recovery(const struct Scsi_Host *shost)
{
	return shost->shost_state == SHOST_RECOVERY || shost->shost_state == SHOST_CANCEL_RECOVERY;
}

/*
 * Ends the commands in a scope. If none is in flight, nothing happens to the device. Returns 0;
 * -ETIMEDOUT; or -ENOENT for a reset by ioctl that found no command.
 */
static int conv_reset(struct conv_scope *scope)
{
	unsigned long deadline = jiffies + CONV_WAIT, again = jiffies;
	struct Scsi_Host *shost = scope->host->shost;
	bool any = false;
	unsigned int i;

	/* Issue all collected lower requests. During a reset the layer sends no new commands. */
	for (i = 0; i < scope->host->nr_hwqs; i++) {
		rcu_read_lock();
		conv_issue(scope->host->hwq[i]);
		rcu_read_unlock();
	}
	for (;;) {
		scope->found = 0;
		blk_mq_tagset_busy_iter(&shost->tag_set, conv_count_below, scope);
		if (!scope->found)
			break;
		any = true;
		if (time_after_eq(jiffies, again)) {
			conv_time_out(scope);
			again = jiffies + CONV_AGAIN;
		}
		if (time_after(jiffies, deadline)) {
			shost_printk(KERN_WARNING, shost,
				     "reset failed: the lower host has %u commands after %u s\n",
				     scope->found, CONV_WAIT / HZ);
			return -ETIMEDOUT;
		}
		usleep_range(1000, 2000);
	}
	/* Waits until conv_end_io() no longer uses the last command. */
	synchronize_rcu();
	return any || conv_in_recovery(shost) ? 0 : -ENOENT;
}

int conv_lun_reset(struct smq_host *host, struct scsi_device *sdev)
{
	struct conv_scope scope = { .host = host, .sdev = sdev };

	return conv_reset(&scope);
}

int conv_target_reset(struct smq_host *host, struct scsi_target *starget)
{
	struct conv_scope scope = { .host = host, .starget = starget };

	return conv_reset(&scope);
}

int conv_host_reset(struct smq_host *host)
{
	struct conv_scope scope = { .host = host };

	return conv_reset(&scope);
}
