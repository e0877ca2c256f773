// SPDX-License-Identifier: GPL-2.0
/* Claims from beginning to end; limits, quirks and queue depth of upper devices. */
#include <linux/minmax.h>
#include <linux/slab.h>

#include "conv.h"

/* Copies the lower device's queue_depth, which has changed, to the upper device. */
static void conv_lun_follow(struct work_struct *work)
{
	struct conv_lun *cl = container_of(work, struct conv_lun, follow);
	struct scsi_device *upper = conv_lun_upper(cl);

	if (!upper)
		return;
	cl->depth = READ_ONCE(cl->lower->queue_depth);
	smq_change_queue_depth(upper, cl->depth);
	put_device(&upper->sdev_gendev);
}

/* Adds a claimed LUN to the upper host. The caller has a reference to @ch. Context: may sleep. */
int conv_lun_add_upper(struct conv_host *ch, const struct scsi_device *lower)
{
	struct Scsi_Host *shost = ch->smq->shost;

	/*
	 * max_id is kept low, because a scan goes through all targets below it. The lower host's
	 * own limits cannot be used: they may be too low for the LUNs that it has. conv_lock
	 * protects both limits, because claims of several LUNs may raise them at the same time.
	 */
	mutex_lock(&conv_lock);
	shost->max_id = max(shost->max_id, lower->id + 1);
	shost->max_lun = max(shost->max_lun, lower->lun + 1);
	mutex_unlock(&conv_lock);
	return scsi_add_device(shost, lower->channel, lower->id, lower->lun);
}

static void conv_lun_add(struct work_struct *work)
{
	struct conv_lun *cl = container_of(work, struct conv_lun, add);
	int err = conv_lun_add_upper(cl->host, cl->lower);

	if (err)
		sdev_printk(KERN_ERR, cl->lower,
			    "claimed by a rule, but adding the upper device failed: %pe\n",
			    ERR_PTR(err));
}

/**
 * conv_lun_create() - allocates a claim, for the driver's probe to take
 * @ch: the upper host; the claim takes a reference of its own
 * @lower: the lower device
 *
 * Context: may sleep. Return: the claim or an ERR_PTR.
 */
struct conv_lun *conv_lun_create(struct conv_host *ch, struct scsi_device *lower)
{
	struct conv_lun *cl = kzalloc(sizeof(*cl), GFP_KERNEL);
	int err;

	if (!cl)
		return ERR_PTR(-ENOMEM);
	err = -ENOMEM;
	cl->sent = alloc_percpu(unsigned int);
	if (!cl->sent)
		goto free;
	err = conv_room_init(cl);
	if (err)
		goto free_sent;
	err = scsi_device_get(lower);
	if (err)
		goto free_room;
	/*
	 * Prevent runtime suspend of the lower device: commands of the upper one would not resume
	 * it.
	 */
	err = scsi_autopm_get_device(lower);
	if (err)
		goto put;
	/*
	 * Make the upper host suspend, and shut down, before the lower device: commands that sd
	 * sends at that time (SYNCHRONIZE CACHE) must still reach the lower device.
	 */
	cl->link = device_link_add(&ch->smq->shost->shost_gendev, &lower->sdev_gendev,
				   DL_FLAG_STATELESS);
	err = -ENOMEM;
	if (!cl->link)
		goto put_power;
	cl->host = ch;
	cl->lower = lower;
	cl->depth = lower->queue_depth;
	INIT_WORK(&cl->add, conv_lun_add);
	INIT_WORK(&cl->follow, conv_lun_follow);
	conv_limits_init(cl);
	conv_kept_init(cl);
	init_waitqueue_head(&cl->idle);
	mutex_lock(&conv_lock);
	ch->users++;
	mutex_unlock(&conv_lock);
	return cl;

put_power:
	scsi_autopm_put_device(lower);
put:
	scsi_device_put(lower);
free_room:
	conv_room_free(cl);
free_sent:
	free_percpu(cl->sent);
free:
	kfree(cl);
	return ERR_PTR(err);
}

/* Frees a claim that no upper device uses. Context: may sleep, as conv_host_put(). */
void conv_lun_destroy(struct conv_lun *cl)
{
	struct scsi_device *lower = cl->lower;

	device_link_del(cl->link);
	conv_host_put(cl->host);
	conv_room_free(cl);
	free_percpu(cl->sent);
	kfree(cl);
	scsi_autopm_put_device(lower);
	scsi_device_put(lower);
}

/**
 * conv_lun_end() - ends a claim that the driver's probe has taken
 * @cl: the claim; freed
 *
 * Removes the upper device. Its commands end first: the lower device, or the lower host's error
 * handling, ends them.
 *
 * Context: the driver's remove.
 */
