// SPDX-License-Identifier: GPL-2.0
/*
 * Buffers: memory that a program lends, pinned until the program takes it back.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/blkdev.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/sched/mm.h>
#include <linux/shmem_fs.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "buffer.h"
#include "module.h"
#include "owner.h"
#include "sg.h"

/*
 * How many pages are pinned or unpinned in one step. Between two steps the task gives the CPU up,
 * and a fatal signal ends the pinning.
 */
#define SMQSG_PIN_CHUNK		512

static void smqsg_buffer_unpin(struct smqsg_buffer *buffer)
{
	unsigned long pages, some, step = 0;
	struct page *page;
	unsigned int i;

	for (i = 0; i < buffer->nr; i++) {
		const struct bio_vec *bvec = &buffer->bvec[i];

		page = bvec->bv_page;
		pages = DIV_ROUND_UP(bvec->bv_offset + bvec->bv_len, PAGE_SIZE);
		for (; pages; pages -= some) {
			some = min(pages, SMQSG_PIN_CHUNK - step);
			unpin_user_page_range_dirty_lock(page, some, !buffer->readonly);
			page = pfn_to_page(page_to_pfn(page) + some);
			step = (step + some) % SMQSG_PIN_CHUNK;
			if (!step)
				cond_resched();
		}
	}
}

/* Counts the pages as locked memory of the user, and as pinned by the process that lends them. */
static int smqsg_buffer_charge(struct smqsg_buffer *buffer)
{
	int ret = smqsg_lock_pages(buffer->pages, &buffer->owner);

	if (ret)
		return ret;
	buffer->mm = current->mm;
	mmgrab(buffer->mm);
	atomic64_add(buffer->pages, &buffer->mm->pinned_vm);
	return 0;
}

static void smqsg_buffer_free(struct smqsg_buffer *buffer)
{
	atomic64_sub(buffer->pages, &buffer->mm->pinned_vm);
	mmdrop(buffer->mm);
	smqsg_unlock_pages(buffer->pages, buffer->owner);
	kvfree(buffer->start);
	kvfree(buffer);
}

/**
 * smqsg_buffer_put() - drops a reference to a buffer; after the last one, unpins and frees it
 * @buffer: the buffer
 *
 * Process context, because marking pages as dirty may sleep.
 */
void smqsg_buffer_put(struct smqsg_buffer *buffer)
{
	if (refcount_dec_and_test(&buffer->refs)) {
		smqsg_buffer_unpin(buffer);
		smqsg_buffer_free(buffer);
	}
}

/**
 * smqsg_buffer_get() - looks a buffer up, and takes a reference
 * @buffers: buffers of the file
 * @index: the buffer's index
 *
 * Return: the buffer, or NULL. Process context.
 */
struct smqsg_buffer *smqsg_buffer_get(struct xarray *buffers, u16 index)
{
	struct smqsg_buffer *buffer;

	/*
	 * An entry is erased under this lock before the table's reference is dropped: so a buffer
	 * that is found here still has that reference.
	 */
	xa_lock(buffers);
	buffer = xa_load(buffers, index);
	if (buffer)
		refcount_inc(&buffer->refs);
	xa_unlock(buffers);
	return buffer;
}

/* Adds one pinned page: to the last element if the page continues it, else as a new element. */
static void smqsg_buffer_add(struct smqsg_buffer *buffer, struct page *page, u32 offset,
			     u32 length, u32 done)
{
	struct bio_vec *last = buffer->nr ? &buffer->bvec[buffer->nr - 1] : NULL;

	if (last && !offset &&
	    page_to_pfn(last->bv_page) + ((last->bv_offset + last->bv_len) >> PAGE_SHIFT) ==
	    page_to_pfn(page) && !((last->bv_offset + last->bv_len) & ~PAGE_MASK)) {
		last->bv_len += length;
		return;
	}
	buffer->start[buffer->nr] = done;
	bvec_set_page(&buffer->bvec[buffer->nr++], page, length, offset);
}

