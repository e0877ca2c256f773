// SPDX-License-Identifier: GPL-2.0
/*
 * SG_IO, with a header of interface 3 or 4: sends a command and waits for it; write(), read() and
 * poll(), with headers of interface 3.
 *
 * Headers of interface 1 and 2, struct sg_header, are refused with ENOSYS, as sg refuses headers of
 * unknown interfaces. A read() gets the whole header or fails: if its buffer is too short, the
 * result stays for the next read().
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/bsg.h>
#include <linux/compat.h>
#include <linux/cred.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/poll.h>
#include <linux/sched/signal.h>
#include <linux/uaccess.h>
#include <scsi/scsi_host.h>
#include <scsi/scsi_ioctl.h>

#include "compat_cmd.h"
#include "io.h"
#include "place.h"
#include "sg.h"

/*
 * Waits for the end of error handling. Returns 0; -ENXIO: error handling left the device offline;
 * -EINTR: the caller is killed.
 */
static int smqsg_recovered(struct smqsg_fd *fd)
{
	struct Scsi_Host *host = fd->sdev->host;

	if (wait_event_killable(host->host_wait, !scsi_host_in_recovery(host)))
		return -EINTR;
	return scsi_device_online(fd->sdev) ? 0 : -ENXIO;
}

/*
 * Sends a command and waits for its end. Returns 0: the command has ended, and is in no list; 1:
 * the calling task was killed, and must not use the command any more; else an errno: the command
 * was not sent, and is in no list.
 */
static int smqsg_cmd_run(struct smqsg_cmd *cmd, const struct smqsg_xfer *xfer)
{
	int ret;

	ret = smqsg_cmd_get_data(cmd, xfer) ?: smqsg_cmd_send(cmd, xfer, smqsg_cmd_reserve);
	if (ret)
		smqsg_data_unsent(&cmd->io->data);
	else if (smqsg_cmd_wait(cmd))
		return 1;
	smqsg_cmd_leave(cmd);
	return ret;
}

static int smqsg_sg_io_v3(struct smqsg_fd *fd, void __user *arg)
{
	struct smqsg_xfer xfer = { .copy = true };
	struct smqsg_cmd *cmd;
	int ret, err;

	if (!READ_ONCE(fd->sg->sdev))
		return -ENODEV;
	ret = smqsg_recovered(fd);
	if (ret)
		return ret;
	cmd = smqsg_cmd_alloc(fd, true);
	if (!cmd)
		return -ENOMEM;
	WRITE_ONCE(fd->v3.cmd_q, 1);
	ret = get_sg_io_hdr(&cmd->hdr, arg) ? -EFAULT : smqsg_v3_parse(cmd, &xfer);
	if (!ret)
		ret = smqsg_cmd_enter(cmd);
	if (ret)
		goto out_free;
	ret = smqsg_cmd_run(cmd, &xfer);
	if (ret > 0)
		return -EINTR;
	if (!ret)
		ret = smqsg_v3_fetch(cmd, arg);
out_free:
	err = smqsg_cmd_free(cmd);
	return ret ?: err;
}

static int smqsg_sg_io_v4(struct smqsg_fd *fd, void __user *arg)
{
	struct smqsg_xfer xfer = { .copy = true };
	struct sg_io_v4 hdr;
	struct smqsg_cmd *cmd;
	int ret, err;

	if (copy_from_user(&hdr, arg, sizeof(hdr)))
		return -EFAULT;
	cmd = smqsg_cmd_alloc(fd, true);
	if (!cmd)
		return -ENOMEM;
	cmd->v4 = true;
	ret = smqsg_v4_parse(cmd, &hdr, &xfer);
	if (ret)
		goto out_free;
	ret = smqsg_cmd_run(cmd, &xfer);
	if (ret > 0)
		return -EINTR;
	if (!ret)
		ret = smqsg_v4_fetch(cmd, &hdr, arg);
out_free:
	err = smqsg_cmd_free(cmd);
	return ret ?: err;
}

