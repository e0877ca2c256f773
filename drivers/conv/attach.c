// SPDX-License-Identifier: GPL-2.0
/*
 * Attach: puts the layer in front of a host, in place. Detach: takes it away again. The host keeps
 * its number, its LUNs, its tags and its error handling. Only its template is exchanged, for a copy
 * with the functions of attach_queue.c.
 */
#define pr_fmt(fmt) "smq_conv: " fmt

#include <linux/blkdev.h>
#include <linux/delay.h>
#include <linux/kstrtox.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/rculist.h>
#include <linux/slab.h>
#include <smq/tracepoint.h>

#include "attach.h"
#include "conv.h"

/* How long attach and detach wait for the end of a host's recovery, in jiffies. */
#define CONV_RECOVERY_TIMEOUT	(20 * HZ)

static DEFINE_MUTEX(conv_done_lock);		/* protects conv_done_users */
static unsigned int conv_done_users;		/* attachments that need the probe */
static atomic_t conv_attach_ending;		/* hosts that are being detached by their removal */
/* Serialises attach and detach. A host's scan_mutex nests inside. */
static DEFINE_MUTEX(conv_attach_lock);
/* scsi_dispatch_cmd_done, of scsi_mod, which is loaded as long as this module is. */
static struct tracepoint *conv_done_tp;

static void conv_attach_set_template(struct Scsi_Host *shost, const struct scsi_host_template *sht)
{
	/* Release: a CPU that finds the copy also finds the layer's part. */
	smp_store_release(&shost->hostt, (void *)sht);
}

/* Waits until a host is not in recovery. Returns false if the recovery does not end. */
static bool conv_attach_recovered(struct Scsi_Host *shost)
{
	const unsigned long end = jiffies + CONV_RECOVERY_TIMEOUT;

	while (scsi_host_in_recovery(shost)) {
		if (time_after(jiffies, end))
			return false;
		msleep(20);
	}
	return true;
}

/*
 * Waits until no code uses the copy of the template, from which the host got its own one back.
 * Returns false if its error handler may still use it. Scan code holds scan_mutex, as the caller
 * does or did. The error handler, and a reset by ioctl, keep the template while they sleep, but
 * then the host is in recovery; aborts run in tmf_work_q. All other code does not sleep between
 * reading the pointer and its use.
 */
static bool conv_attach_quiesce(struct conv_attach *at)
{
	flush_workqueue(at->shost->tmf_work_q);
	synchronize_rcu_tasks();
	/* Only now: a recovery may have begun shortly before the exchange, and shows only later. */
	if (!conv_attach_recovered(at->shost))
		return false;
	synchronize_srcu(&at->srcu);
	synchronize_rcu();
	tracepoint_synchronize_unregister();
	return true;
}

static void conv_attach_free(struct conv_attach *at)
{
	cleanup_srcu_struct(&at->srcu);
	smq_attached_free(at->smq);
}

static void conv_attach_put(struct conv_attach *at)
{
	if (refcount_dec_and_test(&at->refs))
		conv_attach_free(at);
}

/*
 * Registers the probe for an attachment. Allocates, and takes locks of the tracing code. Context:
 * no queue is frozen.
 */
static int conv_done_get(void)
{
	int err = 0;

	mutex_lock(&conv_done_lock);
	if (!conv_done_users)
		err = tracepoint_probe_register(conv_done_tp, conv_attach_done, NULL);
	conv_done_users += !err;
	mutex_unlock(&conv_done_lock);
	return err;
}

static void conv_done_put(void)
{
	mutex_lock(&conv_done_lock);
	if (!--conv_done_users)
		tracepoint_probe_unregister(conv_done_tp, conv_attach_done, NULL);
	mutex_unlock(&conv_done_lock);
}

/*
 * Takes an attachment off the list. Does not wait for its functions that sleep: none runs, or one
 * does not end. Context: may sleep; scan_mutex may be held.
 */
static void conv_attach_unlist(struct conv_attach *at)
{
	mutex_lock(&conv_lock);
	list_del_rcu(&at->node);
	mutex_unlock(&conv_lock);
	conv_done_put();
	synchronize_rcu();
	tracepoint_synchronize_unregister();
}

/*
 * Ends an attachment whose host has its own template again. If the host has no LUN left, it may be
 * about to be removed, and its driver unloaded after that, so no reference to the host may remain.
 * Context: may sleep; scan_mutex is held if the host has no LUN left.
 */