/*
 * Pins pages for writing, or for reading if a read-only buffer cannot be pinned for writing. Before
 * Linux 6.2 only a pin for writing makes sure that the program's next write does not replace the
 * pages by copies.
 */
static int smqsg_buffer_pin_some(struct smqsg_buffer *buffer, unsigned long address, int count,
				 struct page **pages)
{
	int got = pin_user_pages_fast(address, count, FOLL_LONGTERM | FOLL_WRITE, pages);

	if (got == -EFAULT && buffer->readonly)
		got = pin_user_pages_fast(address, count, FOLL_LONGTERM, pages);
	return got;
}

/*
 * Whether a page belongs to a file, other than shmem or hugetlbfs. Once such a page is written
 * back, it counts as clean, although the device may write to it later: that data would be lost.
 */
static bool smqsg_page_is_of_file(struct page *page)
{
	struct folio *folio = page_folio(page);
	struct address_space *mapping;
	bool of_file;

	if (folio_test_anon(folio) || folio_test_hugetlb(folio))
		return false;
	/* If the file is truncated and freed meanwhile, its mapping stays for a grace period. */
	rcu_read_lock();
	mapping = folio_mapping(folio);
	of_file = mapping && !shmem_mapping(mapping);
	rcu_read_unlock();
	return of_file;
}

/*
 * Adds pinned pages. Returns how many bytes were added. If the device may write to the buffer and a
 * page belongs to a file: adds none of @pages, unpins all of them, and returns -EOPNOTSUPP.
 */
static int smqsg_buffer_add_pages(struct smqsg_buffer *buffer, struct page **pages, int nr,
				  u32 offset, u32 done)
{
	u32 begun = done;
	int i;

	for (i = 0; i < nr && !buffer->readonly; i++) {
		if (smqsg_page_is_of_file(pages[i])) {
			unpin_user_pages(pages, nr);
			return -EOPNOTSUPP;
		}
	}
	for (i = 0; i < nr; i++) {
		u32 length = min_t(u32, PAGE_SIZE - offset, buffer->length - done);

		smqsg_buffer_add(buffer, pages[i], offset, length, done);
		done += length;
		offset = 0;
	}
	return done - begun;
}

static int smqsg_buffer_pin(struct smqsg_buffer *buffer, unsigned long address)
{
	struct page **pages;
	u32 done = 0;
	int ret = 0;

	pages = kmalloc_array(SMQSG_PIN_CHUNK, sizeof(*pages), GFP_KERNEL);
	if (!pages)
		return -ENOMEM;
	while (done < buffer->length) {
		u32 offset = offset_in_page(address + done);
		unsigned long want = DIV_ROUND_UP((u64)offset + buffer->length - done, PAGE_SIZE);
		int got;

		got = fatal_signal_pending(current) ? -EINTR :
			smqsg_buffer_pin_some(buffer, address + done,
					      min(want, SMQSG_PIN_CHUNK + 0UL), pages);
		ret = got > 0 ? smqsg_buffer_add_pages(buffer, pages, got, offset, done) :
				got ?: -EFAULT;
		if (ret < 0)
			break;
		done += ret;
		cond_resched();
	}
	kfree(pages);
	if (ret < 0)
		smqsg_buffer_unpin(buffer);
	return min(ret, 0);
}

static struct smqsg_buffer *smqsg_buffer_new(struct smq_sg_buffer *arg)
{
	unsigned long pages = DIV_ROUND_UP(offset_in_page(arg->address) + arg->length, PAGE_SIZE);
	struct smqsg_buffer *buffer;
	int ret;