/**
 * smqsg_sg_io() - ioctl SG_IO
 * @fd: the file
 * @arg: address of a struct sg_io_hdr or sg_io_v4
 *
 * Waits for a place within the device's depth, at most for the command's timeout, and then for the
 * command's end. Of all signals only a fatal one ends the wait.
 *
 * Return: 0, and the header says how the command ended; or an errno, and the command was not sent:
 * an errno of smqsg_v3_parse() or smqsg_v4_parse(); -EDOM: too many commands in this file;
 * -ETIMEDOUT: the command waited for its place longer than its timeout; -ECANCELED: SMQ_SG_CANCEL
 * ended its waiting; -EAGAIN: too many commands wait already; -ENXIO: the device is offline
 * (interface 3; with interface 4 the header says so); -ENODEV: the device is gone; -ENOMEM. There
 * are two errors with which the command may have been sent: -EINTR, when the caller was killed, and
 * -EFAULT, when the results could not be written.
 */
long smqsg_sg_io(struct smqsg_fd *fd, void __user *arg)
{
	int id;

	if (get_user(id, (int __user *)arg))
		return -EFAULT;
	return id == 'Q' ? smqsg_sg_io_v4(fd, arg) : smqsg_sg_io_v3(fd, arg);
}

/*
 * Whether the caller has other credentials than the opener. Such a caller is refused, because the
 * header contains addresses that write() and read() access: a process could open the file and trick
 * a more privileged program into writing to it or reading it.
 */
static bool smqsg_v3_other(struct smqsg_fd *fd)
{
	if (fd->file->f_cred == current_real_cred())
		return false;
	pr_warn_once("%s[%d] has other credentials than those that opened the file: read() and write() are refused\n",
		     current->comm, task_tgid_vnr(current));
	return true;
}

static size_t smqsg_v3_size(void)
{
	return in_compat_syscall() ? sizeof(struct compat_sg_io_hdr) : sizeof(struct sg_io_hdr);
}

/* Counts a command of write() as running, until smqsg_cmd_ended() or smqsg_v3_undo(). */
static void smqsg_v3_begin(struct smqsg_cmd *cmd)
{
	struct smqsg_v3 *v3 = &cmd->fd->v3;

	cmd->caller.file = get_file(cmd->fd->file);
	spin_lock_irq(&v3->lock);
	v3->running++;
	spin_unlock_irq(&v3->lock);
}

static void smqsg_v3_undo(struct smqsg_cmd *cmd)
{
	struct smqsg_v3 *v3 = &cmd->fd->v3;

	spin_lock_irq(&v3->lock);
	if (!--v3->running)
		v3->full = false;
	spin_unlock_irq(&v3->lock);
	wake_up_interruptible_poll(&v3->wait, EPOLLOUT | EPOLLWRNORM);
	/* The caller's descriptor keeps the file open. */
	fput(cmd->caller.file);
	cmd->caller.file = NULL;
}

/*
 * Reserves a place for a command. A caller that must not block gets -EAGAIN, and poll() reports
 * when to try again. But poll() can report only the end of a command of this file. So while no
 * other command of this file runs, even such a caller waits here; with sg it would wait for a tag.
 */
static int smqsg_v3_reserve(struct smqsg_fd *fd, const struct smqsg_xfer *xfer)
{
	struct smqsg_v3 *v3 = &fd->v3;
	bool later = false;

	if (smqsg_reserve(fd))
		return 0;
	if (fd->file->f_flags & O_NONBLOCK) {
		spin_lock_irq(&v3->lock);
		later = v3->running > 1;
		v3->full = later;
		spin_unlock_irq(&v3->lock);
	}
	return later ? smqsg_wait_refused(fd) : smqsg_cmd_reserve(fd, xfer);
}

static int smqsg_v3_send(struct smqsg_cmd *cmd, const char __user *buf)
{
	struct smqsg_xfer xfer = {};
	int ret;

	if (get_sg_io_hdr(&cmd->hdr, buf))
		return -EFAULT;
	ret = smqsg_v3_parse(cmd, &xfer);
	if (ret)
		return ret;
	ret = smqsg_cmd_enter(cmd);
	if (ret)
		return ret;
	ret = smqsg_cmd_get_data(cmd, &xfer);
	if (ret)
		goto out_leave;
	smqsg_v3_begin(cmd);
	ret = smqsg_cmd_send(cmd, &xfer, smqsg_v3_reserve);
	if (!ret)
		return 0;
	smqsg_v3_undo(cmd);

out_leave:
	smqsg_data_unsent(&cmd->io->data);
	smqsg_cmd_leave(cmd);
	/* A reader may be waiting for only this command: wake it, in case the device has gone. */
	wake_up_interruptible_poll(&cmd->fd->v3.wait, EPOLLIN | EPOLLRDNORM);
	return ret;
}

