/* SPDX-License-Identifier: GPL-2.0 */
#ifndef LIBSMQ_DEVICE_H
#define LIBSMQ_DEVICE_H

#include "libsmq.h"

/**
 * struct smq_device - an open node
 * @id: of its own, above any file number
 * @fd: its file
 * @slots: their number; 0 before smq_setup()
 * @status_stride: bytes from one slot's status to the next
 * @status: the mapped array, NULL before smq_setup()
 * @status_size: its bytes
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
