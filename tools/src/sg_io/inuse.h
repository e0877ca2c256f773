/* SPDX-License-Identifier: GPL-2.0 */
/* Keeps data-out off a disk that somebody else is using. */
#ifndef SG_IO_INUSE_H
#define SG_IO_INUSE_H

#include "device.h"

#define INUSE_REASON	512	/* bytes that the reason has room in */

/**
 * inuse_take() - take the disk for writing, without a word
 * @dev: the device; without a disk on top, or a claim of smq_conv, there is nothing to take
 * @why: INUSE_REASON bytes: who uses it
 * @fd: an exclusive open of the disk to keep while writing, or -1. NULL: only look
 *
 * Return: false when somebody uses it.
 */
bool inuse_take(const struct device *dev, char *why, int *fd);

/**
 * inuse_claim() - take the disk for writing
 * @dev: the device; without a disk on top there is nothing to claim
 * @force: go on when it is in use, after saying so
 * @fd: an exclusive open of the disk to keep while writing, or -1
 *
 * The claim keeps a mount from slipping in while the run goes on.
 *
 * Return: 0, or -1 after one message that says who uses it.
 */
int inuse_claim(const struct device *dev, bool force, int *fd);

#endif
