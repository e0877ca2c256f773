/* SPDX-License-Identifier: GPL-2.0 */
/* Finds out whether a disk is in use. */
#ifndef SG_IO_INUSE_H
#define SG_IO_INUSE_H

#include "device.h"

#define INUSE_REASON	512	/* size of the buffer for the reason, in bytes */
#define INUSE_OPENERS	256	/* the same for the names of processes */

/**
 * inuse_try() - open the disk exclusively for writing, without a message
 * @dev: the device. If smq_conv has claimed it, it is in use. If it has no block node, nothing is
 *	opened
 * @why: INUSE_REASON bytes: receives what uses the disk
 * @fd: receives the descriptor of the exclusive open, which the caller keeps open while it writes;
 *	-1: there is none. NULL: only check
 *
 * Return: false if the disk is in use.
 */
bool inuse_try(const struct device *dev, char *why, int *fd);

/**
 * inuse_openers() - which processes have the disk or one of its partitions open
 * @dev: the device
 * @names: INUSE_OPENERS bytes: receives the first processes that this user may see; "": none
 */
void inuse_openers(const struct device *dev, char *names);

#endif
