/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Interface 3 of an open file: the data that compat_*.c keep for it, and the functions that the
 * file operations call.
 */
#ifndef SMQSG_COMPAT_FILE_H
#define SMQSG_COMPAT_FILE_H

#include <linux/list.h>
#include <linux/poll.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/wait.h>

struct fasync_struct;
struct smqsg_cmd;
struct smqsg_fd;

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

/* compat_cmd.c */

void smqsg_v3_open(struct smqsg_fd *fd);
void smqsg_v3_release(struct smqsg_fd *fd);
void smqsg_v3_device_removed(struct smqsg_fd *fd);

/* compat_io.c */

ssize_t smqsg_v3_write(struct smqsg_fd *fd, const char __user *buf, size_t count);
ssize_t smqsg_v3_read(struct smqsg_fd *fd, char __user *buf, size_t count);
__poll_t smqsg_v3_poll(struct smqsg_fd *fd, poll_table *wait);
int smqsg_v3_fasync(struct smqsg_fd *fd, int descriptor, int on);

/* compat_query.c */

long smqsg_sg_ioctl(struct smqsg_fd *fd, unsigned int cmd, unsigned long argument);

#endif /* SMQSG_COMPAT_FILE_H */
