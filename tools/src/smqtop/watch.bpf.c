// SPDX-License-Identifier: GPL-2.0
/*
 * Counts the commands of all SCSI hosts, on the mid-layer's tracepoints. Each command runs on_start
 * and on_done, so these two are short: no hash map, no copy of the request, no lock. A slot is
 * found by the LUN and by the command's budget token, which the mid-layer gives to one command of
 * the LUN at a time. Counters belong to the CPU that sent the command, which tells the hardware
 * queue. From 6.12 on the verifier wants to see that a tracepoint's argument is not NULL.
 *
 * The counters are added to atomically, because an interrupt may come in between.
 */
#include <stdbool.h>
#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "counters.h"
#include "kernel.h"

char _license[] SEC("license") = "GPL";

#define TASK_SET_FULL	0x28
#define CHECK_CONDITION	0x02

struct lost lost;
struct lun luns[MAX_LUNS];	/* by hash of the address, see lun_search() */

#define MAP_ARRAY(name, of)				\
struct {						\
	__uint(type, BPF_MAP_TYPE_ARRAY);		\
	__uint(map_flags, BPF_F_MMAPABLE);		\
	__uint(max_entries, 1);				\
	__type(key, __u32);				\
	__type(value, of);				\
} name SEC(".maps")

MAP_ARRAY(slots, __u64);		/* by LUN and token */
MAP_ARRAY(counters, struct counters);	/* by CPU and LUN */
MAP_ARRAY(opcodes, struct opcode);	/* by CPU and opcode */
MAP_ARRAY(wakeups, __u64);		/* by host: how often error handling was woken */

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_FAILURES);
	__type(key, struct failure);
	__type(value, __u64);
} failures SEC(".maps");

#define add(where, n)	((void)__sync_fetch_and_add(&(where), (n)))

static __always_inline void lun_name(struct lun *lun, struct scsi_device *sdev)
{
	lun->host = sdev->host->host_no;
	lun->channel = sdev->channel;
	lun->id = sdev->id;
	lun->lun = sdev->lun;
	lun->known = 1;
}

/*
 * Finds the entry of a LUN that is not at the first place, or takes a free one. Return: the entry's
 * number, MAX_LUNS if all places are taken.
 */
static __noinline __u32 lun_search(struct scsi_device *sdev, __u32 first)
{
	__u32 i;

	for (i = 0; i < LUN_PROBES; i++) {
		__u32 entry = (first + i) & (MAX_LUNS - 1);
		struct lun *lun = &luns[entry];

		if (!lun->sdev && !__sync_val_compare_and_swap(&lun->sdev, 0, (__u64)sdev))
			lun_name(lun, sdev);
		if (lun->sdev == (__u64)sdev)
			return entry;
	}
	add(lost.luns, 1);
	return MAX_LUNS;
}

/*
 * The low half of an address as a number. The verifier does not let a program calculate with the
 * address of a struct, but takes bytes of the stack for numbers when one of them is written anew.
 */
static __always_inline __u32 low_half(void *address)
{
	union {
		__u64 whole;
		__u32 low;
		__u8 bytes[8];
	} stack = { .whole = (__u64)address };

	/* Without the barriers clang calculates with the address in a register. */
	asm volatile("" : : "r"(&stack) : "memory");
	stack.bytes[7] = 0xff;	/* as in every address of the kernel */
	asm volatile("" : : "r"(&stack) : "memory");
	return stack.low;
}

/* The place of a command's LUN. */
static __always_inline __u32 lun_of(struct scsi_device *sdev)
{
	__u32 entry = (low_half(sdev) >> 5) * 0x9e3779b1u >> (32 - LUN_BITS);

	if (luns[entry].sdev == (__u64)sdev)
		return entry;
	return lun_search(sdev, entry);
}

static __always_inline __u64 *slot_of(struct scsi_cmnd *cmd, __u32 lun)
{
	__u32 token = cmd->budget_token, at = lun << TOKEN_BITS | token;

	return token >> TOKEN_BITS ? NULL : bpf_map_lookup_elem(&slots, &at);
}

static __always_inline struct counters *counters_of(__u32 cpu, __u32 lun)
{
	__u32 at = cpu << LUN_BITS | lun;

	return bpf_map_lookup_elem(&counters, &at);
}

/* When the block layer began with the command; 0 if it did not look at the clock. */
static __always_inline __u64 begun(struct scsi_cmnd *cmd)
{
	__u64 rq = (__u64)cmd - bpf_core_type_size(struct request), ns = 0;

	bpf_probe_read_kernel(&ns, sizeof(ns),
			      (void *)(rq + bpf_core_field_offset(struct request, start_time_ns)));
	return ns;
}

SEC("tp_btf/scsi_dispatch_cmd_start")
int BPF_PROG(on_start, struct scsi_cmnd *cmd)
{
	__u32 cpu = bpf_get_smp_processor_id(), lun;
	__u64 *slot, now, then;
	struct counters *c;
	bool sampled;

	if (!cmd)
		return 0;
	lun = lun_of(cmd->device);
	slot = slot_of(cmd, lun);
	now = bpf_ktime_get_ns();
	sampled = !(now >> 4 & (QUEUE_SAMPLE - 1));
	if (slot)
		*slot = now << SLOT_TIME | cpu << 1;
	if (!sampled && !cmd->retries)
		return 0;
	c = counters_of(cpu, lun);
	if (!c)
		return 0;
	if (cmd->retries)
		add(c->retried, 1);
	then = sampled ? begun(cmd) : 0;
	if (then) {
		add(c->queue_ns, now - then);
		add(c->queued, 1);
	}
	return 0;
}

