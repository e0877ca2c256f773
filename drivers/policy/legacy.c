// SPDX-License-Identifier: GPL-2.0
/*
 * The policy "legacy-model": before a command is issued, and when it ends, the policy takes the
 * locks and makes the allocations of the old scsi_request_fn(), in their order. It is a model for
 * measurements, and runs in addition to today's path. It leaves out work that today's path does
 * too, such as clearing the command and setting up its scatterlist. So the model adds the
 * difference between the two paths, which was measured on Linux 4.19. The steps of era 2013 come
 * from the source of 3.10 and were not measured.
 *
 * Each step of the old path that takes a lock is a function of its own, so that a profile of locks
 * by caller shows the steps.
 */
#define pr_fmt(fmt) "smq: " fmt

#include <linux/bitmap.h>
#include <linux/hash.h>
#include <linux/list.h>
#include <linux/mempool.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/sysfs.h>
#include <smq/policy.h>
#include <smq/version.h>

/* The kernels whose path is modelled. */
enum smq_legacy_era {
	SMQ_LEGACY_2013,	/* 3.10: busy counters under host_lock */
	SMQ_LEGACY_419,		/* 4.19; 4.20 was the last kernel with that path */
};

/**
 * struct smq_legacy_knobs - settings; they apply to the next command
 * @era: enum smq_legacy_era
 * @wrapper: era 2013: do as for an LLD with DEF_SCSI_QCMD(), which takes host_lock around
 *	queuecommand
 */
struct smq_legacy_knobs {
	u8 era;
	bool wrapper;
};

#define SMQ_LEGACY_HASH_BITS	6
#define SMQ_LEGACY_BATCH	16

/**
 * struct smq_legacy - the model's part of a host
 * @free_list_lock: era 2013: protects @spares, as the host's lock for spare commands did
 * @spares: list of spare commands; always empty, only checked
 * @starved: LUNs that wait for the host; under host_lock
 * @host_busy: commands with the host: under host_lock in era 2013; atomic because
 *	no lock protects it in era 4.19
 * @target_busy: likewise for the host's only target
 * @serial: era 2013: number of the last command, under host_lock
 * @tags: tags in use, shared by all LUNs; a bit is set by atomic test-and-set
 * @nr_tags: number of tags
 * @requests: memory pool of requests and commands
 *
 * Lifetime: the policy's area per host.
 */
struct smq_legacy {
	spinlock_t free_list_lock;	/* protects spares */
	struct list_head spares;
	struct list_head starved;
	atomic_t host_busy;
	atomic_t target_busy;
	unsigned long serial;
	unsigned long *tags;
	unsigned int nr_tags;
	mempool_t requests;
};

/**
 * struct smq_legacy_queue - the model's part of a LUN, its request queue
 * @queue_lock: protects all fields up to @last_merge, as the only lock of the old queue did
 * @hash: requests by the sector they end at, for merging
 * @fifo: the elevator's list
 * @dispatch: requests that the elevator has dispatched
 * @timeouts: started requests
 * @count: number of allocated requests, by direction
 * @in_flight: number of started requests
 * @plugged: number of requests since the last flush of the plug
 * @last_merge: the request that the elevator checks first for a merge
 * @list_lock: era 2013: protects @cmds
 * @cmds: era 2013: all commands of the LUN
 * @device_busy: under queue_lock in era 2013; atomic because completion takes
 *	no lock for it in era 4.19
 *
 * Lifetime: the policy's area per LUN.
 */
struct smq_legacy_queue {
	spinlock_t queue_lock;		/* protects the fields up to list_lock */
	struct hlist_head hash[1 << SMQ_LEGACY_HASH_BITS];
	struct list_head fifo;
	struct list_head dispatch;
	struct list_head timeouts;
	unsigned int count[2];
	unsigned int in_flight;
	unsigned int plugged;
	struct smq_legacy_rq *last_merge;
	spinlock_t list_lock;		/* protects cmds */
	struct list_head cmds;
	atomic_t device_busy;
};

/**
 * struct smq_legacy_rq - memory that the old path allocated and cleared for each command
 * @hash: in smq_legacy_queue.hash
 * @queue: in the plug, the elevator's list or the dispatch list
 * @timeout: in smq_legacy_queue.timeouts
 * @cmd: in smq_legacy_queue.cmds
 * @end: the first sector after the request
 * @deadline: in jiffies
 * @tag: in smq_legacy.tags, -1 for none
 * @write: the data goes to the device
 * @sense: sense buffer
 * @old: the request is of era 2013
 * @request: the rest of struct request, cleared on allocation
 */
