// SPDX-License-Identifier: GPL-2.0
/*
 * Error handling: task management over the control queue; in the end, the reset of the
 * device. What counts is not what the device answers but what is still in its rings.
 */
#include "virtio.h"

/* A command is in the device's hands from vs_add() until it was taken off the ring. */
static bool vs_in_ring(struct vs_cmd *vc)
{
	bool in_ring = false;

	/* NULL: it never got as far as a ring. */
	if (vc->queue) {
		spin_lock_irq(&vc->queue->lock);
		in_ring = vc->in_ring;
		spin_unlock_irq(&vc->queue->lock);
	}
	return in_ring;
}

/*
 * It is off the ring; and then nobody is still busy completing it, which is done inside
 * an RCU read-side section that begins before it is seen to be off.
 */
static bool vs_back(struct vs_cmd *vc)
{
	if (vs_in_ring(vc))
		return false;
	synchronize_rcu();
	return true;
}

/* Which commands are to be back. */
struct vs_scope {
	struct scsi_device *sdev;
	struct scsi_target *starget;
	bool found;
};

static bool vs_find_kept(struct request *rq, void *data)
{
	struct scsi_cmnd *scmd = blk_mq_rq_to_pdu(rq);
	struct vs_scope *scope = data;

	if ((!scope->sdev || scmd->device == scope->sdev) &&
	    (!scope->starget || scsi_target(scmd->device) == scope->starget))
		scope->found = vs_in_ring(smq_cmd_priv(smq_scmd_to_cmd(scmd)));
	return !scope->found;
}

static struct vs_tmf *vs_tmf_get(struct vs_dev *vs)
{
	unsigned int i;

	lockdep_assert_held(&vs->ctrl_lock);
	for (i = 0; i < VS_TMFS; i++)
		if (vs->tmf[i].state == VS_TMF_FREE)
			return &vs->tmf[i];
	return NULL;
}

/* Sends a function. NULL if it cannot be: no queue, no room, a device that was reset. */
static struct vs_tmf *vs_tmf_send(struct vs_dev *vs, const struct virtio_scsi_ctrl_tmf_req *req)
{
	struct scatterlist out, in, *sgs[] = { &out, &in };
	struct virtqueue *vq;
	struct vs_tmf *tmf;
	bool ring = false;

	/* From the lock to the doorbell the queue stays: see vs_rings_stop(). */
	rcu_read_lock();
	spin_lock_irq(&vs->ctrl_lock);
	vq = vs->ctrl;
	tmf = vs_tmf_get(vs);
	if (vq && tmf) {
		tmf->req = *req;
		tmf->resp.response = VIRTIO_SCSI_S_FAILURE;
		reinit_completion(&tmf->answered);
		sg_init_one(&out, &tmf->req, sizeof(tmf->req));
		sg_init_one(&in, &tmf->resp, sizeof(tmf->resp));
		if (virtqueue_add_sgs(vq, sgs, 1, 1, tmf, GFP_ATOMIC)) {
			tmf = NULL;
		} else {
			tmf->state = VS_TMF_SENT;
			ring = virtqueue_kick_prepare(vq);
		}
	} else {
		tmf = NULL;
	}
	spin_unlock_irq(&vs->ctrl_lock);
	if (ring)
		virtqueue_notify(vq);
	rcu_read_unlock();
	return tmf;
}

static int vs_tmf_answer(u8 response)
{
	switch (response) {
	case VIRTIO_SCSI_S_OK:
	case VIRTIO_SCSI_S_FUNCTION_SUCCEEDED:
		return 0;
	case VIRTIO_SCSI_S_BAD_TARGET:
	case VIRTIO_SCSI_S_INCORRECT_LUN:
		return -ENXIO;
	case VIRTIO_SCSI_S_FUNCTION_REJECTED:
		return -EOPNOTSUPP;
	default:
		return -EIO;
	}
}

