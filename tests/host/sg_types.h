/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The types and objects that the explored code of drivers/sg uses: the kernel's types, with the
 * fields that the code accesses; the module's types, cut out of their files by cut.py; and all
 * objects that CPUs share.
 */
#ifndef SG_TYPES_H
#define SG_TYPES_H

#include <errno.h>

#include "explore_kernel.h"
#include "explore_words.h"

#define SLOTS		4
#define TAGS		4
#define FILES		2
#define HWQS		2

typedef signed int s32;
typedef unsigned int u32, blk_opf_t, blk_mq_req_flags_t, req_flags_t;
typedef unsigned short u16;
typedef int blk_status_t;

/* Annotations in the kernel's types. */
#define __percpu
#define __force
#define ____cacheline_aligned_in_smp

#define SMQ_SG_MAX_CDB		2
#define SMQ_SG_MAX_SENSE	8
#define SMQ_SG_RUN_LBA		1
#define SMQ_SG_RESULT_SENSE	0x10000
#define SMQ_SG_RUN_BUFFER	2
#define REQ_OP_DRV_IN		1
#define REQ_OP_DRV_OUT		2
#define REQ_POLLED		4
#define RQF_DONTPREP		1
#define SMQ_RQF_OF_TAG		2
#define BLK_MQ_REQ_NOWAIT	1
#define hash_64(value, bits)		((u64)(value))
#define BLK_MQ_S_INACTIVE	0
#define BLK_MQ_F_TAG_HCTX_SHARED	1
#define BLK_STS_OK		0
#define BLK_STS_RESOURCE	9
#define BLK_STS_DEV_RESOURCE	13
#define RQF_TIMED_OUT		4
#define PF_EXITING		1
#define SIGNAL_GROUP_EXIT	1
#define EIOCBQUEUED		529
#define U32_MAX			UINT_MAX

enum { MQ_RQ_IDLE, MQ_RQ_IN_FLIGHT };
enum { SMQ_SG_NONE, SMQ_SG_IN, SMQ_SG_OUT };
enum rq_end_io_ret { RQ_END_IO_NONE, RQ_END_IO_FREE };

#define SMQ_END_IO(name, rq, error)	enum rq_end_io_ret name(struct request *rq, int error)

/* Delayed work: @due: it runs; @later: it runs once its delay has passed. */
struct work_struct {
	int unused;
};

struct delayed_work {
	struct work_struct work;
	bool due;
	bool later;
};

/* A reference count: @dying: the queue is being frozen. */
struct percpu_ref {
	signed char count;
	bool dying;
};

struct sbitmap_word {
	unsigned long cleared;
};

/* Its depth is 0 here: so each token comes from sbitmap_get(). */
struct sbitmap {
	unsigned int depth;
	unsigned int *alloc_hint;
	unsigned int shift;
	struct sbitmap_word *map;
};

struct sbitmap_queue {
	atomic_t ws_active;
};

struct blk_mq_tags {
	struct sbitmap_queue bitmap_tags;
};

struct blk_mq_hw_ctx {
	unsigned long state;
	unsigned int queue_num;
	struct blk_mq_tags *tags;
};

struct blk_mq_tag_set {
	unsigned int queue_depth;
	unsigned int flags;
};

struct request;
struct request_queue;

struct blk_mq_queue_data {
	struct request *rq;
	bool last;
};

struct blk_mq_ops {
	blk_status_t (*queue_rq)(struct blk_mq_hw_ctx *hctx, const struct blk_mq_queue_data *bd);
	void (*commit_rqs)(struct blk_mq_hw_ctx *hctx);
};

struct request_queue {
	const struct blk_mq_ops *mq_ops;
	struct percpu_ref q_usage_counter;
};

struct bio {
	int unused;
};

struct request {
	struct request_queue *q;
	struct blk_mq_hw_ctx *mq_hctx;
	struct bio *bio;
	enum rq_end_io_ret (*end_io)(struct request *rq, int error);
	void *end_io_data;
	atomic_t ref;
	int state;
	blk_opf_t cmd_flags;
	req_flags_t rq_flags;
};

struct scsi_cmnd {
	struct scsi_device *device;
	unsigned long state;
	int flags;
	int result;
	u32 resid_len;
	u32 sense_len;
	int retries;
	int budget_token;
	unsigned long jiffies_at_alloc;
};

/* A tag: its request and, behind it, its command. */
struct tag {
	struct request rq;
	struct scsi_cmnd scmd;
};

struct Scsi_Host {
	struct list_head starved_list;
};

struct scsi_device {
	struct Scsi_Host *host;
	struct request_queue *request_queue;
	unsigned int queue_depth;
	struct sbitmap budget_map;
	atomic_t restarts;
	atomic_t iorequest_cnt;
	atomic_t iodone_cnt;
	atomic_t device_blocked;
};

struct scsi_target {
	bool single_lun;
};

struct signal_struct {
	int flags;
	void *group_exec_task;
};

