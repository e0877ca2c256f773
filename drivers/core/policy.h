/* SPDX-License-Identifier: GPL-2.0 */
/* Dispatch policies: what a host's choice is made of. */
#ifndef SMQ_POLICY_H
#define SMQ_POLICY_H

#include <linux/device.h>
#include <linux/rcupdate.h>
#include <smq/lld.h>

/* How long nothing was held for before a policy believes that nothing is to be. */
#define SMQ_POLICY_IDLE	(5 * HZ)

/* Told apart by number on the way of a command: no indirect call for each. */
enum smq_policy_id {
	SMQ_POLICY_DIRECT,
	SMQ_POLICY_BATCH,
	SMQ_POLICY_LEGACY,
};

/**
 * struct smq_policy - a dispatch policy
 * @name: in sysfs
 * @id: how smq_policy_queue() knows it
 * @holds: may keep commands: more is advertised than the device takes while it does
 */
struct smq_policy {
	const char *name;
	enum smq_policy_id id;
	bool holds;
};

/* Context: policy_lock. */
static inline const struct smq_policy *smq_host_policy(struct smq_host *host)
{
	return rcu_dereference_protected(host->policy, lockdep_is_held(&host->policy_lock));
}

static inline bool smq_host_holds(struct smq_host *host)
{
	const struct smq_policy *policy = smq_host_policy(host);

	return policy && policy->holds;
}

void smq_policy_init_host(struct smq_host *host);
void smq_policy_stop_host(struct smq_host *host);
void smq_policy_keep(struct smq_host *host);
void smq_policy_holds(struct smq_host *host);

/* batch.c */
extern const struct attribute_group smq_batch_group;
void smq_batch_init_host(struct smq_host *host);
enum smq_verdict smq_batch_queue(struct smq_hwq *hwq, struct smq_cmd *cmd, bool last);
void smq_batch_last(struct smq_hwq *hwq);

#endif /* SMQ_POLICY_H */
