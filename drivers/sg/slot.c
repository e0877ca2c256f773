// SPDX-License-Identifier: GPL-2.0
/*
 * Setting slots up, and filling them.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/blkdev.h>
#include <linux/mm.h>
#include <linux/shm.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#include "cdb.h"
#include "held.h"
#include "sg.h"
#include "slot.h"

/* Where the status array, and nothing else, is mapped. */
#define SMQSG_STATUS_OFFSET	0
/* Slots copied from the caller at a time. */
#define SMQSG_COPY		32

static unsigned int smqsg_alignment(struct request_queue *q)
{
	unsigned int alignment = 1;

	/* blk_rq_aligned() knows where the limits are in each kernel. */
	while (alignment < PAGE_SIZE && !blk_rq_aligned(q, alignment, alignment))
		alignment <<= 1;
	return alignment;
}

/**
 * smqsg_ioctl_info() - SMQ_SG_INFO
 * @fd: the file
 * @user: struct smq_sg_info
 *
 * Return: 0 or -EFAULT. May sleep.
 */
long smqsg_ioctl_info(struct smqsg_fd *fd, void __user *user)
{
	struct request_queue *q = fd->q;
	unsigned int slots = smqsg_slots(&fd->slots);
	struct smq_sg_info info = {
		.version = SMQ_SG_VERSION,
		.slots = slots,
		.depth = READ_ONCE(fd->sdev->queue_depth),
		.max_transfer = smqsg_max_transfer(q),
		.max_segments = queue_max_segments(q),
		.alignment = smqsg_alignment(q),
		.slot_bytes = sizeof(struct smqsg_slot) +
			(slots ? fd->slots.status_stride : sizeof(struct smq_sg_status)),
		.max_waiting = SMQSG_MOST_WAITING,
		.max_held = slots ? READ_ONCE(fd->held.limit) : 0,
	};

	return copy_to_user(user, &info, sizeof(info)) ? -EFAULT : 0;
}

/*
 * Memory for the status array, zeroed. All that a file's slots need is charged to the caller's
 * memory cgroup, whose limit bounds it; vmalloc_user() would charge nothing, but it is needed where
 * data caches of user and kernel addresses differ.
 */
static void *smqsg_status_alloc(size_t size)
{
	if (SHMLBA > PAGE_SIZE)
		return vmalloc_user(size);
	return __vmalloc(size, GFP_KERNEL_ACCOUNT | __GFP_ZERO);
}

/* Bytes of the status array: whole pages, all of which may be mapped. */
static size_t smqsg_status_size(u32 slots, unsigned int stride)
{
	return PAGE_ALIGN((size_t)slots * stride);
}

static int smqsg_slots_alloc(struct smqsg_fd *fd, u32 count)
{
	fd->slots.array = kvcalloc(count, sizeof(*fd->slots.array), GFP_KERNEL_ACCOUNT);
	/* In cache lines of its own: each command writes it, on its file's CPUs. */
	fd->slots.busy = kvzalloc(ALIGN(BITS_TO_LONGS(count) * sizeof(long), SMP_CACHE_BYTES),
				  GFP_KERNEL_ACCOUNT);
	fd->slots.status = smqsg_status_alloc(smqsg_status_size(count, fd->slots.status_stride));
	if (fd->slots.array && fd->slots.busy && fd->slots.status)
		return 0;
	smqsg_slots_free(fd);
	return -ENOMEM;
}

/**
 * smqsg_slots_free() - frees the slots of a file, when it is released
 * @fd: the file
 *
 * May sleep.
 */
void smqsg_slots_free(struct smqsg_fd *fd)
{
	kvfree(fd->slots.array);
	kvfree(fd->slots.busy);
	vfree(fd->slots.status);
	fd->slots.array = NULL;
	fd->slots.busy = NULL;
	fd->slots.status = NULL;
}

/**
 * smqsg_ioctl_setup() - SMQ_SG_SETUP
 * @fd: the file
 * @user: struct smq_sg_setup
 *
 * Return: as told there. May sleep.
 */
