/* SPDX-License-Identifier: GPL-2.0 */
/* Finds a SCSI device by any of its nodes, through sysfs. */
#ifndef SG_IO_DEVICE_H
#define SG_IO_DEVICE_H

#include <glob.h>
#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

enum node_kind {
	NODE_SG,
	NODE_BSG,
	NODE_BLOCK,
	NODE_SMQ,
	NODE_KINDS,
};

#define DEV_NAME	64

struct device {
	const char *given;		/* as the user named it */
	enum node_kind kind;		/* kind of the node given; NODE_SG for an H:C:T:L */
	char hctl[DEV_NAME];
	char node[NODE_KINDS][DEV_NAME];	/* /dev/..., empty if there is none */
	char sysfs[128];		/* path of the scsi_device, which identifies it */
	char queue[160];		/* path of the request queue; empty without a disk */
	char smq[128];			/* path of the smqsg node; empty if there is none */
	/* Of a disk, 0 if not known: */
	__u32 block_size;		/* logical */
	__u64 blocks;
	__u64 max_transfer;		/* bytes of one command */
};

const char *node_kind_name(enum node_kind kind);

/**
 * device_find() - the SCSI device of a node or of an H:C:T:L
 * @name: /dev/sgN, /dev/bsg/H:C:T:L, /dev/sdX, /dev/smqsgN, a link to one, or H:C:T:L
 * @dev: the result
 *
 * Return: 0, or -1 after one message.
 */
int device_find(const char *name, struct device *dev);

#define DEVICE_REASON	256	/* size of the buffer for the reason, in bytes */

/* The same without a message: @why, of DEVICE_REASON bytes or NULL, receives the reason. */
int device_try(const char *name, struct device *dev, char *why);

/*
 * Whether the first argument can be a device: returns false, after one message, for a file, which
 * comes after the devices.
 */
bool device_comes_first(const char *name);

/* strerror(), and for a lack of permission who has it. */
const char *device_strerror(int error);

#define DEVICE_STATE	48	/* size of the buffer for the state, in bytes */

/*
 * What a message about a device that does not answer adds: "; its state is offline", or
 * transport-offline; "" if it is neither. @buf: DEVICE_STATE bytes. Return: @buf.
 */
const char *device_state(const struct device *dev, char *buf);

/*
 * The most bytes that one command can move, if each page of its data is a segment; ~0 if that is
 * not known.
 */
__u64 device_max_bytes(const struct device *dev);

/* The paths that match a pattern, made as by printf(). Return: how many; globfree() frees them. */
size_t find_paths(glob_t *found, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Reads one line of a sysfs file; returns false if it cannot be read. */
bool sysfs_read(const char *dir, const char *file, char *buf, size_t size);
/* A number from a sysfs file; -1 if it cannot be read. */
__s64 sysfs_number(const char *dir, const char *file);

#endif
