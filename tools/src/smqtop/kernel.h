/* SPDX-License-Identifier: GPL-2.0 */
/* The fields of the kernel's structs that the programs read; CO-RE finds their offsets at load. */
#ifndef SMQTOP_KERNEL_H
#define SMQTOP_KERNEL_H

#include <bpf/bpf_helpers.h>
#include <linux/types.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

enum scsi_host_state {
	SHOST_RECOVERY = 5,	/* the states above are of recovery, too */
};

struct Scsi_Host {
	unsigned int host_no;
	enum scsi_host_state shost_state;
};

struct scsi_device {
	struct Scsi_Host *host;
	unsigned int id, channel;
	__u64 lun;
};

struct scsi_data_buffer {
	unsigned int length;
};

struct work_struct {
};

struct delayed_work {
	struct work_struct work;
};

struct scsi_cmnd {
	struct scsi_device *device;
	struct delayed_work abort_work;
	int retries;
	unsigned char cmnd[32];
	struct scsi_data_buffer sdb;
	unsigned char *sense_buffer;
	int result;
};

/* The block layer's part of a command; the kernel has struct scsi_cmnd right behind it. */
struct request {
	__u64 start_time_ns;
	__u64 io_start_time_ns;
};

struct blk_plug {
};

/* Came in the same version as bpf_rdonly_cast(); only whether the kernel has it matters. */
enum bpf_func_id___6_2 {
	BPF_FUNC_cgrp_storage_get___6_2 = 1,
};

struct task_struct {
	struct blk_plug *plug;
	int tgid;
	__u64 start_time;
	char comm[16];
};

#pragma clang attribute pop

/* Where the kernel does not have it, the verifier removes the calls as never reached. */
void *bpf_rdonly_cast(const void *obj, __u32 btf_id) __ksym __weak;

#endif