struct task_struct {
	int flags;
	bool in_execve;
	struct signal_struct *signal;
};

struct io_uring_cmd {
	struct task_struct *task;
	char pdu[8] __attribute__((aligned(8)));
};

struct smq_sg_status {
	u32 sense_key;
	int result;
	u32 resid;
	u32 runs;
};

struct smq_sg_run {
	u32 slot;
	u16 buffer;
	u16 flags;
	u64 lba;
};

struct smqsg_extent {
	u32 length;
};

struct smqsg_dev;
struct smqsg_fd;
struct smqsg_slot;
struct smqsg_buffer;
struct smqsg_batch;
struct smqsg_io;
struct smqsg_send;
struct smqsg_cmd;
struct smqsg_data { int unused; };
struct smqsg_adhoc { int unused; };
struct llist_node { struct llist_node *next; };

typedef enum rq_end_io_ret (rq_end_io_fn)(struct request *rq, int error);

struct smq_sg_timed_result {
	int result;
};

#include TYPES

struct smqsg_dev {
	struct scsi_device *sdev;
	struct smqsg_dev_depth depth;
	spinlock_t lock;	/* protects the queues of all files */
	struct smqsg_dev_wait wait;
	struct smqsg_dev_pool pool;
	struct list_head files;
	struct {
		struct request_queue *q;
	} own;
};

struct smqsg_fd {
	struct smqsg_dev *sg;
	struct scsi_device *sdev;
	struct request_queue *q;
	struct request_queue *own;
	bool plain;
	struct smqsg_fd_slots slots;
	struct smqsg_fd_pool pool;
	struct list_head sibling;
	struct smqsg_fd_depth depth;
	struct smqsg_fd_wait wait;
	struct {
		int ended;
	} polled;
	struct {
		unsigned int runs;
	} order;
};

#define SMQSG_NO_SLOT		U32_MAX
#define SMQSG_MOST_WAITING	1024
#define SMQSG_POOL_TAGS(depth)	(depth)
#define SMQSG_POOL_IDLE		(set.idle ? -1L : 1L)
#define SMQSG_POOL_SCAN		1
#define SMQ_KEPT_SCAN_ALL	1
#define SMQSG_SHARERS		16
#define SMQSG_COUNTS		1
#define SMQSG_YIELD		2
/* Delays: a delay of 1 is a matter of time only; a longer one is a periodic check. */
#define SMQSG_LOOK		2
#define SMQSG_EXPIRE		2
#define SMQSG_EXPIRED		2

struct smqsg_expired {
	struct smqsg_waiter *waiter;
	int error;
};

/* The state that the threads share. */
static struct {
	struct smqsg_dev sg;
	struct smqsg_fd fd[FILES];
	struct smqsg_slot slot[FILES][SLOTS];
	struct smq_sg_status status[FILES][SLOTS];
	u8 busy[FILES][SLOTS];
	struct smqsg_io io[SLOTS];
	struct io_uring_cmd ioucmd[SLOTS];
	struct smqsg_own_count count[2];
	int inflight_of[FILES][2];
	struct Scsi_Host shost;
	struct scsi_device sdev;
	struct request_queue queue;	/* the device's */
	struct request_queue own;	/* the node's own */
	struct blk_mq_hw_ctx hctx[HWQS];
	struct blk_mq_tags tags;
	struct blk_mq_tag_set tag_set;
	struct {
		struct smqsg_tags tags;
		atomic_t used[HWQS];
	} kept_tags;
	struct explore_rcu rcu;
	unsigned char cpu[EXPLORE_THREADS];	/* the CPU that a thread is on */
	bool blocked;			/* the device takes no command */
	bool quiet;			/* whoever blocked it relies on that */
	struct signal_struct signal;
	struct task_struct task[EXPLORE_THREADS];
	struct tag tag[TAGS];
	/* io_uring. */
	bool task_work[SLOTS];		/* the command's task work is queued */
	signed char cqes[SLOTS];	/* CQEs of the slot's SQEs */
	int cqe[SLOTS];			/* the last one's result */
	/* The block layer. */
	bool allocated[TAGS];
	bool with_device[TAGS];
	bool queued[TAGS];		/* waits for a token on the device's queue */
	signed char plain;		/* commands that were sent on the device's queue */
	signed char runs[TAGS];		/* how often the request was started */
	signed char inflight;		/* commands with the device, each with a token */
	signed char inflight_own;	/* those of them on the own queue */
	signed char tokens;		/* tokens in use */
	signed char allocs;		/* requests allocated by runs */
	signed char bad;		/* how many commands will fail */
	signed char at_once;		/* how many commands will end in queue_rq() */
	bool given_back;		/* a command of set.taken has ended */
	signed char refusals;		/* how many commands will not be issued straight */
} world;

static struct {
	int depth, tags, own, bad, at_once, refuse, allocs, timer, files, idle, taken;
	int migrate;
} set = { .depth = 2, .allocs = 100, .files = 1 };

static int nr_slots;

#endif /* SG_TYPES_H */
