/* SPDX-License-Identifier: GPL-2.0 */
/* Asks a device what it is, and for its capacity. */
#ifndef SG_IO_ASK_H
#define SG_IO_ASK_H

#include "device.h"

/* The device's answers; 0 or empty if there was none. */
struct answers {
	bool inquiry;
	char vendor[9];
	char product[17];
	char revision[5];
	int type;
	__u64 blocks;
	__u32 block_size;
	__u32 physical_size;
};

/**
 * ask_device() - send INQUIRY and, to a disk, READ CAPACITY
 * @dev: the device
 * @a: zeroed; the answers
 *
 * Return: 0, or -1 after one message if no node of the device can be opened.
 */
int ask_device(const struct device *dev, struct answers *a);

#endif
