// SPDX-License-Identifier: GPL-2.0
/* Upper hosts: one for each lower host that has claimed LUNs. */
#include <linux/cpumask.h>
#include <linux/minmax.h>
#include <linux/slab.h>
#include <linux/sysfs.h>

#include "attach.h"
#include "conv.h"

/* Limits of smq_host_config.extra: commands beyond the depth, for each hardware queue. */
#define CONV_MIN_EXTRA	32U
#define CONV_MAX_EXTRA	256U

DEFINE_MUTEX(conv_lock);	/* see conv.h */
/*
 * Serialises the creation of upper hosts, so that no lower host gets two. Nests inside a lower
 * device's lock, and outside conv_lock.
 */
static DEFINE_MUTEX(conv_make_lock);
static LIST_HEAD(conv_hosts);	/* all upper hosts; under conv_lock */

/*
 * The upper hosts' scan_mutex needs a lock class of its own, because it nests inside a lower
 * host's: the lower one is held while a lower device is removed, and the removal of the upper
 * device takes the upper one.
 */
static struct lock_class_key conv_scan_key;

/*
 * Copies the lower host's limits to an upper host. conv_lun_configure() copies the limits of a
 * lower device.
 */
static void conv_host_copy(struct Scsi_Host *shost, const struct Scsi_Host *lower)
{
	shost->sg_tablesize = lower->sg_tablesize;
	shost->max_sectors = lower->max_sectors;
	shost->max_segment_size = lower->max_segment_size;
	shost->dma_boundary = lower->dma_boundary;
	shost->virt_boundary_mask = lower->virt_boundary_mask;
	shost->max_cmd_len = min(lower->max_cmd_len, shost->max_cmd_len);
	shost->max_channel = lower->max_channel;
	shost->no_write_same = lower->no_write_same;
	shost->no_scsi2_lun_in_cdb = lower->no_scsi2_lun_in_cdb;
	shost->short_inquiry = lower->short_inquiry;
}

static struct conv_host *conv_host_create(struct Scsi_Host *lower)
{
	const unsigned int depth = clamp(lower->can_queue, 1, CONV_MAX_DEPTH);
	const struct smq_host_config cfg = {
		/*
		 * Each queue has memory for all its commands. Machines often announce many more
		 * possible CPUs than they have. A CPU that is added later shares a queue.
		 */
		.hw_queues = num_present_cpus(),
		.depth = depth,
		.extra = clamp(depth, CONV_MIN_EXTRA, CONV_MAX_EXTRA),
		/* conv_lun_add_upper() raises both for the LUNs. */
		.max_id = 1,
		.max_lun = max(lower->max_lun, 1ULL),
	};
	struct smq_host *host = conv_smq_alloc(&cfg);
	struct conv_host *ch;
	int err;

	if (IS_ERR(host))
		return ERR_CAST(host);
	ch = smq_host_priv(host);
	ch->smq = host;
	ch->lower = lower;
	ch->users = 1;
	INIT_LIST_HEAD(&ch->node);
	INIT_LIST_HEAD(&ch->luns);
	conv_host_copy(host->shost, lower);
	lockdep_set_class(&host->shost->scan_mutex, &conv_scan_key);
	/*
	 * The lower host is not the parent, because it may be removed before the upper host. Set
	 * the parent here: then smq_host_add() uses its second argument only as the device for
	 * which DMA memory is mapped.
	 */
	host->shost->shost_gendev.parent = conv_root;
	get_device(lower->dma_dev);
	get_device(&lower->shost_gendev);
	err = smq_host_add(host, lower->dma_dev);
	if (err) {
		put_device(lower->dma_dev);
		put_device(&lower->shost_gendev);
		smq_host_free(host);
		return ERR_PTR(err);
	}
	mutex_lock(&conv_lock);
	/* An attach looks for the upper host under the same lock. */
	if (conv_attach_is_listed(lower))
		err = -EBUSY;
	else
		list_add_tail(&ch->node, &conv_hosts);
	mutex_unlock(&conv_lock);
	if (!err)
		return ch;
	shost_printk(KERN_ERR, lower, "claim: it is attached, or being attached\n");
	conv_host_put(ch);
	return ERR_PTR(err);
}

