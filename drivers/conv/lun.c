// SPDX-License-Identifier: GPL-2.0
/* Claims, and the upper devices that have them: limits and quirks, queue depth, the end. */
#include <linux/minmax.h>
#include <linux/slab.h>

#include "conv.h"

/*
 * The upper device of a claim, with a reference for put_device(); NULL if there is none. Not
 * scsi_device_lookup(): while this module goes there is no reference to it any more.
 */
struct scsi_device *conv_lun_upper(struct conv_lun *cl)
{
	struct Scsi_Host *shost = cl->host->smq->shost;
	const struct scsi_device *lower = cl->lower;
	struct scsi_device *upper;

	spin_lock_irq(shost->host_lock);
	upper = __scsi_device_lookup(shost, lower->channel, lower->id, lower->lun);
	if (upper && !get_device(&upper->sdev_gendev))
		upper = NULL;
	spin_unlock_irq(shost->host_lock);
	return upper;
}

/* The lower queue_depth has changed: the upper one becomes the same. */
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

/* Has the upper host find a claimed LUN. @ch is kept by the caller. Context: may sleep. */
int conv_lun_add_upper(struct conv_host *ch, const struct scsi_device *lower)
{
	struct Scsi_Host *shost = ch->smq->shost;

	/* A scan goes through all targets up to here. A lower host may say less than it has. */
	shost->max_id = max(shost->max_id, lower->id + 1);
	shost->max_lun = max(shost->max_lun, lower->lun + 1);
	return scsi_add_device(shost, lower->channel, lower->id, lower->lun);
}

static void conv_lun_add(struct work_struct *work)
{
	struct conv_lun *cl = container_of(work, struct conv_lun, add);
	int err = conv_lun_add_upper(cl->host, cl->lower);

	if (err)
		sdev_printk(KERN_ERR, cl->lower, "claimed by a rule, but not found above: %d\n",
			    err);
}

/**
 * conv_lun_create() - a claim that no driver's probe has taken yet
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
	err = scsi_device_get(lower);
	if (err)
		goto free;
	/* It does not suspend by itself: the upper device's commands would not wake it. */
	err = scsi_autopm_get_device(lower);
	if (err)
		goto put;
	/*
	 * The upper host suspends, and is shut down, before the lower device: what is written at
	 * that time (SYNCHRONIZE CACHE) still gets there.
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
	init_waitqueue_head(&cl->idle);
	mutex_lock(&conv_lock);
	ch->users++;
	mutex_unlock(&conv_lock);
	return cl;

put_power:
	scsi_autopm_put_device(lower);
put:
	scsi_device_put(lower);
free:
	kfree(cl);
	return ERR_PTR(err);
}

/* Frees a claim that no upper device has. Context: may sleep, as conv_host_put(). */
void conv_lun_destroy(struct conv_lun *cl)
{
	struct scsi_device *lower = cl->lower;

	device_link_del(cl->link);
	conv_host_put(cl->host);
	kfree(cl);
	scsi_autopm_put_device(lower);
	scsi_device_put(lower);
}

/**
 * conv_lun_end() - ends a claim that the lower device's driver has
 * @cl: the claim; freed
 *
 * The upper device goes, and what it has under way ends first: the lower device and its
 * error handling see to that.
 *
 * Context: the driver's remove.
 */
void conv_lun_end(struct conv_lun *cl)
{
	struct scsi_device *lower = cl->lower;
	struct scsi_device *upper;

	/* No scan finds the LUN any more. */
	mutex_lock(&conv_lock);
	list_del(&cl->node);
	mutex_unlock(&conv_lock);
	cancel_work_sync(&cl->add);
	/* One that is being scanned is found already, and its removal waits for the scan. */
	upper = conv_lun_upper(cl);
	if (upper) {
		scsi_remove_device(upper);
		put_device(&upper->sdev_gendev);
	}
	/* Or it was going by itself. */
	wait_event(cl->idle, !READ_ONCE(cl->uppers));
	cancel_work_sync(&cl->follow);
	/* The last lower request is gone, and the function that ended it has returned. */
	smq_queue_drain(lower->request_queue);
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
			/* What the lower device's driver said before its first INQUIRY. */
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
	/* Under the lock: the claim may be freed once it is seen to be idle. */
	wake_up(&cl->idle);
	mutex_unlock(&conv_lock);
}

/* What the lower driver, and the lists of devices with quirks, say of the device. */
static void conv_copy_quirks(struct scsi_device *upper, const struct scsi_device *lower)
{
	upper->manage_system_start_stop = lower->manage_system_start_stop;
	upper->manage_runtime_start_stop = lower->manage_runtime_start_stop;
	upper->manage_shutdown = lower->manage_shutdown;
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
	upper->eh_timeout = lower->eh_timeout;
}

int conv_lun_configure(struct smq_host *host, struct scsi_device *upper,
		       struct queue_limits *lim)
{
	const struct conv_upper *cu = smq_lun_priv(upper);
	struct scsi_device *lower = cu->cl->lower;
	const struct queue_limits *from = &lower->request_queue->limits;

	/* A command that passes these limits, with its scatterlist, fits the lower device. */
	lim->max_hw_sectors = from->max_hw_sectors;
	lim->max_sectors = min(lim->max_sectors, from->max_hw_sectors);
	lim->max_segments = from->max_segments;
	lim->max_segment_size = from->max_segment_size;
	lim->seg_boundary_mask = from->seg_boundary_mask;
	lim->virt_boundary_mask = from->virt_boundary_mask;
	lim->dma_alignment = from->dma_alignment;

	conv_copy_quirks(upper, lower);
	if (lower->request_queue->rq_timeout)
		blk_queue_rq_timeout(upper->request_queue, lower->request_queue->rq_timeout);
	/*
	 * A lower host without a tag to spare is no full device: what is in flight need not end
	 * before the command is tried again.
	 */
	upper->max_device_blocked = 0;
	smq_change_queue_depth(upper, cu->cl->depth);
	return 0;
}
