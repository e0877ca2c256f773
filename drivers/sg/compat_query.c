// SPDX-License-Identifier: GPL-2.0
/*
 * The ioctls of /dev/sgN.
 *
 * There is no reserved buffer: data is transferred directly to and from the user's memory. So the
 * size set by SG_SET_RESERVED_SIZE has no effect. It is reported back, because programs use it as
 * the largest transfer.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/blkdev.h>
#include <linux/capability.h>
#include <linux/compat.h>
#include <linux/fs.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <scsi/scsi_host.h>
#include <scsi/scsi_ioctl.h>

#include "compat_cmd.h"
#include "sg.h"

/* The version of sg that is reported: programs require at least 30000. */
#define SMQSG_SG_VERSION	30536
/* Largest value of SG_NEXT_CMD_LEN, which has an effect only on headers of interface 2. */
#define SMQSG_MOST_NEXT_LEN	252

/* Returns the most bytes of one transfer through the block layer, bounded to an int. */
static int smqsg_max_bytes(struct smqsg_fd *fd)
{
	unsigned int sectors = queue_max_sectors(fd->sdev->request_queue);

	return min_t(unsigned int, sectors, INT_MAX >> SECTOR_SHIFT) << SECTOR_SHIFT;
}

static int smqsg_set_timeout(struct smqsg_fd *fd, int value)
{
	s64 most = mult_frac((s64)INT_MAX, USER_HZ, HZ);

	if (value < 0)
		return -EIO;
	WRITE_ONCE(fd->v3.timeout, min3((s64)value, most, (s64)INT_MAX));
	return 0;
}

static int smqsg_set_reserved(struct smqsg_fd *fd, int value)
{
	if (value < 0)
		return -EINVAL;
	value = max_t(int, min(value, smqsg_max_bytes(fd)), PAGE_SIZE);
	WRITE_ONCE(fd->v3.reserved, ALIGN(value, SECTOR_SIZE));
	return 0;
}

/* Handles the ioctls that set something, all of which take an int. */
static int smqsg_set_int(struct smqsg_fd *fd, unsigned int cmd, int __user *arg)
{
	struct smqsg_v3 *v3 = &fd->v3;
	int value;

	if (get_user(value, arg))
		return -EFAULT;
	switch (cmd) {
	case SG_SET_TIMEOUT:
		return smqsg_set_timeout(fd, value);
	case SG_SET_RESERVED_SIZE:
		return smqsg_set_reserved(fd, value);
	case SG_SET_FORCE_PACK_ID:
		WRITE_ONCE(v3->force_pack_id, !!value);
		return 0;
	case SG_SET_COMMAND_Q:
		WRITE_ONCE(v3->cmd_q, !!value);
		return 0;
	case SG_SET_KEEP_ORPHAN:
		/* sg stores this value in a char. */
		WRITE_ONCE(v3->keep_orphan, (char)value);
		return 0;
	case SG_NEXT_CMD_LEN:
		return value > SMQSG_MOST_NEXT_LEN ? -ENOMEM : 0;
	default:	/* SG_SET_DEBUG: there is nothing to turn on */
		return 0;
	}
}

/* Returns how many results can be read. *@pack_id: that of the oldest result, or -1 without one. */
static int smqsg_readable(struct smqsg_v3 *v3, int *pack_id)
{
	struct smqsg_cmd *cmd;
	int count = 0;

	*pack_id = -1;
	spin_lock_irq(&v3->lock);
	list_for_each_entry(cmd, &v3->cmds, entry)
		if (!cmd->sync && cmd->state == SMQSG_ENDED && !count++)
			*pack_id = cmd->hdr.pack_id;
	spin_unlock_irq(&v3->lock);
	return count;
}

