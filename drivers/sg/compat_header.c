// SPDX-License-Identifier: GPL-2.0
/*
 * Headers of interface 3 (struct sg_io_hdr) and 4 (struct sg_io_v4): parses requests, and reports
 * results. Interface 3 is handled as sg handles it, interface 4 as bsg does.
 *
 * Deliberate differences: the filter of CDBs applies to every caller without CAP_SYS_RAWIO, also on
 * files open for writing; SG_FLAG_MMAP_IO is refused, because mmap() of the node maps the array of
 * slots' status; interface 4 takes iovecs, and timeouts below 7 s.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/bsg.h>
#include <linux/jiffies.h>
#include <linux/uaccess.h>
#include <scsi/scsi_ioctl.h>

#include "compat_cmd.h"
#include "sg.h"

/*
 * Most bytes of a CDB in interface 3. A longer CDB gets -EMSGSIZE. A CDB within this limit that is
 * too long for this module gets -EINVAL.
 */
#define SMQSG_V3_MOST_CDB	252

/* Copies the CDB of a command that has @length bytes of data. */
static int smqsg_cdb(struct smqsg_cmd *cmd, const void __user *from, unsigned int len, u32 length,
		     bool out)
{
	if (copy_from_user(cmd->cdb, from, min_t(unsigned int, len, sizeof(cmd->cdb))))
		return -EFAULT;
	if (!smqsg_cmd_allowed(cmd->fd->sdev->type, cmd->cdb, length, out,
			       cmd->fd->file->f_mode & FMODE_WRITE))
		return -EPERM;
	if (len > sizeof(cmd->cdb))
		return -EINVAL;
	cmd->cdb_len = len;
	return 0;
}

/**
 * smqsg_v3_parse() - checks a header of interface 3
 * @cmd: the command, with the header in @cmd->hdr; gets the CDB
 * @xfer: zeroed except for its field copy; gets the request
 *
 * Return: 0; -ENOSYS: another interface; -EMSGSIZE: no CDB, or a CDB below 6 or above 252 bytes;
 * -EINVAL: a CDB of 33 to 252 bytes, 256 MiB of data or more, or SG_FLAG_MMAP_IO; -EPERM: the
 * filter refuses it; -EFAULT.
 */
int smqsg_v3_parse(struct smqsg_cmd *cmd, struct smqsg_xfer *xfer)
{
	const struct sg_io_hdr *hdr = &cmd->hdr;
	int ret;

	if (hdr->interface_id != 'S')
		return -ENOSYS;
	if (hdr->flags & SG_FLAG_MMAP_IO)
		return -EINVAL;
	if (!hdr->cmdp || hdr->cmd_len < 6 || hdr->cmd_len > SMQSG_V3_MOST_CDB)
		return -EMSGSIZE;
	ret = smqsg_cdb(cmd, hdr->cmdp, hdr->cmd_len,
			hdr->dxfer_direction == SG_DXFER_NONE ? 0 : hdr->dxfer_len,
			hdr->dxfer_direction == SG_DXFER_TO_DEV);
	if (ret)
		return ret;
	if (hdr->dxfer_len >= SMQSG_TOO_LONG)
		return -EINVAL;

	xfer->timeout = hdr->timeout ? smqsg_timeout(hdr->timeout) : 0;
	xfer->at_tail = hdr->flags & SG_FLAG_Q_AT_TAIL;
	xfer->copy &= !(hdr->flags & SG_FLAG_DIRECT_IO);
	xfer->out = hdr->dxfer_direction == SG_DXFER_TO_DEV;
	if (hdr->dxfer_direction == SG_DXFER_NONE)
		return 0;
	/* As in sg, any direction other than SG_DXFER_TO_DEV now means data from the device. */
	xfer->addr = hdr->dxferp;
	xfer->len = hdr->dxfer_len;
	xfer->iovec_count = hdr->iovec_count;
	xfer->no_memory = !hdr->dxferp && !hdr->iovec_count;
	return 0;
}

/* Copies the sense data to the caller, if and as far as sg would. */
static int smqsg_v3_sense(struct smqsg_cmd *cmd)
{
	struct sg_io_hdr *hdr = &cmd->hdr;
	unsigned int len;

	hdr->sb_len_wr = 0;
	if (!hdr->mx_sb_len || !hdr->sbp)
		return 0;
	if (!(hdr->masked_status & CHECK_CONDITION) && (cmd->sense[0] & 0x70) != 0x70)
		return 0;
	len = min3(8U + cmd->sense[7], (unsigned int)hdr->mx_sb_len,
		   (unsigned int)sizeof(cmd->sense));
	if (copy_to_user(hdr->sbp, cmd->sense, len))
		return -EFAULT;
	hdr->driver_status = DRIVER_SENSE;
	hdr->sb_len_wr = len;
	return 0;
}

