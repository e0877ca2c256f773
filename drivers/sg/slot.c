// SPDX-License-Identifier: GPL-2.0
/*
 * Sets slots up, and fills them.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/blkdev.h>
#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/shm.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#include "cdb.h"
#include "data.h"
#include "module.h"
#include "own.h"
#include "sg.h"
#include "slot.h"

/* Offset for mmap() at which the status array begins. Nothing else can be mapped. */
#define SMQSG_STATUS_OFFSET	0
/* How many descriptors are copied from the caller at a time. */
#define SMQSG_COPY		32

static unsigned int smqsg_alignment(struct request_queue *q)
{
	unsigned int alignment = 1;

	/* Ask blk_rq_aligned(), because kernels keep these limits in different places. */
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
		.features = SMQ_SG_FEATURE_CANCEL | SMQ_SG_FEATURE_TIMED |
			(smqsg_can_own() ? SMQ_SG_FEATURE_HELD : 0) |
			(fd->polled.state != SMQSG_POLL_NOT ? SMQ_SG_FEATURE_POLLED : 0),
		.slots = slots,
		.depth = READ_ONCE(fd->sdev->queue_depth),
		.max_transfer = smqsg_max_transfer(q),
		.max_segments = queue_max_segments(q),
		.alignment = smqsg_alignment(q),
		.slot_bytes = sizeof(struct smqsg_slot) +
			(slots ? fd->slots.status_stride : sizeof(struct smq_sg_status)),
		.max_waiting = SMQSG_MOST_WAITING,
		.max_held = slots ? smqsg_pool_limit(fd) : 0,
	};

	return copy_to_user(user, &info, sizeof(info)) ? -EFAULT : 0;
}

/*
 * Allocates the status array, zeroed. All memory that a file's slots need is charged to the
 * caller's memory cgroup, whose limit bounds it. vmalloc_user() would charge nothing, but it is
 * needed on CPUs whose data caches alias user and kernel addresses.
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
	/* In cache lines of its own: each command writes it, on any CPU that uses the file. */
	fd->slots.busy = kvzalloc(ALIGN(count, SMP_CACHE_BYTES), GFP_KERNEL_ACCOUNT);
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

static int smqsg_setup_check(struct smq_sg_setup *arg)
{
	u32 *field = &arg->field;

	*field = SMQ_SG_FIELD_NONE;
	if (!arg->slots || arg->slots > SMQ_SG_MAX_SLOTS)
		return smqsg_refuse(field, SLOTS, -EINVAL, "setup slots %u: 1 to %u",
				    arg->slots, SMQ_SG_MAX_SLOTS);
	if (arg->sense_size > SMQ_SG_MAX_SENSE || arg->sense_size % 8)
		return smqsg_refuse(field, SENSE_SIZE, -EINVAL,
				    "setup sense_size %u: a multiple of 8 up to %u",
				    arg->sense_size, SMQ_SG_MAX_SENSE);
	if (arg->held_share > 100)
		return smqsg_refuse(field, HELD_SHARE, -EINVAL,
				    "setup held_share %u: 0 to 100 percent", arg->held_share);
	if (arg->flags)
		return smqsg_refuse(field, FLAGS, -EINVAL, "setup flags %#x: must be 0",
				    arg->flags);
	if (memchr_inv(arg->reserved, 0, sizeof(arg->reserved)))
		return smqsg_refuse(field, RESERVED, -EINVAL, "setup: reserved must be 0");
	return 0;
}

/* Allocates what a file's slots need, and tells the caller the layout of the status array. */
static int smqsg_setup(struct smqsg_fd *fd, struct smq_sg_setup *arg,
		       struct smq_sg_setup __user *user)
{
	int ret;