/* The ioctls that report an int. Returns false for others. */
static bool smqsg_get_int(struct smqsg_fd *fd, unsigned int cmd, int *value)
{
	struct smqsg_v3 *v3 = &fd->v3;
	int pack_id;

	switch (cmd) {
	case SG_GET_PACK_ID:
		smqsg_readable(v3, value);
		break;
	case SG_GET_NUM_WAITING:
		*value = smqsg_readable(v3, &pack_id);
		break;
	case SG_GET_SG_TABLESIZE:
		*value = queue_max_segments(fd->sdev->request_queue);
		break;
	case SG_GET_RESERVED_SIZE:
		*value = min(READ_ONCE(v3->reserved), smqsg_max_bytes(fd));
		break;
	case SG_GET_COMMAND_Q:
		*value = READ_ONCE(v3->cmd_q);
		break;
	case SG_GET_KEEP_ORPHAN:
		*value = READ_ONCE(v3->keep_orphan);
		break;
	case SG_GET_VERSION_NUM:
		*value = SMQSG_SG_VERSION;
		break;
	case SG_GET_ACCESS_COUNT:
		*value = 1;
		break;
	case BLKSECTGET:
		*value = smqsg_max_bytes(fd);
		break;
	case SG_EMULATED_HOST:
		*value = fd->sdev->host->hostt->emulated;
		break;
	case SG_GET_LOW_DMA:
		*value = 0;
		break;
	default:
		return false;
	}
	return true;
}

static int smqsg_get_scsi_id(struct smqsg_fd *fd, void __user *arg)
{
	struct scsi_device *sdev = fd->sdev;
	struct sg_scsi_id id = {
		.host_no = sdev->host->host_no,
		.channel = sdev->channel,
		.scsi_id = sdev->id,
		.lun = sdev->lun,
		.scsi_type = sdev->type,
		.h_cmd_per_lun = sdev->host->cmd_per_lun,
		.d_queue_depth = sdev->queue_depth,
	};

	return copy_to_user(arg, &id, sizeof(id)) ? -EFAULT : 0;
}

static void smqsg_table_row(struct sg_req_info *row, struct smqsg_cmd *cmd)
{
	/* Pairs with smqsg_cmd_ended(). */
	enum smqsg_cmd_state state = smp_load_acquire(&cmd->state);
	bool running = state == SMQSG_RUNNING;

	row->req_state = running ? 1 : state == SMQSG_ENDED ? 2 : 3;
	row->orphan = smqsg_caller_left(&cmd->caller);
	row->sg_io_owned = cmd->sync;
	row->problem = !running && (cmd->result & 0xffff00fe);
	row->pack_id = cmd->hdr.pack_id;
	row->usr_ptr = cmd->hdr.usr_ptr;
	row->duration = running ? jiffies_to_msecs(jiffies - cmd->start) : cmd->duration;
}

/* struct sg_req_info of 32-bit programs. */
struct smqsg_compat_req_info {
	char req_state;
	char orphan;
	char sg_io_owned;
	char problem;
	s32 pack_id;
	u32 usr_ptr;
	u32 duration;
	s32 unused;
};

static int smqsg_put_table(const struct sg_req_info *table, void __user *arg)
{
	struct smqsg_compat_req_info rows[SG_MAX_QUEUE] = {};
	int i;

	if (!in_compat_syscall())
		return copy_to_user(arg, table, sizeof(*table) * SG_MAX_QUEUE) ? -EFAULT : 0;
	for (i = 0; i < SG_MAX_QUEUE; i++) {
		rows[i].req_state = table[i].req_state;
		rows[i].orphan = table[i].orphan;
		rows[i].sg_io_owned = table[i].sg_io_owned;
		rows[i].problem = table[i].problem;
		rows[i].pack_id = table[i].pack_id;
		rows[i].usr_ptr = (uintptr_t)table[i].usr_ptr;
		rows[i].duration = table[i].duration;
	}
	return copy_to_user(arg, rows, sizeof(rows)) ? -EFAULT : 0;
}

/* Copies the oldest SG_MAX_QUEUE commands to the caller; the table has no room for more. */
static int smqsg_get_table(struct smqsg_fd *fd, void __user *arg)
{
	struct smqsg_v3 *v3 = &fd->v3;
	struct sg_req_info *table;
	struct smqsg_cmd *cmd;
	int ret, i = 0;

	table = kcalloc(SG_MAX_QUEUE, sizeof(*table), GFP_KERNEL);
	if (!table)
		return -ENOMEM;
	spin_lock_irq(&v3->lock);
	list_for_each_entry(cmd, &v3->cmds, entry) {
		if (i == SG_MAX_QUEUE)
			break;
		smqsg_table_row(&table[i++], cmd);
	}
	spin_unlock_irq(&v3->lock);
	ret = smqsg_put_table(table, arg);
	kfree(table);
	return ret;
}

/*
 * SCSI_IOCTL_SEND_COMMAND: the mid-layer reads the command from the caller's memory, checks only
 * its opcode and not the direction of the data, and sends it. A check of the direction here would
 * be useless, because another thread may change that memory before the mid-layer reads it.
 */
