/* SPDX-License-Identifier: GPL-2.0 */
/* Fault injection: what the layer keeps for it, and asks it on a command's way. */
#ifndef SMQ_CORE_FAULT_H
#define SMQ_CORE_FAULT_H

#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>
#include <smq/fault.h>

/**
 * struct smq_host_faults - fault injection of a host
 * @host: the host
 * @enter: gives a command to the LLD
 * @end: completes a command that was answered late
 * @own: its settings, if the LLD has brought none
 * @set: its settings
 * @lock: protects @running and @on
 * @running: from smq_host_add() to smq_host_remove()
 * @on: it keeps the static branch on; set before a command of it may get a fault, and
 *	until the host goes. Written under @lock, read without
 * @hits_lock: protects @hits; taken in interrupts too
 * @hits: commands that got a fault which needs more than an end at once
 * @late: completes those that are answered late
 *
 * Lifetime: that of the host.
 */
struct smq_host_faults {
	struct smq_host *host;
	enum smq_status (*enter)(struct smq_hwq *hwq, struct smq_cmd *cmd);
	void (*end)(struct smq_cmd *cmd);
	struct smq_fault own;
	struct smq_fault *set;
	struct mutex lock;	/* see above */
	bool running;
	bool on;
	spinlock_t hits_lock;	/* protects the one below */
	struct list_head hits;
	struct delayed_work late;
};

/* fault.c */
void smq_faults_init_host(struct smq_host *host,
			  enum smq_status (*enter)(struct smq_hwq *hwq, struct smq_cmd *cmd),
			  void (*end)(struct smq_cmd *cmd));
void smq_faults_start_host(struct smq_host *host);
void smq_faults_stop_host(struct smq_host *host);
bool smq_fault_take(atomic_t *count);
bool smq_fault_after(struct smq_cmd *cmd);
bool smq_fault_claim(struct smq_cmd *cmd);
void smq_fault_forget(struct smq_cmd *cmd);

#endif /* SMQ_CORE_FAULT_H */