/**
 * smqsg_v3_fetch() - reports the results of a command of interface 3
 * @cmd: the command, ended; no other context uses it
 * @to: where the header is written
 *
 * Return: 0 or -EFAULT.
 */
int smqsg_v3_fetch(struct smqsg_cmd *cmd, void __user *to)
{
	struct sg_io_hdr *hdr = &cmd->hdr;
	int ret;

	hdr->status = cmd->result & 0xff;
	hdr->masked_status = (cmd->result >> 1) & 0x7f;
	hdr->msg_status = 0;
	hdr->host_status = host_byte(cmd->result);
	hdr->driver_status = driver_byte(cmd->result);
	hdr->resid = cmd->resid;
	hdr->duration = cmd->duration;
	hdr->info = 0;
	if ((hdr->flags & SG_FLAG_DIRECT_IO) && cmd->pages.direct)
		hdr->info |= SG_INFO_DIRECT_IO;
	ret = smqsg_v3_sense(cmd);
	if (ret)
		return ret;
	if (hdr->masked_status || hdr->host_status || hdr->driver_status)
		hdr->info |= SG_INFO_CHECK;
	return put_sg_io_hdr(hdr, to);
}

/**
 * smqsg_v4_parse() - checks a header of interface 4
 * @cmd: the command; gets the CDB
 * @hdr: the header
 * @xfer: zeroed except for its field copy; gets the request
 *
 * Return: 0; -EINVAL: another interface or protocol, more than 32 bytes of CDB, or 256 MiB
 * of data or more; -EOPNOTSUPP: data in both directions; -EPERM: the filter refuses it;
 * -EFAULT.
 */
int smqsg_v4_parse(struct smqsg_cmd *cmd, const struct sg_io_v4 *hdr, struct smqsg_xfer *xfer)
{
	int ret;

	if (hdr->guard != 'Q' || hdr->protocol != BSG_PROTOCOL_SCSI ||
	    hdr->subprotocol != BSG_SUB_PROTOCOL_SCSI_CMD)
		return -EINVAL;
	if (hdr->dout_xfer_len && hdr->din_xfer_len)
		return -EOPNOTSUPP;
	if (hdr->request_len > sizeof(cmd->cdb))
		return -EINVAL;
	ret = smqsg_cdb(cmd, u64_to_user_ptr(hdr->request), hdr->request_len,
			hdr->dout_xfer_len ?: hdr->din_xfer_len, hdr->dout_xfer_len);
	if (ret)
		return ret;

	xfer->timeout = smqsg_timeout(hdr->timeout);
	xfer->at_tail = hdr->flags & BSG_FLAG_Q_AT_TAIL;
	xfer->out = hdr->dout_xfer_len;
	if (xfer->out) {
		xfer->addr = u64_to_user_ptr(hdr->dout_xferp);
		xfer->len = hdr->dout_xfer_len;
		xfer->iovec_count = hdr->dout_iovec_count;
	} else {
		xfer->addr = u64_to_user_ptr(hdr->din_xferp);
		xfer->len = hdr->din_xfer_len;
		xfer->iovec_count = hdr->din_iovec_count;
	}
	return xfer->len >= SMQSG_TOO_LONG ? -EINVAL : 0;
}

/**
 * smqsg_v4_fetch() - reports the results of a command of interface 4
 * @cmd: the command, ended; no other context uses it
 * @hdr: the header as it was parsed
 * @to: where the header is written
 *
 * Return: 0 or -EFAULT.
 */
int smqsg_v4_fetch(struct smqsg_cmd *cmd, struct sg_io_v4 *hdr, void __user *to)
{
	unsigned int len;

	hdr->device_status = cmd->result & 0xff;
	hdr->transport_status = host_byte(cmd->result);
	hdr->driver_status = scsi_status_is_check_condition(cmd->result) ? DRIVER_SENSE : 0;
	hdr->info = 0;
	if (hdr->device_status || hdr->transport_status || hdr->driver_status)
		hdr->info |= SG_INFO_CHECK;
	hdr->duration = cmd->duration;
	hdr->response_len = 0;
	if (cmd->sense_len && hdr->response) {
		len = min(hdr->max_response_len, cmd->sense_len);
		if (copy_to_user(u64_to_user_ptr(hdr->response), cmd->sense, len))
			return -EFAULT;
		hdr->response_len = len;
	}
	if (hdr->dout_xfer_len)
		hdr->dout_resid = cmd->resid;
	else
		hdr->din_resid = cmd->resid;
	return copy_to_user(to, hdr, sizeof(*hdr)) ? -EFAULT : 0;
}
