// SPDX-License-Identifier: GPL-2.0
/*
 * /sys/bus/virtio/drivers/smq_virtio/{take,release}: moves a device, by a name such as virtio3,
 * from virtio_scsi to this driver and back. Both are refused while one of the device's disks is
 * open or mounted. This code cannot find out whether a character device (sg, tape) is open: a
 * program that has one open sees the device removed.
 */
#define pr_fmt(fmt) "smq_virtio: " fmt

#include <linux/blkdev.h>
#include <linux/virtio_ids.h>

#include "virtio.h"

static DEFINE_MUTEX(vs_take_lock);	/* one take or release at a time; they sleep */

/* Whether a disk of a host is open; if so, stores the name of that disk in @name. */
static bool vs_host_open(struct Scsi_Host *shost, char *name, size_t len)
{
	struct scsi_device *sdev;
	bool open = false;

	shost_for_each_device(sdev, shost) {
		struct gendisk *disk;

		/* While the lock is held sd stays bound, and while sd is bound the disk exists. */
		device_lock(&sdev->sdev_gendev);
		disk = sdev->sdev_gendev.driver ? sdev->request_queue->disk : NULL;
		open = disk && disk_openers(disk);
		if (open)
			strscpy(name, disk->disk_name, len);
		device_unlock(&sdev->sdev_gendev);
		if (open) {
			scsi_device_put(sdev);
			break;
		}
	}
	return open;
}

static int vs_child_open(struct device *dev, void *name)
{
	return scsi_is_host_device(dev) && vs_host_open(dev_to_shost(dev), name, DISK_NAME_LEN);
}

static int vs_check_closed(struct device *dev, const char *what)
{
	char name[DISK_NAME_LEN];

	if (!device_for_each_child(dev, name, vs_child_open))
		return 0;
	pr_err("%s: %s is open or mounted, a disk of %s\n", what, name, dev_name(dev));
	return -EBUSY;
}

/*
 * Finds a virtio-scsi device by name, and gets a reference. If there is no such device, prints a
 * message and returns an ERR_PTR.
 */
static struct device *vs_find(const struct device_driver *drv, const char *name, const char *what)
{
	struct device *dev = bus_find_device_by_name(drv->bus, NULL, name);
	u32 id;

	if (!dev) {
		pr_err("%s: '%.*s' is no virtio device\n", what,
		       (int)min_t(size_t, strcspn(name, "\n"), 32), name);
		return ERR_PTR(-ENODEV);
	}
	id = dev_to_virtio(dev)->id.device;
	if (id != VIRTIO_ID_SCSI) {
		pr_err("%s: %s is a virtio device of type %u, SCSI is %u\n", what, dev_name(dev),
		       id, VIRTIO_ID_SCSI);
		put_device(dev);
		return ERR_PTR(-EINVAL);
	}
	return dev;
}

static int vs_take(struct device_driver *drv, struct device *dev)
{
	struct virtio_device *vdev = dev_to_virtio(dev);
	int err;

	if (dev->driver == drv) {
		pr_err("take: %s is taken already\n", dev_name(dev));
		return -EBUSY;
	}
	err = vs_check_closed(dev, "take");
	if (err)
		return err;
	device_release_driver(dev);
	err = device_driver_attach(drv, dev);
	if (err) {
		int back;

		/* Put the device into the state of a device that never had a driver. */
		virtio_reset_device(vdev);
		virtio_add_status(vdev, VIRTIO_CONFIG_S_ACKNOWLEDGE);
		back = device_attach(dev);
		pr_err("take: %s: error %d; the device has %s\n", dev_name(dev), err,
		       back > 0 ? "a driver again" : "no driver now");
	}
	return err;
}

static int vs_release(struct device_driver *drv, struct device *dev)
{
	int err;

	if (dev->driver != drv) {
		pr_err("release: %s is not taken\n", dev_name(dev));
		return -ENODEV;
	}
	err = vs_check_closed(dev, "release");
	if (err)
		return err;
	device_release_driver(dev);
	/* The bus asks all drivers: this one must decline, even with take_all=1. */
	vs_match(false);
	err = device_attach(dev);
	vs_match(true);
	if (err <= 0)
		pr_notice("release: %s has no driver until virtio_scsi is loaded\n",
			  dev_name(dev));
	return 0;
}

static ssize_t vs_store(struct device_driver *drv, const char *buf, size_t count, const char *what,
			int (*change)(struct device_driver *drv, struct device *dev))
{
	struct device *dev = vs_find(drv, buf, what);
	int err;

	if (IS_ERR(dev))
		return PTR_ERR(dev);
	mutex_lock(&vs_take_lock);
	err = change(drv, dev);
	mutex_unlock(&vs_take_lock);
	put_device(dev);
	return err ?: count;
}

static ssize_t take_store(struct device_driver *drv, const char *buf, size_t count)
{
	return vs_store(drv, buf, count, "take", vs_take);
}
static DRIVER_ATTR_WO(take);

static ssize_t release_store(struct device_driver *drv, const char *buf, size_t count)
{
	return vs_store(drv, buf, count, "release", vs_release);
}
static DRIVER_ATTR_WO(release);

static struct attribute *vs_driver_attrs[] = {
	&driver_attr_take.attr,
	&driver_attr_release.attr,
	NULL
};

static const struct attribute_group vs_driver_group = {
	.attrs = vs_driver_attrs,
};

const struct attribute_group *vs_driver_groups[] = {
	&vs_driver_group,
	NULL
};
