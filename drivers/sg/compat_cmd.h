/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Commands in the formats of /dev/sgN and bsg: the data of an open file, and declarations that
 * compat_*.c share.
 */
#ifndef SMQSG_COMPAT_CMD_H
#define SMQSG_COMPAT_CMD_H

#include <linux/list.h>
#include <linux/poll.h>
#include <linux/sizes.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/wait.h>
#include <scsi/scsi_cmnd.h>
#include <scsi/sg.h>

#include "caller.h"

struct cred;
struct fasync_struct;
struct sg_io_v4;
struct smqsg_fd;
struct smqsg_io;

/* Most commands of interface 3 per file, including those whose result has not been read. */
#define SMQSG_MOST_V3		1024

/**
 * struct smqsg_v3 - data of interface 3 for each file
 * @lock: protects @cmds, @nr, @running, @full, and those fields of the commands in @cmds that a
 *	command's end changes. Taken with interrupts off: a command ends in any context
 * @cmds: commands of interface 3, oldest first, struct smqsg_cmd.entry
 * @nr: number of commands in @cmds
 * @running: number of commands of write() that have not ended
 * @full: a write() with O_NONBLOCK found no place while other commands were running: poll() reports
 *	"not writable" until one of them ends
 * @wait: read() and poll() wait here
 * @async: files that want SIGIO
 * @timeout: SG_SET_TIMEOUT, in USER_HZ; only reported
 * @reserved: SG_SET_RESERVED_SIZE, in bytes; only reported
 * @force_pack_id: SG_SET_FORCE_PACK_ID: read() takes only a result with the pack_id in its header
 * @written: write() was called: read() may wait
 * @cmd_q: SG_SET_COMMAND_Q; any header of interface 3 sets it
 * @keep_orphan: SG_SET_KEEP_ORPHAN: read() can fetch the result of an SG_IO whose caller was killed
 *
 * Lives in the file, from smqsg_v3_open() to smqsg_v3_release(). The settings are single words,
 * written without a lock.
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
	bool written;
	int cmd_q;
	int keep_orphan;
};

/* sg refuses a command with this many bytes of data or more, whatever the device takes. */
#define SMQSG_TOO_LONG		SZ_256M

/**
 * struct smqsg_xfer - the request of a header, in one form for all interfaces
 * @addr: the data, or an array of struct iovec
 * @len: bytes, 0 for a command without data
 * @iovec_count: elements of the array; 0: @addr is the data
 * @timeout: in jiffies; 0: the queue's default
 * @out: the data goes to the device
 * @no_memory: the caller gives no memory: drop data from the device, send zeroes to the device
 * @at_tail: the command goes behind requests that wait in the queue already
 * @copy: data of up to SMQSG_SMALL bytes may be copied rather than mapped: the caller waits for the
 *	command's end, and does not ask for direct I/O
 */
struct smqsg_xfer {
	void __user *addr;
	u32 len;
	u32 iovec_count;
	unsigned long timeout;
	bool out;
	bool no_memory;
	bool at_tail;
	bool copy;
};

/**
 * struct smqsg_pages - pages through which a command's data is copied
 * @pages: the pages, or NULL
 * @nr: elements of @pages
 * @order: allocation order of each of @pages
 * @direct: the device's transfer is to or from the caller's pages instead
 * @owner: a reference to the credentials of the user whose locked memory includes these pages,
 *	until they are unmapped; NULL if none is counted
 * @locked: how many pages are counted
 */
struct smqsg_pages {
	struct page **pages;
	unsigned int nr;
	unsigned int order;
	bool direct;
	const struct cred *owner;
	unsigned long locked;
};

enum smqsg_cmd_state {
	SMQSG_RUNNING,
	SMQSG_ENDED,
	SMQSG_READING,		/* read() is fetching its result */
};