	lockdep_assert_held(&fd->setup);
	if (fd->slots.nr)
		return -EBUSY;
	fd->slots.sense_size = arg->sense_size;
	fd->slots.status_stride = sizeof(struct smq_sg_status) + arg->sense_size;
	ret = smqsg_slots_alloc(fd, arg->slots);
	if (ret)
		return ret;
	arg->status_stride = fd->slots.status_stride;
	arg->status_size = smqsg_status_size(arg->slots, fd->slots.status_stride);
	arg->status_offset = SMQSG_STATUS_OFFSET;
	if (copy_to_user(user, arg, sizeof(*arg))) {
		smqsg_slots_free(fd);
		return -EFAULT;
	}
	/* Publishes the arrays. */
	smp_store_release(&fd->slots.nr, arg->slots);
	return 0;
}

/**
 * smqsg_ioctl_setup() - SMQ_SG_SETUP
 * @fd: the file
 * @user: struct smq_sg_setup
 *
 * Return: as described at that struct. May sleep.
 */
long smqsg_ioctl_setup(struct smqsg_fd *fd, void __user *user)
{
	struct smq_sg_setup __user *out = user;
	struct smq_sg_setup arg;
	long ret;

	if (copy_from_user(&arg, user, sizeof(arg)))
		return -EFAULT;
	ret = smqsg_setup_check(&arg);
	if (!ret) {
		if (mutex_lock_killable(&fd->setup))
			return -EINTR;
		ret = smqsg_setup(fd, &arg, out);
		mutex_unlock(&fd->setup);
	}
	if (!ret && !READ_ONCE(fd->own))
		smqsg_own_ask(fd, SMQSG_OWN_SETUP);
	if (ret && put_user(arg.field, &out->field))
		return -EFAULT;
	return ret;
}

/**
 * smqsg_mmap_status() - maps the status array
 * @file: the file
 * @vma: where to map it; must be shared and read-only
 *
 * Return: 0; -ENXIO: before SMQ_SG_SETUP; -EACCES: writable or private; -EINVAL: the range is not
 * within the status array; -EINTR: the caller is killed. May sleep.
 */
int smqsg_mmap_status(struct file *file, struct vm_area_struct *vma)
{
	struct smqsg_fd *fd = file->private_data;
	u32 slots = smqsg_slots(&fd->slots);
	unsigned long at, size = vma->vm_end - vma->vm_start;
	unsigned long first = vma->vm_pgoff << PAGE_SHIFT;
	size_t whole;
	int ret = 0;

	if (!slots)
		return -ENXIO;
	/* A shared mapping of a file that is open read-only has VM_MAYSHARE, but not VM_SHARED. */
	if ((vma->vm_flags & VM_WRITE) || !(vma->vm_flags & VM_MAYSHARE))
		return -EACCES;
	whole = smqsg_status_size(slots, fd->slots.status_stride);
	if (vma->vm_pgoff >= whole >> PAGE_SHIFT || size > whole - first)
		return -EINVAL;
	vm_flags_clear(vma, VM_MAYWRITE);
	/* The mapping cannot grow, and is left out of core dumps. */
	vm_flags_set(vma, VM_DONTEXPAND | VM_DONTDUMP);
	for (at = 0; at < size && !ret; at += PAGE_SIZE) {
		ret = fatal_signal_pending(current) ? -EINTR :
			vm_insert_page(vma, vma->vm_start + at,
				       vmalloc_to_page(fd->slots.status + first + at));
		cond_resched();
	}
	return ret;
}

/* Checks a descriptor, except for its data. */
static int smqsg_slot_check(u32 number, const struct smq_sg_slot *desc, u32 *field)
{
	u8 length = desc->cdb_len;

	if (!length && memchr_inv(desc, 0, sizeof(*desc)))
		return smqsg_refuse(field, CDB_LEN, -EINVAL,
				    "slot %u cdb_len 0: all other fields must be 0", number);
	if (desc->reserved)
		return smqsg_refuse(field, RESERVED, -EINVAL, "slot %u: reserved must be 0",
				    number);
	if (desc->flags & ~SMQ_SG_SLOT_HELD)
		return smqsg_refuse(field, FLAGS, -EINVAL,
				    "slot %u flags %#x: SMQ_SG_SLOT_HELD or 0", number,
				    desc->flags);
	if (length && (length < 6 || length > SMQ_SG_MAX_CDB))
		return smqsg_refuse(field, CDB_LEN, -EINVAL,
				    "slot %u cdb_len %u: 6 to %u, or 0 to empty it", number,
				    length, SMQ_SG_MAX_CDB);
	if (memchr_inv(desc->cdb + length, 0, SMQ_SG_MAX_CDB - length))
		return smqsg_refuse(field, CDB, -EINVAL,
				    "slot %u cdb: must be 0 after the first cdb_len=%u bytes",
				    number, length);
	return 0;
}