long smqsg_ioctl_setup(struct smqsg_fd *fd, void __user *user)
{
	struct smq_sg_setup arg;
	long ret;

	if (copy_from_user(&arg, user, sizeof(arg)))
		return -EFAULT;
	if (!arg.slots || arg.slots > SMQ_SG_MAX_SLOTS) {
		pr_err_ratelimited("setup slots %u: 1 to %u\n", arg.slots, SMQ_SG_MAX_SLOTS);
		return -EINVAL;
	}
	if (arg.sense_size > SMQ_SG_MAX_SENSE || arg.sense_size % 8) {
		pr_err_ratelimited("setup sense_size %u: a multiple of 8 up to %u\n",
				   arg.sense_size, SMQ_SG_MAX_SENSE);
		return -EINVAL;
	}
	if (arg.held_share > 100) {
		pr_err_ratelimited("setup held_share %u: 0 to 100 percent\n", arg.held_share);
		return -EINVAL;
	}
	if (arg.flags || arg.reserved0 ||
	    memchr_inv(arg.reserved, 0, sizeof(arg.reserved))) {
		pr_err_ratelimited("setup: reserved fields and flags must be 0\n");
		return -EINVAL;
	}
	if (mutex_lock_killable(&fd->setup))
		return -EINTR;
	ret = -EBUSY;
	if (fd->slots.nr)
		goto out;
	fd->slots.sense_size = arg.sense_size;
	fd->slots.status_stride = sizeof(struct smq_sg_status) + arg.sense_size;
	ret = smqsg_slots_alloc(fd, arg.slots);
	if (ret)
		goto out;
	ret = smqsg_held_setup(fd, arg.slots, arg.held_share);
	if (ret) {
		smqsg_slots_free(fd);
		goto out;
	}
	arg.status_stride = fd->slots.status_stride;
	arg.status_size = smqsg_status_size(arg.slots, fd->slots.status_stride);
	arg.status_offset = SMQSG_STATUS_OFFSET;
	if (copy_to_user(user, &arg, sizeof(arg))) {
		smqsg_held_close(fd);
		smqsg_slots_free(fd);
		ret = -EFAULT;
		goto out;
	}
	/* Publishes the arrays. */
	smp_store_release(&fd->slots.nr, arg.slots);
out:
	mutex_unlock(&fd->setup);
	return ret;
}

/**
 * smqsg_mmap_status() - maps the status array
 * @fd: the file
 * @vma: where to; read-only
 *
 * Return: 0; -ENXIO before SMQ_SG_SETUP; -EACCES: not read-only, or private;
 * -EINVAL: another offset or more than there is. May sleep.
 */
int smqsg_mmap_status(struct smqsg_fd *fd, struct vm_area_struct *vma)
{
	u32 slots = smqsg_slots(&fd->slots);
	unsigned long at, size = vma->vm_end - vma->vm_start;
	unsigned long first = vma->vm_pgoff << PAGE_SHIFT;
	size_t whole;
	int ret = 0;

	if (!slots)
		return -ENXIO;
	/* A shared mapping of a file open for reading alone is VM_MAYSHARE, not VM_SHARED. */
	if ((vma->vm_flags & VM_WRITE) || !(vma->vm_flags & VM_MAYSHARE))
		return -EACCES;
	whole = smqsg_status_size(slots, fd->slots.status_stride);
	if (vma->vm_pgoff >= whole >> PAGE_SHIFT || size > whole - first)
		return -EINVAL;
	vm_flags_clear(vma, VM_MAYWRITE);
	/* Nothing can be mapped behind its end, and a dump has no use for it. */
	vm_flags_set(vma, VM_DONTEXPAND | VM_DONTDUMP);
	for (at = 0; at < size && !ret; at += PAGE_SIZE)
		ret = vm_insert_page(vma, vma->vm_start + at,
				     vmalloc_to_page(fd->slots.status + first + at));
	return ret;
}