static void conv_attach_finish(struct conv_attach *at)
{
	smq_attached_end(at->smq);
	cancel_delayed_work_sync(&at->check);
	if (!conv_attach_quiesce(at)) {
		/* Keep the copy and its functions for ever. */
		pr_err("host%u: its recovery does not end: smq_conv stays loaded\n",
		       at->shost->host_no);
		__module_get(THIS_MODULE);
		refcount_inc(&at->refs);
	}
	conv_attach_unlist(at);
	smq_attached_stop(at->smq);
	scsi_host_put(at->shost);
	conv_attach_put(at);
}

static void conv_attach_hide(struct conv_attach *at)
{
	mutex_lock(&at->lock);
	smq_attached_hide(at->smq);
	mutex_unlock(&at->lock);
}

static bool conv_has_other_lun(struct Scsi_Host *shost, const struct scsi_device *gone)
{
	struct scsi_device *sdev;
	unsigned long flags;
	bool found = false;

	spin_lock_irqsave(shost->host_lock, flags);
	__shost_for_each_device(sdev, shost) {
		if (sdev != gone && sdev->sdev_state != SDEV_DEL && !smq_sdev_is_pseudo(sdev))
			found = true;
	}
	spin_unlock_irqrestore(shost->host_lock, flags);
	return found;
}

/*
 * conv_attach.lun_gone. When the last LUN is gone, the host gets its own template back: a host that
 * is being removed needs it after that, for its entry in /proc/scsi.
 */
static void conv_attach_lun_gone(struct conv_attach *at, struct scsi_device *sdev)
{
	smq_attached_remove_lun(at->smq, sdev);
	if (at->gone || conv_has_other_lun(at->shost, sdev))
		return;
	atomic_inc(&conv_attach_ending);
	at->gone = true;
	conv_attach_set_template(at->shost, at->orig);
	conv_attach_hide(at);
	pr_info("host%u: its last LUN is gone: detached\n", at->shost->host_no);
	conv_attach_finish(at);
	/* The unload of this module waits for the rest of this function, which does not sleep. */
	atomic_dec(&conv_attach_ending);
}

/* Whether the RAID class compares a host's template with its driver's to find RAID volumes. */
static bool conv_has_raid_class(struct Scsi_Host *shost)
{
	static const char * const never[] = { "myrb", "myrs" };
	static const char * const volumes[] = { "mpt2sas", "mpt3sas" };
	const char *name = shost->hostt->proc_name ?: "";
	struct scsi_device *sdev;
	bool found = false;

	if (match_string(never, ARRAY_SIZE(never), name) >= 0)
		return true;
	if (match_string(volumes, ARRAY_SIZE(volumes), name) < 0)
		return false;
	/* These drivers have their RAID volumes on channel 1. */
	shost_for_each_device(sdev, shost)
		found |= sdev->channel == 1;
	return found;
}

/* Return: 0, or a negative errno with the reason in *@why. Context: the host's scan_mutex. */
static int conv_attach_refuse(struct Scsi_Host *shost, const char **why)
{
	if (conv_is_attached(shost)) {
		*why = "it is attached already";
		return -EEXIST;
	}
	if (smq_host_is_own(shost)) {
		*why = "it is a host of smq, which has policies itself";
		return -EINVAL;
	}
	if (shost->shost_state != SHOST_RUNNING || shost->tmf_in_progress) {
		*why = "it is in recovery, or being added or removed";
		return -EBUSY;
	}
	if (!conv_has_other_lun(shost, NULL)) {
		*why = "it has no LUN";
		return -ENXIO;
	}
	if (!conv_done_tp) {
		*why = "the kernel has no tracepoint scsi_dispatch_cmd_done";
		return -EOPNOTSUPP;
	}
	if (shost->tag_set.flags & BLK_MQ_F_BLOCKING) {
		*why = "its queuecommand may sleep";
		return -EOPNOTSUPP;
	}
	if (conv_has_raid_class(shost)) {
		*why = "it has RAID volumes, which the RAID class finds by the host's template";
		return -EOPNOTSUPP;
	}
	return 0;
}

static struct conv_attach *conv_attach_alloc(struct Scsi_Host *shost)
{
	struct smq_lld lld = {
		.name		= shost->hostt->proc_name ?: shost->hostt->name,
		.queue_cmd	= conv_attach_queue_cmd,
		.host_size	= sizeof(struct conv_attach),
	};
	struct smq_host *host = smq_attached_alloc(&lld, &conv_attach_tmpl, shost);
	struct conv_attach *at;

	if (IS_ERR(host))
		return ERR_CAST(host);
	at = smq_host_priv(host);
	if (init_srcu_struct(&at->srcu)) {
		smq_attached_free(host);
		return ERR_PTR(-ENOMEM);
	}
	at->smq = host;
	at->gone = true;
	at->hwqs = host->attached->hwqs;
	at->shost = shost;
	at->orig = shost->hostt;
	at->lld = lld;
	host->lld = &at->lld;
	mutex_init(&at->lock);
	at->lun_gone = conv_attach_lun_gone;
	INIT_DELAYED_WORK(&at->check, conv_attach_check);
	/* One for the host, and one for the caller of conv_attach_begin(). */
	refcount_set(&at->refs, 2);
	conv_attach_fill(at);
	return at;
}

