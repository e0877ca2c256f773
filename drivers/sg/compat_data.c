// SPDX-License-Identifier: GPL-2.0
/*
 * The data of SG_IO and write(). If there is much data, and the device can use the caller's pages
 * directly, it transfers to and from those pages; otherwise to and from pages of this module.
 *
 * This module's pages are first filled from the caller's memory, whatever the direction of the
 * transfer: so bytes that the device does not write keep the caller's values.
 *
 * The caller's memory may be slow to come, or never come: a user decides that, by userfaultfd or a
 * file of FUSE. So it is accessed only while the command has neither a place nor a tag: before it
 * gets them, and when its request has been freed.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/blk-mq.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/uio.h>

#include "bioless.h"
#include "compat_cmd.h"
#include "io.h"
#include "sg.h"

/* Preferred order of this module's pages: large pages need fewer segments. */
#define SMQSG_PIECE_ORDER	3

static void smqsg_pages_free(struct smqsg_data *data)
{
	while (data->nr_pages)
		__free_pages(data->pages[--data->nr_pages], data->order);
	kvfree(data->pages);
	data->pages = NULL;
}

/* Allocates data->pages for @len bytes, all of one order. */
static int smqsg_pages_try(struct smqsg_data *data, size_t len, unsigned int order,
			   unsigned int most)
{
	gfp_t gfp = GFP_KERNEL_ACCOUNT | __GFP_ZERO | __GFP_COMP | __GFP_NOWARN;
	unsigned int count = DIV_ROUND_UP(len, PAGE_SIZE << order);

	if (count > most)
		return -EINVAL;
	if (order)
		gfp |= __GFP_NORETRY;
	data->pages = kvcalloc(count, sizeof(*data->pages), GFP_KERNEL_ACCOUNT);
	if (!data->pages)
		return -ENOMEM;
	data->order = order;
	while (data->nr_pages < count) {
		struct page *page = alloc_pages(gfp, order);

		if (!page) {
			smqsg_pages_free(data);
			return -ENOMEM;
		}
		data->pages[data->nr_pages++] = page;
	}
	return 0;
}

static int smqsg_pages_alloc(struct smqsg_data *data, size_t len, unsigned int most)
{
	unsigned int order = min(get_order(len), SMQSG_PIECE_ORDER);
	int ret = smqsg_pages_try(data, len, order, most);

	/* Try smaller pieces. If the device does not take that many, return -ENOMEM. */
	while (ret == -ENOMEM && order && DIV_ROUND_UP(len, PAGE_SIZE << (order - 1)) <= most)
		ret = smqsg_pages_try(data, len, --order, most);
	return ret;
}

/* Copies the caller's data into the pages. Does not advance @iter. */
static int smqsg_pages_fill(struct smqsg_data *data, const struct iov_iter *iter)
{
	struct iov_iter from = *iter;
	unsigned int i;

	from.data_source = ITER_SOURCE;
	for (i = 0; i < data->nr_pages; i++) {
		size_t count = min_t(size_t, PAGE_SIZE << data->order, iov_iter_count(&from));

		if (copy_page_from_iter(data->pages[i], 0, count, &from) != count)
			return -EFAULT;
	}
	return 0;
}

static int smqsg_data_copy(struct smqsg_data *data, struct request *rq,
			   const struct iov_iter *iter, bool no_memory)
{
	struct rq_map_data map = { .null_mapped = no_memory };
	int ret;

	ret = smqsg_pages_alloc(data, iov_iter_count(iter), queue_max_segments(rq->q));
	if (ret)
		return ret;
	/* For data-out blk_rq_map_user_iov() copies the data. */
	if (rq_data_dir(rq) == READ && !no_memory)
		ret = smqsg_pages_fill(data, iter);
	if (!ret) {
		map.pages = data->pages;
		map.page_order = data->order;
		map.nr_entries = data->nr_pages;
		ret = blk_rq_map_user_iov(rq->q, rq, &map, iter, GFP_KERNEL);
	}
	if (ret)
		smqsg_pages_free(data);
	return ret;
}

static int smqsg_data_map_iter(struct smqsg_data *data, struct request *rq,
			       struct iov_iter *iter, bool no_memory)
{
	struct request_queue *q = rq->q;
	int ret;

	if (!iov_iter_count(iter) ||
	    iov_iter_count(iter) > (u64)queue_max_hw_sectors(q) << SECTOR_SHIFT)
		return -EINVAL;
	if (no_memory || !blk_rq_aligned(q, iov_iter_alignment(iter), 0) ||
	    (queue_virt_boundary(q) && (queue_virt_boundary(q) & iov_iter_gap_alignment(iter))))
		return smqsg_data_copy(data, rq, iter, no_memory);

	ret = blk_rq_map_user_iov(q, rq, NULL, iter, GFP_KERNEL);
	data->direct = !ret;
	/* -EINVAL: more pieces of memory than the device takes. A copy needs fewer and may fit. */
	return ret == -EINVAL ? smqsg_data_copy(data, rq, iter, false) : ret;
}

/* Keeps a page for the file's next small command. @v3: NULL if the file may have been freed. */
static void smqsg_small_put(void *small, struct smqsg_v3 *v3)
{
	if (v3)
		small = xchg(&v3->small, small);
	free_page((unsigned long)small);
}

/*
 * Copies little data through a page of this module, which costs less than pinning the caller's
 * page. The page is filled from the caller's memory first, for the reason at the top of this file.
 */