/* Checks a descriptor, without the buffer that it names. */
static int smqsg_slot_check(struct smqsg_fd *fd, u32 number, const struct smq_sg_slot *desc)
{
	struct request_queue *q = fd->q;
	u32 most = smqsg_max_transfer(q);

	if (desc->reserved) {
		pr_err_ratelimited("slot %u: reserved must be 0\n", number);
		return -EINVAL;
	}
	if (desc->flags & ~(SMQ_SG_SLOT_HELD | SMQ_SG_SLOT_DIRECT) ||
	    desc->flags == SMQ_SG_SLOT_DIRECT) {
		pr_err_ratelimited("slot %u flags %#x: SMQ_SG_SLOT_HELD, that with _DIRECT, or 0\n",
				   number, desc->flags);
		return -EINVAL;
	}
	if (!desc->cdb_len)
		return 0;
	if (desc->cdb_len < 6 || desc->cdb_len > SMQ_SG_MAX_CDB) {
		pr_err_ratelimited("slot %u cdb_len %u: 6 to %u, or 0 to empty it\n", number,
				   desc->cdb_len, SMQ_SG_MAX_CDB);
		return -EINVAL;
	}
	if (desc->direction > SMQ_SG_OUT ||
	    !desc->length == !!desc->direction) {
		pr_err_ratelimited("slot %u direction %u, length %u: 0 (none) without data, 1 (in) or 2 (out) with\n",
				   number, desc->direction, desc->length);
		return -EINVAL;
	}
	if (desc->buffer && !desc->length) {
		pr_err_ratelimited("slot %u buffer %u: 0 without data\n", number, desc->buffer);
		return -EINVAL;
	}
	if (desc->length > most) {
		pr_err_ratelimited("slot %u length %u: at most %u bytes\n", number,
				   desc->length, most);
		return -EMSGSIZE;
	}
	if (desc->length && !blk_rq_aligned(q, desc->length, desc->length)) {
		pr_err_ratelimited("slot %u length %u: a multiple of %u\n", number,
				   desc->length, smqsg_alignment(q));
		return -EINVAL;
	}
	return 0;
}

/* Finds the data of a slot. */
static int smqsg_slot_data(struct smqsg_fd *fd, u32 number, const struct smq_sg_slot *desc,
			   struct smqsg_slot *slot, struct smqsg_buffer **used)
{
	struct request_queue *q = fd->q;
	struct smqsg_buffer *buffer = xa_load(&fd->buffers.table, desc->buffer);
	bool many;
	int ret;

	if (!buffer) {
		pr_err_ratelimited("slot %u buffer %u: there is none\n", number, desc->buffer);
		return -ENOENT;
	}
	if (buffer->readonly && desc->direction == SMQ_SG_IN) {
		pr_err_ratelimited("slot %u buffer %u: is read-only, direction is in\n", number,
				   desc->buffer);
		return -EINVAL;
	}
	if (desc->offset > buffer->length) {
		pr_err_ratelimited("slot %u offset %llu: buffer %u has %u bytes\n", number,
				   desc->offset, desc->buffer, buffer->length);
		return -ERANGE;
	}
	ret = smqsg_buffer_extent(q, buffer, desc->offset, desc->length, &slot->data, &many);
	if (ret < 0) {
		pr_err_ratelimited("slot %u length %u at offset %llu of buffer %u: %s\n",
				   number, desc->length, desc->offset, desc->buffer,
				   ret == -ERANGE ? "beyond its end" :
				   ret == -EMSGSIZE ? "more pieces of memory than max_segments" :
				   "not aligned as the device needs it, or with a gap");
		return ret;
	}
	slot->segments = ret;
	slot->many = many;
	slot->offset = desc->offset;
	slot->buffer = desc->buffer;
	*used = buffer;
	return 0;
}

static void smqsg_slot_clear(struct smqsg_fd *fd, u32 number)
{
	struct smqsg_slot *slot = &fd->slots.array[number];
	struct smqsg_buffer *buffer;

	if (slot->held)
		smqsg_held_drop(fd, slot, number);
	if (slot->data.length) {
		buffer = xa_load(&fd->buffers.table, slot->buffer);
		buffer->users--;
	}
	memset(slot, 0, sizeof(*slot));
}

