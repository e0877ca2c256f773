// SPDX-License-Identifier: GPL-2.0
/*
 * The policy "prio": if a LUN's device has as many commands as it takes, or has transferred as many
 * bytes per second as it may, commands that a task waits for go before commands that no task waits
 * for. prio_choice.h chooses the next class. While no device is full and no rate is set, the layer
 * runs the host as "direct".
 */
#include <linux/blk-mq.h>
#include <linux/ioprio.h>
#include <linux/ktime.h>
#include <linux/seq_file.h>

#include "builtin.h"
#include "prio_choice.h"

/*
 * The hold bound: 10 minutes, because a rate can hold commands for long. For example, 1,200 writes
 * of 1 MiB take two minutes at 10 MB/s.
 */
#define PRIO_HOLD_MS	(10 * 60 * 1000)
/* The longest time until a change of the rate affects commands that wait because of the rate. */
#define PRIO_LOOK_NS	(100 * NSEC_PER_MSEC)

/**
 * struct prio_knobs - settings of a host
 * @ratio: how many sync writes go for one async write, while both wait
 * @bytes_per_sec: most bytes per second of each LUN, reads and writes together; 0: no limit
 * @async_max_ms: how long the first command of a class may wait while commands of other classes go
 * @learn: learn how many commands the device needs, and hold the others
 * @depth_min: the smallest number that is learned
 * @depth_max: the largest one
 *
 * Read with READ_ONCE: settings take effect on the commands that follow.
 */
struct prio_knobs {
	unsigned int ratio;
	unsigned int bytes_per_sec;
	unsigned int async_max_ms;
	unsigned int learn;
	unsigned int depth_min;
	unsigned int depth_max;
};

/**
 * struct prio_host - a host
 * @full_at: when a LUN was last seen to be full, in jiffies. Written without a lock: if two CPUs
 *	write at once, either time will do
 */
struct prio_host {
	unsigned long full_at;
};

/**
 * struct prio_hwq - a hardware queue
 * @waited: number of commands that had to wait, by class. Atomic because CPUs share the queue
 */
struct prio_hwq {
	atomic_t waited[SMQ_PRIO_CLASSES];
};

/**
 * struct prio_list - commands of a class that wait for room, in the order they came
 * @hold: the commands
 * @lun: their LUN
 */
struct prio_list {
	struct smq_hold hold;
	struct smq_policy_lun *lun;
};

/**
 * struct prio_lun - a LUN
 * @lock: protects @choice. Taken before the lock of a list, to add a command and to take the next
 *	one. Error handling takes commands from lists without this lock
 * @choice: state of the choice
 * @lists: the waiting commands, by class
 */
struct prio_lun {
	spinlock_t lock;	/* protects choice */
	struct smq_prio choice;
	struct prio_list lists[SMQ_PRIO_CLASSES];
};

static void prio_limits(const struct smq_policy *policy, struct smq_prio_limits *limits)
{
	const struct prio_knobs *knobs = policy->knobs;

	limits->ratio = READ_ONCE(knobs->ratio);
	limits->rate = READ_ONCE(knobs->bytes_per_sec);
	limits->max_ns = READ_ONCE(knobs->async_max_ms) * (u64)NSEC_PER_MSEC;
}

static enum smq_prio_class prio_class(struct request *rq)
{
	switch (IOPRIO_PRIO_CLASS(req_get_ioprio(rq))) {
	case IOPRIO_CLASS_RT:
		return SMQ_PRIO_RT;
	case IOPRIO_CLASS_IDLE:
		return SMQ_PRIO_IDLE;
	}
	switch (req_op(rq)) {
	case REQ_OP_READ:
	case REQ_OP_DRV_IN:
		return SMQ_PRIO_READ;
	case REQ_OP_DRV_OUT:
	case REQ_OP_FLUSH:
		return SMQ_PRIO_SYNC;
	default:
		return rq->cmd_flags & (REQ_SYNC | REQ_META | REQ_PRIO | REQ_FUA | REQ_PREFLUSH) ?
			SMQ_PRIO_SYNC : SMQ_PRIO_ASYNC;
	}
}

static bool prio_rated(struct smq_policy *policy)
{
	const struct prio_knobs *knobs = policy->knobs;

	return READ_ONCE(knobs->bytes_per_sec);
}

static bool prio_learns(struct smq_policy *policy, unsigned int *least, unsigned int *most)
{
	const struct prio_knobs *knobs = policy->knobs;

	*least = READ_ONCE(knobs->depth_min);
	*most = READ_ONCE(knobs->depth_max);
	return READ_ONCE(knobs->learn);
}

