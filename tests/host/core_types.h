/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The types and objects that the explored code uses: the kernel's types, with the fields that the
 * code accesses; the modules' types, cut out of their files by cut.py; and all objects that CPUs
 * share.
 */
#ifndef CORE_TYPES_H
#define CORE_TYPES_H

#include "explore_kernel.h"
#include "explore_words.h"
#include "../../drivers/core/depth_choice.h"
#include "../../drivers/policy/steer_choice.h"

typedef struct { u64 counter; } atomic64_t;

#define CMDS		4
#define HWQS		2
#define HOLDS		5
#define SEEN_SIZE	128

/* Annotations in the kernel's types. */
#define __rcu
#define __percpu
#define ____cacheline_aligned
#define ____cacheline_aligned_in_smp
#define __aligned(n)	__attribute__((aligned(n)))

enum hctx_type { HCTX_TYPE_DEFAULT, HCTX_TYPE_POLL };
enum { SDEV_RUNNING };
enum { SUBMITTED_BY_BLOCK_LAYER, SUBMITTED_BY_SCSI_ERROR_HANDLER, SUBMITTED_BY_SCSI_RESET_IOCTL };

#define SCMD_STATE_COMPLETE	0
#define SAM_STAT_TASK_SET_FULL	0x28
#define SAM_STAT_BUSY		0x08
#define DID_RESET		0x08
#define DID_REQUEUE		0x0d
#define SCSI_SENSE_BUFFERSIZE	8
#define SMQ_DETOUR_POLICY	0
#define SMQ_DETOUR_FULL		1
/* Most commands that a run of the work item issues: three waiting commands need two runs. */
#define SMQ_WAIT_RUN		2
#define SUCCESS			0
#define FAILED			1

struct work_struct {
	bool pending;
};

struct delayed_work {
	bool pending;
};

struct rcu_work {
	bool pending;
};

struct hrtimer {
	bool queued;
};

struct percpu_ref {
	int count;
};

#define BLK_MQ_S_INACTIVE	3

struct blk_mq_hw_ctx {
	unsigned int queue_num;
	unsigned long state;
};

struct request_queue {
	struct percpu_ref q_usage_counter;
};

struct request {
	struct blk_mq_hw_ctx *mq_hctx;
	struct request_queue *q;
	int tag;
	unsigned long timeout;
};

struct Scsi_Host {
	spinlock_t *host_lock;	/* protects the next field */
	bool host_self_blocked;
	int tag_set;
};

struct scsi_device {
	struct request_queue *request_queue;
	unsigned long queue_ramp_up_period;
	int sdev_state;
};

struct scsi_cmnd {
	struct scsi_device *device;
	struct request rq;
	unsigned long state;
	int result;
	int submitter;
	unsigned char sense_buffer[SCSI_SENSE_BUFFERSIZE];
};

struct smq_choice {
	struct mutex lock;	/* protects policy */
	struct smq_policy *policy;
};

struct smq_stats;
struct smq_lld;
struct smq_policy;
struct smq_policy_lun;
struct smq_policy_hwq;
struct smq_policy_cmd;
struct smq_lun_core;
struct smq_host;
struct smq_hwq;
struct smq_hwq_core;
struct smq_host_core;
struct smq_cmd;
struct smq_hold;
struct module;
struct attribute_group;
struct seq_file;
struct hlist_node;

#include TYPES

struct smq_host_holds {
	spinlock_t lock;	/* protects lists */
	struct list_head lists;
	int wq;
	struct delayed_work scan;
};

struct smq_host_eh {
	struct mutex lock;	/* one reset at a time */
	bool removing;
	atomic_t reset_cmds;
};

struct smq_host_core {
	struct smq_host *host;
	int wq;
	enum smq_status (*dispatch)(struct smq_hwq *hwq, struct list_head *cmds, bool commit);
	struct smq_choice choice;
	struct smq_policy *no_policy;
	struct smq_host_holds hold;
	struct smq_host_eh eh;
};

struct smq_hwq_core {
	struct smq_hwq *hwq;
	struct smq_hold refused;
	struct smq_hwq_move move;
};