/* Fills one slot, or changes nothing. */
static int smqsg_slot_fill(struct smqsg_fd *fd, u32 number, struct smq_sg_slot *desc,
			   bool writable)
{
	struct smqsg_buffer *buffer = NULL;
	struct smqsg_slot slot = { };
	int ret;

	lockdep_assert_held(&fd->setup);
	ret = smqsg_slot_check(fd, number, desc);
	if (ret)
		return ret;
	if (desc->cdb_len) {
		if (!smqsg_cmd_allowed(desc->cdb, desc->length, desc->direction == SMQ_SG_OUT,
				       writable)) {
			pr_err_ratelimited("slot %u cdb: opcode %#x, direction %u needs CAP_SYS_RAWIO%s\n",
					   number, desc->cdb[0], desc->direction,
					   writable ? "" : " or a file open for writing");
			return -EPERM;
		}
		if (desc->length) {
			ret = smqsg_slot_data(fd, number, desc, &slot, &buffer);
			if (ret)
				return ret;
		}
		memcpy(slot.cdb, desc->cdb, desc->cdb_len);
		slot.cdb_len = desc->cdb_len;
		slot.direction = desc->direction;
		slot.timeout = desc->timeout_ms ?
			min_t(unsigned long, msecs_to_jiffies(desc->timeout_ms), INT_MAX) :
			SMQSG_TIMEOUT;
		slot.hold = (desc->flags & SMQ_SG_SLOT_HELD) && fd->held.entries &&
			    slot.segments <= SMQSG_HELD_SEGMENTS &&
			    !smqsg_cdb_protected(slot.cdb);
		slot.direct = slot.hold && (desc->flags & SMQ_SG_SLOT_DIRECT);
	}

	if (test_and_set_bit_lock(number, fd->slots.busy)) {
		pr_err_ratelimited("slot %u: in flight\n", number);
		return -EBUSY;
	}
	smqsg_slot_clear(fd, number);
	smqsg_own(&fd->owner);
	if (buffer)
		buffer->users++;
	fd->slots.array[number] = slot;
	clear_bit_unlock(number, fd->slots.busy);
	return 0;
}

static long smqsg_prepare(struct smqsg_fd *fd, struct smq_sg_prepare *arg)
{
	const struct smq_sg_slot __user *user = u64_to_user_ptr(arg->slots);
	bool writable = fd->file->f_mode & FMODE_WRITE;
	struct smq_sg_slot *desc;
	long ret;

	if (fd->owner.cred && !smqsg_may_run(&fd->owner))
		return -EPERM;
	desc = kmalloc_array(SMQSG_COPY, sizeof(*desc), GFP_KERNEL);
	if (!desc)
		return -ENOMEM;
	while (arg->done < arg->count && !ret) {
		u32 i, some = min_t(u32, arg->count - arg->done, SMQSG_COPY);

		if (copy_from_user(desc, user + arg->done, some * sizeof(*desc))) {
			ret = -EFAULT;
			break;
		}
		for (i = 0; i < some && !ret; i++) {
			ret = smqsg_slot_fill(fd, arg->first + arg->done, &desc[i], writable);
			if (!ret)
				arg->done++;
		}
		if (!ret && fatal_signal_pending(current))
			ret = arg->done < arg->count ? -EINTR : 0;
		cond_resched();
	}
	kfree(desc);
	return ret;
}

/**
 * smqsg_ioctl_prepare() - SMQ_SG_PREPARE
 * @fd: the file
 * @user: struct smq_sg_prepare
 *
 * Return: as told there. May sleep.
 */
long smqsg_ioctl_prepare(struct smqsg_fd *fd, void __user *user)
{
	u32 slots = smqsg_slots(&fd->slots);
	struct smq_sg_prepare __user *out = user;
	struct smq_sg_prepare arg;
	long ret;

	if (copy_from_user(&arg, user, sizeof(arg)))
		return -EFAULT;
	if (arg.flags || arg.reserved[0] || arg.reserved[1]) {
		pr_err_ratelimited("prepare: reserved fields and flags must be 0\n");
		return -EINVAL;
	}
	if (!arg.count || arg.count > slots || arg.first > slots - arg.count) {
		pr_err_ratelimited("prepare first %u, count %u: the file has %u slots\n",
				   arg.first, arg.count, slots);
		return -EINVAL;
	}
	arg.done = 0;
	if (mutex_lock_killable(&fd->setup))
		return -EINTR;
	ret = smqsg_prepare(fd, &arg);
	mutex_unlock(&fd->setup);
	if (put_user(arg.done, &out->done))
		return -EFAULT;
	return ret;
}