/* Checks a descriptor's data, except for the buffer. */
static int smqsg_slot_check_data(struct smqsg_fd *fd, u32 number, const struct smq_sg_slot *desc,
				 u32 *field)
{
	struct request_queue *q = fd->q;
	u32 most = smqsg_max_transfer(q);

	if (desc->direction > SMQ_SG_OUT || !desc->length == !!desc->direction)
		return smqsg_refuse(field, DIRECTION, -EINVAL,
				    "slot %u direction %u: 0 (none) if length is 0, else 1 (in) or 2 (out); length is %u",
				    number, desc->direction, desc->length);
	if (!desc->length && desc->buffer)
		return smqsg_refuse(field, BUFFER, -EINVAL,
				    "slot %u buffer %u: must be 0 without data", number,
				    desc->buffer);
	if (!desc->length && desc->offset)
		return smqsg_refuse(field, OFFSET, -EINVAL,
				    "slot %u offset %llu: must be 0 without data", number,
				    desc->offset);
	if (desc->length > most)
		return smqsg_refuse(field, LENGTH, -EMSGSIZE, "slot %u length %u: at most %u bytes",
				    number, desc->length, most);
	if (desc->length && !blk_rq_aligned(q, desc->length, desc->length))
		return smqsg_refuse(field, LENGTH, -EINVAL,
				    "slot %u length %u: must be a multiple of %u", number,
				    desc->length, smqsg_alignment(q));
	return 0;
}

/**
 * smqsg_slot_locate() - finds where in a buffer a slot's data is
 * @slot: gets where the data is
 * @q: the device's queue
 * @buffer: the buffer
 * @offset: offset of the data in the buffer, in bytes
 * @length: length of the data in bytes; not 0
 *
 * Return: 0; -ERANGE: not all of the data is in the buffer; -EINVAL: the data does not begin at an
 * address that the device can use, or as smqsg_segments(); -EMSGSIZE: likewise. Any context.
 */
int smqsg_slot_locate(struct smqsg_slot *slot, struct request_queue *q,
		      struct smqsg_buffer *buffer, u32 offset, u32 length)
{
	unsigned int low = 0, high = buffer->nr;
	struct bio_vec *bvec;
	int segments;
	u32 skip, at;

	if (offset > buffer->length || length > buffer->length - offset)
		return -ERANGE;
	/* Find the last element that begins at or before the offset. */
	while (high - low > 1) {
		unsigned int middle = low + (high - low) / 2;

		if (buffer->start[middle] <= offset)
			low = middle;
		else
			high = middle;
	}
	bvec = &buffer->bvec[low];
	skip = offset - buffer->start[low];
	at = bvec->bv_offset + skip;
	if (!blk_rq_aligned(q, at, 0))
		return -EINVAL;
	segments = smqsg_segments(q, bvec, skip, length);
	if (segments < 0)
		return segments;
	slot->segments = segments;
	slot->in_pieces = length > bvec->bv_len - skip;
	if (slot->in_pieces)
		slot->data = (struct smqsg_extent) { .bvec = bvec, .length = length, .skip = skip };
	else
		bvec_set_page(&slot->data.one,
			      pfn_to_page(page_to_pfn(bvec->bv_page) + (at >> PAGE_SHIFT)),
			      length, offset_in_page(at));
	return 0;
}