/* 0, or why the device did not do it: it is asked for some seconds only. */
static int vs_tmf(struct vs_dev *vs, u32 function, const u8 *lun, __virtio64 tag)
{
	struct virtio_device *vdev = vs->vdev;
	struct virtio_scsi_ctrl_tmf_req req = {
		.type = cpu_to_virtio32(vdev, VIRTIO_SCSI_T_TMF),
		.subtype = cpu_to_virtio32(vdev, function),
		.tag = tag,
	};
	struct vs_tmf *tmf;
	int err = -ETIMEDOUT;

	memcpy(req.lun, lun, sizeof(req.lun));
	/* One that somebody else has reset looks at no queue. */
	if (READ_ONCE(vs->gone) ||
	    !(vdev->config->get_status(vdev) & VIRTIO_CONFIG_S_DRIVER_OK))
		return -ENODEV;
	tmf = vs_tmf_send(vs, &req);
	if (!tmf)
		return -EBUSY;
	wait_for_completion_timeout(&tmf->answered, VS_TMF_SECONDS * HZ);
	spin_lock_irq(&vs->ctrl_lock);
	if (tmf->state == VS_TMF_ANSWERED) {
		err = vs_tmf_answer(tmf->resp.response);
		tmf->state = VS_TMF_FREE;
	} else {
		tmf->state = VS_TMF_ABANDONED;
	}
	spin_unlock_irq(&vs->ctrl_lock);
	if (err == -ETIMEDOUT)
		dev_warn(&vdev->dev, "no answer to task management function %u within %u s\n",
			 function, VS_TMF_SECONDS);
	return err;
}

static void vs_tmf_end(struct vs_tmf *tmf)
{
	bool waited = tmf->state == VS_TMF_SENT;

	tmf->state = waited ? VS_TMF_ANSWERED : VS_TMF_FREE;
	if (waited)
		complete(&tmf->answered);
}

/* The interrupt of the control queue. */
void vs_ctrl_done(struct virtqueue *vq)
{
	struct vs_dev *vs = vq->vdev->priv;
	struct vs_tmf *tmf;
	unsigned long flags;
	unsigned int len;

	spin_lock_irqsave(&vs->ctrl_lock, flags);
	while (vs->ctrl) {
		virtqueue_disable_cb(vq);
		while ((tmf = virtqueue_get_buf(vq, &len)))
			vs_tmf_end(tmf);
		if (virtqueue_enable_cb(vq))
			break;
	}
	spin_unlock_irqrestore(&vs->ctrl_lock, flags);
}

/* The device was reset: whoever waits for an answer learns that there is none. */
void vs_ctrl_stop(struct vs_dev *vs)
{
	struct vs_tmf *tmf;

	spin_lock_irq(&vs->ctrl_lock);
	vs->ctrl = NULL;
	while ((tmf = virtqueue_detach_unused_buf(vs->vqs[VS_CTRL])))
		vs_tmf_end(tmf);
	spin_unlock_irq(&vs->ctrl_lock);
	/* Somebody may still be at its doorbell. */
	synchronize_rcu();
}

int vs_abort(struct smq_hwq *hwq, struct smq_cmd *cmd)
{
	struct scsi_cmnd *scmd = smq_cmd_to_scmd(cmd);
	const struct vs_lun *lun = smq_lun_priv(scmd->device);
	struct vs_dev *vs = vs_of(hwq->host);
	struct vs_cmd *vc = smq_cmd_priv(cmd);
	int err;

	vs_reap_all(vs);
	if (vs_back(vc))
		return 0;
	err = vs_tmf(vs, VIRTIO_SCSI_T_TMF_ABORT_TASK, lun->address, vc->req.tag);
	vs_reap_all(vs);
	if (vs_back(vc))
		return 0;
	/* Answered, and yet kept: that is a device to be reset. */
	return err ?: -EIO;
}

static int vs_reset(struct smq_host *host, u32 function, const u8 *lun, struct vs_scope *scope)
{
	struct vs_dev *vs = vs_of(host);
	int err = vs_tmf(vs, function, lun, 0);

	vs_reap_all(vs);
	blk_mq_tagset_busy_iter(&host->shost->tag_set, vs_find_kept, scope);
	/* As in vs_back(). */
	synchronize_rcu();
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
 * The last resort: the device is reset and set up anew. It is the way of suspend and
 * resume, for then as now the features have to be told again.
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
			dev_err(&vs->vdev->dev, "does not work any more after its reset: %d\n",
				err);
			WRITE_ONCE(vs->gone, true);
			/* What became ready before the error. */
			vs_rings_stop(vs, 0);
		}
	}
	mutex_unlock(&vs->state_lock);
	return err;
}
