/* SPDX-License-Identifier: GPL-2.0 */
/*
 * smq_conv: LUNs of any SCSI host, claimed from their upper driver, as LUNs of a multiqueue
 * host. What its files share. The lower device is the one that was claimed, the upper device
 * the one that smq_conv's host has for it.
 */
#ifndef SMQ_CONV_H
#define SMQ_CONV_H

#include <linux/llist.h>
#include <linux/mutex.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <smq/lld.h>
#include <smq/lower.h>

/* Commands of a hardware queue at most; as many as the lower host takes, if those are fewer. */
#define CONV_MAX_DEPTH	1024

/**
 * struct conv_host - the upper host of a lower one: private area of an smq_host
 * @node: in the list of all
 * @smq: the layer's part
 * @lower: the lower host, referenced
 * @luns: claims on it, those that a scan finds
 * @users: claims, and whoever works on one; the host goes with the last
 *
 * @node, @luns and @users are protected by conv_lock.
 * Lifetime: that of the smq_host, from conv_host_get() to the last conv_host_put().
 */
struct conv_host {
	struct list_head node;
	struct smq_host *smq;
	struct Scsi_Host *lower;
	struct list_head luns;
	unsigned int users;
};

/**
 * struct conv_lun - a claim
 * @node: in conv_host.luns until the claim ends; under conv_lock
 * @host: the upper host, referenced
 * @lower: the lower device, referenced: its driver's module stays
 * @link: has the upper host suspend before the lower device
 * @add: has the upper host find it, for a claim that a rule made
 * @depth: the lower queue_depth that the upper device follows
 * @follow: changes the upper queue_depth
 * @uppers: upper devices that use the claim, under conv_lock; the claim outlives them. One, and
 *	another one while a deleted one is on its way out and a scan has found the LUN anew
 * @idle: woken when @uppers is 0
 *
 * Lifetime: claim(), or the driver's probe by a rule, allocates it; the probe gives it to the
 * lower device, whose driver data it is from then on, and the driver's remove frees it.
 */
struct conv_lun {
	struct list_head node;
	struct conv_host *host;
	struct scsi_device *lower;
	struct device_link *link;
	struct work_struct add;
	unsigned short depth;
	struct work_struct follow;
	unsigned int uppers;
	wait_queue_head_t idle;
};

/* Private area of an upper device: its claim, set in lun_init. */
struct conv_upper {
	struct conv_lun *cl;
};

/**
 * struct conv_cmd - private area of a command
 * @rq: the lower request, NULL when there is none: the end of that one writes it, last. Error
 * handling, which reads it, finds the request itself by the lower host's tags, that keep it
 * @reset: a reset of the upper device aborted it; written while that lets no command come
 * @node: in conv_hwq.ready
 */
struct conv_cmd {
	struct request *rq;
	bool reset;
	struct llist_node node;
};

/**
 * struct conv_hwq - private area of a hardware queue
 * @ready: commands whose lower requests are issued by the next commit. Lockless: several CPUs
 *	may submit to one hardware queue, and commit it
 */
struct conv_hwq {
	struct llist_head ready;
};

/* Protects the lists of hosts and claims, and what is said there. Innermost; holders may sleep. */
extern struct mutex conv_lock;

/* main.c */
extern struct scsi_driver conv_driver;
extern struct device *conv_root;

/* claim.c */
extern const struct attribute_group *conv_driver_groups[];
struct conv_lun *conv_claim_take(struct scsi_device *lower);
void conv_release_all(void);

/* rule.c */
extern struct driver_attribute driver_attr_rules;
bool conv_rule_matches(struct scsi_device *lower);
int conv_rules_init(void);
void conv_rules_exit(void);

/* host.c */
struct conv_host *conv_host_get(struct Scsi_Host *lower);
void conv_host_put(struct conv_host *ch);
struct scsi_device *conv_host_any_lower(void);

/* lun.c */
struct conv_lun *conv_lun_create(struct conv_host *ch, struct scsi_device *lower);
void conv_lun_destroy(struct conv_lun *cl);
void conv_lun_end(struct conv_lun *cl);
int conv_lun_add_upper(struct conv_host *ch, const struct scsi_device *lower);
struct scsi_device *conv_lun_upper(struct conv_lun *cl);
int conv_lun_init(struct smq_host *host, struct scsi_device *upper);
void conv_lun_exit(struct smq_host *host, struct scsi_device *upper);
int conv_lun_configure(struct smq_host *host, struct scsi_device *upper,
		       struct queue_limits *lim);

/* queue.c */
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
