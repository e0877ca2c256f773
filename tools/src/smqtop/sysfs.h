/* SPDX-License-Identifier: GPL-2.0 */
/* The SCSI hosts and LUNs of the machine, and what sysfs counts of them. */
#ifndef SMQTOP_SYSFS_H
#define SMQTOP_SYSFS_H

#include <linux/types.h>
#include <stdbool.h>

#include "opened.h"

#define SYS_NAME	32

/* One figure of an smq host, in words. */
struct sys_pair {
	char name[SYS_NAME];
	char value[64];
};

#define SYS_PAIRS	24

/**
 * struct sys_host - a SCSI host
 * @number: N of hostN
 * @driver: proc_name of its LLD
 * @state: "running", "recovery", ...
 * @depth: can_queue, how many commands it takes; -1 if not known
 * @inflight: how many it has
 * @queue_of: hardware queue of each CPU, -1 if not known; NULL if no disk of it tells
 * @smq: whether smq drives it
 * @pairs: what smq says of it: policy, batch size, doorbells, what it holds and why
 * @nr_pairs: how many there are
 * @fd: open files, for the next reading
 */
struct sys_host {
	unsigned int number;
	char driver[SYS_NAME];
	char state[SYS_NAME];
	long depth;
	long inflight;
	short *queue_of;
	bool smq;
	struct sys_pair pairs[SYS_PAIRS];
	unsigned int nr_pairs;
	int fd[2];
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
 * @fd: open files, for the next reading
 *
 * The last four counts are read only where no program counts.
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
	int fd[2];
};

struct sys {
	struct sys_host *hosts;
	struct sys_lun *luns;
	unsigned int nr_hosts;
	unsigned int nr_luns;
	unsigned int nr_cpus;
	bool watched;
	int uevents;
	struct opened opened;
};

/**
 * sys_open() - find all hosts and LUNs
 * @s: receives them, by number and address
 * @nr_cpus: of queue_of
 * @watched: programs count the commands
 */
void sys_open(struct sys *s, unsigned int nr_cpus, bool watched);
/* Reads what changes; finds hosts and LUNs again only if the kernel says that some came or went. */
void sys_refresh(struct sys *s);
void sys_close(struct sys *s);
const struct sys_lun *sys_find(const struct sys *s, const char *name);

#endif
