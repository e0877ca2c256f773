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

/* Bytes of data above which sg refuses a command, whatever the device takes. */
#define SMQSG_TOO_LONG		SZ_256M

/**
 * struct smqsg_xfer - what a header asks for, in one form
 * @addr: the data, or an array of struct iovec
 * @len: bytes, 0 for a command without data
 * @iovec_count: elements of the array; 0: @addr is the data
 * @timeout: jiffies; 0: the queue's own
 * @out: to the device
 * @nowhere: the data has no memory: what comes in is dropped, zeroes go out
 * @at_tail: not before what waits in the queue already
 */
struct smqsg_xfer {
	void __user *addr;
	u32 len;
	u32 iovec_count;
	unsigned long timeout;
	bool out;
	bool nowhere;
	bool at_tail;
};

/**
 * struct smqsg_data - the data of a command, mapped
 * @bio: as it was before the command ran
 * @pages: where the data is copied through, or NULL
 * @nr_pages: elements of @pages
 * @order: of each
 * @direct: the device's transfer is to or from the caller's pages
 */
struct smqsg_data {
	struct bio *bio;
	struct page **pages;
	unsigned int nr_pages;
	unsigned int order;
	bool direct;
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
 * @file: reference that the command holds: from write() on, or since its caller was
 *	killed, to its end
 * @state: see there
 * @sync: of SG_IO: the result is not for read()
 * @orphan: its caller was killed
 * @v4: of interface 4
 * @hdr: the header as it was given, and its results
 * @cdb: the command descriptor block
 * @cdb_len: its bytes
 * @data: its data
 * @result: scsi_cmnd.result
 * @resid: bytes that were not transferred
 * @sense_len: valid bytes of @sense; the others are 0
 * @sense: as the device gave it
 * @start: jiffies when it came
 * @duration: milliseconds from there to its end
 * @done: SG_IO waits here
 * @work: frees it where that cannot be done by its caller
 *
 * Freed by the caller that fetches the result; by @work if none will.
 */
struct smqsg_cmd {
	struct list_head entry;
	struct smqsg_fd *fd;
	struct file *file;
	enum smqsg_cmd_state state;
	bool sync;
	bool orphan;
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

int smqsg_data_map(struct smqsg_data *data, struct request *rq, const struct smqsg_xfer *xfer);
int smqsg_data_unmap(struct smqsg_data *data);

/* compat_cmd.c */

struct smqsg_cmd *smqsg_cmd_alloc(struct smqsg_fd *fd, bool sync);
int smqsg_cmd_enter(struct smqsg_cmd *cmd);
void smqsg_cmd_leave(struct smqsg_cmd *cmd);
int smqsg_cmd_start(struct smqsg_cmd *cmd, const struct smqsg_xfer *xfer);
int smqsg_cmd_wait(struct smqsg_cmd *cmd);
int smqsg_cmd_free(struct smqsg_cmd *cmd);
void smqsg_cmd_drop(struct smqsg_cmd *cmd);
unsigned long smqsg_cmd_patience(struct smqsg_fd *fd, const struct smqsg_xfer *xfer);

/* compat_header.c: headers of interface 3 and 4 */

int smqsg_v3_parse(struct smqsg_cmd *cmd, struct smqsg_xfer *xfer);
int smqsg_v3_fetch(struct smqsg_cmd *cmd, void __user *to);
int smqsg_v4_parse(struct smqsg_cmd *cmd, const struct sg_io_v4 *hdr, struct smqsg_xfer *xfer);
int smqsg_v4_fetch(struct smqsg_cmd *cmd, struct sg_io_v4 *hdr, void __user *to);

/* compat_sync.c */

int smqsg_recovered(struct smqsg_fd *fd);
long smqsg_sg_io(struct smqsg_fd *fd, void __user *arg);

#endif /* SMQSG_COMPAT_CMD_H */
