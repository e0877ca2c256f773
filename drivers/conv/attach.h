/* SPDX-License-Identifier: GPL-2.0 */
/* Attached hosts: the layer in front of any host, in place. */
#ifndef CONV_ATTACH_H
#define CONV_ATTACH_H

#include <linux/mutex.h>
#include <linux/refcount.h>
#include <linux/srcu.h>
#include <linux/workqueue.h>
#include <smq/attached.h>

/**
 * struct conv_attach - an attached host: private area of the layer's part
 * @sht: the host's template while it is attached: a copy of @orig with our functions
 * @orig: the template of the host's driver
 * @queuecommand: the driver's, as in @orig
 * @hwqs: the layer's hardware queues
 * @smq: the layer's part
 * @shost: the host, referenced
 * @node: in the list of all attached hosts, from before the exchange until no function of @sht can
 *	run any more; under conv_lock
 * @gone: the host has its own template, not yet or no more @sht. Set under the host's scan_mutex
 * @lld: the description of the host's driver for the layer
 * @lun_gone: called when a LUN has been removed, under the host's scan_mutex
 * @check: finds late commands that have ended, once a second while the host has any
 * @srcu: read-side sections are the functions of @sht that sleep
 * @lock: held while the layer's attributes are shown or hidden; nests inside scan_mutex
 * @refs: one for the host, dropped when the attachment ends, and one for each function that works
 *	on the attachment without scan_mutex
 *
 * Lifetime: from attach to the end of detach, or to the removal of the host's last LUN.
 */
struct conv_attach {
	struct scsi_host_template sht;
	const struct scsi_host_template *orig;
	smq_qc_t (*queuecommand)(struct Scsi_Host *shost, struct scsi_cmnd *scmd);
	struct smq_attached_hwq *hwqs;
	struct smq_host *smq;
	struct Scsi_Host *shost;
	struct list_head node;
	bool gone;
	struct smq_lld lld;
	void (*lun_gone)(struct conv_attach *at, struct scsi_device *sdev);
	struct delayed_work check;
	struct srcu_struct srcu;
	struct mutex lock;	/* see @lock above */
	refcount_t refs;
};

/* attach.c */
extern struct driver_attribute driver_attr_attach;
extern struct driver_attribute driver_attr_attached;
extern struct driver_attribute driver_attr_detach;
int conv_attach_init(void);
void conv_attach_exit(void);

/* attach_freeze.c */
int conv_freeze(struct Scsi_Host *shost, struct list_head *frozen, const char **why);
void conv_unfreeze(struct list_head *frozen);

/* attach_queue.c */
extern struct list_head conv_attached;
extern struct workqueue_struct *conv_attach_wq;
extern const struct smq_template conv_attach_tmpl;
enum smq_status conv_attach_queue_cmd(struct smq_hwq *hwq, struct smq_cmd *cmd);
bool conv_is_attached(const struct Scsi_Host *shost);
bool conv_attach_is_listed(const struct Scsi_Host *shost);
void conv_attach_check(struct work_struct *work);
void conv_attach_fill(struct conv_attach *at);
void conv_attach_done(void *data, struct scsi_cmnd *scmd);

#endif /* CONV_ATTACH_H */
