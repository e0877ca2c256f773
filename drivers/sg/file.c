// SPDX-License-Identifier: GPL-2.0
/*
 * Open files of a node.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/mm.h>
#include <linux/module.h>
#include <linux/sched/signal.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <scsi/scsi_eh.h>

#include "batch.h"
#include "data.h"
#include "io.h"
#include "poll.h"
#include "sg.h"

/*
 * Adds the file to the node's list, with a reference to the device. Returns 0 or an errno: -EBUSY:
 * the node is open, and only one file may be; -EAGAIN: the node's own queue is being destroyed.
 */
static int smqsg_attach(struct smqsg_dev *sg, struct smqsg_fd *fd, bool exclusive)
{
	int ret = 0;

	spin_lock(&sg->lock);
	/* If the device has gone, an open need not wait until others have closed the node. */
	if (sg->sdev && (sg->exclusive || (exclusive && !list_empty(&sg->files)))) {
		ret = -EBUSY;
	} else if (sg->sdev && sg->own.ends) {
		ret = -EAGAIN;
	} else if (!sg->sdev || scsi_device_get(sg->sdev)) {
		ret = -ENXIO;
	} else {
		fd->sdev = sg->sdev;
		fd->q = fd->sdev->request_queue;
		fd->own = sg->own.q;
		fd->plain = smq_straight_is_plain(fd->sdev);
		smqsg_poll_open(fd);
		sg->exclusive = exclusive;
		list_add_tail(&fd->sibling, &sg->files);
		smqsg_pool_set_limits(sg);
	}
	spin_unlock(&sg->lock);
	return ret;
}

/* Whether to wait and call smqsg_attach(), which has returned @error, again. */
static bool smqsg_attach_later(int error, unsigned int flags)
{
	return error == -EAGAIN || (error == -EBUSY && !(flags & O_NONBLOCK));
}

/*
 * Calls smqsg_attach(), and waits while another open file excludes this one. Also waits, usually
 * for some milliseconds, while the node's own queue is being destroyed: the block layer then
 * freezes the device's queue, and would keep block I/O out until this file's commands have ended.
 */
static int smqsg_attach_wait(struct smqsg_dev *sg, struct smqsg_fd *fd, unsigned int flags)
{
	DEFINE_WAIT_FUNC(wait, woken_wake_function);
	int ret = smqsg_attach(sg, fd, flags & O_EXCL);

	if (!smqsg_attach_later(ret, flags))
		return ret;
	/* The caller's reference to the cdev keeps @sg allocated. */
	add_wait_queue(&sg->closed, &wait);
	for (;;) {
		ret = smqsg_attach(sg, fd, flags & O_EXCL);
		if (!smqsg_attach_later(ret, flags) || signal_pending(current))
			break;
		wait_woken(&wait, TASK_INTERRUPTIBLE, MAX_SCHEDULE_TIMEOUT);
	}
	remove_wait_queue(&sg->closed, &wait);
	if (smqsg_attach_later(ret, flags))
		return -ERESTARTSYS;
	/* The errno that sg returns if the device is removed while the open waits. */
	return ret == -ENXIO ? -ENODEV : ret;
}

static void smqsg_detach(struct smqsg_dev *sg, struct smqsg_fd *fd)
{
	spin_lock(&sg->lock);
	smqsg_set_shares(fd, false);
	smqsg_count_for_device(sg);
	list_del(&fd->sibling);
	sg->exclusive = false;
	spin_unlock(&sg->lock);
	wake_up_all(&sg->closed);
	smqsg_own_closed(sg);
	scsi_device_put(fd->sdev);
}