/**
 * smqsg_v3_write() - write(): sends a command
 * @file: the file
 * @buf: a struct sg_io_hdr
 * @count: bytes
 * @pos: not used
 *
 * Return: @count; or an errno, and the command was not sent. Errors are those of smqsg_sg_io(), and
 * -EPERM: the credentials are not those that opened the file; -EIO: @count is too low for any
 * header; -EINVAL: @count is too low for a header of interface 3; -EAGAIN: with O_NONBLOCK, there
 * is no place within the device's depth, and poll() reports when there may be one.
 */
ssize_t smqsg_v3_write(struct file *file, const char __user *buf, size_t count, loff_t *pos)
{
	struct smqsg_fd *fd = file->private_data;
	const struct sg_header __user *old = (const void __user *)buf;
	struct smqsg_cmd *cmd;
	int direction, ret;

	if (smqsg_v3_other(fd))
		return -EPERM;
	if (!READ_ONCE(fd->sg->sdev))
		return -ENODEV;
	if (!(file->f_flags & O_NONBLOCK)) {
		ret = smqsg_recovered(fd);
		if (ret)
			return ret;
	}
	if (count < sizeof(*old))
		return -EIO;
	/* Here a header of interface 3 has the direction, below 0; an older one has a length. */
	if (get_user(direction, &old->reply_len))
		return -EFAULT;
	if (direction >= 0)
		return -ENOSYS;
	if (count < smqsg_v3_size())
		return -EINVAL;
	WRITE_ONCE(fd->v3.written, true);
	WRITE_ONCE(fd->v3.cmd_q, 1);
	cmd = smqsg_cmd_alloc(fd, false);
	if (!cmd)
		return -ENOMEM;
	ret = smqsg_v3_send(cmd, buf);
	if (ret) {
		smqsg_cmd_free(cmd);
		return ret;
	}
	return count;
}

/* Gets the pack_id that read() is to look for; its offset depends on the header's interface. */
static int smqsg_v3_pack_id(const char __user *buf, size_t count, int *pack_id)
{
	const struct sg_header __user *old = (const void __user *)buf;
	int direction;

	*pack_id = -1;
	if (count < sizeof(*old))
		return 0;
	if (get_user(direction, &old->reply_len))
		return -EFAULT;
	if (direction >= 0)
		return get_user(*pack_id, &old->pack_id);
	if (count < smqsg_v3_size())
		return 0;
	buf += in_compat_syscall() ? offsetof(struct compat_sg_io_hdr, pack_id) :
				     offsetof(struct sg_io_hdr, pack_id);
	return get_user(*pack_id, (const int __user *)buf);
}

/* Takes the oldest result. Returns NULL if there is none; @busy tells whether one will come. */
static struct smqsg_cmd *smqsg_v3_take(struct smqsg_v3 *v3, int pack_id, bool *busy)
{
	struct smqsg_cmd *cmd, *found = NULL;

	*busy = false;
	spin_lock_irq(&v3->lock);
	list_for_each_entry(cmd, &v3->cmds, entry) {
		if (cmd->sync || (pack_id != -1 && cmd->hdr.pack_id != pack_id))
			continue;
		if (cmd->state == SMQSG_ENDED) {
			cmd->state = SMQSG_READING;
			found = cmd;
			break;
		}
		*busy |= cmd->state == SMQSG_RUNNING;
	}
	spin_unlock_irq(&v3->lock);
	return found;
}

/* Whether read() need not wait: there is a result, or the device is gone and none will come. */
static bool smqsg_v3_ready(struct smqsg_fd *fd, int pack_id, struct smqsg_cmd **cmd)
{
	bool busy;

	*cmd = smqsg_v3_take(&fd->v3, pack_id, &busy);
	return *cmd || (!busy && !READ_ONCE(fd->sg->sdev));
}