	buffer = kvzalloc(struct_size(buffer, bvec, pages), GFP_KERNEL_ACCOUNT);
	if (!buffer)
		return ERR_PTR(-ENOMEM);
	ret = -ENOMEM;
	buffer->start = kvmalloc_array(pages, sizeof(u32), GFP_KERNEL_ACCOUNT);
	if (!buffer->start)
		goto out_free;
	buffer->pages = pages;
	ret = smqsg_buffer_charge(buffer);
	if (ret) {
		smqsg_refuse(&arg->field, LENGTH, ret,
			     "buffer length %llu: %lu pages are beyond RLIMIT_MEMLOCK",
			     arg->length, pages);
		goto out_free;
	}
	refcount_set(&buffer->refs, 1);
	buffer->length = arg->length;
	buffer->readonly = arg->flags & SMQ_SG_BUFFER_READONLY;
	ret = smqsg_buffer_pin(buffer, arg->address);
	if (ret) {
		smqsg_buffer_free(buffer);
		if (ret == -EFAULT || ret == -EOPNOTSUPP)
			smqsg_refuse(&arg->field, ADDRESS, ret,
				     "buffer address %#llx: not all of it can be lent",
				     arg->address);
		return ERR_PTR(ret);
	}
	return buffer;

out_free:
	kvfree(buffer->start);
	kvfree(buffer);
	return ERR_PTR(ret);
}

static int smqsg_buffer_lend(struct smqsg_fd *fd, struct smq_sg_buffer *arg)
{
	struct smqsg_buffer *buffer;
	int ret;

	if (xa_load(&fd->buffers, arg->index))
		return smqsg_refuse(&arg->field, INDEX, -EEXIST, "buffer index %u: in use",
				    arg->index);
	buffer = smqsg_buffer_new(arg);
	if (IS_ERR(buffer))
		return PTR_ERR(buffer);
	ret = xa_err(xa_store(&fd->buffers, arg->index, buffer, GFP_KERNEL_ACCOUNT));
	if (ret)
		smqsg_buffer_put(buffer);
	return ret;
}

static int smqsg_buffer_take_back(struct smqsg_fd *fd, struct smq_sg_buffer *arg)
{
	struct smqsg_buffer *buffer = xa_load(&fd->buffers, arg->index);

	if (!buffer)
		return smqsg_refuse(&arg->field, INDEX, -ENOENT, "buffer index %u: no such buffer",
				    arg->index);
	if (buffer->users)
		return smqsg_refuse(&arg->field, INDEX, -EBUSY,
				    "buffer index %u: %u slots still use it", arg->index,
				    buffer->users);
	xa_erase(&fd->buffers, arg->index);
	smqsg_buffer_put(buffer);
	return 0;
}

static int smqsg_buffer_check(struct smq_sg_buffer *arg)
{
	u32 *field = &arg->field;

	*field = SMQ_SG_FIELD_NONE;
	if (arg->reserved0 || arg->reserved)
		return smqsg_refuse(field, RESERVED, -EINVAL, "buffer: reserved must be 0");
	if (arg->flags & ~SMQ_SG_BUFFER_READONLY)
		return smqsg_refuse(field, FLAGS, -EINVAL,
				    "buffer flags %#x: SMQ_SG_BUFFER_READONLY or 0", arg->flags);
	if (arg->index >= SMQ_SG_MAX_BUFFERS)
		return smqsg_refuse(field, INDEX, -EINVAL, "buffer index %u: at most %u",
				    arg->index, SMQ_SG_MAX_BUFFERS - 1);
	if (arg->length > SMQ_SG_MAX_BUFFER)
		return smqsg_refuse(field, LENGTH, -EINVAL, "buffer length %llu: at most %u",
				    arg->length, SMQ_SG_MAX_BUFFER);
	if (!arg->length && (arg->address || arg->flags))
		return smqsg_refuse(field, LENGTH, -EINVAL,
				    "buffer length 0 (take back): address and flags must be 0");
	if (arg->address + arg->length < arg->address || arg->address + arg->length > ULONG_MAX)
		return smqsg_refuse(field, ADDRESS, -EFAULT,
				    "buffer address %#llx, length %llu: beyond the address space",
				    arg->address, arg->length);
	return 0;
}

/**
 * smqsg_ioctl_buffer() - SMQ_SG_BUFFER
 * @fd: the file
 * @user: struct smq_sg_buffer
 *
 * Return: as described at that struct. May sleep.
 */