static int smqsg_open(struct inode *inode, struct file *file)
{
	struct smqsg_dev *sg = container_of(inode->i_cdev, struct smqsg_dev, cdev);
	struct smqsg_fd *fd;
	int ret;

	if ((file->f_flags & O_EXCL) && (file->f_flags & O_ACCMODE) == O_RDONLY)
		return -EPERM;
	fd = kzalloc(sizeof(*fd), GFP_KERNEL_ACCOUNT);
	if (!fd)
		return -ENOMEM;
	fd->sg = sg;
	fd->file = file;
	mutex_init(&fd->setup);
	smqsg_pool_open(fd);
	smqsg_v3_open(fd);
	init_waitqueue_head(&fd->order.wait);
	xa_init(&fd->buffers);
	fd->pools = alloc_percpu_gfp(struct smqsg_pools, GFP_KERNEL_ACCOUNT);
	ret = fd->pools ? smqsg_depth_open(fd) ?: smqsg_attach_wait(sg, fd, file->f_flags) :
			  -ENOMEM;
	if (ret)
		goto out_free;
	ret = -EBUSY;
	if (READ_ONCE(sg->depth.claimed))
		goto out_detach;
	fd->slots.list = smqsg_bioless_list(fd->sdev);
	ret = scsi_autopm_get_device(fd->sdev);
	if (ret)
		goto out_detach;
	/* As with sg: an open without O_NONBLOCK waits until error handling has ended. */
	if (!(file->f_flags & O_NONBLOCK) && !scsi_block_when_processing_errors(fd->sdev)) {
		ret = -ENXIO;
		goto out_autopm;
	}
	get_device(&sg->dev);
	file->private_data = fd;
	return nonseekable_open(inode, file);

out_autopm:
	scsi_autopm_put_device(fd->sdev);
out_detach:
	smqsg_detach(sg, fd);
out_free:
	smqsg_depth_close(fd);
	free_percpu(fd->pools);
	kfree(fd);
	return ret;
}

static int smqsg_close(struct inode *inode, struct file *file)
{
	struct smqsg_fd *fd = file->private_data;
	struct smqsg_dev *sg = fd->sg;

	smqsg_slots_free(fd);
	smqsg_buffers_free(&fd->buffers);
	smqsg_owner_put(&fd->owner);
	smqsg_batch_pool_exit(fd);
	smqsg_ios_exit(fd);
	free_percpu(fd->pools);
	scsi_autopm_put_device(fd->sdev);
	smqsg_detach(sg, fd);
	/* After the detach: until then a removal may call smqsg_v3_device_removed(). */
	smqsg_v3_release(fd);
	smqsg_depth_close(fd);
	kvfree(fd->order.ended);
	put_device(&sg->dev);
	kfree(fd);
	return 0;
}

/*
 * Called when a descriptor is closed. If the process is ending, starts the scan that ends its
 * waiting commands: otherwise they would wait until the next periodic scan.
 */
static int smqsg_flush(struct file *file, fl_owner_t id)
{
	struct smqsg_fd *fd = file->private_data;

	if ((current->flags & PF_EXITING) && atomic_read(&fd->sg->depth.waiting))
		smqsg_expire_soon(fd->sg);
	return 0;
}

static long smqsg_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct smqsg_fd *fd = file->private_data;
	void __user *user = (void __user *)arg;

	switch (cmd) {
	case SMQ_SG_INFO:
		return smqsg_ioctl_info(fd, user);
	case SMQ_SG_SETUP:
		return smqsg_ioctl_setup(fd, user);
	case SMQ_SG_BUFFER:
		return smqsg_ioctl_buffer(fd, user);
	case SMQ_SG_PREPARE:
		return smqsg_ioctl_prepare(fd, user);
	case SMQ_SG_RUN:
		return smqsg_ioctl_run(fd, user);
	case SMQ_SG_CANCEL:
		return smqsg_ioctl_cancel(fd, user);
	default:
		return smqsg_sg_ioctl(fd, cmd, arg);
	}
}

/* Figures of the file, for /proc/PID/fdinfo/FD. The device may be removed meanwhile. */
static void smqsg_show_fdinfo(struct seq_file *m, struct file *file)
{
	struct smqsg_fd *fd = file->private_data;
	struct smqsg_dev *sg = fd->sg;
	unsigned int waiting, share;

	spin_lock(&sg->lock);
	waiting = fd->wait.queued;
	share = smqsg_share(sg, fd->sdev);
	spin_unlock(&sg->lock);
	seq_printf(m, "slots:\t%u\ninflight:\t%d\nwaiting:\t%u\nshare:\t%u\npool:\t%u\n",
		   smqsg_slots(&fd->slots), max(smqsg_inflight_of(fd), 0), waiting, share,
		   smqsg_pool_idle_of(fd));
}

const struct file_operations smqsg_fops = {
	.owner		= THIS_MODULE,
	.open		= smqsg_open,
	.release	= smqsg_close,
	.flush		= smqsg_flush,
	.read		= smqsg_v3_read,
	.write		= smqsg_v3_write,
	.poll		= smqsg_v3_poll,
	.fasync		= smqsg_v3_fasync,
	.unlocked_ioctl	= smqsg_ioctl,
	.compat_ioctl	= compat_ptr_ioctl,
	.mmap		= smqsg_mmap_status,
	.show_fdinfo	= smqsg_show_fdinfo,
	.uring_cmd	= smqsg_uring_cmd,
	.uring_cmd_iopoll = smqsg_uring_iopoll,
};