static int smqsg_data_small(struct smqsg_data *data, struct smqsg_fd *fd,
			    const struct smqsg_xfer *xfer)
{
	void *small = xchg(&fd->v3.small, NULL);

	if (!small)
		small = (void *)__get_free_page(GFP_KERNEL_ACCOUNT);
	if (!small)
		return -ENOMEM;
	if (copy_from_user(small, xfer->addr, xfer->len)) {
		smqsg_small_put(small, &fd->v3);
		return -EFAULT;
	}
	data->small = small;
	data->small_len = xfer->len;
	data->back = xfer->out ? NULL : xfer->addr;
	return 0;
}

/* Whether data can be copied through one page: it is one piece, and the device takes that much. */
static bool smqsg_data_is_small(struct smqsg_fd *fd, const struct smqsg_xfer *xfer)
{
	return xfer->copy && xfer->len <= SMQSG_SMALL && !xfer->iovec_count && !xfer->no_memory &&
	       xfer->len <= queue_max_hw_sectors(fd->q) << SECTOR_SHIFT && fd->slots.list;
}

/**
 * smqsg_data_map() - maps a command's data, before the command has a place and a request
 * @data: cleared, but for smqsg_data.mapped
 * @fd: the file
 * @xfer: where the data is
 *
 * Return: 0; -EINVAL: more data than the device takes in one command, or a wrong iovec; -EFAULT;
 * -ENOMEM. Called in the caller's context; sleeps as long as the caller's memory does not come.
 */
int smqsg_data_map(struct smqsg_data *data, struct smqsg_fd *fd, const struct smqsg_xfer *xfer)
{
	int dir = xfer->out ? ITER_SOURCE : ITER_DEST;
	struct iovec fast[UIO_FASTIOV], *iov = fast;
	struct request *rq = &data->mapped;
	struct iov_iter iter;
	int ret;

	if (!xfer->len)
		return 0;
	if (smqsg_data_is_small(fd, xfer))
		return smqsg_data_small(data, fd, xfer);
	*rq = (struct request) {
		.q = fd->q,
		.cmd_flags = xfer->out ? REQ_OP_DRV_OUT : REQ_OP_DRV_IN,
	};
	if (xfer->iovec_count) {
		ret = import_iovec(dir, xfer->addr, xfer->iovec_count, UIO_FASTIOV, &iov, &iter);
		if (ret < 0)
			return ret;
		/* Transfer @len bytes, or all bytes of the iovecs if those are fewer. */
		iov_iter_truncate(&iter, xfer->len);
	} else {
		if (!xfer->no_memory && !access_ok(xfer->addr, xfer->len))
			return -EFAULT;
		fast[0].iov_base = xfer->addr;
		fast[0].iov_len = xfer->len;
		iov_iter_init(&iter, dir, fast, 1, xfer->len);
		iov = NULL;
	}
	ret = smqsg_data_map_iter(data, rq, &iter, xfer->no_memory);
	kfree(iov);
	if (ret)
		return ret;
	smq_rq_of_no_queue(rq);
	data->bio = rq->bio;
	return 0;
}

/**
 * smqsg_data_give() - gives a request its data
 * @data: the data, as smqsg_data_map() has left it
 * @fd: the file
 * @rq: the request, without data
 *
 * Does not access the caller's memory. Process context.
 */
void smqsg_data_give(struct smqsg_data *data, struct smqsg_fd *fd, struct request *rq)
{
	if (data->bio) {
		smq_rq_take_data(rq, &data->mapped);
	} else if (!data->small) {
		smqsg_bioless_prepare_mapped(fd, rq);
	} else if (smqsg_bioless_may(fd, rq)) {
		smqsg_bioless_prepare_one(fd, rq, virt_to_page(data->small), 0, data->small_len);
	} else {
		smqsg_bio_init(&data->small_bio);
		data->small_vec = (struct bio_vec) {
			.bv_page = virt_to_page(data->small),
			.bv_len = data->small_len,
		};
		smqsg_io_arm(&data->small_bio, rq, &data->small_vec, 0, data->small_len, 1);
	}
}

/**
 * smqsg_data_unsent() - makes smqsg_data_unmap() copy nothing to the caller
 * @data: the data of a command that was not sent, or all zeroes
 */
void smqsg_data_unsent(struct smqsg_data *data)
{
	smqsg_bio_unsent(data->bio);
	data->back = NULL;
}

/**
 * smqsg_data_unmap() - undoes smqsg_data_map(), and copies data to the caller if necessary
 * @data: the data of a command that has ended, or all zeroes
 * @v3: interface 3 of its file; NULL in a kernel thread, where no data is copied to the caller, and
 *	where the file may have been freed
 *
 * Return: 0, or -EFAULT if the caller's memory could not be written. Process context: the caller's,
 * or a kernel thread's.
 */
int smqsg_data_unmap(struct smqsg_data *data, struct smqsg_v3 *v3)
{
	int ret = 0;

	if (data->bio)
		ret = blk_rq_unmap_user(data->bio);
	data->bio = NULL;
	if (data->small) {
		if (data->back && v3 && copy_to_user(data->back, data->small, data->small_len))
			ret = -EFAULT;
		smqsg_small_put(data->small, v3);
		data->small = NULL;
	}
	if (data->pages)
		smqsg_pages_free(data);
	return ret;
}