static void prio_wait(struct smq_policy_lun *lun, struct smq_cmd *cmd)
{
	enum smq_prio_class class = prio_class(scsi_cmd_to_rq(smq_cmd_to_scmd(cmd)));
	struct prio_hwq *ph = smq_policy_hwq_priv(lun->policy, cmd->hwq);
	struct prio_lun *pl = (void *)lun->priv;
	struct smq_hold *hold = &pl->lists[class].hold;
	unsigned long flags;

	atomic_inc(&ph->waited[class]);
	spin_lock_irqsave(&pl->lock, flags);
	spin_lock(&hold->lock);
	smq_hold_add(hold, cmd, false);
	spin_unlock(&hold->lock);
	smq_prio_begin(&pl->choice, class, ktime_get_ns());
	spin_unlock_irqrestore(&pl->lock, flags);
}

/*
 * Takes the first command of a list, if it may go. Returns false if the list has no command that
 * may go. Returns true with NULL in *@cmd if the first command has to wait because of the rate;
 * then the list's timer is set.
 */
static bool prio_take(struct prio_lun *pl, struct smq_hold *hold,
		      const struct smq_prio_limits *limits, struct smq_cmd **cmd)
{
	u64 now = ktime_get_ns(), delay;
	unsigned int bytes = 0;
	LIST_HEAD(list);

	lockdep_assert_held(&hold->lock);
	*cmd = NULL;
	if (!hold->nr)
		return false;
	bytes = scsi_bufflen(smq_cmd_to_scmd(list_first_entry(&hold->cmds, struct smq_cmd, node)));
	delay = smq_prio_delay(&pl->choice, limits, bytes, now);
	if (delay) {
		smq_hold_wait(hold, min_t(u64, delay, PRIO_LOOK_NS));
		return true;
	}
	if (!smq_hold_take(hold, &list, 1))
		return false;
	*cmd = list_first_entry(&list, struct smq_cmd, node);
	list_del_init(&(*cmd)->node);
	smq_prio_issued(&pl->choice, limits, scsi_bufflen(smq_cmd_to_scmd(*cmd)), hold->nr, now);
	return true;
}

static struct smq_cmd *prio_next(struct smq_policy_lun *lun, bool drain)
{
	struct prio_lun *pl = (void *)lun->priv;
	struct smq_prio_limits limits;
	enum smq_prio_class class;
	struct smq_cmd *cmd = NULL;
	struct smq_hold *hold;
	unsigned long flags;
	bool done = false;

	prio_limits(lun->policy, &limits);
	if (drain)
		limits.rate = 0;
	spin_lock_irqsave(&pl->lock, flags);
	while (!done) {
		class = smq_prio_choose(&pl->choice, &limits, ktime_get_ns());
		if (class == SMQ_PRIO_NONE)
			break;
		hold = &pl->lists[class].hold;
		spin_lock(&hold->lock);
		done = prio_take(pl, hold, &limits, &cmd);
		spin_unlock(&hold->lock);
		/*
		 * The list has no command that may go: error handling has taken its commands, or
		 * the host is frozen.
		 */
		if (!done)
			smq_prio_end(&pl->choice, class);
	}
	spin_unlock_irqrestore(&pl->lock, flags);
	return cmd;
}

/* smq_hold.dispatch: called if the rate allows more bytes, or to dispatch all held commands. */
static void prio_dispatch(struct smq_hold *hold)
{
	struct prio_list *list = container_of(hold, struct prio_list, hold);
	struct prio_lun *pl = (void *)list->lun->priv;
	unsigned long flags;

	/* If the list has no commands, the LUN may have been removed. */
	if (!READ_ONCE(hold->nr))
		return;
	spin_lock_irqsave(&pl->lock, flags);
	/* The class may have been marked as empty because of a reset; its commands may go now. */
	smq_prio_begin(&pl->choice, list - pl->lists, ktime_get_ns());
	spin_unlock_irqrestore(&pl->lock, flags);
	smq_policy_room(list->lun);
}

struct smq_hwq *smq_prio_queue(struct smq_policy *policy, struct smq_hwq *hwq,
			       struct smq_cmd *cmd, bool last)
{
	struct prio_host *host = smq_policy_priv(policy);

	if (smq_policy_lun_is_full(cmd->seen->lun)) {
		if (time_before(READ_ONCE(host->full_at), jiffies))
			WRITE_ONCE(host->full_at, jiffies);
		smq_policy_found_use(policy->host);
	}
	return hwq;
}

static bool prio_has_use(struct smq_policy *policy)
{
	const struct prio_host *host = smq_policy_priv(policy);

	return prio_rated(policy) ||
	       time_before(jiffies, READ_ONCE(host->full_at) + SMQ_POLICY_IDLE);
}