/* Returns the upper host of a lower host, with a reference, or NULL if there is none. */
static struct conv_host *conv_host_find(struct Scsi_Host *lower)
{
	struct conv_host *ch, *found = NULL;

	mutex_lock(&conv_lock);
	list_for_each_entry(ch, &conv_hosts, node) {
		if (ch->lower == lower) {
			ch->users++;
			found = ch;
			break;
		}
	}
	mutex_unlock(&conv_lock);
	return found;
}

/* Whether a host has claimed LUNs. Context: conv_lock. */
bool conv_host_is_lower(struct Scsi_Host *shost)
{
	const struct conv_host *ch;

	lockdep_assert_held(&conv_lock);
	list_for_each_entry(ch, &conv_hosts, node) {
		if (ch->lower == shost)
			return true;
	}
	return false;
}

/**
 * conv_host_get() - finds or creates the upper host of a lower host
 * @lower: the lower host; the caller holds a reference to it
 *
 * Context: may sleep. Return: the upper host, with a reference that conv_host_put() drops, or an
 * ERR_PTR.
 */
struct conv_host *conv_host_get(struct Scsi_Host *lower)
{
	struct conv_host *ch;

	mutex_lock(&conv_make_lock);
	ch = conv_host_find(lower);
	if (!ch)
		ch = conv_host_create(lower);
	mutex_unlock(&conv_make_lock);
	return ch;
}

/**
 * conv_host_put() - drops a reference to an upper host
 * @ch: the upper host; it is removed and freed with its last reference
 *
 * Context: may sleep; the lower host's scan_mutex and a lower device's lock may be held.
 */
void conv_host_put(struct conv_host *ch)
{
	struct Scsi_Host *lower = ch->lower;
	struct device *dma_dev = lower->dma_dev;
	bool last;

	mutex_lock(&conv_lock);
	last = !--ch->users;
	if (last)
		list_del(&ch->node);
	mutex_unlock(&conv_lock);
	if (!last)
		return;
	smq_host_remove(ch->smq);
	smq_host_free(ch->smq);
	put_device(&lower->shost_gendev);
	put_device(dma_dev);
}

/*
 * Returns any claimed device, of any host, with a reference that the caller drops by put_device().
 * Returns NULL if no device is claimed.
 */
struct scsi_device *conv_host_any_lower(void)
{
	struct scsi_device *lower = NULL;
	struct conv_host *ch;
	struct conv_lun *cl;

	mutex_lock(&conv_lock);
	list_for_each_entry(ch, &conv_hosts, node) {
		cl = list_first_entry_or_null(&ch->luns, struct conv_lun, node);
		if (cl && get_device(&cl->lower->sdev_gendev)) {
			lower = cl->lower;
			break;
		}
	}
	mutex_unlock(&conv_lock);
	return lower;
}

/*
 * Writes a line for each claim: the addresses of the lower and of the upper device, and the number
 * of commands that the lower device got from other sources than the upper device. Returns the
 * length of the text.
 */
ssize_t conv_host_list(char *buf)
{
	const struct scsi_device *lower;
	struct conv_host *ch;
	struct conv_lun *cl;
	ssize_t len = 0;

	mutex_lock(&conv_lock);
	list_for_each_entry(ch, &conv_hosts, node) {
		list_for_each_entry(cl, &ch->luns, node) {
			lower = cl->lower;
			len = conv_list_add(buf, len, "%s %u:%u:%u:%llu %u\n",
					    dev_name(&lower->sdev_gendev),
					    ch->smq->shost->host_no, lower->channel, lower->id,
					    lower->lun, conv_lun_others(cl));
		}
	}
	mutex_unlock(&conv_lock);
	return len;
}

/*
 * Adds a line to a list that a program reads from sysfs, which has room for one page. The line
 * "..." stands for all lines that do not fit. @len: length of the list so far. Returns its new
 * length.
 */
ssize_t conv_list_add(char *buf, ssize_t len, const char *fmt, ...)
{
	static const char rest[] = "\n...\n";
	const ssize_t room = PAGE_SIZE - sizeof(rest) - len;
	va_list args;
	int more;

	if (len > 4 && !memcmp(buf + len - 5, rest, 5))
		return len;
	va_start(args, fmt);
	more = vsnprintf(buf + len, room, fmt, args);
	va_end(args);
	return len + (more < room ? more : sprintf(buf + len, "%s", rest + 1));
}
