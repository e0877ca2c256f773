// SPDX-License-Identifier: GPL-2.0
/*
 * Claim: takes a device from its upper driver. Release: gives the device back to that driver. Both
 * are refused while the disk is open or mounted. An open character device (sg, bsg) prevents
 * neither, and keeps working.
 */
#define pr_fmt(fmt) "smq_conv: " fmt

#include <linux/blkdev.h>
#include <linux/slab.h>
#include <scsi/scsi_driver.h>
#include <smq/prepare.h>

#include "attach.h"
#include "conv.h"

/* The kernel does not record who has a disk; this program reads it from sysfs and /proc. */
#define CONV_WHO	"'sg_io info /dev/%s' shows by whom"

static DEFINE_MUTEX(conv_claim_lock);	/* serialises claims and releases, which sleep */
/* conv_lock protects the following variables. */
static bool conv_closed;		/* the module is being unloaded */
/* The claim that our driver's probe takes when it runs for the claim's device; NULL if none. */
static struct conv_lun *conv_offer;
/* A device that is being given back: rules do not claim it. */
static struct scsi_device *conv_no_rule_for;

static void conv_offer_set(struct conv_lun *cl)
{
	mutex_lock(&conv_lock);
	conv_offer = cl;
	mutex_unlock(&conv_lock);
}

/*
 * Ends the offer. Returns true if our driver's probe has not taken the claim, and false if it has:
 * then the claim no longer belongs to the caller.
 */
static bool conv_offer_withdraw(void)
{
	bool withdrawn;

	mutex_lock(&conv_lock);
	withdrawn = conv_offer;
	conv_offer = NULL;
	mutex_unlock(&conv_lock);
	return withdrawn;
}

/*
 * Opens a device's disk exclusively: until conv_disk_close() nothing can mount it or make it part
 * of another device. Return: a handle for conv_disk_close(); NULL if the device has no disk; an
 * ERR_PTR, which is -EBUSY if the disk is open. Prints a message after an error, except after one
 * other than -EBUSY on an offline device. Context: may sleep.
 */
static struct smq_disk_handle *conv_disk_hold(struct scsi_device *sdev, const char *what)
{
	struct smq_disk_handle *handle;
	char name[DISK_NAME_LEN] = "";
	struct gendisk *disk;
	dev_t dev = 0;
	bool open;

	/* If sd is bound to the device, the lock keeps it bound, and so the disk exists. */
	device_lock(&sdev->sdev_gendev);
	disk = sdev->sdev_gendev.driver ? sdev->request_queue->disk : NULL;
	if (disk) {
		dev = disk_devt(disk);
		strscpy(name, disk->disk_name, sizeof(name));
	}
	device_unlock(&sdev->sdev_gendev);
	if (!dev)
		return NULL;

	handle = smq_disk_open(dev, &conv_driver);
	if (IS_ERR(handle)) {
		/*
		 * No message for an offline disk: nothing can open it, and conv_release() releases
		 * it all the same.
		 */
		if (PTR_ERR(handle) == -EBUSY)
			sdev_printk(KERN_ERR, sdev,
				    "%s: %s is mounted or in use; " CONV_WHO "\n", what, name,
				    name);
		else if (scsi_device_online(sdev))
			sdev_printk(KERN_ERR, sdev, "%s: %s cannot be opened: %pe\n", what, name,
				    handle);
		return handle;
	}
	disk = smq_disk_of(handle);
	/* True if the disk has another opener, or if @dev now belongs to another device's disk. */
	open = disk_openers(disk) > 1 || disk->queue != sdev->request_queue;
	if (open) {
		sdev_printk(KERN_ERR, sdev, "%s: %s is open; " CONV_WHO "\n", what,
			    disk->disk_name, disk->disk_name);
		smq_disk_close(handle, &conv_driver);
		return ERR_PTR(-EBUSY);
	}
	return handle;
}

static void conv_disk_close(struct smq_disk_handle *handle)
{
	if (handle)
		smq_disk_close(handle, &conv_driver);
}

