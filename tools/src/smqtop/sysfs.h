/* SPDX-License-Identifier: GPL-2.0 */
/* The SCSI hosts and LUNs of the machine, and what sysfs counts of them. */
#ifndef SMQTOP_SYSFS_H
#define SMQTOP_SYSFS_H

#include <linux/types.h>

#define SYS_NAME	32

/**
 * struct sys_host - a SCSI host
 * @number: N of hostN
 * @driver: proc_name of its LLD
 * @state: "running", "recovery", ...
 * @depth: can_queue, how many commands it takes; -1 if not known
 * @inflight: how many it has
 * @queue_of: hardware queue of each CPU, -1 if not known; NULL if no disk of it tells
 */
struct sys_host {
	unsigned int number;
	char driver[SYS_NAME];
	char state[SYS_NAME];
	long depth;
	long inflight;
	short *queue_of;
};

/**
 * struct sys_lun - a LUN
 * @host: index of its host
 * @name: H:C:T:L
 * @disk: sdX, or the name of its sg node; empty if it has neither
 * @depth: queue_depth; -1 if not known
 * @inflight: commands that it has
 * @done: iodone_cnt
 * @errors: ioerr_cnt
 * @timeouts: iotmo_cnt
 * @bytes: of block I/O
 */
struct sys_lun {
	unsigned int host;
	char name[SYS_NAME];
	char disk[SYS_NAME];
	long depth;
	long inflight;
	__u64 done;
	__u64 errors;
	__u64 timeouts;
	__u64 bytes;
};

struct sys {
	struct sys_host *hosts;
	struct sys_lun *luns;
	unsigned int nr_hosts;
	unsigned int nr_luns;
};

/**
 * sys_read() - read all hosts and LUNs
 * @s: receives them, by number and address
 * @nr_cpus: of queue_of
 */
void sys_read(struct sys *s, unsigned int nr_cpus);
void sys_free(struct sys *s);
const struct sys_lun *sys_find(const struct sys *s, const char *name);

#endif
