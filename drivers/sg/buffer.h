/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Buffers: pinned memory of a process, and where a command's data is in it.
 */
#ifndef SMQSG_BUFFER_H
#define SMQSG_BUFFER_H

#include <linux/bvec.h>
#include <linux/refcount.h>
#include <linux/types.h>
#include <linux/xarray.h>

struct cred;
struct mm_struct;
struct request_queue;
struct smqsg_fd;

/**
 * struct smqsg_extent - where a command's data is in a buffer
 * @one: if the data lies in one element of the buffer's array: the data, with the page in which it
 *	begins
 * @bvec: otherwise: the element of the buffer's array in which the data begins
 * @length: bytes of data; 0: no data
 * @skip: bytes of *@bvec before the data
 */
struct smqsg_extent {
	union {
		struct bio_vec one;
		struct {
			struct bio_vec *bvec;
			u32 length;
			u32 skip;
		};
	};
};

static_assert(offsetof(struct smqsg_extent, length) == offsetof(struct bio_vec, bv_len));

/**
 * struct smqsg_buffer - pinned memory of a process
 * @refs: references by the file's table, and by each run that uses this buffer in place of the
 *	buffer of its slot
 * @users: number of slots that use the buffer; under smqsg_fd.setup
 * @owner: credentials of the user whose locked memory includes the buffer, referenced; NULL if the
 *	process that lent it had CAP_IPC_LOCK
 * @mm: the mm of the process that lent it, whose pinned_vm includes @pages. The reference keeps the
 *	struct, not the process's memory (mmgrab())
 * @pages: number of pinned pages
 * @length: size in bytes
 * @readonly: the device may only read it
 * @nr: number of elements of @bvec and @start
 * @start: bytes of the buffer before each element
 * @bvec: the memory; pages that are contiguous in physical memory share an element
 *
 * Lives until the last of @refs is dropped.
 */
struct smqsg_buffer {
	refcount_t refs;
	unsigned int users;
	const struct cred *owner;
	struct mm_struct *mm;
	unsigned long pages;
	u32 length;
	bool readonly;
	unsigned int nr;
	u32 *start;
	struct bio_vec bvec[];
};

u32 smqsg_max_transfer(struct request_queue *q);
int smqsg_segments(struct request_queue *q, const struct bio_vec *bvec, u32 skip, u32 length);
void smqsg_buffer_put(struct smqsg_buffer *buffer);
struct smqsg_buffer *smqsg_buffer_get(struct xarray *buffers, u16 index);
void smqsg_buffers_free(struct xarray *buffers);
long smqsg_ioctl_buffer(struct smqsg_fd *fd, void __user *arg);

#endif /* SMQSG_BUFFER_H */