long smqsg_ioctl_buffer(struct smqsg_fd *fd, void __user *user)
{
	struct smq_sg_buffer __user *out = user;
	struct smq_sg_buffer arg;
	long ret;

	if (copy_from_user(&arg, user, sizeof(arg)))
		return -EFAULT;
	ret = smqsg_buffer_check(&arg);
	if (!ret) {
		if (mutex_lock_killable(&fd->setup))
			return -EINTR;
		/*
		 * The caller that lends the first buffer becomes the owner, and only the owner may
		 * change buffers: a run of the owner may name any buffer, and must not use memory
		 * that another user lent.
		 */
		if (fd->owner.cred && !smqsg_may_run(&fd->owner))
			ret = -EPERM;
		else
			ret = arg.length ? smqsg_buffer_lend(fd, &arg) :
					   smqsg_buffer_take_back(fd, &arg);
		if (!ret && arg.length)
			smqsg_own(&fd->owner);
		mutex_unlock(&fd->setup);
	}
	if (ret && put_user(arg.field, &out->field))
		return -EFAULT;
	return ret;
}

/* Drops the table's references, when the file is released. May sleep. */
void smqsg_buffers_free(struct xarray *buffers)
{
	struct smqsg_buffer *buffer;
	unsigned long index;

	xa_for_each(buffers, index, buffer)
		smqsg_buffer_put(buffer);
	xa_destroy(buffers);
}

/* Returns the most bytes of *@bvec, from @skip on, that the device takes as one piece of memory. */
static u32 smqsg_piece(struct request_queue *q, const struct bio_vec *bvec, u32 skip)
{
	unsigned long mask = queue_segment_boundary(q);
	unsigned long at = page_to_phys(bvec->bv_page) + bvec->bv_offset + skip;

	return min_not_zero(mask - (mask & at) + 1, (unsigned long)queue_max_segment_size(q));
}

/**
 * smqsg_segments() - returns the most pieces of memory that a command's data may be split into
 * @q: the device's queue, whose limits apply
 * @bvec: where the data begins
 * @skip: bytes of *@bvec before the data
 * @length: length of the data in bytes; not 0
 *
 * Splits the data by the block layer's rules. The result may be too high, because the block layer
 * also merges neighbouring pieces. It is never too low.
 *
 * Return: the number of pieces, at least 1; -EMSGSIZE: more pieces than the device takes; -EINVAL:
 * a gap between pieces that the device does not take. Any context.
 */
int smqsg_segments(struct request_queue *q, const struct bio_vec *bvec, u32 skip, u32 length)
{
	unsigned long gap = queue_virt_boundary(q);
	int count = 0, most = queue_max_segments(q);

	while (length && count <= most) {
		u32 here = min(bvec->bv_len - skip, length);

		if (gap && ((count && ((bvec->bv_offset + skip) & gap)) ||
			    (here < length && ((bvec->bv_offset + skip + here) & gap))))
			return -EINVAL;
		length -= here;
		while (here) {
			u32 piece = min(smqsg_piece(q, bvec, skip), here);

			count++;
			skip += piece;
			here -= piece;
		}
		bvec++;
		skip = 0;
	}
	return count <= most ? count : -EMSGSIZE;
}

/**
 * smqsg_max_transfer() - the most bytes that one slot's command may transfer
 * @q: the device's queue
 *
 * Return: the lowest of three limits, rounded down to whole sectors: the device's longest transfer,
 * the most bytes that its maximum number of segments can hold, and SMQ_SG_MAX_BUFFER. Any context.
 */
u32 smqsg_max_transfer(struct request_queue *q)
{
	u64 most = (u64)queue_max_hw_sectors(q) << SECTOR_SHIFT;
	/* The longest piece, as smqsg_segments() counts. */
	u64 piece = min_t(u64, queue_max_segment_size(q) - 1ULL, queue_segment_boundary(q)) + 1;

	most = min3(most, queue_max_segments(q) * piece, (u64)SMQ_SG_MAX_BUFFER);
	return round_down(most, SECTOR_SIZE);
}
