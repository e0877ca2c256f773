// SPDX-License-Identifier: GPL-2.0
/*
 * The data of commands that are not in a slot: copying little of it, giving it to a request, and
 * unmapping it.
 */
#include <linux/blk-mq.h>
#include <linux/uaccess.h>

#include "bioless.h"
#include "data.h"
#include "io.h"

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