struct smq_legacy_rq {
	struct hlist_node hash;
	struct list_head queue;
	struct list_head timeout;
	struct list_head cmd;
	sector_t end;
	unsigned long deadline;
	int tag;
	bool write;
	u8 *sense;
	bool old;
	u8 request[224];
};

static struct kmem_cache *smq_legacy_requests;
static struct kmem_cache *smq_legacy_senses;

static struct hlist_head *smq_legacy_bucket(struct smq_legacy_queue *q, sector_t sector)
{
	return &q->hash[hash_64(sector, SMQ_LEGACY_HASH_BITS)];
}

/*
 * The old path's step for a new bio: looks for a request to merge it with, and counts a new
 * request.
 */
static noinline void legacy_insert_bio(struct smq_legacy_queue *q, sector_t sector, bool write)
{
	struct smq_legacy_rq *rq, *found = NULL;

	spin_lock_irq(&q->queue_lock);
	if (q->last_merge && q->last_merge->end == sector)
		found = q->last_merge;
	hlist_for_each_entry(rq, smq_legacy_bucket(q, sector), hash) {
		if (rq->end == sector)
			found = rq;
	}
	/* Ignore a match: the command exists already. */
	q->last_merge = found;
	q->count[write]++;
	spin_unlock_irq(&q->queue_lock);
}

static noinline void legacy_free(struct smq_legacy *legacy, struct smq_legacy_rq *rq)
{
	if (rq->sense)
		kmem_cache_free(smq_legacy_senses, rq->sense);
	mempool_free(rq, &legacy->requests);
}

/* Allocates request, command and sense buffer. Returns NULL if there is no memory. */
static noinline struct smq_legacy_rq *legacy_alloc(struct smq_legacy *legacy)
{
	struct smq_legacy_rq *rq = mempool_alloc(&legacy->requests, GFP_ATOMIC);

	if (!rq)
		return NULL;
	memset(rq, 0, sizeof(*rq));
	rq->tag = -1;
	INIT_LIST_HEAD(&rq->queue);
	INIT_LIST_HEAD(&rq->timeout);
	INIT_LIST_HEAD(&rq->cmd);
	rq->sense = kmem_cache_alloc(smq_legacy_senses, GFP_ATOMIC);
	if (!rq->sense) {
		legacy_free(legacy, rq);
		return NULL;
	}
	return rq;
}

/* Era 2013: adds a command to the device's list. legacy_put_command() removes it. */
static noinline void legacy_get_command(struct smq_legacy_queue *q, struct smq_legacy_rq *rq)
{
	unsigned long flags;

	spin_lock_irqsave(&q->list_lock, flags);
	list_add_tail(&rq->cmd, &q->cmds);
	spin_unlock_irqrestore(&q->list_lock, flags);
}

static noinline void legacy_put_command(struct smq_legacy *legacy, struct smq_legacy_queue *q,
					struct smq_legacy_rq *rq)
{
	unsigned long flags;

	spin_lock_irqsave(&q->list_lock, flags);
	list_del_init(&rq->cmd);
	spin_unlock_irqrestore(&q->list_lock, flags);

	spin_lock_irqsave(&legacy->free_list_lock, flags);
	/* A host without a spare command would have kept this one. */
	WARN_ON_ONCE(!list_empty(&legacy->spares));
	spin_unlock_irqrestore(&legacy->free_list_lock, flags);
}

/* Flushes the plug, once for a batch. In the old path the request function ran from here. */
static noinline void legacy_flush_plug(struct smq_legacy_queue *q)
{
	spin_lock_irq(&q->queue_lock);
	q->plugged = 0;
	spin_unlock_irq(&q->queue_lock);
}

/* Era 2013: the request function dropped queue_lock for put_device(), and took it again. */
static noinline void legacy_put_device(struct smq_legacy_queue *q)
{
	spin_lock_irq(&q->queue_lock);
	spin_unlock_irq(&q->queue_lock);
}

static int legacy_get_tag(struct smq_legacy *legacy)
{
	unsigned int tag;

	do {
		tag = find_first_zero_bit(legacy->tags, legacy->nr_tags);
		if (tag >= legacy->nr_tags)
			return -1;
	} while (test_and_set_bit_lock(tag, legacy->tags));
	return tag;
}

/* Adds a request to the elevator, then dispatches, tags and starts it. Context: queue_lock. */
static void legacy_start_request(struct smq_legacy *legacy, struct smq_legacy_queue *q,
				 struct smq_legacy_rq *rq, struct scsi_cmnd *scmd)
{
	struct smq_legacy_rq *prev;