static int smqsg_midlayer_command(struct smqsg_fd *fd, unsigned int cmd, void __user *arg)
{
	if (!READ_ONCE(fd->sg->sdev))
		return -ENODEV;
	if (!capable(CAP_SYS_RAWIO))
		return -EPERM;
	return smq_scsi_ioctl(fd->sdev, fd->file->f_mode & FMODE_WRITE, cmd, arg);
}

/*
 * Whether the caller may use an ioctl that may change something: as it may send the command that
 * the mid-layer sends then.
 */
static bool smqsg_midlayer_allowed(struct smqsg_fd *fd, unsigned int cmd)
{
	int opcode = smqsg_ioctl_opcode(cmd);
	u8 cdb[6] = { opcode };

	if ((fd->file->f_flags & O_ACCMODE) != O_RDWR)
		return false;
	if (opcode < 0)
		return capable(CAP_SYS_RAWIO);
	return smqsg_cmd_allowed(fd->sdev->type, cdb, 0, false, fd->file->f_mode & FMODE_WRITE);
}

/* Handles the ioctls that the mid-layer or the LLD answers. */
static int smqsg_midlayer(struct smqsg_fd *fd, unsigned int cmd, void __user *arg)
{
	struct file *file = fd->file;
	int ret;

	switch (cmd) {
	case SCSI_IOCTL_GET_IDLUN:
	case SCSI_IOCTL_GET_BUS_NUMBER:
	case SCSI_IOCTL_PROBE_HOST:
	case SG_GET_TRANSFORM:
	case SG_SCSI_RESET:
		if (!READ_ONCE(fd->sg->sdev))
			return -ENODEV;
		break;
	default:
		if (!smqsg_midlayer_allowed(fd, cmd))
			return -EPERM;
		break;
	}
	ret = scsi_ioctl_block_when_processing_errors(fd->sdev, cmd, file->f_flags & O_NDELAY);
	return ret ?: smq_scsi_ioctl(fd->sdev, file->f_mode & FMODE_WRITE, cmd, arg);
}

/**
 * smqsg_sg_ioctl() - the ioctls of /dev/sgN
 * @fd: the file
 * @cmd: the request
 * @argument: its argument
 *
 * For a 32-bit program the caller has converted @argument, as compat_ptr_ioctl() does. All ioctls
 * but SG_IO behave as with sg, with two exceptions. Those that send a command need the right to
 * send it; SCSI_IOCTL_SEND_COMMAND, CDROM_SEND_PACKET and those of the LLD need CAP_SYS_RAWIO. The
 * requests of blktrace are unknown: with sg, a process that may open the node could trace the
 * commands of all processes, and allocate as much memory for the traces as it asks for. README.md
 * says what to use instead.
 *
 * Return: as sg for this request; SG_GET_TIMEOUT returns the value itself.
 */
long smqsg_sg_ioctl(struct smqsg_fd *fd, unsigned int cmd, unsigned long argument)
{
	void __user *arg = (void __user *)argument;
	int value;

	switch (cmd) {
	case SG_IO:
		return smqsg_sg_io(fd, arg);
	case SG_SET_TIMEOUT:
	case SG_SET_RESERVED_SIZE:
	case SG_SET_FORCE_PACK_ID:
	case SG_SET_COMMAND_Q:
	case SG_SET_KEEP_ORPHAN:
	case SG_NEXT_CMD_LEN:
	case SG_SET_DEBUG:
		return smqsg_set_int(fd, cmd, arg);
	case SG_GET_TIMEOUT:
		return READ_ONCE(fd->v3.timeout);
	case SG_SET_FORCE_LOW_DMA:
		return 0;
	case SG_GET_REQUEST_TABLE:
		return smqsg_get_table(fd, arg);
	case SG_GET_SCSI_ID:
		if (!READ_ONCE(fd->sg->sdev))
			return -ENODEV;
		return smqsg_get_scsi_id(fd, arg);
	case SCSI_IOCTL_SEND_COMMAND:
		return smqsg_midlayer_command(fd, cmd, arg);
	case SG_EMULATED_HOST:
		if (!READ_ONCE(fd->sg->sdev))
			return -ENODEV;
		fallthrough;
	default:
		if (smqsg_get_int(fd, cmd, &value))
			return put_user(value, (int __user *)arg);
		return smqsg_midlayer(fd, cmd, arg);
	}
}
