// SPDX-License-Identifier: GPL-2.0
/*
 * Commands without a bio: which devices support them, and the code for the less frequent cases. The
 * data of commands that are not in a slot: copying little of it, giving it to a request, and
 * unmapping it.
 */
#include <linux/blk-mq.h>
#include <linux/uaccess.h>
#include <scsi/scsi_host.h>

#include "data.h"
#include "io.h"
#include "module.h"

/**
 * smqsg_bioless_list() - finds the scatterlist in a device's commands
 * @sdev: the device
 *
 * Return: its offset from the struct scsi_cmnd. 0 if the device's commands need the mid-layer's own
 * preparation, because the host transfers protection information beside the data, because data is
 * padded, because the device needs a drain buffer (it transfers more than it is asked for), or
 * because the LLD reads the bio. Any context.
 */
u32 smqsg_bioless_list(const struct scsi_device *sdev)
{
	const struct scsi_host_template *hostt = sdev->host->hostt;

	if (!smqsg_can_prepare() || scsi_host_get_prot(sdev->host) ||
	    smq_queue_pad_mask(sdev->request_queue) || sdev->dma_drain_len ||
	    hostt->dma_need_drain || smq_lld_reads_bio(sdev->host))
		return 0;
	return sizeof(struct scsi_cmnd) + hostt->cmd_size;
}

static void smqsg_bioless_set_part(struct scatterlist *sg, const struct bio_vec *bvec, u32 skip,
				   u32 length, bool last)
{
	u32 at = bvec->bv_offset + skip;

	smqsg_bioless_set(sg, pfn_to_page(page_to_pfn(bvec->bv_page) + (at >> PAGE_SHIFT)),
			  offset_in_page(at), length, last);
}

/**
 * smqsg_bioless_set_two() - makes the scatterlist of data in two pieces
 * @sgl: a scatterlist of two elements
 * @data: the data: the end of one element of its buffer, and the beginning of the next
 *
 * Any context.
 */
void smqsg_bioless_set_two(struct scatterlist *sgl, const struct smqsg_extent *data)
{
	u32 first = data->bvec->bv_len - data->skip;

	smqsg_bioless_set_part(&sgl[0], data->bvec, data->skip, first, false);
	smqsg_bioless_set_part(&sgl[1], data->bvec + 1, 0, data->length - first, true);
}

/* Like smqsg_bioless_tag(), but also checks whether the device supports commands without a bio. */
static bool smqsg_bioless_may(const struct smqsg_fd *fd, struct request *rq)
{
	return fd->slots.list && smqsg_bioless_tag(rq);
}

/**
 * smqsg_bioless_prepare_one() - prepares a command whose data is one piece of memory
 * @fd: the file
 * @rq: the request, for which smqsg_bioless_may() returns true
 * @page: the page in which the data begins
 * @offset: offset of the data in the page
 * @length: bytes of data; 0: no data, and @page and @offset are not used
 *
 * The caller sets the CDB and its length. Any context.
 */
static void smqsg_bioless_prepare_one(struct smqsg_fd *fd, struct request *rq, struct page *page,
				      u32 offset, u32 length)
{
	struct scsi_cmnd *scmd = blk_mq_rq_to_pdu(rq);
	struct scatterlist *sgl = NULL;

	if (length) {
		sgl = (void *)scmd + fd->slots.list;
		smqsg_bioless_set(sgl, page, offset, length, true);
	}
	smq_prepare_cmd(scmd, fd->sdev, length ? rq_dma_dir(rq) : DMA_NONE, sgl, !!length, !!length,
			length);
	rq->nr_phys_segments = !!length;
	smq_rq_no_priority(rq);
}

/**
 * smqsg_bioless_prepare_mapped() - prepares a command whose data was mapped to a bio
 * @fd: the file
 * @rq: the request, with its bio or without data
 *
 * Prepares the command if smqsg_bioless_may() allows it and its data is none or one piece of
 * memory; otherwise leaves the preparation to the mid-layer. The bio stays, because it holds the
 * references to the pages. The caller sets the CDB and its length. Any context.
 */
