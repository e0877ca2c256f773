// SPDX-License-Identifier: GPL-2.0
/* The device's virtqueues, and the limits from its configuration. */
#define pr_fmt(fmt) "smq_virtio: " fmt

#include <linux/interrupt.h>
#include <linux/slab.h>

#include "virtio.h"

/* Computes the number of queues before they are set up. Return: 0, or -EINVAL after a message. */
int vs_config(struct vs_dev *vs, unsigned int poll)
{
	struct virtio_device *vdev = vs->vdev;
	u32 queues;

	virtio_cread(vdev, struct virtio_scsi_config, num_queues, &queues);
	if (!queues || queues > U16_MAX) {
		dev_err(&vdev->dev, "num_queues=%u is outside 1..%u\n", queues, U16_MAX);
		return -EINVAL;
	}
	vs->nr_poll = min3(poll, queues - 1, nr_cpu_ids);
	if (vs->nr_poll < poll)
		dev_notice(&vdev->dev, "poll_queues=%u cut to %u: the device has %u queues, there are %u CPUs\n",
			   poll, vs->nr_poll, queues, nr_cpu_ids);
	vs->nr_queues = min(queues - vs->nr_poll, nr_cpu_ids) + vs->nr_poll;
	vs->pi = IS_ENABLED(CONFIG_BLK_DEV_INTEGRITY) &&
		 virtio_has_feature(vdev, VIRTIO_SCSI_F_T10_PI);
	return 0;
}

/*
 * A command takes VS_ENDS descriptors and one for each piece of its data. By these limits the ring
 * has room for one command of the largest size, or for @depth commands with one piece each. With
 * larger commands the ring is full earlier: then the layer holds commands until the ring has room.
 */
static int vs_limits(struct vs_dev *vs, unsigned int ring)
{
	unsigned int max_sg, pieces = vs->pi ? 2 : 1;
	u32 seg_max;

	if (ring < VS_ENDS + pieces) {
		dev_err(&vs->vdev->dev, "a queue has %u descriptors, a command needs %u\n", ring,
			VS_ENDS + pieces);
		return -EINVAL;
	}
	virtio_cread(vs->vdev, struct virtio_scsi_config, seg_max, &seg_max);
	max_sg = min3(seg_max ?: 1U, (ring - VS_ENDS) / pieces, (unsigned int)SG_MAX_SEGMENTS);
	if (!vs->ring) {
		vs->ring = ring;
		vs->depth = min_t(unsigned int, ring / (VS_ENDS + pieces), SMQ_MAX_DEPTH);
		vs->max_sg = max_sg;
		return 0;
	}
	/* The mid-layer keeps the limits from when the host was added: refuse lower ones. */
	if (ring < vs->ring || max_sg < vs->max_sg) {
		dev_err(&vs->vdev->dev,
			"lower limits than before: %u descriptors per queue, %u pieces per command; were %u and %u\n",
			ring, max_sg, vs->ring, vs->max_sg);
		return -EINVAL;
	}
	return 0;
}

/* Sets the default lengths of CDB and sense data, which the code relies on. */
static int vs_sizes(struct virtio_device *vdev)
{
	u32 cdb = VIRTIO_SCSI_CDB_SIZE, sense = VIRTIO_SCSI_SENSE_SIZE;

	virtio_cwrite(vdev, struct virtio_scsi_config, cdb_size, &cdb);
	virtio_cwrite(vdev, struct virtio_scsi_config, sense_size, &sense);
	virtio_cread(vdev, struct virtio_scsi_config, cdb_size, &cdb);
	virtio_cread(vdev, struct virtio_scsi_config, sense_size, &sense);
	if (cdb == VIRTIO_SCSI_CDB_SIZE && sense == VIRTIO_SCSI_SENSE_SIZE)
		return 0;
	dev_err(&vdev->dev, "cdb_size=%u sense_size=%u, the device refuses %u and %u\n", cdb,
		sense, VIRTIO_SCSI_CDB_SIZE, VIRTIO_SCSI_SENSE_SIZE);
	return -EINVAL;
}