/* Checks whether a device can be claimed. Return: 0, or a negative errno after a message. */
static int conv_check(struct scsi_device *lower)
{
	const struct request_queue *q = lower->request_queue;

	if (lower->host->hostt->module == THIS_MODULE) {
		sdev_printk(KERN_ERR, lower, "claim: it is a LUN of smq_conv itself\n");
		return -EINVAL;
	}
	if (conv_is_attached(lower->host)) {
		sdev_printk(KERN_ERR, lower, "claim: its host is attached\n");
		return -EBUSY;
	}
	if (lower->type != TYPE_DISK) {
		sdev_printk(KERN_ERR, lower, "claim: it is not a disk, but of type %d\n",
			    lower->type);
		return -EINVAL;
	}
	if (lower->sdev_state != SDEV_RUNNING) {
		sdev_printk(KERN_ERR, lower, "claim: it is not running\n");
		return -ENODEV;
	}
	/* Not supported: a queuecommand that may sleep, and padding or draining of data. */
	if (lower->host->tag_set.flags & BLK_MQ_F_BLOCKING || smq_queue_pad_mask(q) ||
	    lower->dma_drain_len) {
		sdev_printk(KERN_ERR, lower, "claim: not supported: %s needs %s\n",
			    lower->host->hostt->name,
			    lower->dma_drain_len || smq_queue_pad_mask(q) ?
			    "padding of data" : "a queuecommand that may sleep");
		return -EOPNOTSUPP;
	}
	if (smq_lld_reads_bio(lower->host)) {
		sdev_printk(KERN_ERR, lower, "claim: not supported: %s reads the bio of a request\n",
			    lower->host->hostt->name);
		return -EOPNOTSUPP;
	}
	return 0;
}

/* Detaches our driver from a device, and lets the driver core attach sd. */
static void conv_give_back(struct scsi_device *lower)
{
	struct device *dev = &lower->sdev_gendev;

	mutex_lock(&conv_lock);
	conv_no_rule_for = lower;
	mutex_unlock(&conv_lock);
	/* If there still is a claim, the driver's remove ends it. */
	device_release_driver(dev);
	if (device_attach(dev) <= 0)
		sdev_printk(KERN_NOTICE, lower, "has no driver until sd_mod is loaded\n");
	mutex_lock(&conv_lock);
	conv_no_rule_for = NULL;
	mutex_unlock(&conv_lock);
}

/*
 * Makes a claim if a rule names the device. Unlike in claim_store(), the device has no driver yet.
 */
static struct conv_lun *conv_claim_by_rule(struct scsi_device *lower)
{
	struct conv_host *ch;
	struct conv_lun *cl;

	/* Skip an upper device: it has the wwid of its lower device, so the same rule matches. */
	if (lower->host->hostt->module == THIS_MODULE || !conv_rule_matches(lower) ||
	    conv_check(lower))
		return NULL;
	ch = conv_host_get(lower->host);
	if (IS_ERR(ch))
		return NULL;
	cl = conv_lun_create(ch, lower);
	conv_host_put(ch);
	if (IS_ERR(cl))
		return NULL;
	mutex_lock(&conv_lock);
	list_add_tail(&cl->node, &cl->host->luns);
	mutex_unlock(&conv_lock);
	/* A work item adds the upper device, because the lower host may be in a scan. */
	queue_work(conv_wq, &cl->add);
	return cl;
}

/* Returns the claim that the driver's probe takes for a device, or NULL if there is none. */
struct conv_lun *conv_claim_take(struct scsi_device *lower)
{
	struct conv_lun *cl = NULL;
	bool rules;

	mutex_lock(&conv_lock);
	if (conv_offer && conv_offer->lower == lower) {
		cl = conv_offer;
		conv_offer = NULL;
		list_add_tail(&cl->node, &cl->host->luns);
	}
	rules = !conv_closed && conv_no_rule_for != lower;
	mutex_unlock(&conv_lock);
	return !cl && rules ? conv_claim_by_rule(lower) : cl;
}

/*
 * Makes the driver's probe take a claim. Returns 0 if the claim now belongs to the driver; after an
 * error it still belongs to the caller.
 */
static int conv_attach(struct conv_lun *cl)
{
	struct device *dev = &cl->lower->sdev_gendev;
	int err;

	device_release_driver(dev);
	conv_offer_set(cl);
	err = device_driver_attach(&conv_driver.gendrv, dev);
	/*
	 * If the offer is gone, the probe has taken the claim. Either device_driver_attach() called
	 * the probe, or a write to the driver's bind attribute did.
	 */
	if (!conv_offer_withdraw())
		return 0;
	return err ?: -ENODEV;
}

static int conv_claim_disk(struct scsi_device *lower)
{
	struct conv_host *ch = conv_host_get(lower->host);
	struct conv_lun *cl;
	int err;

	if (IS_ERR(ch))
		return PTR_ERR(ch);
	cl = conv_lun_create(ch, lower);
	if (IS_ERR(cl)) {
		conv_host_put(ch);
		return PTR_ERR(cl);
	}
	err = conv_attach(cl);
	if (err)
		conv_lun_destroy(cl);
	else
		err = conv_lun_add_upper(ch, lower);
	if (err) {
		sdev_printk(KERN_ERR, lower, "claim failed: %pe; given back to its driver\n",
			    ERR_PTR(err));
		conv_give_back(lower);
	}
	conv_host_put(ch);
	return err;
}

