// SPDX-License-Identifier: GPL-2.0
/*
 * Loads the module. Nodes: class smq_sg, one smqsgN per scsi_device, their limits and counters.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/blkdev.h>
#include <linux/idr.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <scsi/scsi_driver.h>
#include <smq/version.h>

#include "io.h"
#include "module.h"
#include "place.h"
#include "sg.h"

#define SMQSG_MINORS	32768

static dev_t smqsg_devt;
static DEFINE_IDA(smqsg_ida);

/* Protects the list of nodes, in which smqsg_remove() finds a node by its scsi_device. */
static DEFINE_MUTEX(smqsg_nodes_lock);
static LIST_HEAD(smqsg_nodes);

/* The bus of SCSI devices; its symbol is not exported. Set by the first smqsg_add(). */
static typeof_member(struct device, bus) smqsg_bus;

static struct smqsg_dev *to_smqsg(struct device *dev)
{
	return container_of(dev, struct smqsg_dev, dev);
}

/* Shows what value() returns. The lock keeps the scsi_device from being removed meanwhile. */
static ssize_t smqsg_show(struct device *dev, char *buf,
			  unsigned int (*value)(struct smqsg_dev *sg, struct scsi_device *sdev))
{
	struct smqsg_dev *sg = to_smqsg(dev);
	unsigned int number;
	int ret = -ENODEV;

	spin_lock(&sg->lock);
	if (sg->sdev) {
		number = value(sg, sg->sdev);
		ret = 0;
	}
	spin_unlock(&sg->lock);
	return ret ?: sysfs_emit(buf, "%u\n", number);
}

#define SMQSG_ATTRIBUTE(name, mode, expression)					\
static unsigned int name##_value(struct smqsg_dev *sg, struct scsi_device *sdev)	\
{										\
	return expression;							\
}										\
static ssize_t name##_show(struct device *dev, struct device_attribute *attr, char *buf) \
{										\
	return smqsg_show(dev, buf, name##_value);				\
}										\
static DEVICE_ATTR_##mode(name)

SMQSG_ATTRIBUTE(depth, RO, READ_ONCE(sdev->queue_depth));
SMQSG_ATTRIBUTE(inflight, RO, smqsg_inflight(sg));
SMQSG_ATTRIBUTE(share, RO, smqsg_share(sg, sdev));
SMQSG_ATTRIBUTE(pool, RO, smqsg_pool_idle(sg));
SMQSG_ATTRIBUTE(waiting, RO, atomic_read(&sg->depth.waiting));
SMQSG_ATTRIBUTE(max_waiting, RO, SMQSG_MOST_WAITING);
SMQSG_ATTRIBUTE(refused, RO, atomic_read(&sg->wait.refused));
SMQSG_ATTRIBUTE(max_transfer, RO, smqsg_max_transfer(sdev->request_queue));
SMQSG_ATTRIBUTE(max_segments, RO, queue_max_segments(sdev->request_queue));

static ssize_t pool_share_store(struct device *dev, struct device_attribute *attr,
				const char *buf, size_t count)
{
	struct smqsg_dev *sg = to_smqsg(dev);
	unsigned int percent;
	int ret = kstrtouint(buf, 0, &percent);

	if (ret || percent > 100) {
		dev_err_ratelimited(dev, "pool_share is no number in 0..100 (percent)\n");
		return ret ?: -EINVAL;
	}
	if (!smqsg_can_own() && percent)
		return -EOPNOTSUPP;
	WRITE_ONCE(sg->pool.share, percent);
	smqsg_pool_give_back(sg);
	return count;
}

/* pool_share: percent of the depth that idle requests of all files may take. */
SMQSG_ATTRIBUTE(pool_share, RW, READ_ONCE(sg->pool.share));

/* The names of pool and pool_share in version 0.0, for one more version. */
static struct device_attribute dev_attr_held = __ATTR(held, 0444, pool_show, NULL);
static struct device_attribute dev_attr_held_share =
	__ATTR(held_share, 0644, pool_share_show, pool_share_store);

/* own_queue: when the node gets a request queue of its own. */
static const char * const smqsg_own_modes[] = {
	[SMQSG_OWN_AUTO] = "auto",
	[SMQSG_OWN_ON] = "on",
	[SMQSG_OWN_OFF] = "off",
};

static ssize_t own_queue_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct smqsg_dev *sg = to_smqsg(dev);

	return sysfs_emit(buf, "%s\n", smqsg_own_modes[READ_ONCE(sg->own.mode)]);
}