void vs_rings_delete(struct vs_dev *vs)
{
	vs->vdev->config->del_vqs(vs->vdev);
	kfree(vs->vqs);
	vs->vqs = NULL;
	vs->up = false;
}

/**
 * vs_rings_find() - sets up the virtqueues of a device that has none
 * @vs: the device
 *
 * The driver does not use the virtqueues before vs_rings_start().
 *
 * Context: may sleep. Return: 0 or a negative errno.
 */
int vs_rings_find(struct vs_dev *vs)
{
	unsigned int nr = VS_FIRST + vs->nr_queues, ring = UINT_MAX, i;
	struct irq_affinity desc = { .pre_vectors = VS_FIRST };
	struct virtqueue_info *info = kcalloc(nr, sizeof(*info), GFP_KERNEL);
	int err = -ENOMEM;

	vs->vqs = kcalloc(nr, sizeof(*vs->vqs), GFP_KERNEL);
	if (!info || !vs->vqs)
		goto free;
	for (i = 0; i < nr; i++) {
		info[i].name = "request";
		info[i].callback = i < nr - vs->nr_poll ? vs_queue_done : NULL;
	}
	info[VS_CTRL] = (struct virtqueue_info){ .name = "control", .callback = vs_ctrl_done };
	info[VS_EVENT] = (struct virtqueue_info){ .name = "event", .callback = vs_event_done };
	err = smq_virtio_find_vqs(vs->vdev, nr, vs->vqs, info, &desc);
	if (err)
		goto free;
	vs->up = true;
	for (i = VS_FIRST; i < nr; i++)
		ring = min(ring, virtqueue_get_vring_size(vs->vqs[i]));
	err = vs_limits(vs, ring);
	if (!err)
		err = vs_sizes(vs->vdev);
	if (err)
		vs_rings_delete(vs);
	kfree(info);
	return err;

free:
	kfree(info);
	kfree(vs->vqs);
	vs->vqs = NULL;
	return err;
}

/* Makes the queues available to commands, and starts the device. */
void vs_rings_start(struct vs_dev *vs)
{
	unsigned int i;

	for (i = 0; i < vs->nr_queues; i++) {
		struct vs_queue *queue = vs_queue(vs, i);

		spin_lock_irq(&queue->lock);
		queue->vq = vs->vqs[VS_FIRST + i];
		queue->size = virtqueue_get_vring_size(queue->vq);
		queue->added = false;
		spin_unlock_irq(&queue->lock);
	}
	spin_lock_irq(&vs->ctrl_lock);
	vs->ctrl = vs->vqs[VS_CTRL];
	spin_unlock_irq(&vs->ctrl_lock);
	virtio_device_ready(vs->vdev);
	vs_event_start(vs);
}

/**
 * vs_rings_stop() - resets the device and deletes its queues
 * @vs: the device; queue_cmd and commit find no queue from here on
 * @result: this function completes the device's commands with this result; 0: it leaves them to
 *	the layer, which ends them
 *
 * After the reset the device has no commands.
 *
 * Context: may sleep.
 */
void vs_rings_stop(struct vs_dev *vs, int result)
{
	unsigned int i;

	if (!vs->up)
		return;
	for (i = 0; i < vs->nr_queues; i++) {
		struct vs_queue *queue = vs_queue(vs, i);

		spin_lock_irq(&queue->lock);
		queue->vq = NULL;
		spin_unlock_irq(&queue->lock);
	}
	/* Wait for CPUs that use the old pointer to ring the doorbell or to complete commands. */
	synchronize_rcu();
	/* Surprise removal: registers read as ones, and a reset would wait for zeros for ever. */
	if (vs->vdev->config->get_status(vs->vdev) != 0xff)
		virtio_reset_device(vs->vdev);
	vs_event_stop(vs);
	vs_ctrl_stop(vs);
	for (i = 0; i < vs->nr_queues; i++)
		vs_drop_all(vs_queue(vs, i), vs->vqs[VS_FIRST + i], result);
	vs_rings_delete(vs);
}