static int prio_init(struct smq_policy *policy)
{
	struct prio_host *host = smq_policy_priv(policy);

	host->full_at = jiffies - SMQ_POLICY_IDLE;
	return 0;
}

static void prio_init_lun(struct smq_policy_lun *lun)
{
	struct prio_lun *pl = (void *)lun->priv;
	enum smq_prio_class class;

	spin_lock_init(&pl->lock);
	smq_prio_init(&pl->choice);
	for (class = 0; class < SMQ_PRIO_CLASSES; class++) {
		pl->lists[class].lun = lun;
		smq_hold_init(&pl->lists[class].hold, lun->policy->host, prio_dispatch);
	}
}

static void prio_exit_lun(struct smq_policy_lun *lun)
{
	struct prio_lun *pl = (void *)lun->priv;
	enum smq_prio_class class;

	for (class = 0; class < SMQ_PRIO_CLASSES; class++)
		smq_hold_exit(&pl->lists[class].hold);
}

static void prio_show(struct seq_file *m, struct smq_policy *policy, struct smq_hwq *hwq)
{
	static const char * const names[SMQ_PRIO_CLASSES] = {
		"rt", "read", "sync", "async", "idle"
	};
	struct prio_hwq *ph = smq_policy_hwq_priv(policy, hwq);
	enum smq_prio_class class;

	for (class = 0; class < SMQ_PRIO_CLASSES; class++)
		seq_printf(m, " waited_%s=%u", names[class], atomic_read(&ph->waited[class]));
}

static void prio_init_knobs(void *data)
{
	struct prio_knobs *knobs = data;

	knobs->ratio = 4;
	knobs->async_max_ms = 500;
	knobs->learn = 1;
	knobs->depth_min = 1;
	knobs->depth_max = SMQ_MAX_DEPTH;
}

/* A setting of a host, from @_min to @_max; other values are refused. */
#define PRIO_ATTR(_name, _min, _max)							\
static ssize_t _name##_show(struct device *dev, struct device_attribute *attr,		\
			    char *buf)							\
{											\
	const struct prio_knobs *knobs = smq_policy_knobs(dev, &smq_prio_ops);		\
											\
	return sysfs_emit(buf, "%u\n", READ_ONCE(knobs->_name));			\
}											\
											\
static ssize_t _name##_store(struct device *dev, struct device_attribute *attr,		\
			     const char *buf, size_t count)				\
{											\
	struct prio_knobs *knobs = smq_policy_knobs(dev, &smq_prio_ops);		\
	ssize_t ret;									\
											\
	ret = smq_knob_store_uint(dev, attr, "smq_prio", buf, count, &knobs->_name,	\
				  _min, _max);						\
	/* If a rate is set, the policy has something to do. */				\
	smq_policy_found_use(smq_dev_to_host(dev));			\
	return ret;									\
}											\
static DEVICE_ATTR_RW(_name)

PRIO_ATTR(ratio, 1, SMQ_PRIO_MOST_RATIO);
PRIO_ATTR(bytes_per_sec, 0, UINT_MAX);
PRIO_ATTR(async_max_ms, 1, 60000);
PRIO_ATTR(learn, 0, 1);
PRIO_ATTR(depth_min, 1, SMQ_MAX_DEPTH);
PRIO_ATTR(depth_max, 1, SMQ_MAX_DEPTH);

static struct attribute *prio_attrs[] = {
	&dev_attr_ratio.attr,
	&dev_attr_bytes_per_sec.attr,
	&dev_attr_async_max_ms.attr,
	&dev_attr_learn.attr,
	&dev_attr_depth_min.attr,
	&dev_attr_depth_max.attr,
	NULL
};

static const struct attribute_group prio_group = {
	.name = "smq_prio",
	.attrs = prio_attrs,
};

const struct smq_policy_ops smq_prio_ops = {
	.name		= "prio",
	.owner		= THIS_MODULE,
	.holds		= true,
	.hold_ms	= PRIO_HOLD_MS,
	.knobs_size	= sizeof(struct prio_knobs),
	.host_size	= sizeof(struct prio_host),
	.hwq_size	= sizeof(struct prio_hwq),
	.lun_size	= sizeof(struct prio_lun),
	.knobs		= &prio_group,
	.init_knobs	= prio_init_knobs,
	.init		= prio_init,
	.init_lun	= prio_init_lun,
	.exit_lun	= prio_exit_lun,
	.rated		= prio_rated,
	.learns		= prio_learns,
	.wait		= prio_wait,
	.next		= prio_next,
	.queue		= smq_prio_queue,
	.has_use	= prio_has_use,
	.show		= prio_show,
};