	hlist_add_head(&rq->hash, smq_legacy_bucket(q, rq->end));
	list_add_tail(&rq->queue, &q->fifo);

	/* Add it to the dispatch list, in order. */
	list_del(&rq->queue);
	list_for_each_entry_reverse(prev, &q->dispatch, queue) {
		if (prev->end <= rq->end)
			break;
	}
	list_add(&rq->queue, &prev->queue);
	hlist_del_init(&rq->hash);

	atomic_inc(&q->device_busy);
	rq->tag = legacy_get_tag(legacy);
	list_del_init(&rq->queue);
	rq->deadline = jiffies + scsi_cmd_to_rq(scmd)->timeout;
	list_add_tail(&rq->timeout, &q->timeouts);
	q->in_flight++;
}

/* The request function's work for one command, up to the dispatch, under queue_lock. */
static noinline void legacy_request_fn(struct smq_legacy *legacy, struct smq_legacy_queue *q,
				       struct smq_legacy_rq *rq, struct scsi_cmnd *scmd)
{
	spin_lock_irq(&q->queue_lock);
	legacy_start_request(legacy, q, rq, scmd);
	spin_unlock_irq(&q->queue_lock);
}

/* Era 2013: takes room on the target and the host. */
static noinline void legacy_host_ready_2013(struct smq_host *host, struct smq_legacy *legacy)
{
	unsigned long flags;

	spin_lock_irqsave(host->shost->host_lock, flags);
	atomic_set(&legacy->target_busy, atomic_read(&legacy->target_busy) + 1);
	atomic_set(&legacy->host_busy, atomic_read(&legacy->host_busy) + 1);
	spin_unlock_irqrestore(host->shost->host_lock, flags);
}

/* Takes host_lock as DEF_SCSI_QCMD() did around most drivers' queuecommand. */
static noinline void legacy_qcmd_wrapper(struct smq_host *host, struct smq_legacy *legacy)
{
	unsigned long flags;

	spin_lock_irqsave(host->shost->host_lock, flags);
	if (!++legacy->serial)
		legacy->serial = 1;
	spin_unlock_irqrestore(host->shost->host_lock, flags);
}

/*
 * The operation queue: takes the old path's steps before the LLD, or none if there is no memory.
 */
static struct smq_hwq *legacy_queue(struct smq_policy *policy, struct smq_hwq *hwq,
				    struct smq_cmd *cmd, bool last)
{
	struct smq_legacy_rq **modelled = smq_policy_cmd_priv(cmd);
	struct smq_legacy_queue *q = smq_policy_lun_priv(cmd);
	struct smq_legacy *legacy = smq_policy_priv(policy);
	const struct smq_legacy_knobs *knobs = policy->knobs;
	struct scsi_cmnd *scmd = smq_cmd_to_scmd(cmd);
	struct smq_host *host = hwq->host;
	bool write = scmd->sc_data_direction == DMA_TO_DEVICE;
	sector_t sector = blk_rq_pos(scsi_cmd_to_rq(scmd));
	bool old = READ_ONCE(knobs->era) == SMQ_LEGACY_2013;
	struct smq_legacy_rq *rq = legacy_alloc(legacy);

	*modelled = rq;
	if (!rq)
		return hwq;
	rq->write = write;
	rq->end = sector + blk_rq_sectors(scsi_cmd_to_rq(scmd));
	legacy_insert_bio(q, sector, write);
	if (old)
		legacy_get_command(q, rq);
	legacy_request_fn(legacy, q, rq, scmd);
	if (old) {
		legacy_host_ready_2013(host, legacy);
		if (READ_ONCE(knobs->wrapper))
			legacy_qcmd_wrapper(host, legacy);
	} else {
		atomic_inc(&legacy->host_busy);
	}
	memset(rq->sense, 0, SCSI_SENSE_BUFFERSIZE);
	/* data_race: a plug belonged to one task; here CPUs may share one. */
	if (last || data_race(++q->plugged) >= SMQ_LEGACY_BATCH) {
		legacy_flush_plug(q);
		if (old)
			legacy_put_device(q);
	}
	rq->old = old;
	return hwq;
}

/*
 * Era 2013: gives back the room on the host and the target, under host_lock, and the room on the
 * device, under queue_lock inside host_lock.
 */
static noinline void legacy_unbusy_2013(struct smq_host *host, struct smq_legacy *legacy,
					struct smq_legacy_queue *q)
{
	unsigned long flags;