static ssize_t own_queue_store(struct device *dev, struct device_attribute *attr,
			       const char *buf, size_t count)
{
	struct smqsg_dev *sg = to_smqsg(dev);
	int mode = sysfs_match_string(smqsg_own_modes, buf);

	if (mode < 0) {
		dev_err_ratelimited(dev, "own_queue is auto, on or off\n");
		return mode;
	}
	if (!smqsg_can_own() && mode == SMQSG_OWN_ON)
		return -EOPNOTSUPP;
	WRITE_ONCE(sg->own.mode, mode);
	/* A queue that files use stays until the last of them is closed. */
	if (mode == SMQSG_OWN_OFF)
		smqsg_own_closed(sg);
	return count;
}
static DEVICE_ATTR_RW(own_queue);

/* own_queue_exists: 1 if the node has a request queue of its own at this moment. */
SMQSG_ATTRIBUTE(own_queue_exists, RO, !!READ_ONCE(sg->own.q));

#ifdef SMQ_HAVE_PASSTHROUGH_STATS
/*
 * Turns statistics on only if this function turned them off: otherwise the block layer did not want
 * them.
 */
static void smqsg_set_stats(struct smqsg_dev *sg, bool on)
{
	struct request_queue *q = sg->sdev->request_queue;

	lockdep_assert_held(&sg->lock);
	if (on && sg->stats_off)
		blk_queue_flag_set(QUEUE_FLAG_STATS, q);
	else if (!on && test_bit(QUEUE_FLAG_STATS, &q->queue_flags))
		blk_queue_flag_clear(QUEUE_FLAG_STATS, q);
	else
		return;
	sg->stats_off = !on;
}

static ssize_t queue_stats_store(struct device *dev, struct device_attribute *attr,
				 const char *buf, size_t count)
{
	struct smqsg_dev *sg = to_smqsg(dev);
	bool on;
	int ret = kstrtobool(buf, &on);

	if (ret)
		return ret;
	spin_lock(&sg->lock);
	if (sg->sdev)
		smqsg_set_stats(sg, on);
	else
		ret = -ENODEV;
	spin_unlock(&sg->lock);
	return ret ?: count;
}

/*
 * Whether the block layer measures the time of each request, for its statistics and the code that
 * reads them: the throttling of writes (wbt), kyber and blk-iolatency. Linux 6.1 also measures
 * passthrough requests, although none of these three uses their times.
 */
SMQSG_ATTRIBUTE(queue_stats, RW,
		test_bit(QUEUE_FLAG_STATS, &sdev->request_queue->queue_flags));
#endif

/* Undoes what queue_stats changed: the device may stay when its node is removed. */
static void smqsg_restore_stats(struct smqsg_dev *sg)
{
#ifdef SMQ_HAVE_PASSTHROUGH_STATS
	smqsg_set_stats(sg, true);
#endif
}

static struct attribute *smqsg_attrs[] = {
	&dev_attr_depth.attr,
	&dev_attr_inflight.attr,
	&dev_attr_share.attr,
	&dev_attr_pool.attr,
	&dev_attr_pool_share.attr,
	&dev_attr_held.attr,
	&dev_attr_held_share.attr,
	&dev_attr_own_queue.attr,
	&dev_attr_own_queue_exists.attr,
	&dev_attr_waiting.attr,
	&dev_attr_max_waiting.attr,
	&dev_attr_refused.attr,
	&dev_attr_max_transfer.attr,
	&dev_attr_max_segments.attr,
#ifdef SMQ_HAVE_PASSTHROUGH_STATS
	&dev_attr_queue_stats.attr,
#endif
	NULL,
};
ATTRIBUTE_GROUPS(smqsg);

static void smqsg_dev_release(struct device *dev)
{
	struct smqsg_dev *sg = to_smqsg(dev);

	cancel_delayed_work_sync(&sg->watch);
	smqsg_depth_exit(sg);
	cancel_delayed_work_sync(&sg->wait.expire);
	smqsg_pool_exit(sg);
	smqsg_own_exit(sg);
	ida_free(&smqsg_ida, sg->index);
	kfree(sg);
}

/* The class sets no mode, so devtmpfs uses 0600: root only, unless a udev rule changes that. */
static struct class smqsg_class = {
	.name		= "smq_sg",
	.dev_groups	= smqsg_groups,
};

