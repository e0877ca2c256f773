// SPDX-License-Identifier: GPL-2.0
/* Hosts and their hardware queues: set-up, mapping to CPUs, removal. */
#define pr_fmt(fmt) "smq: " fmt

#include <linux/cpumask.h>
#include <linux/export.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <smq/version.h>

#include "../policy/builtin.h"
#include "core.h"
#include "smq.h"
#include "wait.h"

/* The shortest and the longest CDB of the mid-layer, in bytes. */
#define SMQ_MIN_CDB	6U
#define SMQ_MAX_CDB	((unsigned int)sizeof_field(struct scsi_cmnd, cmnd))

static int smq_check_entry(const struct smq_lld *lld, const struct smq_host_config *cfg)
{
	if (!lld->queue_cmd == !lld->queuecommand_lck) {
		pr_err("%s: needs either queue_cmd or queuecommand_lck, but has %s\n",
		       lld->name, lld->queue_cmd ? "both" : "neither");
		return -EINVAL;
	}
	if (!lld->queuecommand_lck)
		return 0;
	if (cfg->hw_queues != 1 || cfg->poll_queues) {
		pr_err("%s: hw_queues=%u poll_queues=%u, but queuecommand_lck needs 1 and 0\n",
		       lld->name, cfg->hw_queues, cfg->poll_queues);
		return -EINVAL;
	}
	if (lld->work) {
		pr_err("%s: the work operation needs queue_cmd, but the LLD has queuecommand_lck\n",
		       lld->name);
		return -EINVAL;
	}
	return 0;
}

static int smq_check_config(const struct smq_lld *lld, const struct smq_host_config *cfg)
{
	if (lld->max_cmd_len < SMQ_MIN_CDB || lld->max_cmd_len > SMQ_MAX_CDB) {
		pr_err("%s: max_cmd_len=%u is outside %u..%u\n", lld->name, lld->max_cmd_len,
		       SMQ_MIN_CDB, SMQ_MAX_CDB);
		return -EINVAL;
	}
	if (lld->sg_tablesize < 1 || lld->sg_tablesize > SG_MAX_SEGMENTS) {
		pr_err("%s: sg_tablesize=%u is outside 1..%u\n", lld->name, lld->sg_tablesize,
		       (unsigned int)SG_MAX_SEGMENTS);
		return -EINVAL;
	}
	if (cfg->depth < 1 || cfg->depth > SMQ_MAX_DEPTH) {
		pr_err("%s: depth=%u is outside 1..%u\n", lld->name, cfg->depth, SMQ_MAX_DEPTH);
		return -EINVAL;
	}
	if (cfg->extra > SMQ_MAX_DEPTH) {
		pr_err("%s: extra=%u is outside 0..%u\n", lld->name, cfg->extra, SMQ_MAX_DEPTH);
		return -EINVAL;
	}
	if (cfg->hw_queues < 1 || cfg->max_id < 1 || cfg->max_lun < 1) {
		pr_err("%s: hw_queues, max_id and max_lun must be at least 1\n", lld->name);
		return -EINVAL;
	}
	if (cfg->poll_queues && !lld->poll) {
		pr_err("%s: poll_queues=%u, but this LLD cannot poll\n", lld->name,
		       cfg->poll_queues);
		return -EINVAL;
	}
	return smq_check_entry(lld, cfg);
}

static unsigned int smq_cut_queues(const struct smq_lld *lld, const char *what, unsigned int n)
{
	if (n > nr_cpu_ids) {
		pr_notice("%s: %s=%u cut to %u, the number of CPUs\n", lld->name, what, n,
			  nr_cpu_ids);
		return nr_cpu_ids;
	}
	return n;
}

static void smq_free_hwq(struct smq_hwq *hwq)
{
	smq_hold_exit(&hwq->core->refused);
	free_percpu(hwq->stats);
	kfree(hwq->core);
	kfree(hwq);
}

static struct smq_hwq *smq_alloc_hwq(struct smq_host *host, unsigned int index)
{
	const struct smq_lld *lld = host->lld;
	struct smq_hwq *hwq;
	int err;

	/* kmalloc() aligns 2^n bytes to 2^n, so the queue shares no cache line. */
	hwq = kzalloc(roundup_pow_of_two(sizeof(*hwq) + lld->hwq_size), GFP_KERNEL);
	if (!hwq)
		return ERR_PTR(-ENOMEM);
	hwq->host = host;
	hwq->index = index;
	hwq->type = index < host->nr_hwqs - host->nr_poll ? HCTX_TYPE_DEFAULT : HCTX_TYPE_POLL;
	hwq->stats = alloc_percpu(struct smq_stats);
	hwq->core = kzalloc(roundup_pow_of_two(sizeof(*hwq->core)), GFP_KERNEL);
	if (!hwq->stats || !hwq->core) {
		free_percpu(hwq->stats);
		kfree(hwq->core);
		kfree(hwq);
		return ERR_PTR(-ENOMEM);
	}
	hwq->core->hwq = hwq;
	smq_hold_init(&hwq->core->refused, host, smq_wait_dispatch_hwq);
	err = lld->init_hwq ? lld->init_hwq(hwq) : 0;
	if (err) {
		smq_free_hwq(hwq);
		return ERR_PTR(err);
	}
	return hwq;
}