struct smq_lun_core {
	struct scsi_device *sdev;
	struct smq_policy_lun *policy;
	struct smq_depth depth;
};

/* The LLD has a doorbell only if set.batch is not 0. */
struct smq_lld {
	void (*commit)(struct smq_hwq *hwq);
};

#define SMQ_SEEN_COUNTED	BIT(0)
#define SMQ_SEEN_QUEUED		BIT(1)
#define SMQ_SEEN_MOVED		BIT(2)
#define SMQ_HOLD_RETRY_NS	1
#define STEER_LOOK		16U

struct command {
	struct scsi_cmnd scmd;
	struct smq_cmd cmd;
};

/* A policy's part of a hardware queue. */
struct policy_hwq {
	struct smq_policy_hwq head;
	struct steer_hwq steer;
};

/* The state that the threads share. */
static struct {
	struct Scsi_Host shost;
	spinlock_t host_lock;		/* the lock of shost */
	struct smq_host host;
	struct smq_host_core core;
	struct smq_hwq hwq[HWQS];
	struct smq_hwq *hwqs[HWQS];
	struct smq_hwq_core hwq_core[HWQS];
	struct blk_mq_hw_ctx hctx[HWQS];
	struct request_queue queue;
	struct scsi_device sdev;
	struct scsi_device other;	/* another LUN of the host */
	struct smq_lun_core lun;
	struct smq_policy policy;
	struct smq_policy own_policy;	/* smq_host_core.no_policy */
	struct smq_policy_lun policy_lun;
	struct policy_hwq policy_hwq[HWQS];
	struct smq_policy_hwq *policy_hwqs[HWQS];
	struct steer_knobs knobs;
	struct smq_hold own;		/* the policy's list */
	struct smq_hold *holds[HOLDS];
	struct command command[CMDS];
	char seen[HWQS * CMDS][SEEN_SIZE] __aligned(8);
	char own_seen[HWQS * CMDS][SEEN_SIZE] __aligned(8);
	struct explore_rcu rcu;
	/* The mid-layer. */
	bool begun[CMDS];		/* the command's timer runs */
	signed char ended[CMDS];	/* how often the mid-layer saw the command end */
	bool aborted[CMDS];		/* the command's abort has returned */
	int queue_depth;		/* the advertised queue depth */
	int budget;			/* commands that count against queue_depth */
	int counting;			/* 1 + thread that issues only counted commands; 0: none */
	bool quiet;			/* a reset has begun and not yet ended */
	bool offline;			/* the CPU of hardware queue 1 is offline */
	/* The LLD. */
	bool with_lld[CMDS];
	signed char nr_lld;
	signed char nr_ring[HWQS];	/* commands with the LLD, by hardware queue */
	unsigned char uncommitted;	/* commands without a doorbell, a bit each */
	unsigned char refused;		/* commands for which the ring had no room, a bit each */
	unsigned char before[CMDS];	/* commands to be issued before this one, a bit each */
	signed char refusals;		/* how often the LLD will refuse while it has a command */
	signed char refusals_alone;	/* how often the LLD will refuse at any time */
	signed char device_refusals;	/* how often it will answer SMQ_DEVICE_BUSY */
	signed char at_once;		/* how many commands the LLD will complete in queue_cmd */
	signed char fulls;		/* how often the device will answer TASK SET FULL */
} world;

static struct {
	int depth, busy, device_busy, full, at_once, enter, grow, hwqs, threshold, on, trying;
	int ring, timer, waited, alone, batch, plug, later, inactive, learn;
	const char *policy;
} set = { .depth = 1, .hwqs = 1, .ring = CMDS, .timer = 1, .policy = "pass" };

static void aborter(int nr);
static void scanner(int unused);
static void resetter(int other);
static void switcher(int unused);
static void chooser(int unused);
static void offliner(int cpu);

static int nr_cmds;
static struct smq_policy_ops ops, own_ops;

/* Functions of the layer that the model of the LLD calls. */
static inline void smq_cmd_enter(struct smq_cmd *cmd);
static inline enum smq_status smq_cmd_leave(struct smq_cmd *cmd);

#endif /* CORE_TYPES_H */
