/* SPDX-License-Identifier: GPL-2.0 */
/* Prevents writes to a disk that somebody may still need. */
#ifndef SG_IO_TAKE_H
#define SG_IO_TAKE_H

#include "device.h"

/**
 * take_disk() - take the disk for writing
 * @dev: the device. The data of one without a block node cannot be checked
 * @force: if the disk is in use, print a message and continue; do not look for signatures
 * @fd: receives a descriptor as inuse_try() does
 *
 * The disk must not be in use, and must not begin with a signature that libblkid knows: of a file
 * system, a partition table, swap space, or a member of LVM or RAID. The exclusive open prevents a
 * mount during the run.
 *
 * Return: 0, or -1 after one message that names the use or the signature.
 */
int take_disk(const struct device *dev, bool force, int *fd);

#endif