static int conv_attach_add_luns(struct conv_attach *at)
{
	struct scsi_device *sdev;
	int err = 0;

	shost_for_each_device(sdev, at->shost) {
		if (!err)
			err = smq_attached_add_lun(at->smq, sdev);
	}
	return err;
}

/*
 * Adds an attachment to the list, where a claim finds it, and the functions of its template.
 * Return: -EBUSY if the host has claimed LUNs.
 */
static int conv_attach_list(struct conv_attach *at)
{
	int err;

	mutex_lock(&conv_lock);
	err = conv_host_is_lower(at->shost) ? -EBUSY : 0;
	if (!err)
		list_add_tail_rcu(&at->node, &conv_attached);
	mutex_unlock(&conv_lock);
	return err;
}

/*
 * Exchanges the template while no LUN has a command in flight. Context: conv_attach_lock, and the
 * host's scan_mutex. Return: the attachment, referenced for the caller, because its host may lose
 * its last LUN at any time; or an ERR_PTR, with the reason in *@why.
 */
static struct conv_attach *conv_attach_begin(struct Scsi_Host *shost, const char **why)
{
	struct conv_attach *at;
	LIST_HEAD(frozen);
	int err;

	err = conv_attach_refuse(shost, why);
	if (err)
		return ERR_PTR(err);
	*why = "no memory";
	at = conv_attach_alloc(shost);
	if (IS_ERR(at))
		return at;
	err = conv_attach_add_luns(at) ?: conv_done_get();
	if (err)
		goto free_host;
	*why = "smq_conv has claimed LUNs of it";
	err = conv_attach_list(at);
	if (err)
		goto put_probe;
	err = conv_freeze(shost, &frozen, why);
	if (err)
		goto unlist;
	/* From here on nothing that allocates with I/O, or waits for code that does. */
	if (shost->shost_state == SHOST_RUNNING) {
		get_device(&shost->shost_gendev);
		at->gone = false;
		conv_attach_set_template(shost, &at->sht);
	}
	conv_unfreeze(&frozen);
	if (!at->gone)
		return at;
	/* A command had timed out before the freeze. */
	*why = "it is in recovery";
	err = -EBUSY;

unlist:
	conv_attach_unlist(at);
	goto free_host;
put_probe:
	conv_done_put();
free_host:
	conv_attach_free(at);
	return ERR_PTR(err);
}

/* Exchanges the template back while @frozen has all queues, and unfreezes them. */
static int conv_attach_restore(struct conv_attach *at, struct list_head *frozen)
{
	/* Again: with no command in flight, only a reset by ioctl can have begun one. */
	int err = scsi_host_in_recovery(at->shost) ? -EBUSY : 0;

	if (!err) {
		at->gone = true;
		conv_attach_set_template(at->shost, at->orig);
	}
	conv_unfreeze(frozen);
	return err;
}

/*
 * Gives the host its own template back. Context: conv_attach_lock; may sleep. Return: 0; -EBUSY if
 * commands stay in flight, or if the host stays in recovery; -ENOENT if it was removed meanwhile.
 */
static int conv_attach_end(struct conv_attach *at, const char **why)
{
	struct Scsi_Host *shost = at->shost;
	LIST_HEAD(frozen);
	int err = -ENOENT;

	conv_attach_hide(at);
	smq_attached_drain(at->smq);
	*why = "its recovery does not end";
	if (!conv_attach_recovered(shost))
		return -EBUSY;
	mutex_lock(&shost->scan_mutex);
	if (!at->gone) {
		err = conv_freeze(shost, &frozen, why);
		if (!err) {
			*why = "it is in recovery";
			err = conv_attach_restore(at, &frozen);
		}
	}
	mutex_unlock(&shost->scan_mutex);
	if (!err)
		conv_attach_finish(at);
	return err;
}

/* Shows the layer's attributes again after a detach that failed. */
static int conv_attach_show(struct conv_attach *at)
{
	int err;

	mutex_lock(&at->lock);
	err = at->gone ? -ENOENT : smq_attached_show(at->smq);
	mutex_unlock(&at->lock);
	return err;
}

