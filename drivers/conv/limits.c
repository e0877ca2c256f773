// SPDX-License-Identifier: GPL-2.0
/*
 * Some lower LLDs (mpi3mr, usb-storage) change the limits of their queue while the device is
 * claimed. A work item then sets the upper queue to the new limits. Each command is checked as long
 * as there may be requests that were built with the former limits. If block I/O is too large, the
 * lower request has only the part that fits, and the upper mid-layer sends the rest. Other commands
 * that are too large end with DID_ERROR. So no request that exceeds the current limits reaches the
 * lower LLD.
 *
 * The upper max_segment_size never becomes smaller. The block layer counts the segments of a
 * request when it builds it, and allocates a scatterlist of that length. It maps the data when the
 * request is issued: with smaller segments it would write beyond the scatterlist. Instead, the
 * largest transfer is limited to one lower segment.
 */
#include <linux/blk-mq.h>
#include <linux/minmax.h>
#include <linux/scatterlist.h>
#include <scsi/scsi_cmnd.h>
#include <scsi/scsi_proto.h>
#include <smq/compat.h>

#include "conv.h"

/*
 * How long commands are checked after a change: long enough for a preempted submitter to send a
 * request that it built with the former limits.
 */
#define CONV_SETTLE	HZ

/* Reads the limits that may change. */
static void conv_limits_read(struct conv_limits *to, const struct queue_limits *from)
{
	to->virt_boundary_mask = READ_ONCE(from->virt_boundary_mask);
	to->max_hw_sectors = READ_ONCE(from->max_hw_sectors);
	to->max_segment_size = READ_ONCE(from->max_segment_size);
	to->max_segments = READ_ONCE(from->max_segments);
}

/* Sets the limits with which conv_limits_changed() compares. */
static void conv_limits_publish(struct conv_lun *cl, const struct conv_limits *limits)
{
	WRITE_ONCE(cl->limits.virt_boundary_mask, limits->virt_boundary_mask);
	WRITE_ONCE(cl->limits.max_hw_sectors, limits->max_hw_sectors);
	WRITE_ONCE(cl->limits.max_segment_size, limits->max_segment_size);
	WRITE_ONCE(cl->limits.max_segments, limits->max_segments);
}

/**
 * conv_limits_take() - copies the lower limits to a new upper device
 * @cl: the claim
 * @lim: limits of the upper queue
 */
void conv_limits_take(struct conv_lun *cl, struct queue_limits *lim)
{
	const struct queue_limits *from = &cl->lower->request_queue->limits;
	struct conv_limits now;

	conv_limits_read(&now, from);
	lim->max_hw_sectors = now.max_hw_sectors;
	lim->max_sectors = min(lim->max_sectors, now.max_hw_sectors);
	lim->max_segments = now.max_segments;
	lim->max_segment_size = now.max_segment_size;
	lim->virt_boundary_mask = now.virt_boundary_mask;
	/* No driver changes these two while a device is in use. */
	lim->seg_boundary_mask = from->seg_boundary_mask;
	lim->dma_alignment = from->dma_alignment;
	cl->told = now;
	conv_limits_publish(cl, &now);
}

/* The largest transfer, in sectors, for an upper queue whose segments may have @size bytes. */
static unsigned int conv_limits_sectors(const struct conv_limits *now, unsigned int size)
{
	if (now->max_segment_size >= size)
		return now->max_hw_sectors;
	return min(now->max_hw_sectors, now->max_segment_size >> SECTOR_SHIFT);
}

/* Whether a queue's limits are at least as strict as @now. */
static bool conv_limits_hold(const struct queue_limits *lim, const struct conv_limits *now)
{
	return lim->max_hw_sectors <= conv_limits_sectors(now, lim->max_segment_size) &&
	       lim->max_segments <= now->max_segments &&
	       (lim->virt_boundary_mask & now->virt_boundary_mask) == now->virt_boundary_mask;
}

/*
 * Sets the upper queue's limits to the lower ones. Runs again after CONV_SETTLE, and then ends the
 * checks of commands.
 */
static void conv_limits_work(struct work_struct *work)
{
	static const struct conv_limits none;
	struct conv_lun *cl = container_of(to_delayed_work(work), struct conv_lun, limits_work);
	struct scsi_device *upper = conv_lun_upper(cl);
	const struct queue_limits *from = &cl->lower->request_queue->limits;
	unsigned int flags, sectors, size;
	struct request_queue *q;
	struct conv_limits now;
	int err;

	if (!upper)
		return;
	q = upper->request_queue;
	conv_limits_read(&now, from);
	if (conv_limits_changed(&cl->told, from)) {
		/*
		 * Check all commands until the new limits are published: requests of the upper
		 * queue may soon exceed the limits that were, which the lower queue may get again.
		 */
		conv_limits_publish(cl, &none);
		size = max(q->limits.max_segment_size, now.max_segment_size);
		sectors = conv_limits_sectors(&now, size);
		err = smq_queue_set_limits(q, sectors, now.max_segments, size,
					   now.virt_boundary_mask);
		if (err)
			sdev_printk(KERN_ERR, upper, "cannot set the lower device's limits: %pe\n",
				    ERR_PTR(err));
		else
			sdev_printk(KERN_INFO, upper,
				    "limits follow the lower device: %u sectors, %u segments\n",
				    sectors, now.max_segments);
		cl->told = now;
		/* A check may have queued the work item meanwhile, to run at once. */
		mod_delayed_work(conv_wq, &cl->limits_work, CONV_SETTLE);
	} else if (conv_limits_hold(&q->limits, &now)) {
		/* The freeze waits for the requests in the queue, because they may be too large. */
		flags = smq_queue_freeze(q);
		conv_limits_publish(cl, &now);
		smq_queue_unfreeze(q, flags);
	}
	put_device(&upper->sdev_gendev);
}

