// SPDX-License-Identifier: GPL-2.0
/*
 * Counts the commands of all SCSI hosts, on the mid-layer's tracepoints. Each command runs on_start
 * and on_done, so these two are short: no hash map, no copy of the request, no lock. on_start only
 * notes the time; what costs loads from the command is all done once, by on_done. Counters belong
 * to the CPU that sent the command, which tells the hardware queue. From 6.12 on the verifier wants
 * to see that a tracepoint's argument is not NULL.
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
struct slot slots[SLOTS];	/* by hash of the command's address */
struct event events[EVENTS];
__u64 nr_events;

/* Set by smqtop. */
__u8 hist_table[1 << HIST_TABLE];	/* see hist_bucket() */
__u64 slow_ns;			/* what takes longer is an event */
__u32 sample_mask;		/* at most so many commands get no time before one does; 2^n - 1 */

#define MAP_ARRAY(name, of)				\
struct {						\
	__uint(type, BPF_MAP_TYPE_ARRAY);		\
	__uint(map_flags, BPF_F_MMAPABLE);		\
	__uint(max_entries, 1);				\
	__type(key, __u32);				\
	__type(value, of);				\
} name SEC(".maps")

MAP_ARRAY(cpus, struct of_cpu);
MAP_ARRAY(hosts, struct of_host);

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
 * A number of @bits bits that stands for an address. The verifier does not let a program calculate
 * with the address of a struct, but takes a copy of its lower half for a number. In C clang would
 * leave the copy out.
 */
static __always_inline __u32 hash(void *address, unsigned int bits)
{
	__u32 low;

	asm volatile("%0 = %1" : "=w"(low) : "w"((__u32)(__u64)address));
	return low * 0x9e3779b1u >> (32 - bits);
}

static __always_inline struct slot *slot_of(struct scsi_cmnd *cmd)
{
	struct slot *slot = &slots[hash(cmd, SLOT_BITS)];

	/* Else clang calculates it again for each use. */
	asm volatile("" : "+r"(slot));
	return slot;
}

static __always_inline struct of_cpu *cpu_of(__u32 cpu)
{
	return bpf_map_lookup_elem(&cpus, &cpu);
}

/* The counters of a command's LUN; NULL if there is no place for it. */
static __always_inline struct counters *counters_of(struct of_cpu *of, struct scsi_device *sdev)
{
	__u32 first = hash(sdev, LUN_BITS), entry;

	if (of->luns[first].sdev == (__u64)sdev)
		return &of->luns[first];
	entry = lun_search(sdev, first);
	if (entry >= MAX_LUNS)
		return NULL;
	of->luns[entry].sdev = (__u64)sdev;
	return &of->luns[entry];
}

/* libbpf puts the answer in when it loads the program. */
static __always_inline bool has_cast(void)
{
	return bpf_core_enum_value_exists(enum bpf_func_id___6_2, BPF_FUNC_cgrp_storage_get___6_2);
}

/* The block layer's part of a command. */
static __always_inline struct request *request_of(struct scsi_cmnd *cmd)
{
	void *rq = (void *)cmd - bpf_core_type_size(struct request);

	return bpf_rdonly_cast(rq, bpf_core_type_id_kernel(struct request));
}

/* When the block layer began with the command; 0 if it did not look at the clock. */
static __always_inline __u64 begun(struct scsi_cmnd *cmd)
{
	__u64 rq = (__u64)cmd - bpf_core_type_size(struct request), ns = 0;

	if (has_cast())
		return request_of(cmd)->start_time_ns;
	bpf_probe_read_kernel(&ns, sizeof(ns),
			      (void *)(rq + bpf_core_field_offset(struct request, start_time_ns)));
	return ns;
}

/*
 * The time, for a command that is sent now. For its statistics the block layer may just have looked
 * at the clock. If the task has a plug, that may have been long ago, for all commands of the plug.
 */
static __always_inline __u64 clock_of(struct scsi_cmnd *cmd)
{
	__u64 ns;

	if (has_cast()) {
		barrier();	/* else clang looks at @cmd first, on every kernel */
		if (cmd && !bpf_get_current_task_btf()->plug) {
			ns = request_of(cmd)->io_start_time_ns;
			if (ns)
				return ns;
		}
	}
	return bpf_ktime_get_ns();
}

static __noinline int count_queued(struct scsi_cmnd *cmd, struct counters *c, __u64 sent)
{
	__u64 then = begun(cmd);

	if (then) {
		add(c->queue_ns, sent - then);
		add(c->queued, 1);
	}
	return 0;
}

static __always_inline int start_timed(struct scsi_cmnd *cmd, struct slot *slot)
{
	slot->cmd = (__u64)cmd;
	slot->cpu = bpf_get_smp_processor_id();
	slot->task = bpf_get_current_task();
	slot->sent = clock_of(cmd);
	return 0;
}

/* The slot was kept to tell whether the command is sent again. */
static __noinline int start_kept(struct scsi_cmnd *cmd, struct slot *slot)
{
	struct counters *c;
	struct of_cpu *of;

	slot->cmd = 0;
	slot->kept = 0;
	if (cmd && cmd->retries) {
		of = cpu_of(bpf_get_smp_processor_id());
		c = of ? counters_of(of, cmd->device) : NULL;
		if (c)
			add(c->retried, 1);
	}
	return 0;
}

