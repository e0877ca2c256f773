// SPDX-License-Identifier: GPL-2.0
/*
 * SMQ_SG_CANCEL: ends the waiting of commands.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/bitops.h>
#include <linux/nospec.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "cancel.h"
#include "expire.h"
#include "refuse.h"
#include "sg.h"

static int smqsg_cancel_check(struct smqsg_fd *fd, struct smq_sg_cancel *arg)
{
	u32 slots = smqsg_slots(&fd->slots);
	u32 *field = &arg->field;

	*field = SMQ_SG_FIELD_NONE;
	if (memchr_inv(arg->reserved, 0, sizeof(arg->reserved)))
		return smqsg_refuse(field, RESERVED, -EINVAL, "cancel: reserved must be 0");
	if (arg->flags & ~SMQ_SG_CANCEL_SLOT)
		return smqsg_refuse(field, FLAGS, -EINVAL,
				    "cancel flags %#x: SMQ_SG_CANCEL_SLOT or 0", arg->flags);
	if (!arg->flags && arg->slot)
		return smqsg_refuse(field, SLOT, -EINVAL,
				    "cancel slot %u: must be 0 without SMQ_SG_CANCEL_SLOT",
				    arg->slot);
	if (arg->flags && arg->slot >= slots)
		return smqsg_refuse(field, SLOT, -EINVAL, "cancel slot %u: the file has %u slots",
				    arg->slot, slots);
	/*
	 * Only the slots' owner may cancel. Without an owner the file has only ad hoc commands,
	 * which any user of the file may cancel.
	 */
	return READ_ONCE(fd->owner.cred) && !smqsg_may_run(&fd->owner) ? -EPERM : 0;
}

static int smqsg_cancel_slot(struct smqsg_fd *fd, struct smq_sg_cancel *arg)
{
	u32 slot = array_index_nospec(arg->slot, smqsg_slots(&fd->slots));

	arg->cancelled = smqsg_cancel(fd, slot);
	if (arg->cancelled)
		return 0;
	return READ_ONCE(fd->slots.busy[slot]) ? -EALREADY : -ENOENT;
}

/**
 * smqsg_ioctl_cancel() - SMQ_SG_CANCEL
 * @fd: the file
 * @user: struct smq_sg_cancel
 *
 * Return: see struct smq_sg_cancel. May sleep.
 */
long smqsg_ioctl_cancel(struct smqsg_fd *fd, void __user *user)
{
	struct smq_sg_cancel __user *out = user;
	struct smq_sg_cancel arg;
	long ret;

	if (copy_from_user(&arg, user, sizeof(arg)))
		return -EFAULT;
	arg.cancelled = 0;
	ret = smqsg_cancel_check(fd, &arg);
	if (!ret && arg.flags)
		ret = smqsg_cancel_slot(fd, &arg);
	else if (!ret)
		arg.cancelled = smqsg_cancel(fd, SMQSG_NO_SLOT);
	if (put_user(arg.cancelled, &out->cancelled) || (ret && put_user(arg.field, &out->field)))
		return -EFAULT;
	return ret;
}
