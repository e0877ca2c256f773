/* SPDX-License-Identifier: GPL-2.0 */
/* A host's choice of a dispatch policy, and the change to another one. */
#ifndef SMQ_CORE_CHOICE_H
#define SMQ_CORE_CHOICE_H

#include <linux/device.h>
#include <linux/mutex.h>
#include <linux/workqueue.h>
#include <smq/policy.h>

#include "compare.h"

struct smq_lun_core;

/**
 * struct smq_choice - the policy that a host has chosen
 * @lock: held while the policy or an advertised depth changes, while queue_depth is written, and
 *	while a LUN is set up or removed; a mutex, because all of this may sleep. Protects @policy,
 *	@knobs, @looking, @comparing to @window_start, and smq_host_core.raised and lowering
 * @policy: the chosen policy, NULL for "direct"; smq_host.policy is the same, or NULL while
 *	the policy has nothing to do. Read inside an RCU read-side section
 * @knobs: settings of all policies, struct smq_knobs.node
 * @use: makes the chosen policy effective while it has something to do
 * @in_use: the layer knows that the policy has something to do; written under @lock, read
 *	without it
 * @looking: a look is under way: commands go through the policy until @look_end, to find out
 *	whether it has something to do
 * @look_end: when the look ends, in jiffies
 * @queued_at_look: how many commands had been queued when the last look ended, or the last
 *	comparison began
 * @comparing: the policy is being compared with "direct"
 * @slower: the last comparison found it slower; until the next look the host runs as "direct"
 * @compare: the comparison, or the last one
 * @window_done: how many commands had ended when the comparison's window began
 * @window_start: when it began, ktime in ns
 * @last_full: when a command was last held because its device was full, in jiffies
 * @last_fast: when a device was last found to be fast, in jiffies; written without a lock
 * @live: number of policies of this host that have not been freed yet; atomic because each is freed
 *	by a work item of its own, without @lock
 *
 * Lifetime: as long as the host.
 */
struct smq_choice {
	struct mutex lock;	/* see @lock above */
	struct smq_policy __rcu *policy;
	struct list_head knobs;
	struct delayed_work use;
	bool in_use;
	bool looking;
	unsigned long look_end;
	u64 queued_at_look;
	bool comparing;
	bool slower;
	struct smq_compare compare;
	u64 window_done;
	u64 window_start;
	unsigned long last_full;
	unsigned long last_fast;
	atomic_t live;
};

/* policy.c */
ssize_t smq_policy_show(struct device *dev, struct device_attribute *attr, char *buf);
ssize_t smq_policy_store(struct device *dev, struct device_attribute *attr,
			 const char *buf, size_t count);
void smq_policy_drop(struct smq_host *host);
void smq_policy_init_host(struct smq_host *host);
void smq_policy_wait_for_change(struct smq_host *host);
void smq_policy_stop_host(struct smq_host *host);

/* policy_use.c */
void smq_use_init_host(struct smq_host *host);
void smq_use_swap(struct smq_host *host, struct smq_policy *policy);
void smq_use_commit_all(struct smq_host *host, bool reset);
void smq_use_begin(struct smq_host *host);
void smq_use_end(struct smq_host *host);
void smq_use_fast(struct smq_host *host);

/* instance.c */
struct smq_policy *smq_policy_alloc(struct smq_host *host, const struct smq_policy_ops *ops);
void smq_policy_retire(struct smq_policy *policy);
void smq_no_policy_add(struct smq_host *host);
void smq_no_policy_remove(struct smq_host *host);
int smq_policy_add_lun(struct smq_policy *policy, struct smq_lun_core *lun);
void smq_policy_remove_lun(struct smq_lun_core *lun);

/* registry.c */
int smq_registry_add_host(struct smq_host *host);
void smq_registry_show_host(struct smq_host *host);
void smq_registry_hide_host(struct smq_host *host);
void smq_registry_remove_host(struct smq_host *host);
const struct smq_policy_ops *smq_registry_get(const char *name);
int smq_registry_list(char *buf, size_t size, const char *chosen, const char *between);
void *smq_registry_knobs(struct smq_host *host, const struct smq_policy_ops *ops);

/* The chosen policy, NULL for "direct". Context: policy lock. */
static inline struct smq_policy *smq_choice_policy(struct smq_choice *choice)
{
	return rcu_dereference_protected(choice->policy, lockdep_is_held(&choice->lock));
}

#endif /* SMQ_CORE_CHOICE_H */
