// SPDX-License-Identifier: GPL-2.0
/*
 * Commands without a bio: which devices support them, and the code for the less frequent cases.
 */
#include <scsi/scsi_host.h>
#include <smq/prepare.h>

#include "bioless.h"
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
void smqsg_bioless_prepare_one(struct smqsg_fd *fd, struct request *rq, struct page *page,
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
void smqsg_bioless_prepare_mapped(struct smqsg_fd *fd, struct request *rq)
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