/*
 * Checks whether smq_conv has claimed the device of a node: then programs have to send commands to
 * smq_conv's upper device. Compares pointers only, because the driver may be about to be unloaded.
 */
static void smqsg_look_for_claim(struct smqsg_dev *sg, struct scsi_device *sdev)
{
	const struct device_driver *driver = READ_ONCE(sdev->sdev_gendev.driver);
	bool claimed = driver && driver == driver_find("smq_conv", sdev->sdev_gendev.bus);

	/* Under the lock: of two checks, the result of the later one is stored last. */
	lockdep_assert_held(&smqsg_nodes_lock);
	WRITE_ONCE(sg->depth.claimed, claimed);
	/* End waiting commands now; commands in flight end as usual. */
	if (claimed)
		smqsg_expire_soon(sg);
}

/* smq_conv is about to claim the device, and counts from then on what others send to it. */
static void smqsg_count_before_claim(struct smqsg_dev *sg)
{
	spin_lock(&sg->lock);
	smqsg_count_for_device(sg);
	spin_unlock(&sg->lock);
}

/* Called before a device is bound to a driver, and after it was bound or unbound. */
static int smqsg_driver_changed(struct notifier_block *block, unsigned long event, void *data)
{
	struct device *dev = data;
	struct smqsg_dev *sg;

	if ((event != BUS_NOTIFY_BIND_DRIVER && event != BUS_NOTIFY_BOUND_DRIVER &&
	     event != BUS_NOTIFY_UNBOUND_DRIVER) || !scsi_is_sdev_device(dev))
		return NOTIFY_DONE;
	mutex_lock(&smqsg_nodes_lock);
	list_for_each_entry(sg, &smqsg_nodes, node) {
		if (sg->sdev != to_scsi_device(dev))
			continue;
		if (event == BUS_NOTIFY_BIND_DRIVER)
			smqsg_count_before_claim(sg);
		else
			smqsg_look_for_claim(sg, sg->sdev);
	}
	mutex_unlock(&smqsg_nodes_lock);
	return NOTIFY_DONE;
}

static struct notifier_block smqsg_drivers = {
	.notifier_call = smqsg_driver_changed,
};

/* Needs no lock: the class calls smqsg_add() for one device at a time. */
static int smqsg_watch_drivers(struct scsi_device *sdev)
{
	int ret;

	if (smqsg_bus)
		return 0;
	ret = bus_register_notifier(sdev->sdev_gendev.bus, &smqsg_drivers);
	if (!ret)
		smqsg_bus = sdev->sdev_gendev.bus;
	return ret;
}

static int SMQ_INTERFACE_FN(smqsg_add, class_dev)
{
	struct scsi_device *sdev = to_scsi_device(class_dev->parent);
	struct smqsg_dev *sg;
	int ret;

	sg = kzalloc(sizeof(*sg), GFP_KERNEL);
	if (!sg)
		return -ENOMEM;
	ret = smqsg_depth_init(sg) ?: smqsg_pool_init(sg, sdev) ?:
	      ida_alloc_max(&smqsg_ida, SMQSG_MINORS - 1, GFP_KERNEL);
	if (ret < 0) {
		sdev_printk(KERN_ERR, sdev, "smq_sg: no smqsg node: %s\n",
			    ret == -ENOSPC ? "all 32768 minors are taken" : "no memory");
		smqsg_pool_exit(sg);
		smqsg_depth_exit(sg);
		kfree(sg);
		return ret;
	}
	sg->index = ret;
	sg->sdev = sdev;
	spin_lock_init(&sg->lock);
	INIT_LIST_HEAD(&sg->files);
	init_waitqueue_head(&sg->closed);
	smqsg_expire_init(sg);
	smqsg_poll_init(sg);
	smqsg_own_init(sg);

	device_initialize(&sg->dev);
	sg->dev.class = &smqsg_class;
	sg->dev.parent = &sdev->sdev_gendev;
	sg->dev.release = smqsg_dev_release;
	sg->dev.devt = MKDEV(MAJOR(smqsg_devt), sg->index);
	ret = dev_set_name(&sg->dev, "smqsg%u", sg->index) ?: smqsg_watch_drivers(sdev);
	if (ret)
		goto out_put;

	cdev_init(&sg->cdev, &smqsg_fops);
	sg->cdev.owner = THIS_MODULE;
	ret = cdev_device_add(&sg->cdev, &sg->dev);
	if (ret)
		goto out_put;
	/* A link like sg's "generic". The node works without it. */
	if (sysfs_create_link(&sdev->sdev_gendev.kobj, &sg->dev.kobj, "smq_generic"))
		sdev_printk(KERN_WARNING, sdev, "smq_sg: cannot create the link smq_generic\n");

	mutex_lock(&smqsg_nodes_lock);
	list_add(&sg->node, &smqsg_nodes);
	smqsg_look_for_claim(sg, sdev);
	mutex_unlock(&smqsg_nodes_lock);
	return 0;

out_put:
	sdev_printk(KERN_ERR, sdev, "smq_sg: no smqsg node: error %d\n", ret);
	put_device(&sg->dev);
	return ret;
}

