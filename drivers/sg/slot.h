/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Slots: prepared commands.
 */
#ifndef SMQSG_SLOT_H
#define SMQSG_SLOT_H

#include <linux/atomic.h>
#include <linux/types.h>
#include <uapi/scsi/smq_sg.h>

#include "buffer.h"

struct file;
struct request_queue;
struct smqsg_fd;
struct vm_area_struct;

/**
 * struct smqsg_slot - a prepared command: 64 bytes
 * @cdb: the CDB
 * @data: where its data is
 * @timeout: jiffies
 * @offset: offset of the data in the buffer, for runs with another buffer
 * @buffer: index of the buffer
 * @segments: how many pieces of memory the data has, at most
 * @cdb_len: bytes of @cdb; 0: the slot is empty
 * @direction: enum smq_sg_direction
 * @in_pieces: @data lies in more than one element of the buffer's array
 * @bioless: its requests need no bio
 * @lba_bits: smqsg_lba_bits() of @cdb
 * @unused: makes the size a cache line
 *
 * Read and written only by the context that has set its byte in smqsg_fd_slots.busy.
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
	u8 in_pieces : 1;
	u8 bioless : 1;
	u8 lba_bits;
	u8 unused;
};

static_assert(sizeof(struct smqsg_slot) == 64);

/**
 * struct smqsg_fd_slots - slots of a file
 * @array: @nr slots
 * @busy: a byte per slot, set while the slot's run waits or is in flight, or while the slot is
 *	being filled. Set by exchange (full barrier), cleared by the command's end (release). In
 *	cache lines of its own
 * @status: the mapped array, whose elements are @status_stride bytes apart. Like @array and @busy
 *	it is charged to the memory cgroup of the task that calls SMQ_SG_SETUP: nothing else bounds
 *	the memory of all files
 * @status_stride: sizeof(struct smq_sg_status) plus @sense_size
 * @sense_size: bytes of sense in an element
 * @list: where in a command its scatterlist lies, see smqsg_bioless_list(); 0: commands need a
 *	bio. Set when the file is opened
 * @nr: 0 before SMQ_SG_SETUP, which writes it last, once (release; readers acquire): a reader that
 *	does not see 0 sees the arrays
 *
 * Lives in the file. SMQ_SG_SETUP allocates the arrays, the file's release frees them.
 */
struct smqsg_fd_slots {
	struct smqsg_slot *array;
	u8 *busy;
	void *status;
	unsigned int status_stride;
	unsigned int sense_size;
	unsigned int list;
	unsigned int nr;
};

long smqsg_ioctl_info(struct smqsg_fd *fd, void __user *arg);
long smqsg_ioctl_setup(struct smqsg_fd *fd, void __user *arg);
long smqsg_ioctl_prepare(struct smqsg_fd *fd, void __user *arg);
int smqsg_mmap_status(struct file *file, struct vm_area_struct *vma);
void smqsg_slots_free(struct smqsg_fd *fd);
int smqsg_slot_locate(struct smqsg_slot *slot, struct request_queue *q,
		      struct smqsg_buffer *buffer, u32 offset, u32 length);

/* Returns how many slots a file has. If it has any, the caller sees their arrays as well. */
static inline u32 smqsg_slots(const struct smqsg_fd_slots *file)
{
	/* Pairs with smqsg_ioctl_setup(). */
	return smp_load_acquire(&file->nr);
}

/* Sets a slot's byte; false: it is set already. */
static __always_inline bool smqsg_slot_try(struct smqsg_fd_slots *file, u32 number)
{
	return !xchg(&file->busy[number], 1);
}

/* Clears a slot's byte: the slot can be filled or run again. */
static __always_inline void smqsg_slot_give_back(struct smqsg_fd_slots *file, u32 number)
{
	/* Pairs with the exchange: whoever sets it next sees the slot and its status. */
	smp_store_release(&file->busy[number], 0);
}

#endif /* SMQSG_SLOT_H */
