/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Declarations for all files of smq_conv, which takes (claims) LUNs of any SCSI host from their
 * upper driver and presents them on a multiqueue host of its own. The lower device is the device
 * that was claimed; the upper device stands for it on smq_conv's host.
 */
#ifndef SMQ_CONV_H
#define SMQ_CONV_H

#include <linux/blk-mq.h>
#include <linux/llist.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <smq/kept.h>
#include <smq/lld.h>

#include "kernel.h"

/* The most commands that a hardware queue takes; fewer if the lower host takes fewer. */
#define CONV_MAX_DEPTH	1024
/* The most lower requests that are allocated together: the limit of the block layer's plug. */
#define CONV_MAX_BATCH	32U

/**
 * struct conv_host - the upper host of a lower host: private area of an smq_host
 * @node: in the list of all upper hosts
 * @smq: the layer's part
 * @lower: the lower host, referenced
 * @luns: claims on LUNs of the lower host; a scan of the upper host finds these LUNs
 * @users: references: one for each claim, and one for each function that works on a claim. The host
 *	is removed when the last one is dropped
 *
 * @kept: how many lower requests the commands of all claims may keep, idle or in flight. Atomic:
 *	commands begin and end on any CPU
 * @keepers: commands that keep or have kept one, by struct conv_cmd.keeping
 *
 * @node, @luns and @users are protected by conv_lock.
 * Lives as long as the smq_host, from conv_host_get() to the last conv_host_put().
 */
struct conv_host {
	struct list_head node;
	struct smq_host *smq;
	struct Scsi_Host *lower;
	struct list_head luns;
	unsigned int users;
	atomic_t kept;
	struct llist_head keepers;
};

/**
 * struct conv_limits - the queue limits that drivers change while a device is in use
 * @virt_boundary_mask: for this and the other fields see struct queue_limits
 * @max_hw_sectors: in units of 512 bytes
 * @max_segment_size: in bytes
 * @max_segments: number of entries of a scatterlist
 */
struct conv_limits {
	unsigned long virt_boundary_mask;
	unsigned int max_hw_sectors;
	unsigned int max_segment_size;
	unsigned short max_segments;
};

/**
 * struct conv_lun - a claim
 * @node: in conv_host.luns until the claim ends; under conv_lock
 * @lower: the lower device, referenced; the reference also keeps the module of its LLD loaded
 * @spare: a lower request that @room has allocated for the next command; NULL if there is none
 * @sent: number of lower requests so far; per CPU
 * @depth: the lower queue_depth to which the upper one was last set
 * @limits: lower limits that no upper request exceeds. While the lower queue's limits differ from
 *	these, queue_cmd checks each command
 * @mid_layer: the mid-layer's operations of the lower queue
 * @ops: those that the queue has while it is claimed: a short end for our requests
 * @kept: as conv_host.kept, for this claim
 * @kept_scan: gives back kept requests that others need or that no command uses; see kept.c
 * @kept_state: when @kept_scan next looks at all of them; only @kept_scan uses it
 * @cmds_before_claim: commands that the lower device got before the claim
 * @host: the upper host, referenced
 * @handler: the device handler that the lower device had; NULL if none
 * @link: device link: it makes the upper host suspend before the lower device
 * @add: for a claim that a rule made: adds the LUN to the upper host
 * @follow: sets the upper queue_depth to the lower one
 * @told: the limits that the upper queue was last set to; only @limits_work and lun_configure use
 *	them
 * @limits_work: changes the limits of the upper queue; see limits.c
 * @no_tag: a command has found no lower tag since @room last began to run
 * @room: allocates @spare, and waits for a tag of the lower queue for that; see room.c
 * @room_wq: for @room alone: while @room sleeps for a tag, no work item of another claim waits for
 *	it, and it needs no memory to run
 * @uppers: number of upper devices that use the claim, under conv_lock; the claim outlives them.
 *	The number is 2 while a deleted upper device still exists and a scan has added the LUN again
 * @idle: woken when @uppers is 0
 *
 * Lifetime: a write to the claim attribute, or the driver's probe for a device with a rule,
 * allocates the claim. The probe makes it the driver data of the lower device, and the driver's
 * remove frees it.
 */
struct conv_lun {
	struct list_head node;
	/* Read for each command. */
	struct scsi_device *lower;
	struct request *spare;
	unsigned int __percpu *sent;
	struct conv_limits limits;
	unsigned short depth;
	const struct blk_mq_ops *mid_layer;

	struct blk_mq_ops ops;
	atomic_t kept;
	struct delayed_work kept_scan;
	struct smq_kept_scan kept_state;
	unsigned int cmds_before_claim;
	struct conv_host *host;
	struct scsi_device_handler *handler;
	struct device_link *link;
	struct work_struct add;
	struct work_struct follow;
	struct conv_limits told;
	struct delayed_work limits_work;
	bool no_tag;
	struct delayed_work room;
	struct workqueue_struct *room_wq;
	unsigned int uppers;
	wait_queue_head_t idle;
};

/* Private area of an upper device: its claim, set in lun_init. */
struct conv_upper {
	struct conv_lun *cl;
};

/**
 * struct conv_cmd - private area of a command
 * @rq: the lower request, or NULL. When the lower request ends, conv_end_io() sets this to NULL, as
 *	its last write to the command. Error handling reads the pointer but does not dereference it:
 *	it finds requests by a walk over the lower host's tags, and the walk keeps each of them from
 *	being freed meanwhile
 * @reset: a reset of the upper device, target or host aborted the lower request. Set during the
 *	reset, when no new command comes, and cleared by queue_cmd
 * @cut: if the lower request has less data than the command: how many bytes were cut off the last
 *	scatterlist entry that the lower request uses
 * @node: in conv_hwq.ready
 * @kept: the lower request of the tag's last command, NULL while a command runs. Taken out by
 *	exchange, put in by the command's end: one context at a time has it
 * @keeper: the claim that counts the command's lower request, or @kept; NULL: it may not be kept.
 *	Written by queue_cmd
 * @straight: the lower request may be sent straight: it has a tag, and its queue has no elevator
 * @kept_cpu: the CPU on which that request was allocated
 * @token: the request's last place in the lower device's budget; below 0: none yet
 * @keeping: in conv_host.keepers, once @listed
 * @listed: set by queue_cmd
 */