static void smq_free_hwqs(struct smq_host *host)
{
	unsigned int i;

	for (i = 0; i < host->nr_hwqs && host->hwq[i]; i++) {
		if (host->lld->exit_hwq)
			host->lld->exit_hwq(host->hwq[i]);
		smq_free_hwq(host->hwq[i]);
	}
	kfree(host->hwq);
	host->hwq = NULL;
}

static int smq_alloc_hwqs(struct smq_host *host)
{
	unsigned int i;

	host->hwq = kcalloc(host->nr_hwqs, sizeof(*host->hwq), GFP_KERNEL);
	if (!host->hwq)
		return -ENOMEM;
	for (i = 0; i < host->nr_hwqs; i++) {
		struct smq_hwq *hwq = smq_alloc_hwq(host, i);

		if (IS_ERR(hwq)) {
			smq_free_hwqs(host);
			return PTR_ERR(hwq);
		}
		host->hwq[i] = hwq;
	}
	return 0;
}

/* Offset of the layer's own part in a host's memory, in bytes. */
static size_t smq_core_offset(const struct smq_lld *lld)
{
	return ALIGN(sizeof(struct smq_host) + lld->host_size, __alignof__(struct smq_host_core));
}

/*
 * Also called after an error in smq_alloc_core(): frees the parts that were allocated. The memory
 * of host->core itself is part of the mid-layer's host.
 */
static void smq_free_core(struct smq_host *host)
{
	smq_registry_remove_host(host);
	if (host->core->wq)
		destroy_workqueue(host->core->wq);
	smq_holds_free_host(host);
}

/* Memory of a host with the layer's own part, in bytes. */
size_t smq_host_size(const struct smq_lld *lld)
{
	return smq_core_offset(lld) + sizeof(struct smq_host_core);
}

static int smq_alloc_core(struct smq_host *host, const struct smq_template *tmpl)
{
	struct smq_host_core *core = (void *)host + smq_core_offset(host->lld);
	int err;

	host->core = core;
	core->host = host;
	core->dispatch = tmpl->dispatch;
	mutex_init(&core->eh.lock);
	smq_faults_init_host(host, tmpl->enter, smq_cmd_end);
	smq_policy_init_host(host);
	INIT_DELAYED_WORK(&core->hold.scan, smq_hold_scan);
	err = smq_holds_init_host(host);
	if (err)
		return err;
	core->wq = alloc_workqueue("smq_%d", WQ_MEM_RECLAIM | WQ_PERCPU, 0,
				   host->shost->host_no);
	return core->wq ? smq_registry_add_host(host) : -ENOMEM;
}

/*
 * Sets up the layer's part of a host, whose memory has smq_host_size() bytes. The caller has set
 * shost, lld, and the numbers of queues and commands. Undoes everything after an error.
 */
int smq_host_set_up(struct smq_host *host, const struct smq_template *tmpl)
{
	int err = smq_alloc_core(host, tmpl);

	if (!err)
		err = smq_alloc_hwqs(host);
	if (err)
		smq_free_core(host);
	return err;
}

void smq_host_tear_down(struct smq_host *host)
{
	smq_free_hwqs(host);
	smq_free_core(host);
}

struct smq_host *smq_host_alloc(const struct smq_lld *lld, struct smq_template *tmpl,
				const struct smq_host_config *cfg)
{
	struct Scsi_Host *shost;
	struct smq_host *host;
	int err;

	err = smq_check_config(lld, cfg);
	if (err)
		return ERR_PTR(err);

	tmpl->sht.name = lld->name;
	tmpl->sht.proc_name = lld->name;
	tmpl->sht.cmd_size = sizeof(struct smq_cmd) + lld->cmd_size;

	shost = scsi_host_alloc(&tmpl->sht, smq_host_size(lld));
	if (!shost)
		return ERR_PTR(-ENOMEM);
	host = smq_shost_to_host(shost);
	host->shost = shost;
	host->lld = lld;
	host->depth = cfg->depth;
	host->extra = cfg->extra;
	host->nr_poll = smq_cut_queues(lld, "poll_queues", cfg->poll_queues);
	host->nr_hwqs = smq_cut_queues(lld, "hw_queues", cfg->hw_queues) + host->nr_poll;

	shost->can_queue = cfg->depth;
	shost->cmd_per_lun = cfg->depth;
	shost->sg_tablesize = lld->sg_tablesize;
	shost->max_sectors = lld->max_sectors;
	shost->nr_hw_queues = host->nr_hwqs;
	shost->nr_maps = host->nr_poll ? HCTX_MAX_TYPES : 1;
	shost->max_id = cfg->max_id;
	shost->max_lun = cfg->max_lun;
	shost->max_cmd_len = lld->max_cmd_len;

	err = smq_host_set_up(host, tmpl);
	if (err) {
		scsi_host_put(shost);
		return ERR_PTR(err);
	}
	return host;
}
EXPORT_SYMBOL_GPL(smq_host_alloc);

