/* SPDX-License-Identifier: GPL-2.0 */
/* Fault injection: its state for a host, and its functions on the path of a command. */
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
 * @queue_cmd: gives a command to the LLD
 * @end: completes a command whose delay is over
 * @builtin: the settings, unless the LLD has called smq_fault_use()
 * @settings: the settings in use: @builtin or the LLD's
 * @lock: protects @running and @on
 * @running: set from smq_host_add() to smq_host_remove()
 * @on: the host keeps the static branch on: from before the host's first fault until the host is
 *	removed. Written under @lock, read without it
 * @hits_lock: protects @hits; taken in interrupts too
 * @hits: a struct smq_fault_hit for each command whose fault did not end it at once
 * @late: completes late commands when their delay is over
 *
 * Lifetime: part of struct smq_host_core.
 */
struct smq_host_faults {
	struct smq_host *host;
	enum smq_status (*queue_cmd)(struct smq_hwq *hwq, struct smq_cmd *cmd);
	void (*end)(struct smq_cmd *cmd);
	struct smq_fault builtin;
	struct smq_fault *settings;
	struct mutex lock;	/* see above */
	bool running;
	bool on;
	spinlock_t hits_lock;	/* protects hits */
	struct list_head hits;
	struct delayed_work late;
};

/* fault.c */
void smq_faults_init_host(struct smq_host *host,
			  enum smq_status (*queue_cmd)(struct smq_hwq *hwq, struct smq_cmd *cmd),
			  void (*end)(struct smq_cmd *cmd));
void smq_faults_start_host(struct smq_host *host);
void smq_faults_stop_host(struct smq_host *host);
bool smq_fault_after(struct smq_cmd *cmd);
bool smq_fault_take_back(struct smq_cmd *cmd);
void smq_fault_forget(struct smq_cmd *cmd);

#endif /* SMQ_CORE_FAULT_H */