	spin_lock_irqsave(host->shost->host_lock, flags);
	atomic_set(&legacy->host_busy, atomic_read(&legacy->host_busy) - 1);
	atomic_set(&legacy->target_busy, atomic_read(&legacy->target_busy) - 1);
	spin_lock(&q->queue_lock);
	atomic_dec(&q->device_busy);
	spin_unlock(&q->queue_lock);
	spin_unlock_irqrestore(host->shost->host_lock, flags);
}

static noinline void legacy_end_request(struct smq_legacy *legacy, struct smq_legacy_queue *q,
					struct smq_legacy_rq *rq)
{
	unsigned long flags;

	spin_lock_irqsave(&q->queue_lock, flags);
	if (rq->tag >= 0)
		clear_bit_unlock(rq->tag, legacy->tags);
	list_del_init(&rq->timeout);
	q->in_flight--;
	q->count[rq->write]--;
	if (q->last_merge == rq)
		q->last_merge = NULL;
	spin_unlock_irqrestore(&q->queue_lock, flags);
}

/* Era 2013: checks for starved LUNs, and takes host_lock even if there are none. */
static noinline void legacy_starved_2013(struct smq_host *host, struct smq_legacy *legacy)
{
	unsigned long flags;
	LIST_HEAD(starved);

	spin_lock_irqsave(host->shost->host_lock, flags);
	list_splice_init(&legacy->starved, &starved);
	spin_unlock_irqrestore(host->shost->host_lock, flags);
}

/* Runs the request function again, which usually finds no request. */
static noinline void legacy_run_queue(struct smq_legacy_queue *q)
{
	unsigned long flags;

	spin_lock_irqsave(&q->queue_lock, flags);
	if (!list_empty(&q->dispatch) || !list_empty(&q->fifo))
		q->plugged++;
	spin_unlock_irqrestore(&q->queue_lock, flags);
}

/* The operation done: the command has ended or was refused. Context: any. */
static void legacy_done(struct smq_policy *policy, struct smq_cmd *cmd)
{
	struct smq_legacy_rq *rq = *(struct smq_legacy_rq **)smq_policy_cmd_priv(cmd);
	struct smq_legacy_queue *q = smq_policy_lun_priv(cmd);
	struct smq_legacy *legacy = smq_policy_priv(policy);
	struct smq_host *host = policy->host;
	bool old;

	if (!rq)
		return;
	old = rq->old;
	if (old) {
		legacy_unbusy_2013(host, legacy, q);
	} else {
		atomic_dec(&legacy->host_busy);
		atomic_dec(&q->device_busy);
	}
	legacy_end_request(legacy, q, rq);
	if (old) {
		legacy_put_command(legacy, q, rq);
		legacy_starved_2013(host, legacy);
	}
	legacy_free(legacy, rq);
	legacy_run_queue(q);
}

static void legacy_init_lun(struct smq_policy_lun *lun)
{
	struct smq_legacy_queue *q = (struct smq_legacy_queue *)lun->priv;

	spin_lock_init(&q->queue_lock);
	spin_lock_init(&q->list_lock);
	INIT_LIST_HEAD(&q->fifo);
	INIT_LIST_HEAD(&q->dispatch);
	INIT_LIST_HEAD(&q->timeouts);
	INIT_LIST_HEAD(&q->cmds);
}

/*
 * Refuses an LLD with queuecommand_lck, and a host with several queues: the old path had only one.
 */
static int legacy_init(struct smq_policy *policy)
{
	struct smq_legacy *legacy = smq_policy_priv(policy);
	struct smq_host *host = policy->host;
	int err;

	if (host->lld->queuecommand_lck) {
		/*
		 * Such an LLD may complete commands under host_lock, which the model would take
		 * again.
		 */
		pr_err("%s: legacy-model is not for an LLD with queuecommand_lck\n",
		       dev_name(&host->shost->shost_gendev));
		return -EINVAL;
	}
	if (host->nr_hwqs != 1) {
		pr_err("%s: legacy-model needs a host with 1 hardware queue, this one has %u\n",
		       dev_name(&host->shost->shost_gendev), host->nr_hwqs);
		return -EINVAL;
	}
	spin_lock_init(&legacy->free_list_lock);
	INIT_LIST_HEAD(&legacy->spares);
	INIT_LIST_HEAD(&legacy->starved);
	legacy->nr_tags = host->depth + host->extra;
	legacy->tags = bitmap_zalloc(legacy->nr_tags, GFP_KERNEL);
	if (!legacy->tags)
		return -ENOMEM;
	err = mempool_init_slab_pool(&legacy->requests, 4, smq_legacy_requests);
	if (err)
		bitmap_free(legacy->tags);
	return err;
}

