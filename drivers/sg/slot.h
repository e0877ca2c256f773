/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Slots and the buffers that they use.
 */
#ifndef SMQSG_SLOT_H
#define SMQSG_SLOT_H

#include <linux/bvec.h>
#include <linux/refcount.h>

#include "sg.h"

/**
 * struct smqsg_extent - where a command's data is in a buffer
 * @one: the data, where it is one piece of a buffer: a single element from its page on
 * @bvec: else: the element of the buffer's array where it begins
 * @length: bytes of data; 0: no data
 * @skip: bytes of *@bvec before it
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
 * struct smqsg_slot - a prepared command: 64 bytes
 * @cdb: the CDB
 * @data: where its data is
 * @timeout: jiffies
 * @offset: of the data in the buffer, for use with another one
 * @buffer: index of the buffer
 * @segments: pieces of memory at most
 * @cdb_len: bytes of @cdb; 0: empty
 * @direction: enum smq_sg_direction
 * @many: @data is not one piece
 * @hold: keeps its request while it may
 * @direct: and goes past the plug
 * @held: the entry in smqsg_fd.held that was its last; 0, which is nobody's, for none
 *
 * Written with its bit in smqsg_fd.busy held, read by who holds it.
 */
struct smqsg_slot {
	u8 cdb[SMQ_SG_MAX_CDB];
	struct smqsg_extent data;
	u32 timeout;
	u32 offset;
	u16 buffer;
	u16 segments;
	u8 cdb_len;
	u8 direction : 2;
	u8 many : 1;
	u8 hold : 1;
	u8 direct : 1;
	u16 held;
};

static_assert(sizeof(struct smqsg_slot) == 64);

/**
 * struct smqsg_buffer - pinned memory of a process
 * @refs: the file's table, and each command that uses it in place of its slot's
 * @users: slots that use it; under smqsg_fd.setup
 * @mm: whose locked memory it counts as; referenced, not its users
 * @pages: how many are pinned
 * @length: bytes
 * @readonly: the device may only read it
 * @nr: elements of @bvec and @start
 * @start: bytes of the buffer before each element
 * @bvec: the memory: neighbouring pages are one element
 *
 * Lives until the table and the last command have let go.
 */
struct smqsg_buffer {
	refcount_t refs;
	unsigned int users;
	struct mm_struct *mm;
	unsigned long pages;
	u32 length;
	bool readonly;
	unsigned int nr;
	u32 *start;
	struct bio_vec bvec[];
};

int smqsg_segments(struct request_queue *q, const struct bio_vec *bvec, u32 skip, u32 length);
int smqsg_buffer_extent(struct request_queue *q, struct smqsg_buffer *buffer, u32 offset,
			u32 length, struct smqsg_slot *slot);
void smqsg_buffer_put(struct smqsg_buffer *buffer);
struct smqsg_buffer *smqsg_buffer_get(struct smqsg_fd *fd, u16 index);

/* How many slots there are; whoever sees some sees their arrays. */
static inline u32 smqsg_slots(struct smqsg_fd *fd)
{
	/* Pairs with smqsg_ioctl_setup(). */
	return smp_load_acquire(&fd->nr_slots);
}

/* run.c */
bool smqsg_may_run_slowly(const struct cred *owner);

/**
 * smqsg_may_run() - whether the caller may run the file's slots
 * @fd: the file
 *
 * Return: true if whoever prepared them was the caller, or had his credentials.
 * Process context.
 */
static inline bool smqsg_may_run(struct smqsg_fd *fd)
{
	/* Pairs with smqsg_own(). */
	const struct cred *owner = smp_load_acquire(&fd->cred);

	return likely(owner == current_cred()) || smqsg_may_run_slowly(owner);
}

/* cdb.c */
int smqsg_lba_fits(const struct scsi_device *sdev, const u8 *cdb, u64 lba);
void smqsg_lba_set(u8 *cdb, u64 lba);
bool smqsg_cdb_protected(const u8 *cdb);

#endif /* SMQSG_SLOT_H */