/* The LLD has not taken the command. */
SEC("tp_btf/scsi_dispatch_cmd_error")
int BPF_PROG(on_error, struct scsi_cmnd *cmd, int rtn)
{
	struct counters *c;
	__u64 *slot;
	__u32 lun;

	if (!cmd)
		return 0;
	lun = lun_of(cmd->device);
	c = counters_of(bpf_get_smp_processor_id(), lun);
	slot = slot_of(cmd, lun);
	if (c)
		add(c->refused, 1);
	if (slot)
		*slot = 0;
	return 0;
}

/* The LLD or error handling takes the command over, or the LLD asks for more time. */
SEC("tp_btf/scsi_dispatch_cmd_timeout")
int BPF_PROG(on_timeout, struct scsi_cmnd *cmd)
{
	__u32 lun, cpu = bpf_get_smp_processor_id();
	struct counters *c;
	__u64 *slot;

	if (!cmd)
		return 0;
	lun = lun_of(cmd->device);
	slot = slot_of(cmd, lun);
	if (slot && *slot)
		cpu = *slot >> 1 & SLOT_CPU_MASK;
	c = counters_of(cpu, lun);
	if (!c)
		return 0;
	add(c->timeouts, 1);
	if (!slot || !(*slot & SLOT_LATE))
		add(c->late, 1);
	if (slot)
		*slot |= SLOT_LATE;
	return 0;
}

SEC("tp_btf/scsi_eh_wakeup")
int BPF_PROG(on_wakeup, struct Scsi_Host *shost)
{
	__u32 host;
	__u64 *n;

	if (!shost)
		return 0;
	host = shost->host_no;
	n = bpf_map_lookup_elem(&wakeups, &host);
	if (n)
		add(*n, 1);
	return 0;
}

/* Sense data: fixed format, or descriptor format. */
static void read_sense(struct scsi_cmnd *cmd, struct failure *f)
{
	__u8 sense[16] = {};

	bpf_probe_read_kernel(sense, sizeof(sense), cmd->sense_buffer);
	if ((sense[0] & 0x7e) == 0x72) {
		f->key = sense[1] & 0xf;
		f->asc = sense[2];
		f->ascq = sense[3];
		/* Else clang merges the branches by calculations that the verifier refuses. */
		barrier();
	} else if ((sense[0] & 0x7e) == 0x70) {
		f->key = sense[2] & 0xf;
		f->asc = sense[12];
		f->ascq = sense[13];
	}
}

static __noinline int count_failure(struct scsi_cmnd *cmd, struct counters *c)
{
	struct failure f = {
		.sdev = (__u64)cmd->device,
		.status = cmd->result,
		.host = cmd->result >> 16,
		.opcode = cmd->cmnd[0],
	};
	__u64 zero = 0, *n;

	add(c->failed, 1);
	if (f.status == TASK_SET_FULL)
		add(c->set_full, 1);
	if (f.status == CHECK_CONDITION)
		read_sense(cmd, &f);
	bpf_map_update_elem(&failures, &f, &zero, BPF_NOEXIST);
	n = bpf_map_lookup_elem(&failures, &f);
	if (n)
		add(*n, 1);
	else
		add(lost.failures, 1);
	return 0;
}

/* A command that was sent before smqtop began, or whose token has no slot. */
static __noinline int count_untimed(struct scsi_cmnd *cmd, __u32 lun)
{
	struct counters *c = counters_of(bpf_get_smp_processor_id(), lun);

	if (!c)
		return 0;
	add(c->untimed, 1);
	add(c->bytes, cmd->sdb.length);
	if (cmd->result)
		count_failure(cmd, c);
	return 0;
}

SEC("tp_btf/scsi_dispatch_cmd_done")
int BPF_PROG(on_done, struct scsi_cmnd *cmd)
{
	__u32 lun, cpu, bucket, at;
	struct counters *c;
	struct opcode *o;
	__u64 *slot, sent;

	if (!cmd)
		return 0;
	lun = lun_of(cmd->device);
	slot = slot_of(cmd, lun);
	sent = slot ? *slot : 0;
	if (!sent)
		return count_untimed(cmd, lun);
	*slot = 0;
	bucket = hist_index(((bpf_ktime_get_ns() << SLOT_TIME) - sent) >> SLOT_TIME);
	cpu = sent >> 1 & SLOT_CPU_MASK;
	c = counters_of(cpu, lun);
	at = cpu << 8 | cmd->cmnd[0];
	o = bpf_map_lookup_elem(&opcodes, &at);
	if (!c || !o || bucket >= HIST_BUCKETS)
		return 0;
	add(c->device[bucket], 1);
	add(o->device[bucket], 1);
	add(c->bytes, cmd->sdb.length);
	if (sent & SLOT_LATE)	/* the LLD had asked for more time */
		add(c->late, -1);
	if (cmd->result)
		count_failure(cmd, c);
	return 0;
}