/**
 * struct smqsg_cmd - a command of SG_IO or write()
 * @entry: in smqsg_v3.cmds; empty for interface 4
 * @fd: the file. Until the command has ended, the caller's use of the descriptor or @caller.file
 *	keeps the file open
 * @state: see enum smqsg_cmd_state. Under smqsg_v3.lock; but the end of a command of SG_IO sets it
 *	without the lock (release), after its results
 * @sync: the command is one of SG_IO: read() does not get the result
 * @v4: the command is of interface 4
 * @hdr: the caller's header, later with the results
 * @cdb: the command descriptor block
 * @cdb_len: bytes of @cdb
 * @timeout: of the device, in jiffies; 0: the queue's default
 * @io: the command's data and request. From the file's pool; this struct is @io->header
 * @result: scsi_cmnd.result
 * @resid: bytes that were not transferred
 * @sense_len: valid bytes of @sense; the others are 0
 * @sense: as the device gave it
 * @start: jiffies when the command was submitted
 * @duration: milliseconds from @start to the command's end
 * @caller: of SG_IO. A write() leaves at once; then only @caller.file is used, until the command
 *	ends
 * @pages: memory of its data
 *
 * The caller that fetches the result frees the command. If no caller will fetch the result,
 * @caller.work frees it.
 */
struct smqsg_cmd {
	struct list_head entry;
	struct smqsg_fd *fd;
	enum smqsg_cmd_state state;
	bool sync;
	bool v4;
	struct sg_io_hdr hdr;
	u8 cdb[sizeof_field(struct scsi_cmnd, cmnd)];
	u8 cdb_len;
	unsigned int timeout;
	struct smqsg_io *io;
	int result;
	unsigned int resid;
	unsigned int sense_len;
	u8 sense[SCSI_SENSE_BUFFERSIZE];
	unsigned long start;
	unsigned int duration;
	struct smqsg_caller caller;
	struct smqsg_pages pages;
};

/* compat_cmd.c */

void smqsg_v3_open(struct smqsg_fd *fd);
void smqsg_v3_release(struct smqsg_fd *fd);
void smqsg_v3_device_removed(struct smqsg_fd *fd);
struct smqsg_cmd *smqsg_cmd_alloc(struct smqsg_fd *fd, bool sync);
int smqsg_cmd_enter(struct smqsg_cmd *cmd);
void smqsg_cmd_leave(struct smqsg_cmd *cmd);
int smqsg_cmd_get_data(struct smqsg_cmd *cmd, const struct smqsg_xfer *xfer);
int smqsg_cmd_reserve(struct smqsg_fd *fd, const struct smqsg_xfer *xfer);
int smqsg_cmd_send(struct smqsg_cmd *cmd, const struct smqsg_xfer *xfer,
		   int (*reserve)(struct smqsg_fd *fd, const struct smqsg_xfer *xfer));
int smqsg_cmd_wait(struct smqsg_cmd *cmd);
int smqsg_cmd_free(struct smqsg_cmd *cmd);

/* compat_header.c: headers of interface 3 and 4 */

int smqsg_v3_parse(struct smqsg_cmd *cmd, struct smqsg_xfer *xfer);
int smqsg_v3_fetch(struct smqsg_cmd *cmd, void __user *to);
int smqsg_v4_parse(struct smqsg_cmd *cmd, const struct sg_io_v4 *hdr, struct smqsg_xfer *xfer);
int smqsg_v4_fetch(struct smqsg_cmd *cmd, struct sg_io_v4 *hdr, void __user *to);

/* compat_io.c */

long smqsg_sg_io(struct smqsg_fd *fd, void __user *arg);
ssize_t smqsg_v3_write(struct file *file, const char __user *buf, size_t count, loff_t *pos);
ssize_t smqsg_v3_read(struct file *file, char __user *buf, size_t count, loff_t *pos);
__poll_t smqsg_v3_poll(struct file *file, poll_table *wait);
int smqsg_v3_fasync(int descriptor, struct file *file, int on);

/* compat_query.c */

long smqsg_sg_ioctl(struct smqsg_fd *fd, unsigned int cmd, unsigned long argument);

#endif /* SMQSG_COMPAT_CMD_H */