int smq_host_add(struct smq_host *host, struct device *parent)
{
	struct device *dev = &host->shost->shost_dev;
	int err;

	/* Rules of udev may set any attribute: send the event when the host has them all. */
	dev_set_uevent_suppress(dev, true);
	/* Allocate tags also for held commands. Without a holding policy, advertise only @depth. */
	host->shost->can_queue = host->depth + host->extra;
	err = scsi_add_host(host->shost, parent);
	host->shost->can_queue = host->depth;
	if (err) {
		/* A policy may have been chosen before scsi_add_host() failed. */
		smq_policy_stop_host(host);
		return err;
	}
	smq_no_policy_add(host);
	smq_registry_show_host(host);
	smq_stats_add_host(host);
	smq_faults_start_host(host);
	dev_set_uevent_suppress(dev, false);
	kobject_uevent(&dev->kobj, KOBJ_ADD);
	return 0;
}
EXPORT_SYMBOL_GPL(smq_host_add);

void smq_host_remove(struct smq_host *host)
{
	mutex_lock(&host->core->eh.lock);
	host->core->eh.removing = true;
	mutex_unlock(&host->core->eh.lock);
	smq_policy_wait_for_change(host);
	smq_registry_hide_host(host);
	smq_stats_remove_host(host);
	scsi_remove_host(host->shost);
	smq_policy_stop_host(host);
	smq_holds_stop_host(host);
	/* The CPU that submitted the last command may still be in commit. */
	synchronize_rcu();
	smq_faults_stop_host(host);
}
EXPORT_SYMBOL_GPL(smq_host_remove);

void smq_host_free(struct smq_host *host)
{
	smq_host_tear_down(host);
	scsi_host_put(host->shost);
}
EXPORT_SYMBOL_GPL(smq_host_free);

/* Maps all CPUs to the default queues, and again to the poll queues. There are no read queues. */
void smq_map_queues(struct Scsi_Host *shost)
{
	struct smq_host *host = smq_shost_to_host(shost);
	unsigned int offset = 0;
	int type;

	for (type = 0; type < shost->nr_maps; type++) {
		struct blk_mq_queue_map *map = &shost->tag_set.map[type];

		map->queue_offset = offset;
		map->nr_queues = type == HCTX_TYPE_DEFAULT ? host->nr_hwqs - host->nr_poll :
				 type == HCTX_TYPE_POLL ? host->nr_poll : 0;
		if (!map->nr_queues)
			continue;
		if (host->lld->map_queues)
			host->lld->map_queues(host, map, type);
		else
			blk_mq_map_queues(map);
		offset += map->nr_queues;
	}
}
EXPORT_SYMBOL_GPL(smq_map_queues);

static const struct smq_policy_ops * const smq_policies[] = {
	&smq_batch_ops, &smq_bucket_ops, &smq_prio_ops, &smq_steer_ops,
};

/* Unregisters the first @nr policies of this module. */
static void smq_policies_exit(unsigned int nr)
{
	while (nr--)
		smq_policy_unregister(smq_policies[nr]);
}

static int __init smq_policies_init(void)
{
	unsigned int i;
	int err;

	for (i = 0; i < ARRAY_SIZE(smq_policies); i++) {
		err = smq_policy_register(smq_policies[i]);
		if (err) {
			smq_policies_exit(i);
			return err;
		}
	}
	return 0;
}

static int __init smq_init(void)
{
	int err = smq_configfs_init();

	if (err)
		return err;
	smq_trace_init();
	err = smq_moves_init();
	if (err)
		goto exit_configfs;
	err = smq_policies_init();
	if (err)
		goto exit_moves;
	smq_stats_init();
	return 0;

exit_moves:
	smq_moves_exit();
exit_configfs:
	smq_configfs_exit();
	return err;
}
module_init(smq_init);

static void __exit smq_exit(void)
{
	smq_stats_exit();
	smq_policies_exit(ARRAY_SIZE(smq_policies));
	smq_moves_exit();
	smq_configfs_exit();
}
module_exit(smq_exit);

MODULE_DESCRIPTION("SCSI multiqueue conversion layer");
MODULE_VERSION(SMQ_VERSION);
MODULE_AUTHOR("smq developers");
MODULE_LICENSE("GPL");
