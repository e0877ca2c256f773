/* SPDX-License-Identifier: GPL-2.0 */
#ifndef LIBSMQ_DEVICE_H
#define LIBSMQ_DEVICE_H

#include "libsmq.h"

/**
 * struct smq_device - an open node
 * @id: unique in this process, above any file number
 * @fd: its file descriptor
 * @slots: how many slots it has; 0 before smq_setup()
 * @status_stride: bytes from one slot's status to the next
 * @status: the mapped array, NULL before smq_setup()
 * @status_size: size of the mapped array, in bytes
 */
struct smq_device {
	uint64_t id;
	int fd;
	uint32_t slots;
	uint32_t status_stride;
	void *status;
	size_t status_size;
};

#endif