static void legacy_exit(struct smq_policy *policy)
{
	struct smq_legacy *legacy = smq_policy_priv(policy);

	mempool_exit(&legacy->requests);
	bitmap_free(legacy->tags);
}

static const struct smq_policy_ops smq_legacy_ops;

static const char * const smq_legacy_eras[] = {
	[SMQ_LEGACY_2013] = "2013",
	[SMQ_LEGACY_419] = "4.19",
};

static ssize_t era_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct smq_legacy_knobs *knobs = smq_policy_knobs(dev, &smq_legacy_ops);

	return sysfs_emit(buf, "%s\n", smq_legacy_eras[READ_ONCE(knobs->era)]);
}

static ssize_t era_store(struct device *dev, struct device_attribute *attr, const char *buf,
			 size_t count)
{
	struct smq_legacy_knobs *knobs = smq_policy_knobs(dev, &smq_legacy_ops);
	int era = sysfs_match_string(smq_legacy_eras, buf);

	if (era < 0) {
		pr_err_ratelimited("%s: smq_legacy/era is neither 2013 nor 4.19\n",
				   dev_name(dev));
		return era;
	}
	WRITE_ONCE(knobs->era, era);
	return count;
}
static DEVICE_ATTR_RW(era);

static ssize_t wrapper_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct smq_legacy_knobs *knobs = smq_policy_knobs(dev, &smq_legacy_ops);

	return sysfs_emit(buf, "%d\n", READ_ONCE(knobs->wrapper));
}

static ssize_t wrapper_store(struct device *dev, struct device_attribute *attr, const char *buf,
			     size_t count)
{
	struct smq_legacy_knobs *knobs = smq_policy_knobs(dev, &smq_legacy_ops);
	bool wrapper;
	int err = kstrtobool(buf, &wrapper);

	if (err) {
		pr_err_ratelimited("%s: smq_legacy/wrapper is neither 0 nor 1\n", dev_name(dev));
		return err;
	}
	WRITE_ONCE(knobs->wrapper, wrapper);
	return count;
}
static DEVICE_ATTR_RW(wrapper);

static struct attribute *smq_legacy_attrs[] = {
	&dev_attr_era.attr,
	&dev_attr_wrapper.attr,
	NULL
};

static const struct attribute_group smq_legacy_group = {
	.name = "smq_legacy",
	.attrs = smq_legacy_attrs,
};

static void legacy_init_knobs(void *data)
{
	struct smq_legacy_knobs *knobs = data;

	knobs->era = SMQ_LEGACY_419;
	knobs->wrapper = true;
}

static const struct smq_policy_ops smq_legacy_ops = {
	.name		= "legacy-model",
	.owner		= THIS_MODULE,
	.knobs_size	= sizeof(struct smq_legacy_knobs),
	.host_size	= sizeof(struct smq_legacy),
	.lun_size	= sizeof(struct smq_legacy_queue),
	.cmd_size	= sizeof(struct smq_legacy_rq *),
	.knobs		= &smq_legacy_group,
	.init_knobs	= legacy_init_knobs,
	.init		= legacy_init,
	.exit		= legacy_exit,
	.init_lun	= legacy_init_lun,
	.queue		= legacy_queue,
	.done		= legacy_done,
};

static void smq_legacy_destroy_caches(void)
{
	kmem_cache_destroy(smq_legacy_senses);
	kmem_cache_destroy(smq_legacy_requests);
}

static int __init smq_legacy_start(void)
{
	int err = -ENOMEM;

	smq_legacy_requests = KMEM_CACHE(smq_legacy_rq, 0);
	smq_legacy_senses = kmem_cache_create("smq_legacy_sense", SCSI_SENSE_BUFFERSIZE, 0,
					      SLAB_HWCACHE_ALIGN, NULL);
	if (smq_legacy_requests && smq_legacy_senses)
		err = smq_policy_register(&smq_legacy_ops);
	if (err)
		smq_legacy_destroy_caches();
	return err;
}
module_init(smq_legacy_start);

static void __exit smq_legacy_stop(void)
{
	smq_policy_unregister(&smq_legacy_ops);
	smq_legacy_destroy_caches();
}
module_exit(smq_legacy_stop);

MODULE_ALIAS("smq-policy-legacy-model");
MODULE_DESCRIPTION("A model of scsi_request_fn as a dispatch policy, for measuring");
MODULE_VERSION(SMQ_VERSION);
MODULE_AUTHOR("smq developers");
MODULE_LICENSE("GPL");
