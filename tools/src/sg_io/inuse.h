/* SPDX-License-Identifier: GPL-2.0 */
/* Prevents data-out to a disk that is in use. */
#ifndef SG_IO_INUSE_H
#define SG_IO_INUSE_H

#include "device.h"

#define INUSE_REASON	512	/* bytes that the reason has room in */

/**
 * inuse_try() - open the disk exclusively for writing, without a message
 * @dev: the device; if it has neither a disk nor a claim of smq_conv, there is nothing to take
 * @why: INUSE_REASON bytes: what uses the disk
 * @fd: an exclusive open of the disk to keep while writing, or -1. NULL: only check
 *
 * Return: false when the disk is in use.
 */
bool inuse_try(const struct device *dev, char *why, int *fd);

/**
 * inuse_take() - take the disk for writing
 * @dev: the device; without a disk on top there is nothing to take
 * @force: continue after a message when the disk is in use
 * @fd: an exclusive open of the disk to keep while writing, or -1
 *
 * The exclusive open prevents a mount during the run.
 *
 * Return: 0, or -1 after one message that says what uses the disk.
 */
int inuse_take(const struct device *dev, bool force, int *fd);

#endif
