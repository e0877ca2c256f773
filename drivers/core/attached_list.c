// SPDX-License-Identifier: GPL-2.0
/*
 * The list of attached hosts, by which an attribute finds the layer's part of its host.
 */
#include <linux/export.h>
#include <linux/rculist.h>
#include <linux/spinlock.h>

#include "core.h"
#include "smq.h"

static DEFINE_SPINLOCK(smq_attached_lock);	/* protects changes of the list */
static LIST_HEAD(smq_attached_hosts);

/* Context: may sleep. */
void smq_attached_list(struct smq_attached *attached)
{
	spin_lock(&smq_attached_lock);
	list_add_tail_rcu(&attached->node, &smq_attached_hosts);
	spin_unlock(&smq_attached_lock);
}

/* Does nothing if the host is not in the list. Context: may sleep. */
void smq_attached_unlist(struct smq_attached *attached)
{
	if (list_empty(&attached->node))
		return;
	spin_lock(&smq_attached_lock);
	list_del_rcu(&attached->node);
	spin_unlock(&smq_attached_lock);
	synchronize_rcu();
	INIT_LIST_HEAD(&attached->node);
}

/*
 * sysfs keeps the host while an attribute is read or written, and smq_attached_hide() waits for
 * that. The attributes of a host that is not attached are those of the layer's own host.
 */
struct smq_host *smq_dev_to_host(struct device *dev)
{
	struct Scsi_Host *shost = class_to_shost(dev);
	struct smq_attached *attached;
	struct smq_host *host = NULL;

	rcu_read_lock();
	list_for_each_entry_rcu(attached, &smq_attached_hosts, node) {
		struct smq_host_core *core = container_of(attached, struct smq_host_core, attached);

		if (core->host->shost == shost)
			host = core->host;
	}
	rcu_read_unlock();
	return host ?: smq_shost_to_host(shost);
}
EXPORT_SYMBOL_GPL(smq_dev_to_host);