SEC("scsi_tp/scsi_dispatch_cmd_start")
int BPF_PROG(on_start, struct scsi_cmnd *cmd)
{
	struct slot *slot = slot_of(cmd);

	__u64 other = slot->cmd;

	if (other == (__u64)cmd) {
		start_kept(cmd, slot);
	} else if (other) {
		if (other < SLOT_TAKEN)
			slot->cmd = other - 1;
		return 0;
	}
	return start_timed(cmd, slot);
}

/* The LLD has not taken the command. */
SEC("scsi_tp/scsi_dispatch_cmd_error")
int BPF_PROG(on_error, struct scsi_cmnd *cmd, int rtn)
{
	struct counters *c;
	struct of_cpu *of;
	struct slot *slot;

	if (!cmd)
		return 0;
	slot = slot_of(cmd);
	if (slot->cmd == (__u64)cmd)
		slot->cmd = 0;
	of = cpu_of(bpf_get_smp_processor_id());
	c = of ? counters_of(of, cmd->device) : NULL;
	if (c)
		add(c->refused, 1);
	return 0;
}

/* Sense data: fixed format, or descriptor format. */
static __always_inline void read_sense(struct scsi_cmnd *cmd, struct failure *f)
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

/* The task that sent the command, unless it has ended since and another one has its place. */
static __always_inline void read_task(struct event *e, struct slot *slot)
{
	struct task_struct *task = (void *)slot->task;
	__u64 begin = 0;

	bpf_probe_read_kernel(&begin, sizeof(begin), &task->start_time);
	if (!begin || begin > slot->sent)
		return;
	bpf_probe_read_kernel(&e->task, sizeof(e->task), &task->tgid);
	bpf_probe_read_kernel(e->comm, sizeof(e->comm), &task->comm);
}

static __noinline int note_event(struct scsi_cmnd *cmd, struct slot *slot, __u64 now)
{
	__u64 number = __sync_fetch_and_add(&nr_events, 1);
	struct event *e = &events[number & (EVENTS - 1)];
	struct failure f = {};

	e->number = 0;
	e->ns = now;
	e->sdev = (__u64)cmd->device;
	e->task = 0;
	e->took = 0;
	e->result = cmd->result;
	e->bytes = cmd->sdb.length;
	e->timed_out = 0;
	if (slot) {
		e->took = now - slot->sent;
		e->timed_out = slot->kept == KEPT_LATE;
		read_task(e, slot);
	}
	if ((e->result & 0xff) == CHECK_CONDITION)
		read_sense(cmd, &f);
	e->key = f.key;
	e->asc = f.asc;
	e->ascq = f.ascq;
	bpf_probe_read_kernel(e->cdb, sizeof(e->cdb), &cmd->cmnd);
	e->number = number + 1;
	return 0;
}

