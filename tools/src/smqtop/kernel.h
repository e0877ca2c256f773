/* SPDX-License-Identifier: GPL-2.0 */
/* The fields of the kernel's structs that the programs read; CO-RE finds their offsets at load. */
#ifndef SMQTOP_KERNEL_H
#define SMQTOP_KERNEL_H

#include <linux/types.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct Scsi_Host {
	unsigned int host_no;
};

struct scsi_device {
	struct Scsi_Host *host;
	unsigned int id, channel;
	__u64 lun;
};

struct scsi_data_buffer {
	unsigned int length;
};

struct scsi_cmnd {
	struct scsi_device *device;
	int budget_token;
	int retries;
	unsigned short cmd_len;
	unsigned char cmnd[32];
	struct scsi_data_buffer sdb;
	unsigned int resid_len;
	unsigned char *sense_buffer;
	int result;
};

/* The block layer's part of a command; the kernel has struct scsi_cmnd right behind it. */
struct request {
	__u64 start_time_ns;
};

#pragma clang attribute pop

#endif
