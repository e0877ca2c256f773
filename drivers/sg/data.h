/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The data of commands that are not in a slot: ad hoc ones, and those of SG_IO and write().
 *
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

struct request;
struct smqsg_fd;
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

#endif /* SMQSG_DATA_H */
