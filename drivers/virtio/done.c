// SPDX-License-Identifier: GPL-2.0
/* Completion: takes commands off the ring and evaluates the device's response. */
#include "virtio.h"

static struct scsi_cmnd *vs_scmd(struct vs_cmd *vc)
{
	return smq_cmd_to_scmd(container_of((void *)vc, struct smq_cmd, priv));
}

/* Sets result, residual and sense data of a command that did not end with plain success. */
static noinline void vs_result(struct vs_dev *vs, struct vs_cmd *vc, struct scsi_cmnd *scmd)
{
	static const u8 host_bytes[] = {
		[VIRTIO_SCSI_S_OK]			= DID_OK,
		[VIRTIO_SCSI_S_OVERRUN]			= DID_ERROR,
		[VIRTIO_SCSI_S_ABORTED]			= DID_ABORT,
		[VIRTIO_SCSI_S_BAD_TARGET]		= DID_BAD_TARGET,
		[VIRTIO_SCSI_S_RESET]			= DID_RESET,
		[VIRTIO_SCSI_S_BUSY]			= DID_BUS_BUSY,
		[VIRTIO_SCSI_S_TRANSPORT_FAILURE]	= DID_TRANSPORT_DISRUPTED,
		[VIRTIO_SCSI_S_TARGET_FAILURE]		= DID_BAD_TARGET,
		[VIRTIO_SCSI_S_NEXUS_FAILURE]		= DID_OK,
		[VIRTIO_SCSI_S_FAILURE]			= DID_ERROR,
		[VIRTIO_SCSI_S_FUNCTION_SUCCEEDED]	= DID_ERROR,
		[VIRTIO_SCSI_S_FUNCTION_REJECTED]	= DID_ERROR,
		[VIRTIO_SCSI_S_INCORRECT_LUN]		= DID_BAD_TARGET,
	};
	const struct virtio_scsi_cmd_resp *resp = vs_resp(vc);
	/* Read each field once: the device may still write to them. */
	u32 sense_len = virtio32_to_cpu(vs->vdev, READ_ONCE(resp->sense_len));
	u32 resid = virtio32_to_cpu(vs->vdev, READ_ONCE(resp->resid));
	u8 response = READ_ONCE(resp->response);
	u8 status = READ_ONCE(resp->status);
	u8 host_byte = DID_ERROR;

	if (response < ARRAY_SIZE(host_bytes))
		host_byte = host_bytes[response];
	else
		dev_warn_ratelimited(&vs->vdev->dev, "unknown response %#x to a command\n",
				     response);
	if (sense_len > sizeof(resp->sense)) {
		dev_warn_ratelimited(&vs->vdev->dev, "%u bytes of sense data, at most %zu are valid\n",
				     sense_len, sizeof(resp->sense));
		sense_len = sizeof(resp->sense);
	}
	scmd->result = status | host_byte << 16;
	if (response == VIRTIO_SCSI_S_NEXUS_FAILURE)
		scmd->result = SAM_STAT_RESERVATION_CONFLICT;
	scsi_set_resid(scmd, min(resid, scsi_bufflen(scmd)));
	memcpy(scmd->sense_buffer, resp->sense, sense_len);
}

static void vs_complete(struct vs_cmd *vc)
{
	const struct virtio_scsi_cmd_resp *resp = vs_resp(vc);
	struct scsi_cmnd *scmd = vs_scmd(vc);

	/* These reads only choose the path: vs_result() reads the fields again. */
	if (likely(!resp->response && !resp->status && !resp->resid && !resp->sense_len))
		scmd->result = 0;
	else
		vs_result(vs_of(smq_sdev_to_host(scmd->device)), vc, scmd);
	smq_cmd_done(smq_scmd_to_cmd(scmd));
}

/* Takes finished commands off the ring. Returns them as a list, and adds their number to @found. */
static struct vs_cmd *vs_take(struct vs_queue *queue, unsigned int *found)
{
	struct virtqueue *vq = queue->vq;
	struct vs_cmd *vc, *first, **last = &first;
	unsigned int len;

	lockdep_assert_held(&queue->lock);
	do {
		vc = virtqueue_get_buf(vq, &len);
		if (!vc)
			break;
		vc->in_ring = false;
		*last = vc;
		last = &vc->next;
		(*found)++;
	} while (vq->num_free < queue->size);
	*last = NULL;
	return first;
}

/**
 * vs_reap() - completes what the device has finished
 * @queue: the queue whose ring is read
 * @irq: called by the queue's interrupt, which this function keeps disabled until it has taken
 *	all finished commands off the ring
 *
 * Completes commands without the lock, so that other CPUs can submit meanwhile. One RCU read-side
 * section begins before a command is taken off the ring and ends after smq_cmd_done(): if error
 * handling finds a command off the ring, it waits for the end of that section.
 *
 * If the device has no more commands after a pass, the interrupt is enabled before the commands of
 * that pass are completed, and the ring is not read again. Otherwise the interrupt stays disabled:
 * the device is likely to finish more commands meanwhile, which the next pass completes.
 *
 * Context: any. Return: how many commands were completed.
 */
unsigned int vs_reap(struct vs_queue *queue, bool irq)
{
	unsigned int found = 0;
	struct vs_cmd *vc, *first;
	unsigned long flags;
	bool end = false;

	rcu_read_lock();
	while (!end) {
		spin_lock_irqsave(&queue->lock, flags);
		if (unlikely(!queue->vq)) {
			spin_unlock_irqrestore(&queue->lock, flags);
			break;
		}
		if (irq)
			virtqueue_disable_cb(queue->vq);
		first = vs_take(queue, &found);
		if (!irq)
			end = true;
		else if (!first || queue->vq->num_free == queue->size)
			end = virtqueue_enable_cb(queue->vq);
		spin_unlock_irqrestore(&queue->lock, flags);
		while ((vc = first)) {
			/* Read next first: a completed command may be used again. */
			first = vc->next;
			vs_complete(vc);
		}
	}
	rcu_read_unlock();
	return found;
}

/* The interrupt of a queue. */
void vs_queue_done(struct virtqueue *vq)
{
	struct vs_dev *vs = vq->vdev->priv;

	/* If the device interrupts before DRIVER_OK, there may be no host yet: see vs_probe(). */
	if (likely(smp_load_acquire(&vs->host)))
		vs_reap(vs_queue(vs, vq->index - VS_FIRST), true);
}

/* Completes finished commands of all queues. */
void vs_reap_all(struct vs_dev *vs)
{
	unsigned int i;

	for (i = 0; i < vs->nr_queues; i++)
		vs_reap(vs_queue(vs, i), false);
}

/*
 * After a reset of the device: removes from the ring the commands that the device had. If @result
 * is not 0, they complete here with that result; otherwise the layer's reset ends them.
 */
void vs_drop_all(struct vs_queue *queue, struct virtqueue *vq, int result)
{
	struct vs_cmd *vc;

	while ((vc = virtqueue_detach_unused_buf(vq))) {
		struct scsi_cmnd *scmd = vs_scmd(vc);

		/* One RCU read-side section up to smq_cmd_done(), as in vs_reap(). */
		rcu_read_lock();
		spin_lock_irq(&queue->lock);
		vc->in_ring = false;
		spin_unlock_irq(&queue->lock);
		if (result) {
			scmd->result = result;
			smq_cmd_done(smq_scmd_to_cmd(scmd));
		}
		rcu_read_unlock();
	}
}
