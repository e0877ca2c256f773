// SPDX-License-Identifier: GPL-2.0
/*
 * Task management: abort and resets, which return when LIO has released the commands.
 *
 * LIO cannot stop a backstore: it waits for the commands that the backstore has started. Abort, LUN
 * reset and target reset stop waiting after LIO_TMF_WAIT. The host reset waits until the last
 * command is released, because the memory of the commands is used again after it. Backstores have
 * time limits of their own.
 */
#define pr_fmt(fmt) "smq_lio: " fmt

#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/refcount.h>
#include <linux/slab.h>

#include "lio.h"

#define LIO_TMF_WAIT	(20 * HZ)

/**
 * struct lio_tmf - a task management function
 * @se: LIO's part
 * @refs: the waiter has one reference, and LIO has one until release_cmd; atomic, because
 *	both may be dropped at the same time
 * @answered: completed once @response is set
 * @response: LIO's answer, a TMR_* value
 *
 * Lifetime: until both references are dropped; LIO may drop its reference after the wait has timed
 * out.
 */
struct lio_tmf {
	struct se_cmd se;
	refcount_t refs;	/* see above */
	struct completion answered;
	int response;
};

static void lio_tmf_put(struct lio_tmf *tmf)
{
	if (refcount_dec_and_test(&tmf->refs))
		kfree(tmf);
}

void lio_tmf_answered(struct se_cmd *se, int response)
{
	struct lio_tmf *tmf = container_of(se, struct lio_tmf, se);

	tmf->response = response;
	complete(&tmf->answered);
}

void lio_tmf_released(struct se_cmd *se)
{
	lio_tmf_put(container_of(se, struct lio_tmf, se));
}

/* The time until @deadline, in jiffies, at least 1. */
static unsigned long lio_time_left(unsigned long deadline)
{
	return max_t(long, deadline - jiffies, 1);
}

/*
 * Sends a task management function to LIO, and waits for the answer until @deadline.
 * Return: LIO's answer, a TMR_* value, or a negative errno.
 */
static int lio_tmf(struct se_session *sess, u64 lun, u8 function, u64 tag,
		   unsigned long deadline)
{
	struct lio_tmf *tmf = kzalloc(sizeof(*tmf), GFP_NOIO);
	int ret;

	if (!tmf)
		return -ENOMEM;
	refcount_set(&tmf->refs, 2);
	init_completion(&tmf->answered);
	ret = target_submit_tmr(&tmf->se, sess, NULL, lun, NULL, function, GFP_NOIO, tag, 0);
	if (ret) {
		kfree(tmf);
		return ret;
	}
	ret = -ETIMEDOUT;
	if (wait_for_completion_timeout(&tmf->answered, lio_time_left(deadline)))
		ret = tmf->response;
	lio_tmf_put(tmf);
	return ret;
}

int lio_abort(struct smq_hwq *hwq, struct smq_cmd *cmd)
{
	struct scsi_device *sdev = smq_cmd_to_scmd(cmd)->device;
	const struct lio_lun *ll = smq_lun_priv(sdev);
	unsigned long deadline = jiffies + LIO_TMF_WAIT;
	struct lio_cmd *lc = smq_cmd_priv(cmd);
	int ret;

	if (smq_cmd_is_with_lld(cmd)) {
		ret = lio_tmf(ll->sess, sdev->lun, TMR_ABORT_TASK, lc->se.tag, deadline);
		/* A command that LIO does not find has ended, or is about to end. */
		if (ret != TMR_FUNCTION_COMPLETE && ret != TMR_TASK_DOES_NOT_EXIST)
			return ret < 0 ? ret : -EIO;
	}
	while (smq_cmd_is_with_lld(cmd)) {
		if (time_after(jiffies, deadline))
			return -ETIMEDOUT;
		usleep_range(1000, 2000);
	}
	/* Wait until smq_cmd_done() has completed the command. */
	synchronize_rcu();
	return 0;
}

/* The commands that a reset waits for: all of a LUN, all of a target, or all of the host. */
struct lio_scope {
	struct smq_host *host;
	const struct scsi_device *sdev;
	const struct scsi_target *starget;
	unsigned int sent;
};

static bool lio_count_sent(struct request *rq, void *data)
{
	struct scsi_cmnd *scmd = blk_mq_rq_to_pdu(rq);
	struct lio_scope *scope = data;

	if (scope->sdev && scmd->device != scope->sdev)
		return true;
	if (scope->starget && scsi_target(scmd->device) != scope->starget)
		return true;
	scope->sent += smq_cmd_is_with_lld(smq_scmd_to_cmd(scmd));
	return true;
}

/*
 * Waits until LIO has released all commands in the scope. After @deadline a host reset goes on
 * waiting; the other resets return -ETIMEDOUT.
 */
static int lio_wait_released(struct lio_scope *scope, unsigned long deadline)
{
	struct Scsi_Host *shost = scope->host->shost;

	for (;;) {
		scope->sent = 0;
		blk_mq_tagset_busy_iter(&shost->tag_set, lio_count_sent, scope);
		if (!scope->sent)
			break;
		if (time_after(jiffies, deadline)) {
			if (scope->sdev || scope->starget)
				return -ETIMEDOUT;
			pr_warn("host%u: reset waits for %u commands of backstores\n",
				shost->host_no, scope->sent);
			deadline = jiffies + LIO_TMF_WAIT;
		}
		usleep_range(1000, 2000);
	}
	/* Wait until smq_cmd_done() has completed the last command. */
	synchronize_rcu();
	return 0;
}

/* Sends LOGICAL UNIT RESET to each LUN in the scope: LIO has no target reset or host reset. */
static int lio_reset(struct lio_scope *scope)
{
	struct lio_host *lio = smq_host_priv(scope->host);
	unsigned long deadline = jiffies + LIO_TMF_WAIT;
	struct se_lun *se_lun;
	unsigned long number;
	unsigned int i;
	int err = 0;

	mutex_lock(&lio->lock);
	for (i = 0; i < LIO_MAX_TPGS; i++) {
		struct lio_tpg *tpg = lio->tpg[i];

		if (!tpg || !tpg->sess || (scope->sdev && scope->sdev->id != i) ||
		    (scope->starget && scope->starget->id != i))
			continue;
		xa_for_each(&tpg->luns, number, se_lun) {
			int ret;

			if (scope->sdev && scope->sdev->lun != number)
				continue;
			ret = lio_tmf(tpg->sess, number, TMR_LUN_RESET, 0, deadline);
			if (ret != TMR_FUNCTION_COMPLETE)
				err = ret < 0 ? ret : -EIO;
		}
	}
	mutex_unlock(&lio->lock);
	/* This does not wait for a LUN that is no longer linked: such a LUN has no commands. */
	return lio_wait_released(scope, deadline) ?: err;
}

int lio_lun_reset(struct smq_host *host, struct scsi_device *sdev)
{
	struct lio_scope scope = { .host = host, .sdev = sdev };

	return lio_reset(&scope);
}

int lio_target_reset(struct smq_host *host, struct scsi_target *starget)
{
	struct lio_scope scope = { .host = host, .starget = starget };

	return lio_reset(&scope);
}

int lio_host_reset(struct smq_host *host)
{
	struct lio_scope scope = { .host = host };

	return lio_reset(&scope);
}