/* Finds the data of a slot. */
static int smqsg_slot_data(struct smqsg_fd *fd, u32 number, const struct smq_sg_slot *desc,
			   struct smqsg_slot *slot, u32 *field)
{
	struct smqsg_buffer *buffer = xa_load(&fd->buffers, desc->buffer);
	int ret;

	if (!buffer)
		return smqsg_refuse(field, BUFFER, -ENOENT, "slot %u buffer %u: no such buffer",
				    number, desc->buffer);
	if (buffer->readonly && desc->direction == SMQ_SG_IN)
		return smqsg_refuse(field, BUFFER, -EINVAL,
				    "slot %u buffer %u: read-only, but direction is in", number,
				    desc->buffer);
	if (desc->offset > buffer->length)
		return smqsg_refuse(field, OFFSET, -ERANGE,
				    "slot %u offset %llu: buffer %u has %u bytes", number,
				    desc->offset, desc->buffer, buffer->length);
	ret = smqsg_slot_locate(slot, fd->q, buffer, desc->offset, desc->length);
	if (ret == -EINVAL)
		return smqsg_refuse(field, OFFSET, ret,
				    "slot %u length %u at offset %llu of buffer %u: not aligned, or its pieces leave a gap",
				    number, desc->length, desc->offset, desc->buffer);
	if (ret)
		return smqsg_refuse(field, LENGTH, ret,
				    "slot %u length %u at offset %llu of buffer %u: %s",
				    number, desc->length, desc->offset, desc->buffer,
				    ret == -ERANGE ? "beyond its end" :
				    "more pieces of memory than max_segments");
	slot->offset = desc->offset;
	slot->buffer = desc->buffer;
	return 0;
}

/* Converts a descriptor to a slot. */
static int smqsg_slot_make(struct smqsg_fd *fd, u32 number, struct smq_sg_slot *desc,
			   struct smqsg_slot *slot, u32 *field)
{
	bool writable = fd->file->f_mode & FMODE_WRITE, out = desc->direction == SMQ_SG_OUT;
	int ret;

	ret = smqsg_slot_check(number, desc, field) ?:
		smqsg_slot_check_data(fd, number, desc, field);
	if (ret || !desc->cdb_len)
		return ret;
	if (!smqsg_cmd_allowed(fd->sdev->type, desc->cdb, desc->length, out, writable))
		return smqsg_refuse(field, CDB, -EPERM,
				    "slot %u cdb: opcode %#x, direction %u needs CAP_SYS_RAWIO%s",
				    number, desc->cdb[0], desc->direction,
				    smqsg_cmd_allowed(fd->sdev->type, desc->cdb, desc->length, out,
						      true) ? " or a file open for writing" : "");
	if (desc->length) {
		ret = smqsg_slot_data(fd, number, desc, slot, field);
		if (ret)
			return ret;
	}
	memcpy(slot->cdb, desc->cdb, desc->cdb_len);
	slot->cdb_len = desc->cdb_len;
	slot->lba_bits = smqsg_lba_bits(fd->sdev, desc->cdb[0]);
	slot->direction = desc->direction;
	slot->timeout = smqsg_timeout(desc->timeout_ms);
	slot->bioless = fd->slots.list && smqsg_bioless_fits(slot);
	return 0;
}

/* Counts a slot's data as a user of its buffer, or no longer. */
static void smqsg_slot_count_user(struct smqsg_fd *fd, const struct smqsg_slot *slot, int add)
{
	struct smqsg_buffer *buffer;

	lockdep_assert_held(&fd->setup);
	if (!slot->data.length)
		return;
	buffer = xa_load(&fd->buffers, slot->buffer);
	buffer->users += add;
}

/* Fills one slot, or changes nothing. */
static int smqsg_slot_fill(struct smqsg_fd *fd, u32 number, struct smq_sg_slot *desc, u32 *field)
{
	struct smqsg_slot slot = { };
	int ret;

	ret = smqsg_slot_make(fd, number, desc, &slot, field);
	if (ret)
		return ret;
	if (!smqsg_slot_try(&fd->slots, number)) {
		pr_debug("slot %u: in flight\n", number);
		return -EBUSY;
	}
	smqsg_slot_count_user(fd, &fd->slots.array[number], -1);
	if (slot.cdb_len)
		smqsg_own(&fd->owner);
	smqsg_slot_count_user(fd, &slot, 1);
	fd->slots.array[number] = slot;
	smqsg_slot_give_back(&fd->slots, number);
	return 0;
}

