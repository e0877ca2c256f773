// SPDX-License-Identifier: GPL-2.0
/*
 * smq_virtio: the driver on the virtio bus. The kernel has another driver for these devices,
 * virtio_scsi, and the bus has no driver_override. So by default this driver matches no device, and
 * take.c binds it to one device at a time. With take_all=1 it matches every virtio-scsi device.
 */
#define pr_fmt(fmt) "smq_virtio: " fmt

#include <linux/module.h>
#include <linux/slab.h>
#include <linux/virtio_ids.h>
#include <linux/virtio_ring.h>
#include <smq/version.h>

#include "virtio.h"

static unsigned int poll_queues;
module_param(poll_queues, uint, 0644);
MODULE_PARM_DESC(poll_queues, "how many queues of each device are for polling; a change applies to devices taken later");

static bool take_all;
module_param(take_all, bool, 0444);
MODULE_PARM_DESC(take_all, "take every virtio-scsi device that has no driver");

/* The bus calls this function before the features are final, so it can still clear one. */
static int vs_validate(struct virtio_device *vdev)
{
	if (!vdev->config->get) {
		dev_err(&vdev->dev, "the device's configuration cannot be read\n");
		return -EINVAL;
	}
	__virtio_clear_bit(vdev, VIRTIO_RING_F_INDIRECT_DESC);
	return 0;
}

static struct vs_dev *vs_alloc(struct virtio_device *vdev)
{
	struct vs_dev *vs = kzalloc(sizeof(*vs), GFP_KERNEL);
	unsigned int i;

	if (!vs)
		return NULL;
	vs->vdev = vdev;
	mutex_init(&vs->state_lock);
	spin_lock_init(&vs->ctrl_lock);
	for (i = 0; i < VS_TMFS; i++)
		init_completion(&vs->tmf[i].answered);
	vs_event_init(vs);
	return vs;
}

static int vs_probe(struct virtio_device *vdev)
{
	struct vs_dev *vs = vs_alloc(vdev);
	struct smq_host *host;
	int err;

	if (!vs)
		return -ENOMEM;
	vdev->priv = vs;
	err = vs_config(vs, READ_ONCE(poll_queues));
	if (err)
		goto free;
	err = vs_rings_find(vs);
	if (err)
		goto free;
	host = vs_host_alloc(vs);
	if (IS_ERR(host)) {
		err = PTR_ERR(host);
		goto delete;
	}
	/* Release: the interrupt, which the device may already send, must see a complete host. */
	smp_store_release(&vs->host, host);
	err = smq_host_add(host, &vdev->dev);
	if (err)
		goto delete;
	vs_rings_start(vs);
	dev_info(&vdev->dev, "host%u, queues: %u and %u for polling, %u descriptors each\n",
		 vs->host->shost->host_no, vs->nr_queues - vs->nr_poll, vs->nr_poll, vs->ring);
	scsi_scan_host(vs->host->shost);
	return 0;

delete:
	/* Stops the interrupts, so that the host can be freed. */
	virtio_reset_device(vdev);
	vs_rings_delete(vs);
	if (vs->host)
		smq_host_free(vs->host);
free:
	virtio_reset_device(vdev);
	kfree(vs);
	return err;
}

static void vs_remove(struct virtio_device *vdev)
{
	struct vs_dev *vs = vdev->priv;

	/* Surprise removal: in-flight commands and probe commands will never complete. */
	mutex_lock(&vs->state_lock);
	if (vs->up && virtqueue_is_broken(vs->vqs[VS_CTRL])) {
		WRITE_ONCE(vs->gone, true);
		vs_rings_stop(vs, DID_NO_CONNECT << 16);
	}
	mutex_unlock(&vs->state_lock);

	vs_event_end(vs);
	smq_host_remove(vs->host);
	vs_rings_stop(vs, 0);
	smq_host_free(vs->host);
	kfree(vs);
}

/* Suspend: no disk has a command in flight. Also the first half of vs_host_reset(). */
static int __maybe_unused vs_freeze(struct virtio_device *vdev)
{
	vs_rings_stop(vdev->priv, 0);
	return 0;
}

static int __maybe_unused vs_restore(struct virtio_device *vdev)
{
	struct vs_dev *vs = vdev->priv;
	int err = vs_rings_find(vs);

	if (!err)
		vs_rings_start(vs);
	return err;
}

static const struct virtio_device_id vs_none[] = {
	{ }
};

/* Without MODULE_DEVICE_TABLE(), so that udev does not load the module. */
static const struct virtio_device_id vs_ids[] = {
	{ VIRTIO_ID_SCSI, VIRTIO_DEV_ANY_ID },
	{ }
};

static const unsigned int vs_features[] = {
	VIRTIO_SCSI_F_HOTPLUG,
	VIRTIO_SCSI_F_CHANGE,
#ifdef CONFIG_BLK_DEV_INTEGRITY
	VIRTIO_SCSI_F_T10_PI,
#endif
};

static struct virtio_driver vs_driver = {
	.driver.name		= "smq_virtio",
	.driver.groups		= vs_driver_groups,
	.id_table		= vs_none,
	.feature_table		= vs_features,
	.feature_table_size	= ARRAY_SIZE(vs_features),
	.validate		= vs_validate,
	.probe			= vs_probe,
	.remove			= vs_remove,
#ifdef CONFIG_PM_SLEEP
	.freeze			= vs_freeze,
	.restore		= vs_restore,
#endif
};

/* With take_all=1, sets whether the driver matches devices. With take_all=0 it matches none. */
void vs_match(bool on)
{
	WRITE_ONCE(vs_driver.id_table, on && take_all ? vs_ids : vs_none);
}

static int __init vs_init(void)
{
	vs_match(true);
	return register_virtio_driver(&vs_driver);
}
module_init(vs_init);

static void __exit vs_exit(void)
{
	unregister_virtio_driver(&vs_driver);
}
module_exit(vs_exit);

MODULE_DESCRIPTION("virtio-scsi on smq");
MODULE_VERSION(SMQ_VERSION);
MODULE_AUTHOR("smq developers");
MODULE_LICENSE("GPL");
