/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Commands without a bio: this module makes the scatterlist of the slot's data and prepares the
 * request. The block layer then does not map the data, and the mid-layer prepares nothing.
 */
#ifndef SMQSG_BIOLESS_H
#define SMQSG_BIOLESS_H

#include <smq/prepare.h>

#include "sg.h"

u32 smqsg_bioless_list(const struct scsi_device *sdev);
void smqsg_bioless_set_two(struct scatterlist *sgl, const struct smqsg_extent *data);
void smqsg_bioless_prepare_one(struct smqsg_fd *fd, struct request *rq, struct page *page,
			       u32 offset, u32 length);
void smqsg_bioless_prepare_mapped(struct smqsg_fd *fd, struct request *rq);

/*
 * Whether the scatterlist in the command is enough for a slot: the slot has no data, or its data
 * needs one or two scatterlist entries and lies in as many elements of its buffer.
 */
static inline bool smqsg_bioless_fits(const struct smqsg_slot *slot)
{
	return slot->segments <= 1 || (slot->segments == SMQ_INLINE_SEGMENTS && slot->in_pieces);
}

static __always_inline void smqsg_bioless_set(struct scatterlist *sg, struct page *page, u32 offset,
					      u32 length, bool last)
{
	/* Clear the element: an LLD's DMA mapping would otherwise see flags of its last use. */
	*sg = (struct scatterlist) { };
	sg_set_page(sg, page, length, offset);
	if (last)
		sg_mark_end(sg);
}

/*
 * Whether this module can prepare a new request without a bio, if the device supports that. It
 * cannot if the mid-layer has never prepared a command with this tag, because then abort_work is
 * not set up. It cannot if there is an elevator, because the block layer may insert the request
 * into it, and bfq reads the bio.
 */
static __always_inline bool smqsg_bioless_tag(struct request *rq)
{
	const struct scsi_cmnd *scmd = blk_mq_rq_to_pdu(rq);

	return likely(scmd->abort_work.work.func && rq->internal_tag < 0);
}

/* Like smqsg_bioless_tag(), but also checks whether the device supports commands without a bio. */
static inline bool smqsg_bioless_may(const struct smqsg_fd *fd, struct request *rq)
{
	return fd->slots.list && smqsg_bioless_tag(rq);
}

/**
 * smqsg_bioless_prepare() - prepares a slot's command
 * @fd: the file
 * @rq: the request, without a bio, for which smqsg_bioless_tag() returns true
 * @direction: the slot's direction
 * @data: the slot, or smqsg_io.buffer_slot of a run with SMQ_SG_RUN_BUFFER; smqsg_bioless_fits()
 *	returns true for it
 *
 * The scatterlist is made inside the command, where the mid-layer would have made it: so it is
 * still there when the mid-layer dispatches the command again. The caller sets the CDB and its
 * length. Any context.
 */
static __always_inline void smqsg_bioless_prepare(struct smqsg_fd *fd, struct request *rq,
						  u8 direction, const struct smqsg_slot *data)
{
	struct scsi_cmnd *scmd = blk_mq_rq_to_pdu(rq);
	struct scatterlist *sgl = (void *)scmd + fd->slots.list;
	unsigned int nents = data->segments;

	if (likely(nents == 1))
		smqsg_bioless_set(sgl, data->data.one.bv_page, data->data.one.bv_offset,
				  data->data.one.bv_len, true);
	else if (nents)
		smqsg_bioless_set_two(sgl, &data->data);
	else
		sgl = NULL;
	BUILD_BUG_ON(DMA_NONE - SMQ_SG_IN != DMA_FROM_DEVICE);
	BUILD_BUG_ON(DMA_NONE - SMQ_SG_OUT != DMA_TO_DEVICE);
	smq_prepare_cmd(scmd, fd->sdev, DMA_NONE - direction, sgl, nents, nents,
			data->data.length);
	rq->nr_phys_segments = nents;
	smq_rq_no_priority(rq);
}

#endif /* SMQSG_BIOLESS_H */