/* Returns how many bytes of a command's data, from the beginning, fit the lower limits. */
static unsigned int conv_limits_fit(const struct conv_limits *now, const struct scsi_cmnd *scmd)
{
	const unsigned int max = min_t(u64, (u64)now->max_hw_sectors << SECTOR_SHIFT, UINT_MAX);
	unsigned int bytes = 0, length, i;
	struct scatterlist *sg;
	unsigned long end = 0;

	for_each_sg(scmd->sdb.table.sgl, sg, scmd->sdb.table.nents, i) {
		if (i == now->max_segments || bytes == max)
			break;
		/*
		 * Stop at a gap: only the first entry may begin off the boundary, and only the
		 * last one may end off the boundary.
		 */
		if (i && (sg->offset | end) & now->virt_boundary_mask)
			break;
		length = min3(sg->length, now->max_segment_size, max - bytes);
		bytes += length;
		if (length < sg->length)
			break;
		end = sg->offset + sg->length;
	}
	return bytes;
}

/*
 * Sets the number of blocks in the CDB of a READ or WRITE that sd may have built. Returns false for
 * other opcodes.
 */
static bool conv_limits_set_blocks(u8 *cdb, unsigned int blocks)
{
	switch (cdb[0]) {
	case READ_6:
	case WRITE_6:
		cdb[4] = blocks;
		return true;
	case READ_10:
	case WRITE_10:
		put_unaligned_be16(blocks, cdb + 7);
		return true;
	case READ_16:
	case WRITE_16:
		put_unaligned_be32(blocks, cdb + 10);
		return true;
	default:
		return false;
	}
}

/**
 * conv_limits_check() - after a change of the limits, decides how much of a command is sent
 * @cl: the claim
 * @scmd: the upper command
 * @excess: set to how many bytes at the end of its data do not fit; unchanged if all fit
 *
 * Context: as queue_cmd. Return: false if the command is too large and cannot be sent in part.
 */
bool conv_limits_check(struct conv_lun *cl, struct scsi_cmnd *scmd, unsigned int *excess)
{
	struct conv_limits now;
	unsigned int bytes;
	u8 cdb[sizeof(scmd->cmnd)];

	queue_delayed_work(conv_wq, &cl->limits_work, 0);
	conv_limits_read(&now, &cl->lower->request_queue->limits);
	bytes = conv_limits_fit(&now, scmd);
	if (bytes == scmd->sdb.length)
		return true;
	bytes = round_down(bytes, scmd->device->sector_size ?: 1);
	memcpy(cdb, scmd->cmnd, sizeof(cdb));
	if (bytes && !blk_rq_is_passthrough(scsi_cmd_to_rq(scmd)) &&
	    conv_limits_set_blocks(cdb, 0)) {
		*excess = scmd->sdb.length - bytes;
		return true;
	}
	dev_err_ratelimited(&scmd->device->sdev_gendev,
			    "command %#04x of %u bytes is beyond the lower device's limits\n",
			    scmd->cmnd[0], scmd->sdb.length);
	return false;
}

/**
 * conv_limits_cut() - removes from the lower command the data that does not fit
 * @lower: the lower command, prepared with all of the data
 * @scmd: the upper command
 * @excess: how many bytes to leave out
 *
 * The upper command owns the scatterlist and may need it again, so conv_limits_mend() later
 * restores the entry that is changed here.
 */
void conv_limits_cut(struct scsi_cmnd *lower, struct scsi_cmnd *scmd, unsigned int excess)
{
	struct conv_cmd *cc = smq_cmd_priv(smq_scmd_to_cmd(scmd));
	unsigned int left = lower->sdb.length - excess, i;
	struct scatterlist *sg;

	lower->sdb.length = left;
	lower->underflow = min(lower->underflow, left);
	scsi_cmd_to_rq(lower)->__data_len = left;
	conv_limits_set_blocks(lower->cmnd, left / scmd->device->sector_size);
	for_each_sg(lower->sdb.table.sgl, sg, lower->sdb.table.nents, i) {
		if (left <= sg->length)
			break;
		left -= sg->length;
	}
	lower->sdb.table.nents = i + 1;
	cc->cut = sg->length - left;
	sg->length = left;
}

/**
 * conv_limits_mend() - restores the scatterlist after a shortened lower command has ended
 * @lower: the lower command
 * @scmd: the upper command; gets a residual that includes the bytes that were left out
 */
void conv_limits_mend(const struct scsi_cmnd *lower, struct scsi_cmnd *scmd)
{
	const struct conv_cmd *cc = smq_cmd_priv(smq_scmd_to_cmd(scmd));
	struct scatterlist *sg = scmd->sdb.table.sgl;
	unsigned int i;

	for (i = 1; i < lower->sdb.table.nents; i++)
		sg = sg_next(sg);
	sg->length += cc->cut;
	scsi_set_resid(scmd, scmd->sdb.length - lower->sdb.length + lower->resid_len);
}

/*
 * Sets the limits with which queue_cmd compares those of the lower queue, for the first commands of
 * the upper device: these come before conv_limits_take().
 */
void conv_limits_init(struct conv_lun *cl)
{
	conv_limits_read(&cl->told, &cl->lower->request_queue->limits);
	cl->limits = cl->told;
	INIT_DELAYED_WORK(&cl->limits_work, conv_limits_work);
}

/* Called after the claim's last command. */
void conv_limits_exit(struct conv_lun *cl)
{
	cancel_delayed_work_sync(&cl->limits_work);
}
