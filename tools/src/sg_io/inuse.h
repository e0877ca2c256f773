/* SPDX-License-Identifier: GPL-2.0 */
/* Keeps data-out off a disk that somebody else is using. */
#ifndef SG_IO_INUSE_H
#define SG_IO_INUSE_H

#include "device.h"

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
