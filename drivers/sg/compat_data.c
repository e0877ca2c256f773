// SPDX-License-Identifier: GPL-2.0
/*
 * The data of commands as sg takes them: the caller's pages where the device can
 * use them as they are, else pages of ours.
 *
 * Ours begin as a copy of what the caller has there, whichever direction the
 * transfer has: so all that the device does not write stays as it was.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/blk-mq.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/uio.h>

#include "compat_cmd.h"
#include "sg.h"

/* Pieces of ours are this large where there is memory: fewer segments. */
#define SMQSG_PIECE_ORDER	3

static void smqsg_pages_free(struct smqsg_data *data)
{
	while (data->nr_pages)
		__free_pages(data->pages[--data->nr_pages], data->order);
	kvfree(data->pages);
	data->pages = NULL;
}

/* Fills data->pages for @len bytes in pieces of one order. */
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

	/* Where smaller pieces are too many for the device it was memory that lacked. */
	while (ret == -ENOMEM && order && DIV_ROUND_UP(len, PAGE_SIZE << (order - 1)) <= most)
		ret = smqsg_pages_try(data, len, --order, most);
	return ret;
}

/* Copies the caller's data into the pages; @iter stays as it is. */
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
			   const struct iov_iter *iter, bool nowhere)
{
	struct rq_map_data map = { .null_mapped = nowhere };
	int ret;

	ret = smqsg_pages_alloc(data, iov_iter_count(iter), queue_max_segments(rq->q));
	if (ret)
		return ret;
	/* For data-out the block layer copies anyway. */
	if (rq_data_dir(rq) == READ && !nowhere)
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
			       struct iov_iter *iter, bool nowhere)
{
	struct request_queue *q = rq->q;
	int ret;

	if (!iov_iter_count(iter) ||
	    iov_iter_count(iter) > (u64)queue_max_hw_sectors(q) << SECTOR_SHIFT)
		return -EINVAL;
	if (nowhere || !blk_rq_aligned(q, iov_iter_alignment(iter), 0) ||
	    (queue_virt_boundary(q) && (queue_virt_boundary(q) & iov_iter_gap_alignment(iter))))
		return smqsg_data_copy(data, rq, iter, nowhere);

	ret = blk_rq_map_user_iov(q, rq, NULL, iter, GFP_KERNEL);
	data->direct = !ret;
	/* More pieces of memory than the device takes; in larger ones it may fit. */
	return ret == -EINVAL ? smqsg_data_copy(data, rq, iter, false) : ret;
}

/**
 * smqsg_data_map() - gives a request its data
 * @data: cleared
 * @rq: the request, without data
 * @xfer: where the data is
 *
 * Return: 0; -EINVAL: more than the device takes at once, or a wrong iovec; -EFAULT;
 * -ENOMEM. The caller's context.
 */
int smqsg_data_map(struct smqsg_data *data, struct request *rq, const struct smqsg_xfer *xfer)
{
	int dir = rq_data_dir(rq) == READ ? ITER_DEST : ITER_SOURCE;
	struct iovec fast[UIO_FASTIOV], *iov = fast;
	struct iov_iter iter;
	int ret;

	if (!xfer->len)
		return 0;
	if (xfer->iovec_count) {
		ret = import_iovec(dir, xfer->addr, xfer->iovec_count, UIO_FASTIOV, &iov, &iter);
		if (ret < 0)
			return ret;
		/* The shorter of the two lengths counts. */
		iov_iter_truncate(&iter, xfer->len);
	} else {
		if (!xfer->nowhere && !access_ok(xfer->addr, xfer->len))
			return -EFAULT;
		fast[0].iov_base = xfer->addr;
		fast[0].iov_len = xfer->len;
		iov_iter_init(&iter, dir, fast, 1, xfer->len);
		iov = NULL;
	}
	ret = smqsg_data_map_iter(data, rq, &iter, xfer->nowhere);
	kfree(iov);
	if (!ret)
		data->bio = rq->bio;
	return ret;
}

/**
 * smqsg_data_unmap() - ends what smqsg_data_map() began
 * @data: the data of a command that has ended, or that has none
 *
 * Return: 0, or -EFAULT where the caller's memory has gone. Process context: the
 * caller's, or a kernel thread's, where nothing is copied.
 */
int smqsg_data_unmap(struct smqsg_data *data)
{
	int ret = 0;

	if (data->bio)
		ret = blk_rq_unmap_user(data->bio);
	data->bio = NULL;
	if (data->pages)
		smqsg_pages_free(data);
	return ret;
}