static void smqsg_bioless_prepare_mapped(struct smqsg_fd *fd, struct request *rq)
{
	struct bio *bio = rq->bio;
	struct bio_vec bvec = { };

	if (!smqsg_bioless_may(fd, rq))
		return;
	if (bio) {
		bvec = mp_bvec_iter_bvec(bio->bi_io_vec, bio->bi_iter);
		if (rq->nr_phys_segments != 1 || bvec.bv_len != blk_rq_bytes(rq))
			return;
	}
	smqsg_bioless_prepare_one(fd, rq, bvec.bv_page + (bvec.bv_offset >> PAGE_SHIFT),
				  offset_in_page(bvec.bv_offset), bvec.bv_len);
}

/**
 * smqsg_data_is_small() - whether data can be copied through the page of its command's struct
 * @fd: the file
 * @length: bytes, not 0
 * @iovecs: elements of the caller's array of struct iovec; 0: the data is one piece
 */
bool smqsg_data_is_small(const struct smqsg_fd *fd, u32 length, u32 iovecs)
{
	return length <= SMQSG_SMALL && !iovecs && fd->slots.list &&
	       length <= queue_max_hw_sectors(fd->q) << SECTOR_SHIFT;
}

/**
 * smqsg_data_copy() - fills a command's page from the caller's memory
 * @io: the command
 * @from: the user address
 * @length: bytes, at most SMQSG_SMALL
 * @out: the data goes to the device. Data-in is copied as well: so bytes that the device does not
 *	write keep the caller's values
 *
 * Return: 0, -EFAULT or -ENOMEM. Process context.
 */
int smqsg_data_copy(struct smqsg_io *io, u64 from, u32 length, bool out)
{
	struct smqsg_data *data = &io->data;

	if (unlikely(!data->page))
		data->page = (void *)__get_free_page(GFP_KERNEL_ACCOUNT);
	if (unlikely(!data->page))
		return -ENOMEM;
	if (copy_from_user(data->page, u64_to_user_ptr(from), length))
		return -EFAULT;
	data->small = length;
	data->back = out ? 0 : from;
	return 0;
}

/**
 * smqsg_data_mapped() - takes data that the block layer has mapped to a request
 * @data: the command's
 * @rq: a request without a tag: the block layer maps memory only to a request
 *
 * Process context.
 */
void smqsg_data_mapped(struct smqsg_data *data, const struct request *rq)
{
	data->mapped = smq_rq_data_of(rq);
	data->user_bio = rq->bio;
}

/**
 * smqsg_data_give() - gives a request the data of its command
 * @io: the command
 * @rq: the request, new or idle
 *
 * May be called again with another request, if this one was not sent. Process context.
 */
void smqsg_data_give(struct smqsg_io *io, struct request *rq)
{
	struct smqsg_data *data = &io->data;

	if (data->small) {
		if (likely(smqsg_bioless_may(io->fd, rq))) {
			smqsg_bioless_prepare_one(io->fd, rq, virt_to_page(data->page), 0,
						  data->small);
			return;
		}
		data->vec = (struct bio_vec) {
			.bv_page = virt_to_page(data->page),
			.bv_len = data->small,
		};
		smqsg_bio_arm(&io->bio, &data->vec, 0, data->small);
		data->mapped = smq_rq_data_of_bio(&io->bio, 1);
	}
	if (data->mapped.bio) {
		smq_rq_set_data(rq, &data->mapped);
	} else {
		/* An idle request has the size of its last command's data. */
		rq->nr_phys_segments = 0;
		rq->__data_len = 0;
	}
	smqsg_bioless_prepare_mapped(io->fd, rq);
}

/**
 * smqsg_data_unsent() - makes smqsg_data_unmap() copy nothing to the caller
 * @data: the data of a command that was not sent
 *
 * The caller's memory is not marked as written either.
 */
void smqsg_data_unsent(struct smqsg_data *data)
{
	struct bio *bio;

	for (bio = data->user_bio; bio; bio = bio->bi_next)
		bio->bi_opf = (bio->bi_opf & ~(blk_opf_t)REQ_OP_MASK) | REQ_OP_DRV_OUT;
	data->back = 0;
}

/* smqsg_data_unmap() of data that was mapped, or has to be copied to the caller. */
int smqsg_data_unmap_some(struct smqsg_data *data)
{
	int ret = 0;

	if (data->user_bio)
		ret = blk_rq_unmap_user(data->user_bio);
	data->user_bio = NULL;
	if (data->back && smqsg_has_caller() &&
	    copy_to_user(u64_to_user_ptr(data->back), data->page, data->small))
		ret = ret ?: -EFAULT;
	data->back = 0;
	return ret;
}
