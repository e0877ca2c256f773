/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Commands as /dev/sgN and bsg take them: what compat_*.c share.
 */
#ifndef SMQSG_COMPAT_CMD_H
#define SMQSG_COMPAT_CMD_H

#include <linux/completion.h>
#include <linux/list.h>
#include <linux/sizes.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <scsi/scsi_cmnd.h>
#include <scsi/sg.h>

struct bio;
struct fasync_struct;
struct file;
struct page;
struct request;
struct sg_io_v4;
struct smqsg_fd;

/* Commands of interface 3 per file, with those whose result nobody has read. */
#define SMQSG_MOST_V3		1024
/* Bytes of data from which on sg refuses a command whatever the device takes. */
#define SMQSG_TOO_LONG		SZ_256M

/**
 * struct smqsg_v3 - what interface 3 keeps per file
 * @lock: protects @cmds, @nr, @running, @full, and of the commands in @cmds all that
 *	their end writes. Taken with interrupts off: a command ends in any context
 * @cmds: commands of interface 3, oldest first, struct smqsg_cmd.entry
 * @nr: their number
 * @running: those of write() that have not ended
 * @full: a write() that must not block found no place while others were running:
 *	poll() says "not writable" until one of them ends
 * @wait: read() and poll() wait here
 * @async: who wants SIGIO
 * @timeout: SG_SET_TIMEOUT, in USER_HZ; only told again
 * @reserved: SG_SET_RESERVED_SIZE, in bytes; only told again
 * @force_pack_id: read() takes the result with the pack_id it is given
 * @cmd_q: SG_SET_COMMAND_Q; any header of interface 3 sets it
 * @keep_orphan: the result of an SG_IO that was killed is for read()
 *
 * From open() to release(). The settings are single words, written without a lock.
 */
struct smqsg_v3 {
	spinlock_t lock;	/* see above */
	struct list_head cmds;
	unsigned int nr;
	unsigned int running;
	bool full;
	wait_queue_head_t wait;
	struct fasync_struct *async;
	int timeout;
	int reserved;
	int force_pack_id;
	int cmd_q;
	int keep_orphan;
};

/**
 * struct smqsg_xfer - what a header asks for, in one form
 * @addr: the data, or an array of struct iovec
 * @len: bytes, 0 for a command without data
 * @iovec_count: elements of the array; 0: @addr is the data
 * @timeout: jiffies; 0: the queue's own
 * @out: to the device
 * @nowhere: the data is nobody's: what comes in is thrown away, zeroes go out
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
	SMQSG_READING,		/* somebody is fetching its result */
};

/**
 * struct smqsg_cmd - a command of SG_IO or write()
 * @entry: in smqsg_v3.cmds; empty for interface 4
 * @fd: whose. It is there until the command has ended: by the caller's use of the
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
 * Freed by who fetches the result; by @work, if there is nobody (left) to fetch it.
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
