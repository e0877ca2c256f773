// SPDX-License-Identifier: GPL-2.0
/*
 * Error handling, which is the lower host's: an abort or a reset of the upper device has the
 * timers of its lower requests run out at once, and waits until the lower host's error handler
 * has ended them.
 */
#include <linux/blk-mq.h>
#include <linux/delay.h>
#include <linux/jiffies.h>

#include "conv.h"

/* For how long an abort or a reset waits; a host reset waits until all have ended. */
#define CONV_WAIT	(60 * HZ)
/* How often a timer runs out anew: the lower driver may have started it once more. */
#define CONV_AGAIN	HZ

/* The upper timer has nothing to say while there is a lower request, which has its own. */
bool conv_timed_out(struct smq_hwq *hwq, struct smq_cmd *cmd)
{
	const struct conv_cmd *cc = smq_cmd_priv(cmd);

	return READ_ONCE(cc->rq);
}

/*
 * Whether a command has a lower request; with @now that one times out, for a @reset or an
 * abort. Nothing happens to one that the lower host has not started yet.
 */
static bool conv_time_out(struct smq_cmd *cmd, bool now, bool reset)
{
	struct conv_cmd *cc = smq_cmd_priv(cmd);
	unsigned long flags;
	bool there;

	spin_lock_irqsave(&cc->lock, flags);
	there = cc->rq;
	if (there && now) {
		cc->reset = cc->reset || reset;
		blk_abort_request(cc->rq);
	}
	spin_unlock_irqrestore(&cc->lock, flags);
	return there;
}

int conv_abort(struct smq_hwq *hwq, struct smq_cmd *cmd)
{
	unsigned long deadline = jiffies + CONV_WAIT, again = jiffies;
	bool now = true;

	rcu_read_lock();
	conv_issue(hwq);
	rcu_read_unlock();
	while (conv_time_out(cmd, now, false)) {
		if (time_after(jiffies, deadline))
			return -ETIMEDOUT;
		if (now)
			again = jiffies + CONV_AGAIN;
		usleep_range(1000, 2000);
		now = time_after_eq(jiffies, again);
	}
	/* Until conv_end_io() has let go of it. */
	synchronize_rcu();
	return 0;
}

/**
 * struct conv_scope - commands that a reset ends
 * @host: the upper host
 * @sdev: of this upper device, if not NULL
 * @starget: of this target, if not NULL
 * @time_out: their lower requests are to time out now
 * @found: how many there were at the last look
 */
struct conv_scope {
	struct smq_host *host;
	const struct scsi_device *sdev;
	const struct scsi_target *starget;
	bool time_out;
	unsigned int found;
};

static bool conv_scope_one(struct request *rq, void *data)
{
	struct scsi_cmnd *scmd = blk_mq_rq_to_pdu(rq);
	struct smq_cmd *cmd = smq_scmd_to_cmd(scmd);
	struct conv_scope *scope = data;

	if (scope->sdev && scmd->device != scope->sdev)
		return true;
	if (scope->starget && scsi_target(scmd->device) != scope->starget)
		return true;
	scope->found += conv_time_out(cmd, scope->time_out, true);
	return true;
}

/* The upper mid-layer's own recovery, which goes on to the next step if this one says no. */
static bool conv_in_recovery(const struct Scsi_Host *shost)
{
	return shost->shost_state == SHOST_RECOVERY || shost->shost_state == SHOST_CANCEL_RECOVERY;
}

/*
 * Ends the commands of a scope. With none in flight nothing happens to the device, and an ioctl
 * is told so: -ENOENT.
 */
static int conv_reset(struct conv_scope *scope)
{
	unsigned long deadline = jiffies + CONV_WAIT, again = jiffies;
	struct Scsi_Host *shost = scope->host->shost;
	bool any = false;
	unsigned int i;

	/* The layer lets no command come. */
	for (i = 0; i < scope->host->nr_hwqs; i++) {
		rcu_read_lock();
		conv_issue(scope->host->hwq[i]);
		rcu_read_unlock();
	}
	for (;;) {
		scope->found = 0;
		scope->time_out = time_after_eq(jiffies, again);
		if (scope->time_out)
			again = jiffies + CONV_AGAIN;
		blk_mq_tagset_busy_iter(&shost->tag_set, conv_scope_one, scope);
		if (!scope->found)
			break;
		any = true;
		if (time_after(jiffies, deadline)) {
			if (scope->sdev || scope->starget)
				return -ETIMEDOUT;
			shost_printk(KERN_WARNING, shost,
				     "reset waits for %u commands of the lower host\n",
				     scope->found);
			deadline = jiffies + CONV_WAIT;
		}
		usleep_range(1000, 2000);
	}
	/* Until conv_end_io() has let go of the last. */
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
