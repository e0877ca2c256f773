// SPDX-License-Identifier: GPL-2.0
/* Two programs that do nothing: what it costs to have any. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

char _license[] SEC("license") = "GPL";

SEC("tp_btf/scsi_dispatch_cmd_start")
int empty_start(void *ctx)
{
	return 0;
}

SEC("tp_btf/scsi_dispatch_cmd_done")
int empty_done(void *ctx)
{
	return 0;
}
