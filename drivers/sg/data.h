/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How requests get their data.
 *
 * Commands without a bio: this module makes the scatterlist of the data and prepares the request.
 * The block layer then does not map the data, and the mid-layer prepares nothing.
 *
 * The data of commands that are not in a slot: ad hoc ones, and those of SG_IO and write().
 * The caller's memory may be slow to come, or never come: a user decides that, by userfaultfd or a
 * file of FUSE. So it is accessed only while a command has neither a place nor a tag: before it
 * gets them, and when its request has been given back.
 */
#ifndef SMQSG_DATA_H
#define SMQSG_DATA_H

#include <linux/bio.h>
#include <linux/sched.h>
#include <linux/types.h>
#include <smq/compat.h>
#include <smq/prepare.h>

#include "sg.h"

struct request;
struct smqsg_io;

/* Up to this many bytes, copying the data costs less than pinning its pages. */
#define SMQSG_SMALL		min_t(u32, PAGE_SIZE, SZ_4K)

/**
 * struct smqsg_data - the data of a command
 * @mapped: what its request gets; no bio if there is no data, or if it is in @page
 * @user_bio: the bio into which the block layer mapped the caller's memory, to be unmapped; or NULL
 * @page: a page for up to SMQSG_SMALL bytes, or NULL. Stays with struct smqsg_io
 * @small: bytes of data in @page, 0: none
 * @back: the user address to which @page is copied when the command has ended, or 0
 * @vec: the data in @page, for a bio of it
 *
 * Lives in struct smqsg_io, from smqsg_data_init() to smqsg_data_unmap().
 */
struct smqsg_data {
	struct smq_rq_data mapped;
	struct bio *user_bio;
	void *page;
	u32 small;
	u64 back;
	struct bio_vec vec;
};

static inline void smqsg_data_init(struct smqsg_data *data)
{
	data->mapped.bio = NULL;
	data->user_bio = NULL;
	data->small = 0;
	data->back = 0;
}

bool smqsg_data_is_small(const struct smqsg_fd *fd, u32 length, u32 iovecs);
int smqsg_data_copy(struct smqsg_io *io, u64 from, u32 length, bool out);
void smqsg_data_mapped(struct smqsg_data *data, const struct request *rq);
void smqsg_data_give(struct smqsg_io *io, struct request *rq);
void smqsg_data_unsent(struct smqsg_data *data);
int smqsg_data_unmap_some(struct smqsg_data *data);

/*
 * Whether the current task has a user's address space: task work may also run in a kernel thread,
 * or in a task that exits.
 */
static inline bool smqsg_has_caller(void)
{
	return current->mm && !(current->flags & (PF_EXITING | PF_KTHREAD));
}

/**
 * smqsg_data_unmap() - unmaps a command's data, and copies it to the caller if necessary
 * @data: the data of a command that has ended, and has no request any more
 *
 * In a task without the caller's memory no data is copied. Process context.
 *
 * Return: 0, or -EFAULT if the caller's memory could not be written.
 */
static inline int smqsg_data_unmap(struct smqsg_data *data)
{
	return data->user_bio || data->back ? smqsg_data_unmap_some(data) : 0;
}

u32 smqsg_bioless_list(const struct scsi_device *sdev);
void smqsg_bioless_set_two(struct scatterlist *sgl, const struct smqsg_extent *data);

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

#endif /* SMQSG_DATA_H */
