// SPDX-License-Identifier: GPL-2.0
/* Events: disks are added, removed or changed (virtio 1.2, 5.6.6.3). */
#include <scsi/scsi_eh.h>

#include "virtio.h"

#define VS_PROBE_SECONDS	10

/*
 * Returns the mid-layer's number of an event's LUN. For a LUN below 256 a device may use the
 * peripheral or the flat address format (SAM-6, 4.7.7): both give the same number here.
 */
static unsigned int vs_event_lun(const struct virtio_scsi_event *event)
{
	unsigned int lun = event->lun[2] << 8 | event->lun[3];

	return (lun & 0x3fff) < 256 ? lun & 0xff : lun;
}

static void vs_scan(struct vs_dev *vs, unsigned int target, u64 lun)
{
	struct Scsi_Host *shost = vs->host->shost;

	/* LUN 0 reports the other LUNs of its target: scan for all of them. */
	if (lun)
		scsi_add_device(shost, 0, target, lun);
	else
		scsi_scan_target(&shost->shost_gendev, 0, target, SCAN_WILD_CARD,
				 SCSI_SCAN_INITIAL);
}

static void vs_remove_lun(struct vs_dev *vs, unsigned int target, u64 lun)
{
	struct scsi_device *sdev = scsi_device_lookup(vs->host->shost, 0, target, lun);

	if (!sdev)
		return;
	scsi_remove_device(sdev);
	scsi_device_put(sdev);
}

static void vs_param_change(struct vs_dev *vs, unsigned int target, u64 lun, u32 reason)
{
	unsigned int asc = reason & 0xff, ascq = reason >> 8 & 0xff;
	struct scsi_device *sdev;

	if (asc == 0x3f && ascq == 0x0e) {	/* REPORTED LUNS DATA HAS CHANGED */
		vs_scan(vs, target, 0);
		return;
	}
	if (asc != 0x2a)		/* 0x2a: parameters or the capacity have changed */
		return;
	sdev = scsi_device_lookup(vs->host->shost, 0, target, lun);
	if (!sdev)
		return;
	scsi_rescan_device(sdev);
	scsi_device_put(sdev);
}

/* Whether nothing answers at a LUN's address: no target, or the target has no such LUN. */
static bool vs_lun_gone(struct scsi_device *sdev)
{
	struct scsi_sense_hdr sense = {};
	int result = scsi_test_unit_ready(sdev, VS_PROBE_SECONDS * HZ, 1, &sense);

	return host_byte(result) == DID_BAD_TARGET ||
	       (scsi_sense_valid(&sense) && sense.sense_key == ILLEGAL_REQUEST &&
		sense.asc == 0x25);
}

/*
 * After events were lost because no buffer was free: removes the LUNs that the device no longer
 * has, rescans the others and scans for new ones.
 */
static void vs_rescan(struct vs_dev *vs)
{
	struct scsi_device *sdev;

	shost_for_each_device(sdev, vs->host->shost) {
		if (vs_lun_gone(sdev))
			scsi_remove_device(sdev);
		else
			scsi_rescan_device(sdev);
	}
	scsi_scan_host(vs->host->shost);
}

static void vs_event(struct vs_dev *vs, const struct virtio_scsi_event *event)
{
	struct virtio_device *vdev = vs->vdev;
	u32 what = virtio32_to_cpu(vdev, event->event);
	u32 reason = virtio32_to_cpu(vdev, event->reason);
	unsigned int target = event->lun[1];
	u64 lun = vs_event_lun(event);

	if (what & VIRTIO_SCSI_T_EVENTS_MISSED)
		vs_rescan(vs);
	switch (what & ~VIRTIO_SCSI_T_EVENTS_MISSED) {
	case VIRTIO_SCSI_T_NO_EVENT:
		break;
	case VIRTIO_SCSI_T_TRANSPORT_RESET:
		if (reason == VIRTIO_SCSI_EVT_RESET_RESCAN)
			vs_scan(vs, target, lun);
		else if (reason == VIRTIO_SCSI_EVT_RESET_REMOVED)
			vs_remove_lun(vs, target, lun);
		break;
	case VIRTIO_SCSI_T_PARAM_CHANGE:
		vs_param_change(vs, target, lun, reason);
		break;
	default:
		dev_notice(&vdev->dev, "unknown event %#x\n", what);
	}
}

static int vs_event_offer(struct vs_dev *vs, struct virtio_scsi_event *event)
{
	struct scatterlist sg;

	lockdep_assert_held(&vs->event_lock);
	sg_init_one(&sg, event, sizeof(*event));
	return virtqueue_add_inbuf(vs->event, &sg, 1, event, GFP_ATOMIC);
}

/* Copies one event, and gives its buffer back to the device. Returns false if there is no event. */
static bool vs_event_take(struct vs_dev *vs, struct virtio_scsi_event *copy)
{
	struct virtio_scsi_event *event = NULL;
	unsigned int len;

	spin_lock_irq(&vs->event_lock);
	if (vs->event && !vs->events_end) {
		virtqueue_disable_cb(vs->event);
		do {
			event = virtqueue_get_buf(vs->event, &len);
		} while (!event && !virtqueue_enable_cb(vs->event));
	}
	if (event) {
		*copy = *event;
		vs_event_offer(vs, event);
		virtqueue_kick(vs->event);
	}
	spin_unlock_irq(&vs->event_lock);
	return event;
}

static void vs_event_work(struct work_struct *work)
{
	struct vs_dev *vs = container_of(work, struct vs_dev, event_work);
	struct virtio_scsi_event event;

	while (vs_event_take(vs, &event))
		vs_event(vs, &event);
}

/* The interrupt of the event queue. */
void vs_event_done(struct virtqueue *vq)
{
	struct vs_dev *vs = vq->vdev->priv;
	unsigned long flags;

	spin_lock_irqsave(&vs->event_lock, flags);
	if (vs->event && !vs->events_end)
		queue_work(system_freezable_wq, &vs->event_work);
	spin_unlock_irqrestore(&vs->event_lock, flags);
}

void vs_event_init(struct vs_dev *vs)
{
	spin_lock_init(&vs->event_lock);
	INIT_WORK(&vs->event_work, vs_event_work);
}

/* After the event queue was set up: gives the device the buffers for events. */
void vs_event_start(struct vs_dev *vs)
{
	unsigned int i;

	spin_lock_irq(&vs->event_lock);
	vs->event = vs->vqs[VS_EVENT];
	for (i = 0; i < VS_EVENTS && !vs_event_offer(vs, &vs->events[i]); i++)
		;
	virtqueue_kick(vs->event);
	spin_unlock_irq(&vs->event_lock);
}

/* After a reset of the device: takes the buffers back. */
void vs_event_stop(struct vs_dev *vs)
{
	spin_lock_irq(&vs->event_lock);
	vs->event = NULL;
	while (virtqueue_detach_unused_buf(vs->vqs[VS_EVENT]))
		;
	spin_unlock_irq(&vs->event_lock);
}

/* Ends the handling of events for good. */
void vs_event_end(struct vs_dev *vs)
{
	spin_lock_irq(&vs->event_lock);
	vs->events_end = true;
	spin_unlock_irq(&vs->event_lock);
	cancel_work_sync(&vs->event_work);
}
