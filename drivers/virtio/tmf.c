// SPDX-License-Identifier: GPL-2.0
/* The control queue: task management functions and their answers. */
#include "virtio.h"

static struct vs_tmf *vs_tmf_get(struct vs_dev *vs)
{
	unsigned int i;

	lockdep_assert_held(&vs->ctrl_lock);
	for (i = 0; i < VS_TMFS; i++)
		if (vs->tmf[i].state == VS_TMF_FREE)
			return &vs->tmf[i];
	return NULL;
}

/* Sends a function. Returns NULL if the control queue is missing (in a reset) or has no room. */
static struct vs_tmf *vs_tmf_send(struct vs_dev *vs, const struct virtio_scsi_ctrl_tmf_req *req)
{
	struct scatterlist out, in, *sgs[] = { &out, &in };
	struct virtqueue *vq;
	struct vs_tmf *tmf;
	bool ring = false;

	/* This section keeps the queue alive until the doorbell is rung: see vs_ctrl_stop(). */
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

/*
 * Sends a task management function, and waits VS_TMF_SECONDS for its answer. Return: 0, or a
 * negative errno. Context: may sleep.
 */
int vs_tmf(struct vs_dev *vs, u32 function, const u8 *lun, __virtio64 tag)
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
	/* If DRIVER_OK is not set, other code has reset the device: it reads no queue then. */
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

/* After a reset of the device: ends the functions that were under way, as failed. */
void vs_ctrl_stop(struct vs_dev *vs)
{
	struct vs_tmf *tmf;

	spin_lock_irq(&vs->ctrl_lock);
	vs->ctrl = NULL;
	while ((tmf = virtqueue_detach_unused_buf(vs->vqs[VS_CTRL])))
		vs_tmf_end(tmf);
	spin_unlock_irq(&vs->ctrl_lock);
	/* Wait for vs_tmf_send(), which may be about to ring the doorbell. */
	synchronize_rcu();
}