/* Fills slots with up to SMQSG_COPY descriptors. */
static int smqsg_prepare_some(struct smqsg_fd *fd, struct smq_sg_prepare *arg,
			      struct smq_sg_slot *desc)
{
	const struct smq_sg_slot __user *user = u64_to_user_ptr(arg->slots);
	u32 i, some = min_t(u32, arg->count - arg->done, SMQSG_COPY);
	int ret;

	if (copy_from_user(desc, user + arg->done, some * sizeof(*desc)))
		return smqsg_refuse(&arg->field, SLOTS, -EFAULT,
				    "prepare slots: cannot read %u descriptors from number %u on",
				    some, arg->done);
	for (i = 0; i < some; i++) {
		ret = smqsg_slot_fill(fd, arg->first + arg->done, &desc[i], &arg->field);
		if (ret)
			return ret;
		arg->done++;
	}
	return arg->done < arg->count && fatal_signal_pending(current) ? -EINTR : 0;
}

static int smqsg_prepare(struct smqsg_fd *fd, struct smq_sg_prepare *arg)
{
	struct smq_sg_slot *desc;
	int ret = 0;

	if (fd->owner.cred && !smqsg_may_run(&fd->owner))
		return -EPERM;
	desc = kmalloc_array(SMQSG_COPY, sizeof(*desc), GFP_KERNEL);
	if (!desc)
		return -ENOMEM;
	while (!ret && arg->done < arg->count) {
		ret = smqsg_prepare_some(fd, arg, desc);
		cond_resched();
	}
	kfree(desc);
	return ret;
}

static int smqsg_prepare_check(struct smqsg_fd *fd, struct smq_sg_prepare *arg)
{
	u32 slots = smqsg_slots(&fd->slots);
	u32 *field = &arg->field;

	arg->done = 0;
	*field = SMQ_SG_FIELD_NONE;
	if (arg->flags)
		return smqsg_refuse(field, FLAGS, -EINVAL, "prepare flags %#x: must be 0",
				    arg->flags);
	if (arg->reserved0 || arg->reserved)
		return smqsg_refuse(field, RESERVED, -EINVAL, "prepare: reserved must be 0");
	if (!arg->count || arg->count > slots)
		return smqsg_refuse(field, COUNT, -EINVAL,
				    "prepare count %u: the file has %u slots", arg->count, slots);
	if (arg->first > slots - arg->count)
		return smqsg_refuse(field, FIRST, -EINVAL,
				    "prepare first %u, count %u: the file has %u slots",
				    arg->first, arg->count, slots);
	return 0;
}

/**
 * smqsg_ioctl_prepare() - SMQ_SG_PREPARE
 * @fd: the file
 * @user: struct smq_sg_prepare
 *
 * Return: as described at that struct. May sleep.
 */
long smqsg_ioctl_prepare(struct smqsg_fd *fd, void __user *user)
{
	struct smq_sg_prepare __user *out = user;
	struct smq_sg_prepare arg;
	long ret;

	if (copy_from_user(&arg, user, sizeof(arg)))
		return -EFAULT;
	ret = smqsg_prepare_check(fd, &arg);
	if (!ret) {
		if (mutex_lock_killable(&fd->setup))
			return -EINTR;
		ret = smqsg_prepare(fd, &arg);
		mutex_unlock(&fd->setup);
	}
	/* SMQ_SG_SETUP may have come during error handling. */
	if (!ret && !READ_ONCE(fd->own))
		smqsg_own_ask(fd, SMQSG_OWN_SETUP);
	if (put_user(arg.done, &out->done) || (ret && put_user(arg.field, &out->field)))
		return -EFAULT;
	return ret;
}