static int conv_claim(struct scsi_device *lower)
{
	struct smq_disk_handle *disk;
	int err;

	if (lower->sdev_gendev.driver == &conv_driver.gendrv) {
		sdev_printk(KERN_ERR, lower, "claim: it is claimed already\n");
		return -EBUSY;
	}
	err = conv_check(lower);
	if (err)
		return err;
	disk = conv_disk_hold(lower, "claim");
	if (IS_ERR(disk))
		return PTR_ERR(disk);
	err = conv_claim_disk(lower);
	conv_disk_close(disk);
	return err;
}

/* As conv_lun_upper(), for a device whose claim may have ended. */
static struct scsi_device *conv_upper_of(struct scsi_device *lower)
{
	struct scsi_device *upper = NULL;

	/* If our driver is bound, the lock keeps it bound, and so the claim exists. */
	device_lock(&lower->sdev_gendev);
	if (lower->sdev_gendev.driver == &conv_driver.gendrv)
		upper = conv_lun_upper(dev_get_drvdata(&lower->sdev_gendev));
	device_unlock(&lower->sdev_gendev);
	return upper;
}

static int conv_release(struct scsi_device *lower)
{
	struct smq_disk_handle *disk = NULL;
	struct scsi_device *upper;

	if (lower->sdev_gendev.driver != &conv_driver.gendrv) {
		sdev_printk(KERN_ERR, lower, "release: it is not claimed\n");
		return -ENODEV;
	}
	upper = conv_upper_of(lower);
	if (upper)
		disk = conv_disk_hold(upper, "release");
	/* An offline disk cannot be opened; that does not prevent its release. */
	if (IS_ERR(disk) && PTR_ERR(disk) != -EBUSY && !scsi_device_online(upper))
		disk = NULL;
	if (!IS_ERR(disk)) {
		conv_give_back(lower);
		conv_disk_close(disk);
	}
	if (upper)
		put_device(&upper->sdev_gendev);
	return PTR_ERR_OR_ZERO(disk);
}

/*
 * Gives all devices back. From now on rules claim no device. No upper disk is open here, because an
 * open disk references this module.
 */
void conv_release_all(void)
{
	struct scsi_device *lower;

	mutex_lock(&conv_lock);
	conv_closed = true;
	mutex_unlock(&conv_lock);
	mutex_lock(&conv_claim_lock);
	while ((lower = conv_host_any_lower())) {
		conv_give_back(lower);
		put_device(&lower->sdev_gendev);
	}
	mutex_unlock(&conv_claim_lock);
}

static void conv_say_no_device(const char *buf, const char *what)
{
	const int len = min_t(size_t, strcspn(buf, "\n"), 32);
	unsigned int host, channel, target;
	u64 lun;
	char more;

	if (sscanf(buf, "%u:%u:%u:%llu %c", &host, &channel, &target, &lun, &more) == 4)
		pr_err("%s: there is no SCSI device %.*s\n", what, len, buf);
	else
		pr_err("%s: '%.*s' is no address of a SCSI device like 2:0:0:0\n", what, len, buf);
}

static ssize_t conv_store(struct device_driver *drv, const char *buf, size_t count,
			  const char *what, int (*change)(struct scsi_device *lower))
{
	struct device *dev = bus_find_device_by_name(drv->bus, NULL, buf);
	int err;

	if (!dev || !scsi_is_sdev_device(dev)) {
		conv_say_no_device(buf, what);
		put_device(dev);
		return -ENODEV;
	}
	mutex_lock(&conv_claim_lock);
	err = change(to_scsi_device(dev));
	mutex_unlock(&conv_claim_lock);
	put_device(dev);
	return err ?: count;
}

static ssize_t claim_store(struct device_driver *drv, const char *buf, size_t count)
{
	return conv_store(drv, buf, count, "claim", conv_claim);
}
static DRIVER_ATTR_WO(claim);

static ssize_t release_store(struct device_driver *drv, const char *buf, size_t count)
{
	return conv_store(drv, buf, count, "release", conv_release);
}
static DRIVER_ATTR_WO(release);

static ssize_t claims_show(struct device_driver *drv, char *buf)
{
	return conv_host_list(buf);
}
static DRIVER_ATTR_RO(claims);

static struct attribute *conv_driver_attrs[] = {
	&driver_attr_attach.attr,
	&driver_attr_attached.attr,
	&driver_attr_claim.attr,
	&driver_attr_claims.attr,
	&driver_attr_detach.attr,
	&driver_attr_release.attr,
	&driver_attr_rules.attr,
	NULL
};

static const struct attribute_group conv_driver_group = {
	.attrs = conv_driver_attrs,
};

const struct attribute_group *conv_driver_groups[] = {
	&conv_driver_group,
	NULL
};
