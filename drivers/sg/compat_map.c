// SPDX-License-Identifier: GPL-2.0
/*
 * Maps the data of SG_IO and write(). If there is much data, and the device can use the caller's
 * pages directly, it transfers to and from those pages; otherwise to and from pages of this module.
 *
 * This module's pages are first filled from the caller's memory, whatever the direction of the
 * transfer: so bytes that the device does not write keep the caller's values.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/blk-mq.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/uio.h>

#include "compat_cmd.h"
#include "io.h"
#include "sg.h"

/* Preferred order of this module's pages: large pages need fewer segments. */
#define SMQSG_PIECE_ORDER	3

/**
 * smqsg_pages_free() - frees the pages through which data was copied, if there are any
 * @pages: the pages
 */
void smqsg_pages_free(struct smqsg_pages *pages)
{
	while (pages->nr)
		__free_pages(pages->pages[--pages->nr], pages->order);
	kvfree(pages->pages);
	pages->pages = NULL;
}

/* Allocates pages->pages for @len bytes, all of one order. */
static int smqsg_pages_try(struct smqsg_pages *pages, size_t len, unsigned int order,
			   unsigned int most)
{
	gfp_t gfp = GFP_KERNEL_ACCOUNT | __GFP_ZERO | __GFP_COMP | __GFP_NOWARN;
	unsigned int count = DIV_ROUND_UP(len, PAGE_SIZE << order);

	if (count > most)
		return -EINVAL;
	if (order)
		gfp |= __GFP_NORETRY;
	pages->pages = kvcalloc(count, sizeof(*pages->pages), GFP_KERNEL_ACCOUNT);
	if (!pages->pages)
		return -ENOMEM;
	pages->order = order;
	while (pages->nr < count) {
		struct page *page = alloc_pages(gfp, order);

		if (!page) {
			smqsg_pages_free(pages);
			return -ENOMEM;
		}
		pages->pages[pages->nr++] = page;
	}
	return 0;
}

static int smqsg_pages_alloc(struct smqsg_pages *pages, size_t len, unsigned int most)
{
	unsigned int order = min(get_order(len), SMQSG_PIECE_ORDER);
	int ret = smqsg_pages_try(pages, len, order, most);

	/* Try smaller pieces. If the device does not take that many, return -ENOMEM. */
	while (ret == -ENOMEM && order && DIV_ROUND_UP(len, PAGE_SIZE << (order - 1)) <= most)
		ret = smqsg_pages_try(pages, len, --order, most);
	return ret;
}

/* Copies the caller's data into the pages. Does not advance @iter. */
static int smqsg_pages_fill(struct smqsg_pages *pages, const struct iov_iter *iter)
{
	struct iov_iter from = *iter;
	unsigned int i;

	from.data_source = ITER_SOURCE;
	for (i = 0; i < pages->nr; i++) {
		size_t count = min_t(size_t, PAGE_SIZE << pages->order, iov_iter_count(&from));

		if (copy_page_from_iter(pages->pages[i], 0, count, &from) != count)
			return -EFAULT;
	}
	return 0;
}

static int smqsg_pages_copy(struct smqsg_pages *pages, struct request *rq,
			    const struct iov_iter *iter, bool no_memory)
{
	struct rq_map_data map = { .null_mapped = no_memory };
	int ret;

	ret = smqsg_pages_alloc(pages, iov_iter_count(iter), queue_max_segments(rq->q));
	if (ret)
		return ret;
	/* For data-out blk_rq_map_user_iov() copies the data. */
	if (rq_data_dir(rq) == READ && !no_memory)
		ret = smqsg_pages_fill(pages, iter);
	if (!ret) {
		map.pages = pages->pages;
		map.page_order = pages->order;
		map.nr_entries = pages->nr;
		ret = blk_rq_map_user_iov(rq->q, rq, &map, iter, GFP_KERNEL);
	}
	if (ret)
		smqsg_pages_free(pages);
	return ret;
}

static int smqsg_pages_map_iter(struct smqsg_pages *pages, struct request *rq,
				struct iov_iter *iter, bool no_memory)
{
	struct request_queue *q = rq->q;
	int ret;

	if (!iov_iter_count(iter) ||
	    iov_iter_count(iter) > (u64)queue_max_hw_sectors(q) << SECTOR_SHIFT)
		return -EINVAL;
	if (no_memory || !blk_rq_aligned(q, iov_iter_alignment(iter), 0) ||
	    (queue_virt_boundary(q) && (queue_virt_boundary(q) & iov_iter_gap_alignment(iter))))
		return smqsg_pages_copy(pages, rq, iter, no_memory);

	ret = blk_rq_map_user_iov(q, rq, NULL, iter, GFP_KERNEL);
	pages->direct = !ret;
	/* -EINVAL: more pieces of memory than the device takes. A copy needs fewer and may fit. */
	return ret == -EINVAL ? smqsg_pages_copy(pages, rq, iter, false) : ret;
}

/**
 * smqsg_cmd_map() - maps a command's data, before the command has a place and a request
 * @cmd: the command
 * @xfer: where the data is
 *
 * Return: 0; -EINVAL: more data than the device takes in one command, or a wrong iovec; -EFAULT;
 * -ENOMEM. Called in the caller's context; sleeps as long as the caller's memory does not come.
 */
int smqsg_cmd_map(struct smqsg_cmd *cmd, const struct smqsg_xfer *xfer)
{
	struct request rq = {
		.q = cmd->fd->q,
		.cmd_flags = xfer->out ? REQ_OP_DRV_OUT : REQ_OP_DRV_IN,
	};
	int dir = xfer->out ? ITER_SOURCE : ITER_DEST;
	struct iovec fast[UIO_FASTIOV], *iov = fast;
	struct iov_iter iter;
	int ret;

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
	ret = smqsg_pages_map_iter(&cmd->pages, &rq, &iter, xfer->no_memory);
	kfree(iov);
	if (!ret)
		smqsg_data_mapped(&cmd->io->data, &rq);
	return ret;
}