/* The LLD or error handling takes the command over, or the LLD asks for more time. */
SEC("scsi_tp/scsi_dispatch_cmd_timeout")
int BPF_PROG(on_timeout, struct scsi_cmnd *cmd)
{
	__u32 cpu = bpf_get_smp_processor_id();
	__u64 now = bpf_ktime_get_ns();
	struct counters *c;
	struct of_cpu *of;
	struct slot *slot;

	if (!cmd)
		return 0;
	slot = slot_of(cmd);
	if (slot->cmd < SLOT_TAKEN) {
		slot->cmd = (__u64)cmd;
		slot->cpu = cpu;
		slot->sent = now;
		slot->task = 0;
	}
	if (slot->cmd != (__u64)cmd)
		slot = NULL;
	else
		cpu = slot->cpu;
	of = cpu_of(cpu);
	c = of ? counters_of(of, cmd->device) : NULL;
	if (!c)
		return 0;
	add(c->timeouts, 1);
	if (!slot || slot->kept != KEPT_LATE)
		add(c->late, 1);
	if (slot)
		slot->kept = KEPT_LATE;
	note_event(cmd, slot, now);
	return 0;
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

/* A command that failed may be sent again: its slot is kept to tell. */
static __noinline int on_failure(struct scsi_cmnd *cmd, struct counters *c, struct slot *slot)
{
	__u64 now = bpf_ktime_get_ns();

	count_failure(cmd, c);
	if (slot->cmd == (__u64)cmd) {
		note_event(cmd, slot, now);
	} else {
		note_event(cmd, NULL, now);
		if (slot->cmd >= SLOT_TAKEN)
			return 0;
		slot->cmd = (__u64)cmd;
	}
	slot->kept = KEPT_FAILED;
	return 0;
}

/* The rest of on_done, for a timed command that was slow or failed. */
static __noinline int on_rare(struct scsi_cmnd *cmd, struct counters *c, struct slot *slot,
			      __u64 took)
{
	/* The LLD had asked for more time. */
	if (slot->cmd == (__u64)cmd && slot->kept == KEPT_LATE) {
		add(c->late, -1);
		slot->kept = 0;
	}
	if (cmd->result)
		return on_failure(cmd, c, slot);
	note_event(cmd, slot, slot->sent + took);
	slot->cmd = 0;
	return 0;
}

/* A command whose slot has another one, or that was not chosen to be timed. */
static __always_inline int done_untimed(struct scsi_cmnd *cmd, struct slot *slot)
{
	struct of_cpu *of = cpu_of(bpf_get_smp_processor_id());
	struct counters *c = of ? counters_of(of, cmd->device) : NULL;

	if (!c)
		return 0;
	add(of->opcodes[cmd->cmnd[0]].untimed, 1);
	add(c->bytes, cmd->sdb.length);
	add(c->untimed, 1);
	if (cmd->result)
		on_failure(cmd, c, slot);
	return 0;
}

/*
 * The order is chosen for few values that live over a call, a look-up too: there are four registers
 * for these.
 */
SEC("scsi_tp/scsi_dispatch_cmd_done")
int BPF_PROG(on_done, struct scsi_cmnd *cmd)
{
	struct counters *c;
	struct of_cpu *of;
	struct slot *slot;
	__u32 bucket;
	__u64 took;

	if (!cmd)
		return 0;
	slot = slot_of(cmd);
	if (slot->cmd != (__u64)cmd)
		return done_untimed(cmd, slot);
	took = bpf_ktime_get_ns() - slot->sent;
	of = cpu_of(slot->cpu);
	if (!of)
		return 0;
	c = counters_of(of, cmd->device);
	if (!c)
		return 0;
	add(c->bytes, cmd->sdb.length);
	bucket = hist_bucket(hist_table, took);
	add(c->device[bucket], 1);
	add(of->opcodes[cmd->cmnd[0]].device[bucket], 1);
	if (!(slot->sent >> 10 & (QUEUE_SAMPLE - 1)))
		count_queued(cmd, c, slot->sent);
	if (cmd->result || took > slow_ns)
		on_rare(cmd, c, slot, took);
	else
		slot->cmd = slot->sent >> 8 & sample_mask;
	return 0;
}

/* With --counts the only program that a command runs. */
SEC("scsi_tp/scsi_dispatch_cmd_done")
int BPF_PROG(on_count, struct scsi_cmnd *cmd)
{
	struct counters *c;
	struct of_cpu *of;

	if (!cmd)
		return 0;
	of = cpu_of(bpf_get_smp_processor_id());
	c = of ? counters_of(of, cmd->device) : NULL;
	if (!c)
		return 0;
	add(of->opcodes[cmd->cmnd[0]].untimed, 1);
	add(c->bytes, cmd->sdb.length);
	add(c->untimed, 1);
	if (cmd->retries)
		add(c->retried, 1);
	if (cmd->result)
		count_failure(cmd, c);
	return 0;
}

static __always_inline struct of_host *host_of(__u32 host)
{
	return bpf_map_lookup_elem(&hosts, &host);
}

SEC("scsi_tp/scsi_eh_wakeup")
int BPF_PROG(on_wakeup, struct Scsi_Host *shost)
{
	struct of_host *h;

	h = shost ? host_of(shost->host_no) : NULL;
	if (!h)
		return 0;
	add(h->wakeups, 1);
	if (!h->eh_began)
		h->eh_began = bpf_ktime_get_ns();
	return 0;
}

/* Error handling calls this when it ends; others may do so while it is under way. */
SEC("scsi_fn/scsi_run_host_queues")
int BPF_PROG(on_eh_end, struct Scsi_Host *shost)
{
	struct of_host *h = host_of(shost->host_no);

	if (h && h->eh_began && shost->shost_state < SHOST_RECOVERY) {
		add(h->eh_ns, bpf_ktime_get_ns() - h->eh_began);
		h->eh_began = 0;
	}
	return 0;
}

static __always_inline struct of_host *host_of_cmd(struct scsi_cmnd *cmd)
{
	return host_of(BPF_CORE_READ(cmd, device, host, host_no));
}

SEC("scsi_fn/scmd_eh_abort_handler")
int BPF_PROG(on_abort, struct work_struct *work)
{
	__u64 cmd = (__u64)work - bpf_core_field_offset(struct scsi_cmnd, abort_work);
	struct of_host *h = host_of_cmd((void *)cmd);

	if (h)
		add(h->aborts, 1);
	return 0;
}

SEC("scsi_fn/scsi_eh_ready_devs")
int BPF_PROG(on_escalation, struct Scsi_Host *shost)
{
	struct of_host *h = host_of(shost->host_no);

	if (h)
		add(h->escalations, 1);
	return 0;
}

#define ON_RESET(which)						\
SEC("scsi_fn/scsi_try_" #which "_reset")				\
int BPF_PROG(on_##which##_reset, struct scsi_cmnd *cmd)		\
{								\
	struct of_host *h = host_of_cmd(cmd);			\
								\
	if (h)							\
		add(h->which##_resets, 1);			\
	return 0;						\
}

ON_RESET(target)
ON_RESET(bus)
ON_RESET(host)
