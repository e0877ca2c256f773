// SPDX-License-Identifier: GPL-2.0
/*
 * Error handling: task management functions; the last step is a reset of the device. A command
 * counts as ended once it is off the ring, whatever the device answered to the function.
 */
#include "virtio.h"

/* Whether the device has a command: from vs_add() until the command is taken off the ring. */
static bool vs_in_ring(struct vs_cmd *vc)
{
	bool in_ring = false;

	/* NULL: the command was never put on a ring. */
	if (vc->queue) {
		spin_lock_irq(&vc->queue->lock);
		in_ring = vc->in_ring;
		spin_unlock_irq(&vc->queue->lock);
	}
	return in_ring;
}

/*
 * Returns true if the command is off the ring. Its completion has then ended as well: completion
 * runs in an RCU read-side section that begins before the command is taken off the ring.
 */
static bool vs_returned(struct vs_cmd *vc)
{
	if (vs_in_ring(vc))
		return false;
	synchronize_rcu();
	return true;
}

/* The commands that a reset must get back: all of a LUN, all of a target, or all of the host. */
struct vs_scope {
	struct scsi_device *sdev;
	struct scsi_target *starget;
	bool found;
};

static bool vs_find_unreturned(struct request *rq, void *data)
{
	struct scsi_cmnd *scmd = blk_mq_rq_to_pdu(rq);
	struct vs_scope *scope = data;

	if ((!scope->sdev || scmd->device == scope->sdev) &&
	    (!scope->starget || scsi_target(scmd->device) == scope->starget) &&
	    vs_in_ring(smq_cmd_priv(smq_scmd_to_cmd(scmd))))
		scope->found = true;
	/* This ends the search in the tags of one hardware queue only. */
	return !scope->found;
}

int vs_abort(struct smq_hwq *hwq, struct smq_cmd *cmd)
{
	struct scsi_cmnd *scmd = smq_cmd_to_scmd(cmd);
	const struct vs_lun *lun = smq_lun_priv(scmd->device);
	struct vs_dev *vs = vs_of(hwq->host);
	struct vs_cmd *vc = smq_cmd_priv(cmd);
	int err;

	vs_reap_all(vs);
	if (vs_returned(vc))
		return 0;
	err = vs_tmf(vs, VIRTIO_SCSI_T_TMF_ABORT_TASK, lun->address, vc->req.tag);
	vs_reap_all(vs);
	if (vs_returned(vc))
		return 0;
	/* The device still has the command, whatever it answered: escalate to a reset. */
	return err ?: -EIO;
}

/*
 * virtio orders no queue before another: the device may carry out the function before it takes a
 * command from the ring whose doorbell rang earlier. For such a command the function is repeated.
 */
static int vs_reset(struct smq_host *host, u32 function, const u8 *lun, struct vs_scope *scope)
{
	struct vs_dev *vs = vs_of(host);
	unsigned int tries = VS_RESET_TRIES;
	int err;

	do {
		scope->found = false;
		err = vs_tmf(vs, function, lun, 0);
		vs_reap_all(vs);
		blk_mq_tagset_busy_iter(&host->shost->tag_set, vs_find_unreturned, scope);
		/* Wait for completions, as vs_returned() does. */
		synchronize_rcu();
	} while (!err && scope->found && --tries);
	if (!err && scope->found)
		err = -EIO;
	return err;
}

int vs_lun_reset(struct smq_host *host, struct scsi_device *sdev)
{
	struct vs_scope scope = { .sdev = sdev };
	const struct vs_lun *lun = smq_lun_priv(sdev);

	return vs_reset(host, VIRTIO_SCSI_T_TMF_LOGICAL_UNIT_RESET, lun->address, &scope);
}

int vs_target_reset(struct smq_host *host, struct scsi_target *starget)
{
	struct vs_scope scope = { .starget = starget };
	const u8 lun[8] = { 1, starget->id, 0x40 };

	return vs_reset(host, VIRTIO_SCSI_T_TMF_I_T_NEXUS_RESET, lun, &scope);
}

/*
 * The last step: resets the device and sets it up again. This uses the code of suspend and
 * resume, because the features have to be negotiated again, too.
 */
int vs_host_reset(struct smq_host *host)
{
	struct vs_dev *vs = vs_of(host);
	int err = -ENODEV;

	mutex_lock(&vs->state_lock);
	if (!vs->gone) {
		vs_reap_all(vs);
		err = smq_virtio_restart(vs->vdev);
		if (err) {
			dev_err(&vs->vdev->dev, "the device no longer works after its reset: %pe\n",
				ERR_PTR(err));
			WRITE_ONCE(vs->gone, true);
			/* Take down the rings that became ready before the error. */
			vs_rings_stop(vs, 0);
		}
	}
	mutex_unlock(&vs->state_lock);
	return err;
}