void conv_lun_end(struct conv_lun *cl)
{
	struct scsi_device *upper;

	/* From here on no scan of the upper host finds the LUN. */
	mutex_lock(&conv_lock);
	list_del(&cl->node);
	mutex_unlock(&conv_lock);
	cancel_work_sync(&cl->add);
	/* Also finds an upper device that a scan is just adding: its removal waits for the scan. */
	upper = conv_lun_upper(cl);
	if (upper) {
		scsi_remove_device(upper);
		put_device(&upper->sdev_gendev);
	}
	/* Wait for upper devices that other tasks are removing. */
	wait_event(cl->idle, !READ_ONCE(cl->uppers));
	cancel_work_sync(&cl->follow);
	conv_limits_exit(cl);
	conv_room_exit(cl);
	conv_kept_exit(cl);
	/* After these two calls no lower request is left, and no conv_end_io() runs. */
	conv_handler_restore(cl);
	synchronize_rcu();
	conv_lun_destroy(cl);
}

int conv_lun_init(struct smq_host *host, struct scsi_device *upper)
{
	struct conv_host *ch = smq_host_priv(host);
	struct conv_upper *cu = smq_lun_priv(upper);
	struct conv_lun *cl;
	int err = -ENXIO;

	mutex_lock(&conv_lock);
	list_for_each_entry(cl, &ch->luns, node) {
		const struct scsi_device *lower = cl->lower;

		if (lower->channel == upper->channel && lower->id == upper->id &&
		    lower->lun == upper->lun) {
			cl->uppers++;
			cu->cl = cl;
			/* The first INQUIRY uses this length, which the lower LLD may have set. */
			upper->inquiry_len = lower->inquiry_len;
			err = 0;
			break;
		}
	}
	mutex_unlock(&conv_lock);
	return err;
}

void conv_lun_exit(struct smq_host *host, struct scsi_device *upper)
{
	struct conv_upper *cu = smq_lun_priv(upper);
	struct conv_lun *cl = cu->cl;

	mutex_lock(&conv_lock);
	WRITE_ONCE(cl->uppers, cl->uppers - 1);
	/*
	 * Once @uppers is 0, conv_lun_end() continues, and frees the claim later. It takes the lock
	 * before that, so the claim still exists while this function holds the lock.
	 */
	wake_up(&cl->idle);
	mutex_unlock(&conv_lock);
}

/*
 * Copies the quirks that the lower LLD and the kernel's lists have set for the lower device.
 * tests/host/test_conv_copies.py lists the members that are not copied, with the reasons.
 */
static void conv_copy_quirks(struct scsi_device *upper, const struct scsi_device *lower)
{
	upper->scsi_level = lower->scsi_level;
	upper->lockable = lower->lockable;
	upper->use_10_for_rw = lower->use_10_for_rw;
	upper->use_10_for_ms = lower->use_10_for_ms;
	upper->set_dbd_for_ms = lower->set_dbd_for_ms;
	upper->no_report_opcodes = lower->no_report_opcodes;
	upper->no_write_same = lower->no_write_same;
	upper->use_16_for_rw = lower->use_16_for_rw;
	upper->skip_ms_page_8 = lower->skip_ms_page_8;
	upper->skip_ms_page_3f = lower->skip_ms_page_3f;
	upper->skip_vpd_pages = lower->skip_vpd_pages;
	upper->try_vpd_pages = lower->try_vpd_pages;
	upper->use_192_bytes_for_3f = lower->use_192_bytes_for_3f;
	upper->no_start_on_add = lower->no_start_on_add;
	upper->allow_restart = lower->allow_restart;
	upper->start_stop_pwr_cond = lower->start_stop_pwr_cond;
	upper->fix_capacity = lower->fix_capacity;
	upper->guess_capacity = lower->guess_capacity;
	upper->retry_hwerror = lower->retry_hwerror;
	upper->last_sector_bug = lower->last_sector_bug;
	upper->no_read_disc_info = lower->no_read_disc_info;
	upper->no_read_capacity_16 = lower->no_read_capacity_16;
	upper->try_rc_10_first = lower->try_rc_10_first;
	upper->security_supported = lower->security_supported;
	upper->wce_default_on = lower->wce_default_on;
	upper->broken_fua = lower->broken_fua;
	upper->unmap_limit_for_ws = lower->unmap_limit_for_ws;
	upper->ignore_media_change = lower->ignore_media_change;
	upper->silence_suspend = lower->silence_suspend;
	upper->no_vpd_size = lower->no_vpd_size;
	upper->eh_timeout = lower->eh_timeout;
	smq_sdev_copy_quirks(upper, lower);
}

int conv_lun_configure(struct smq_host *host, struct scsi_device *upper,
		       struct queue_limits *lim)
{
	const struct conv_upper *cu = smq_lun_priv(upper);
	struct scsi_device *lower = cu->cl->lower;

	/* A command within these limits fits the lower device, and so does its scatterlist. */
	conv_limits_take(cu->cl, lim);
	smq_queue_copy_flags(upper->request_queue, lim, lower->request_queue);
	conv_copy_quirks(upper, lower);
	if (lower->request_queue->rq_timeout)
		blk_queue_rq_timeout(upper->request_queue, lower->request_queue->rq_timeout);
	/*
	 * queue_cmd returns SMQ_DEVICE_BUSY if the lower host has no free tag. This does not mean
	 * that the device is full: the mid-layer may retry before the commands in flight have
	 * ended.
	 */
	upper->max_device_blocked = 0;
	smq_change_queue_depth(upper, cu->cl->depth);
	return 0;
}