static int conv_attach_host(struct Scsi_Host *shost)
{
	const char *why = NULL;
	struct conv_attach *at;
	int err;

	mutex_lock(&shost->scan_mutex);
	at = conv_attach_begin(shost, &why);
	mutex_unlock(&shost->scan_mutex);
	if (IS_ERR(at)) {
		pr_err("attach: host%u: %s\n", shost->host_no, why);
		return PTR_ERR(at);
	}
	err = conv_attach_show(at);
	if (err && err != -ENOENT) {
		pr_err("attach: host%u: no attributes in sysfs: %d\n", shost->host_no, err);
		conv_attach_end(at, &why);
	}
	conv_attach_put(at);
	return err;
}

/* Returns the attachment of a host, or of any host if @shost is NULL, with a reference, or NULL. */
static struct conv_attach *conv_attach_get(const struct Scsi_Host *shost)
{
	struct conv_attach *at, *found = NULL;

	mutex_lock(&conv_lock);
	list_for_each_entry(at, &conv_attached, node) {
		if ((!shost || at->shost == shost) && !READ_ONCE(at->gone)) {
			refcount_inc(&at->refs);
			found = at;
			break;
		}
	}
	mutex_unlock(&conv_lock);
	return found;
}

static int conv_detach_host(struct Scsi_Host *shost)
{
	struct conv_attach *at = conv_attach_get(shost);
	const char *why;
	int err = at ? conv_attach_end(at, &why) : -ENOENT;

	if (err == -EBUSY || err == -ENOMEM)
		conv_attach_show(at);
	if (err)
		pr_err("detach: host%u: %s\n", shost->host_no,
		       err == -ENOENT ? "it is not attached" : why);
	if (at)
		conv_attach_put(at);
	return err;
}

/*
 * Calls @change for a host. References the host's driver meanwhile, because the last reference to a
 * host calls functions of the driver.
 */
static int conv_attach_change(unsigned short number, int (*change)(struct Scsi_Host *shost))
{
	struct Scsi_Host *shost = scsi_host_lookup(number);
	struct module *owner;
	int err = -ENODEV;

	if (!shost)
		return err;
	owner = shost->hostt->module;
	if (!try_module_get(owner)) {
		scsi_host_put(shost);
		return err;
	}
	mutex_lock(&conv_attach_lock);
	err = change(shost);
	mutex_unlock(&conv_attach_lock);
	scsi_host_put(shost);
	module_put(owner);
	return err;
}

static ssize_t conv_attach_store(const char *buf, size_t count, const char *what,
				 int (*change)(struct Scsi_Host *shost))
{
	unsigned short number;
	int err = -ENODEV;

	if (!strncmp(buf, "host", 4) && !kstrtou16(buf + 4, 10, &number))
		err = conv_attach_change(number, change);
	if (err == -ENODEV)
		pr_err("%s: there is no host '%.*s'\n", what,
		       (int)min_t(size_t, strcspn(buf, "\n"), 32), buf);
	return err ?: count;
}

static ssize_t attach_store(struct device_driver *drv, const char *buf, size_t count)
{
	return conv_attach_store(buf, count, "attach", conv_attach_host);
}
DRIVER_ATTR_WO(attach);

static ssize_t detach_store(struct device_driver *drv, const char *buf, size_t count)
{
	return conv_attach_store(buf, count, "detach", conv_detach_host);
}
DRIVER_ATTR_WO(detach);

/* A line for each attached host: its name, its driver, and the commands whose end was not seen. */
static ssize_t attached_show(struct device_driver *drv, char *buf)
{
	const struct conv_attach *at;
	ssize_t len = 0;

	mutex_lock(&conv_lock);
	list_for_each_entry(at, &conv_attached, node) {
		if (!READ_ONCE(at->gone))
			len = conv_list_add(buf, len, "host%u %s %d\n", at->shost->host_no,
					    at->lld.name, atomic_read(&at->smq->attached->unseen));
	}
	mutex_unlock(&conv_lock);
	return len;
}
DRIVER_ATTR_RO(attached);

int conv_attach_init(void)
{
	conv_attach_wq = alloc_workqueue("smq_attach", WQ_UNBOUND, 0);
	if (!conv_attach_wq)
		return -ENOMEM;
	conv_done_tp = smq_tracepoint_find("scsi_dispatch_cmd_done");
	return 0;
}

/* Called when the driver's attributes are gone: detaches all hosts. */
void conv_attach_exit(void)
{
	struct conv_attach *at;
	unsigned short number;

	while (!list_empty(&conv_attached) || atomic_read(&conv_attach_ending)) {
		at = conv_attach_get(NULL);
		if (at) {
			number = at->shost->host_no;
			conv_attach_put(at);
			/*
			 * Try again until its commands end: no code of this module may run later.
			 */
			conv_attach_change(number, conv_detach_host);
		}
		msleep(20);
	}
	destroy_workqueue(conv_attach_wq);
}