/* Gives back a result that smqsg_v3_take() has taken. */
static void smqsg_v3_untake(struct smqsg_v3 *v3, struct smqsg_cmd *cmd)
{
	spin_lock_irq(&v3->lock);
	cmd->state = SMQSG_ENDED;
	spin_unlock_irq(&v3->lock);
	wake_up_interruptible_poll(&v3->wait, EPOLLIN | EPOLLRDNORM);
}

/**
 * smqsg_v3_read() - read(): fetches the result of a command
 * @file: the file
 * @buf: where the struct sg_io_hdr goes; with SG_SET_FORCE_PACK_ID its pack_id selects the result
 * @count: bytes
 * @pos: not used
 *
 * A program that takes the node for an ordinary file, as dd and sg_dd do, gets -ENODATA rather than
 * wait for a result for ever.
 *
 * Return: @count; -EPERM: the credentials are not those that opened the file; -EAGAIN: with
 * O_NONBLOCK, there is no result yet; -ENODATA: without O_NONBLOCK, there has been no write() from
 * which a result may come; -ENODEV: the device is gone, and no result will come;
 * -EINVAL: @count is less than a header; -EFAULT: header, sense or data could not be written, and
 * the result is lost.
 */
ssize_t smqsg_v3_read(struct file *file, char __user *buf, size_t count, loff_t *pos)
{
	struct smqsg_fd *fd = file->private_data;
	struct smqsg_v3 *v3 = &fd->v3;
	struct smqsg_cmd *cmd;
	int pack_id = -1, ret = 0, err;

	if (smqsg_v3_other(fd))
		return -EPERM;
	if (READ_ONCE(v3->force_pack_id))
		ret = smqsg_v3_pack_id(buf, count, &pack_id);
	if (ret)
		return ret;
	if (!smqsg_v3_ready(fd, pack_id, &cmd)) {
		if (file->f_flags & O_NONBLOCK)
			return -EAGAIN;
		if (!READ_ONCE(v3->written) && !READ_ONCE(v3->keep_orphan))
			return -ENODATA;
		ret = wait_event_interruptible(v3->wait, smqsg_v3_ready(fd, pack_id, &cmd));
	}
	if (!cmd)
		return ret ?: -ENODEV;
	if (count < smqsg_v3_size()) {
		smqsg_v3_untake(v3, cmd);
		return -EINVAL;
	}
	ret = smqsg_v3_fetch(cmd, buf);
	smqsg_cmd_leave(cmd);
	err = smqsg_cmd_free(cmd);
	return ret ?: err ?: count;
}

/**
 * smqsg_v3_poll() - poll()
 * @file: the file
 * @wait: poll()'s table
 *
 * Return: EPOLLIN: there is a result for read(); EPOLLOUT: write() takes a command; EPOLLHUP: the
 * device is gone.
 */
__poll_t smqsg_v3_poll(struct file *file, poll_table *wait)
{
	struct smqsg_fd *fd = file->private_data;
	struct smqsg_v3 *v3 = &fd->v3;
	struct smqsg_cmd *cmd;
	__poll_t mask = 0;
	bool writable;

	poll_wait(file, &v3->wait, wait);
	spin_lock_irq(&v3->lock);
	list_for_each_entry(cmd, &v3->cmds, entry) {
		if (!cmd->sync && cmd->state == SMQSG_ENDED) {
			mask |= EPOLLIN | EPOLLRDNORM;
			break;
		}
	}
	writable = !v3->full && v3->nr < (READ_ONCE(v3->cmd_q) ? SMQSG_MOST_V3 : 1);
	spin_unlock_irq(&v3->lock);
	if (!READ_ONCE(fd->sg->sdev))
		return mask | EPOLLHUP;
	return writable ? mask | EPOLLOUT | EPOLLWRNORM : mask;
}

/**
 * smqsg_v3_fasync() - O_ASYNC: sends SIGIO when there is a result
 * @descriptor: a descriptor of the file
 * @file: the file
 * @on: whether SIGIO is wanted
 *
 * Return: as fasync_helper().
 */
int smqsg_v3_fasync(int descriptor, struct file *file, int on)
{
	struct smqsg_fd *fd = file->private_data;

	return fasync_helper(descriptor, file, on, &fd->v3.async);
}