static struct smqsg_dev *smqsg_take_node(struct scsi_device *sdev)
{
	struct smqsg_dev *sg, *found = NULL;

	mutex_lock(&smqsg_nodes_lock);
	list_for_each_entry(sg, &smqsg_nodes, node) {
		if (sg->sdev == sdev) {
			list_del(&sg->node);
			found = sg;
			break;
		}
	}
	mutex_unlock(&smqsg_nodes_lock);
	return found;
}

/* Marks the device as removed: opens fail, and waiting opens and readers are woken. */
static void smqsg_mark_dead(struct smqsg_dev *sg)
{
	struct smqsg_fd *fd;

	spin_lock(&sg->lock);
	smqsg_restore_stats(sg);
	sg->sdev = NULL;
	list_for_each_entry(fd, &sg->files, sibling)
		smqsg_v3_device_removed(fd);
	spin_unlock(&sg->lock);
	wake_up_all(&sg->closed);
}

/*
 * Ends all waiting and gives idle requests back. Waits for commands on the own queue, as the
 * mid-layer does next for those on the device's queue.
 */
static void SMQ_INTERFACE_FN(smqsg_remove, class_dev)
{
	struct scsi_device *sdev = to_scsi_device(class_dev->parent);
	struct smqsg_dev *sg = smqsg_take_node(sdev);

	if (!sg)
		return;
	smqsg_mark_dead(sg);
	smqsg_expire_soon(sg);
	smqsg_poll_dead(sg);
	smqsg_pool_give_back(sg);
	sysfs_remove_link(&sdev->sdev_gendev.kobj, "smq_generic");
	cdev_device_del(&sg->cdev, &sg->dev);
	smqsg_own_remove(sg);
	put_device(&sg->dev);
}

static struct class_interface smqsg_interface = {
	.add_dev	= smqsg_add,
	.remove_dev	= smqsg_remove,
};

static int __init smqsg_class_register(void)
{
	int ret;

	ret = alloc_chrdev_region(&smqsg_devt, 0, SMQSG_MINORS, "smq_sg");
	if (ret)
		return ret;
	ret = class_register(&smqsg_class);
	if (ret)
		goto out_region;
	ret = scsi_register_interface(&smqsg_interface);
	if (ret)
		goto out_class;
	return 0;

out_class:
	class_unregister(&smqsg_class);
out_region:
	unregister_chrdev_region(smqsg_devt, SMQSG_MINORS);
	return ret;
}

static void smqsg_class_unregister(void)
{
	scsi_unregister_interface(&smqsg_interface);
	if (smqsg_bus)
		bus_unregister_notifier(smqsg_bus, &smqsg_drivers);
	class_unregister(&smqsg_class);
	unregister_chrdev_region(smqsg_devt, SMQSG_MINORS);
	ida_destroy(&smqsg_ida);
}

static int __init smqsg_init(void)
{
	int ret;

	smqsg_check_kernel();
	smqsg_straight_init();
	ret = smqsg_io_start();
	if (ret)
		return ret;
	ret = smqsg_work_start();
	if (ret)
		goto out_io;
	ret = smqsg_class_register();
	if (ret)
		goto out_work;
	return 0;

out_work:
	smqsg_work_stop();
out_io:
	smqsg_io_stop();
	return ret;
}
module_init(smqsg_init);

static void __exit smqsg_exit(void)
{
	smqsg_class_unregister();
	smqsg_work_stop();
	smqsg_straight_exit();
	smqsg_io_stop();
}
module_exit(smqsg_exit);

MODULE_DESCRIPTION("SCSI passthrough fast path");
MODULE_VERSION(SMQ_VERSION);
MODULE_AUTHOR("smq developers");
MODULE_LICENSE("GPL");