struct conv_cmd {
	struct request *rq;
	bool reset;
	bool straight;
	bool listed;
	unsigned int cut;
	struct llist_node node;
	struct request *kept;
	struct conv_lun *keeper;
	unsigned int kept_cpu;
	int token;
	struct llist_node keeping;
};

/**
 * struct conv_hwq - private area of a hardware queue
 * @ready: commands whose lower requests the next commit issues. Lockless, because several CPUs may
 *	call queue_cmd and commit of one hardware queue at the same time
 * @batch: how many commands the last commit issued, up to CONV_MAX_BATCH: an estimate for the next
 *	commit. Written without a lock: a wrong estimate only costs instructions
 */
struct conv_hwq {
	struct llist_head ready;
	unsigned int batch;
};

/*
 * Protects the lists of hosts, claims and attachments, and the fields that are described as "under
 * conv_lock". No other lock is taken inside it; holders may sleep.
 */
extern struct mutex conv_lock;

/* main.c */
extern struct scsi_driver conv_driver;
extern struct device *conv_root;
/* For work items that wait for commands: if a LUN is blocked, they wait as long as it is. */
extern struct workqueue_struct *conv_wq;

/* claim.c */
extern const struct attribute_group *conv_driver_groups[];
struct conv_lun *conv_claim_take(struct scsi_device *lower);
void conv_release_all(void);

/* handler.c */
void conv_handler_replace(struct conv_lun *cl);
void conv_handler_restore(struct conv_lun *cl);

/* rule.c */
extern struct driver_attribute driver_attr_rules;
bool conv_rule_matches(struct scsi_device *lower);
int conv_rules_init(void);
void conv_rules_exit(void);

/* host.c */
struct conv_host *conv_host_get(struct Scsi_Host *lower);
void conv_host_put(struct conv_host *ch);
struct scsi_device *conv_host_any_lower(void);
bool conv_host_is_lower(struct Scsi_Host *shost);
ssize_t conv_host_list(char *buf);
__printf(3, 4)
ssize_t conv_list_add(char *buf, ssize_t len, const char *fmt, ...);

/* lun.c */
struct conv_lun *conv_lun_create(struct conv_host *ch, struct scsi_device *lower);
void conv_lun_destroy(struct conv_lun *cl);
void conv_lun_end(struct conv_lun *cl);
int conv_lun_add_upper(struct conv_host *ch, const struct scsi_device *lower);
int conv_lun_init(struct smq_host *host, struct scsi_device *upper);
void conv_lun_exit(struct smq_host *host, struct scsi_device *upper);
int conv_lun_configure(struct smq_host *host, struct scsi_device *upper,
		       struct queue_limits *lim);

/* upper.c */
struct scsi_device *conv_lun_upper(struct conv_lun *cl);
unsigned int conv_lun_others(const struct conv_lun *cl);

/* limits.c */
void conv_limits_init(struct conv_lun *cl);
void conv_limits_exit(struct conv_lun *cl);
void conv_limits_take(struct conv_lun *cl, struct queue_limits *lim);
bool conv_limits_check(struct conv_lun *cl, struct scsi_cmnd *scmd, unsigned int *excess);
void conv_limits_cut(struct scsi_cmnd *lower, struct scsi_cmnd *scmd, unsigned int excess);
void conv_limits_mend(const struct scsi_cmnd *lower, struct scsi_cmnd *scmd);

/* Returns whether the queue limits @now differ from @limits. queue_cmd calls it per command. */
static __always_inline bool conv_limits_changed(const struct conv_limits *limits,
						const struct queue_limits *now)
{
	return (READ_ONCE(limits->virt_boundary_mask) ^ READ_ONCE(now->virt_boundary_mask)) |
	       (READ_ONCE(limits->max_hw_sectors) ^ READ_ONCE(now->max_hw_sectors)) |
	       (READ_ONCE(limits->max_segment_size) ^ READ_ONCE(now->max_segment_size)) |
	       (READ_ONCE(limits->max_segments) ^ READ_ONCE(now->max_segments));
}

/* room.c */
int conv_room_init(struct conv_lun *cl);
void conv_room_free(struct conv_lun *cl);
void conv_room_exit(struct conv_lun *cl);
struct request *conv_room_take_spare(struct conv_lun *cl, blk_opf_t opf);
void conv_room_wait(struct conv_lun *cl);

/* kept.c */
void conv_kept_init(struct conv_lun *cl);
void conv_kept_exit(struct conv_lun *cl);

/* queue.c */
void conv_complete(struct request *rq);
struct smq_host *conv_smq_alloc(const struct smq_host_config *cfg);
void conv_issue(struct smq_hwq *hwq);
SMQ_END_IO(conv_end_io, rq, error);

/* eh.c */
bool conv_timed_out(struct smq_hwq *hwq, struct smq_cmd *cmd);
int conv_abort(struct smq_hwq *hwq, struct smq_cmd *cmd);
int conv_lun_reset(struct smq_host *host, struct scsi_device *sdev);
int conv_target_reset(struct smq_host *host, struct scsi_target *starget);
int conv_host_reset(struct smq_host *host);

#endif /* SMQ_CONV_H */
