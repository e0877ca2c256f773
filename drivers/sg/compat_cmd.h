/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Commands as /dev/sgN and bsg take them: what compat_*.c share.
 */
#ifndef SMQSG_COMPAT_CMD_H
#define SMQSG_COMPAT_CMD_H

#include <linux/completion.h>
#include <linux/list.h>
#include <linux/sizes.h>
#include <linux/types.h>
#include <linux/workqueue.h>
#include <scsi/scsi_cmnd.h>
#include <scsi/sg.h>

struct bio;
struct file;
struct page;
struct request;
struct sg_io_v4;
struct smqsg_fd;
struct smqsg_v3;

/* Bytes of data up to which copying costs less than pinning. */
#define SMQSG_SMALL		min_t(u32, PAGE_SIZE, SZ_4K)
/* A command with so many bytes of data, or more, is refused by sg, whatever the device takes. */
#define SMQSG_TOO_LONG		SZ_256M

/**
 * struct smqsg_xfer - what a header asks for, in one form
 * @addr: the data, or an array of struct iovec
 * @len: bytes, 0 for a command without data
 * @iovec_count: elements of the array; 0: @addr is the data
 * @timeout: jiffies; 0: the queue's own
 * @out: to the device
 * @nowhere: the caller gives no memory: data from the device is dropped, zeroes are sent to it
 * @at_tail: the command goes behind requests that wait in the queue already
 * @copy: little data may be copied: the caller waits for the end, and does not ask for direct I/O
 */
struct smqsg_xfer {
	void __user *addr;
	u32 len;
	u32 iovec_count;
	unsigned long timeout;
	bool out;
	bool nowhere;
	bool at_tail;
	bool copy;
};

/**
 * struct smqsg_data - the data of a command, mapped
 * @bio: the request's bio as it was before the command ran
 * @pages: pages through which the data is copied, or NULL
 * @nr_pages: elements of @pages
 * @order: order of each of @pages
 * @direct: the device's transfer is to or from the caller's pages
 * @small: a page with a copy of little data, in which case the above is not used; or NULL
 * @back: where in the caller's memory @small is copied to at the end, or NULL
 * @small_len: bytes of data in @small
 */
struct smqsg_data {
	struct bio *bio;
	struct page **pages;
	unsigned int nr_pages;
	unsigned int order;
	bool direct;
	void *small;
	void __user *back;
	unsigned int small_len;
};

enum smqsg_cmd_state {
	SMQSG_RUNNING,
	SMQSG_ENDED,
	SMQSG_READING,		/* read() is fetching its result */
};

/**
 * struct smqsg_cmd - a command of SG_IO or write()
 * @entry: in smqsg_v3.cmds; empty for interface 4
 * @fd: the file. It is open until the command has ended: by the caller's use of the
 *	descriptor, else by @file
 * @file: the command's reference to the file: from write(), or from the time its caller was killed,
 *	to the command's end, or that of @work
 * @state: see enum smqsg_cmd_state
 * @sync: the command is one of SG_IO: read() does not get the result
 * @orphan: its caller was killed
 * @kept: of those, @work is to let read() have the result: SG_SET_KEEP_ORPHAN
 * @v4: of interface 4
 * @hdr: the header as it was given, and its results
 * @cdb: the command descriptor block
 * @cdb_len: its bytes
 * @data: its data
 * @result: scsi_cmnd.result
 * @resid: bytes that were not transferred
 * @sense_len: valid bytes of @sense; the others are 0
 * @sense: as the device gave it
 * @start: jiffies when the command was submitted
 * @duration: milliseconds from there to its end
 * @done: SG_IO waits here
 * @work: unmaps its data if its caller was killed; then frees it, or lets read() have its result
 *
 * Freed by the caller that fetches the result, which may keep the memory in smqsg_v3.spare; by
 * @work if none will.
 */
struct smqsg_cmd {
	struct list_head entry;
	struct smqsg_fd *fd;
	struct file *file;
	enum smqsg_cmd_state state;
	bool sync;
	bool orphan;
	bool kept;
	bool v4;
	struct sg_io_hdr hdr;
	u8 cdb[sizeof_field(struct scsi_cmnd, cmnd)];
	u8 cdb_len;
	struct smqsg_data data;
	int result;
	unsigned int resid;
	unsigned int sense_len;
	u8 sense[SCSI_SENSE_BUFFERSIZE];
	unsigned long start;
	unsigned int duration;
	struct completion done;
	struct work_struct work;
};

/* compat_data.c */

int smqsg_data_map(struct smqsg_data *data, struct smqsg_fd *fd, struct request *rq,
		   const struct smqsg_xfer *xfer);
int smqsg_data_unmap(struct smqsg_data *data, struct smqsg_v3 *v3);

/* compat_cmd.c */

struct smqsg_cmd *smqsg_cmd_alloc(struct smqsg_fd *fd, bool sync);
int smqsg_cmd_enter(struct smqsg_cmd *cmd);
void smqsg_cmd_leave(struct smqsg_cmd *cmd);
int smqsg_cmd_start(struct smqsg_cmd *cmd, const struct smqsg_xfer *xfer);
int smqsg_cmd_wait(struct smqsg_cmd *cmd);
int smqsg_cmd_free(struct smqsg_cmd *cmd);
void smqsg_cmd_drop(struct smqsg_cmd *cmd);
unsigned long smqsg_cmd_wait_limit(struct smqsg_fd *fd, const struct smqsg_xfer *xfer);

/* compat_header.c: headers of interface 3 and 4 */

int smqsg_v3_parse(struct smqsg_cmd *cmd, struct smqsg_xfer *xfer);
int smqsg_v3_fetch(struct smqsg_cmd *cmd, void __user *to);
int smqsg_v4_parse(struct smqsg_cmd *cmd, const struct sg_io_v4 *hdr, struct smqsg_xfer *xfer);
int smqsg_v4_fetch(struct smqsg_cmd *cmd, struct sg_io_v4 *hdr, void __user *to);

/* compat_sync.c */

int smqsg_recovered(struct smqsg_fd *fd);
long smqsg_sg_io(struct smqsg_fd *fd, void __user *arg);

#endif /* SMQSG_COMPAT_CMD_H */
