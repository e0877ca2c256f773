// SPDX-License-Identifier: GPL-2.0
/*
 * SG_IO, with a header of interface 3 or 4: sends a command and waits for it.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/bsg.h>
#include <linux/fs.h>
#include <linux/uaccess.h>
#include <scsi/scsi_host.h>
#include <scsi/scsi_ioctl.h>

#include "compat_cmd.h"
#include "sg.h"

/**
 * smqsg_recovered() - waits for the end of error handling
 * @fd: a file of the device
 *
 * Return: 0; -ENXIO: error handling left the device offline; -EINTR: the caller is killed. Process
 * context.
 */
int smqsg_recovered(struct smqsg_fd *fd)
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
