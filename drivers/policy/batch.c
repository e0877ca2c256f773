// SPDX-License-Identifier: GPL-2.0
/*
 * The policy "batch": one doorbell for several commands, where doorbells are expensive.
 * batch_choice.h makes the decisions. While doorbells are cheap, or fewer commands end than without
 * the policy, commands pass, and the layer runs the host as "direct".
 */
#include <linux/ktime.h>
#include <linux/seq_file.h>
#include <linux/sizes.h>

#include "batch_choice.h"
#include "builtin.h"

/**
 * struct batch_knobs - the limits at which a batch is given to the LLD
 * @requests: commands held for a hardware queue
 * @bytes: data of these commands, in bytes
 * @usecs: time since the first of these commands was held, in microseconds
 *
 * Read with READ_ONCE: settings take effect on the commands that follow.
 */
struct batch_knobs {
	unsigned int requests;
	unsigned int bytes;
	unsigned int usecs;
};

/**
 * struct batch_hwq - a hardware queue
 * @hold: commands that wait for a doorbell, in the order in which they came
 * @choice: state of the choice; under @hold.lock, except where data_race() says otherwise
 * @opened: when @hold's timer was last started, ktime in ns; under @hold.lock
 * @knobs: the host's settings
 * @hwq: the hardware queue
 * @inflight: commands that were held and that the LLD has now; atomic because completion takes no
 *	lock
 */
struct batch_hwq {
	struct smq_hold hold;
	struct smq_batch choice;
	u64 opened;
	const struct batch_knobs *knobs;
	struct smq_hwq *hwq;
	atomic_t inflight;
};

/**
 * struct batch_cmd - a command
 * @inflight: batch_hwq.inflight includes the command; only the command's owner uses this
 */
struct batch_cmd {
	bool inflight;
};

/* Takes held commands for the LLD, and counts them as in flight. */
static unsigned int batch_take(struct batch_hwq *b, struct list_head *list, unsigned int most)
{
	struct smq_cmd *cmd;
	unsigned int nr = smq_hold_take(&b->hold, list, most);

	list_for_each_entry(cmd, list, node) {
		struct batch_cmd *bc = smq_policy_cmd_priv(cmd);

		bc->inflight = true;
	}
	atomic_add(nr, &b->inflight);
	return nr;
}

/* Gives the LLD one held command, and measures how long the doorbell for it takes. */
static void batch_sample(struct batch_hwq *b)
{
	const struct smq_lld *lld = b->hwq->host->lld;
	unsigned long flags;
	LIST_HEAD(list);
	bool expensive;
	u64 ns;

	spin_lock_irqsave(&b->hold.lock, flags);
	batch_take(b, &list, 1);
	spin_unlock_irqrestore(&b->hold.lock, flags);
	if (list_empty(&list))
		return;
	/*
	 * Ring the doorbell for commands that passed before: the measured time must not include
	 * that doorbell.
	 */
	smq_policy_commit(b->hwq);
	if (!smq_policy_issue(b->hwq, &list, false))
		return;

	/* As smq_lld_commit(), but the counting is not in the measured time. */
	this_cpu_inc(b->hwq->stats->commits);
	ns = ktime_get_ns();
	lld->commit(b->hwq);
	ns = ktime_get_ns() - ns;

	spin_lock_irqsave(&b->hold.lock, flags);
	smq_batch_sample(&b->choice, ns);
	expensive = b->choice.expensive;
	spin_unlock_irqrestore(&b->hold.lock, flags);
	if (expensive)
		smq_policy_found_use(b->hwq->host);
}

/*
 * Gives the LLD all held commands. If @sample, first gives it one alone, and times the doorbell.
 * The caller does not hold the list's lock.
 */
static void batch_go(struct batch_hwq *b, bool sample)
{
	unsigned long flags;
	LIST_HEAD(list);

	if (sample)
		batch_sample(b);
	spin_lock_irqsave(&b->hold.lock, flags);
	batch_take(b, &list, UINT_MAX);
	spin_unlock_irqrestore(&b->hold.lock, flags);
	if (!list_empty(&list))
		smq_policy_issue(b->hwq, &list, true);
}

/* Returns how many ns the open batch still has to wait; 0 if its time is over. */
static u64 batch_left(const struct batch_hwq *b)
{
	u64 end = b->opened + READ_ONCE(b->knobs->usecs) * (u64)NSEC_PER_USEC;
	u64 now = ktime_get_ns();

	return now < end ? end - now : 0;
}

/*
 * smq_hold.dispatch. Called when the last command in flight has ended, or the timer has expired. If
 * the timer was started for an earlier batch, this batch may have to wait longer.
 */
static void batch_dispatch(struct smq_hold *hold)
{
	struct batch_hwq *b = container_of(hold, struct batch_hwq, hold);
	unsigned long flags;
	u64 left = 0;

	spin_lock_irqsave(&hold->lock, flags);
	/* If the host no longer has an effective policy, the commands are dispatched at once. */
	if (hold->nr && atomic_read(&b->inflight) && rcu_access_pointer(hold->host->policy))
		left = batch_left(b);
	if (left)
		smq_hold_wait(hold, left);
	spin_unlock_irqrestore(&hold->lock, flags);
	if (!left)
		batch_go(b, false);
}

/* Holds a command, then dispatches all held commands if smq_batch_choose() says so. */
static void batch_hold(struct batch_hwq *b, struct smq_cmd *cmd, bool last, bool sample)
{
	enum smq_batch_choice choice;
	struct smq_batch_now now;
	unsigned long flags;

	spin_lock_irqsave(&b->hold.lock, flags);
	smq_hold_add(&b->hold, cmd, false);
	now.held = b->hold.nr;
	now.bytes = b->hold.bytes;
	now.inflight = atomic_read(&b->inflight);
	now.last = last;
	choice = smq_batch_choose(&b->choice, READ_ONCE(b->knobs->requests),
				  READ_ONCE(b->knobs->bytes), &now);
	if (choice == SMQ_BATCH_GO) {
		if (smq_batch_holds(&b->choice))
			sample = smq_batch_sample_due(&b->choice);
	} else if (b->hold.nr == 1 || !hrtimer_is_queued(&b->hold.timer)) {
		/* Here the clock is read once for a batch, not for each command. */
		b->opened = ktime_get_ns();
		smq_hold_wait(&b->hold, READ_ONCE(b->knobs->usecs) * (u64)NSEC_PER_USEC);
	}
	spin_unlock_irqrestore(&b->hold.lock, flags);

	if (choice == SMQ_BATCH_GO) {
		batch_go(b, sample);
		return;
	}
	/*
	 * Pairs with smq_batch_done(): the last command in flight may be ending now. With the full
	 * barrier either smq_batch_done() sees this held command, or this CPU sees that nothing is
	 * in flight.
	 */
	smp_mb();
	if (last && !atomic_read(&b->inflight))
		batch_go(b, false);
}

struct smq_hwq *smq_batch_queue(struct smq_policy *policy, struct smq_hwq *hwq,
				struct smq_cmd *cmd, bool last)
{
	struct batch_hwq *b = smq_policy_hwq_priv(policy, hwq);
	struct batch_cmd *bc = smq_policy_cmd_priv(cmd);
	unsigned int requests = READ_ONCE(b->knobs->requests);
	bool sample = false;

	bc->inflight = false;
	/* data_race: a race costs one needless hold or one missed hold. */
	if (data_race(smq_batch_passes(&b->choice, requests, last)) && !READ_ONCE(b->hold.nr)) {
		/*
		 * No sample on a poll queue: the poller would have to wait longer for its command.
		 */
		if (last && hwq->host->lld->commit && hwq->type != HCTX_TYPE_POLL)
			/*
			 * data_race: two CPUs may count two batches as one, or both take a sample.
			 * Neither does harm.
			 */
			sample = data_race(smq_batch_sample_due(&b->choice));
		if (!sample)
			return hwq;
	}
	batch_hold(b, cmd, last, sample);
	return NULL;
}

void smq_batch_done(struct smq_policy *policy, struct smq_cmd *cmd)
{
	struct batch_cmd *bc = smq_policy_cmd_priv(cmd);
	struct batch_hwq *b;

	if (!bc->inflight)
		return;
	bc->inflight = false;
	b = smq_policy_hwq_priv(policy, cmd->hwq);
	/* Fully ordered: see batch_hold(). The device is idle: dispatch. */
	if (!atomic_dec_return(&b->inflight) && READ_ONCE(b->hold.nr))
		smq_hold_kick(&b->hold);
}

/* A batch of the block layer ended without a command that was marked as its last. */
static void batch_last(struct smq_policy *policy, struct smq_hwq *hwq)
{
	struct batch_hwq *b = smq_policy_hwq_priv(policy, hwq);

	/* data_race: at worst one batch more or less passes. */
	data_race(b->choice.run = 0);
	if (READ_ONCE(b->hold.nr))
		batch_go(b, false);
}

static bool batch_has_use(struct smq_policy *policy)
{
	unsigned int i;

	for (i = 0; i < policy->host->nr_hwqs; i++) {
		struct batch_hwq *b = smq_policy_hwq_priv(policy, policy->host->hwq[i]);

		/* data_race: if a sample is taken at this moment, the next call sees it. */
		if (data_race(b->choice.expensive))
			return true;
	}
	return false;
}

static void batch_look(struct smq_policy *policy)
{
	unsigned int i;

	for (i = 0; i < policy->host->nr_hwqs; i++) {
		struct batch_hwq *b = smq_policy_hwq_priv(policy, policy->host->hwq[i]);

		spin_lock_irq(&b->hold.lock);
		smq_batch_look(&b->choice);
		spin_unlock_irq(&b->hold.lock);
	}
}

static void batch_pass(struct smq_policy *policy, bool on)
{
	unsigned int i;

	for (i = 0; i < policy->host->nr_hwqs; i++) {
		struct batch_hwq *b = smq_policy_hwq_priv(policy, policy->host->hwq[i]);

		spin_lock_irq(&b->hold.lock);
		b->choice.pass = on;
		spin_unlock_irq(&b->hold.lock);
	}
}

static int batch_init_hwq(struct smq_policy *policy, struct smq_hwq *hwq)
{
	struct batch_hwq *b = smq_policy_hwq_priv(policy, hwq);

	b->hwq = hwq;
	b->knobs = policy->knobs;
	smq_hold_init(&b->hold, policy->host, batch_dispatch);
	return 0;
}

static void batch_exit_hwq(struct smq_policy *policy, struct smq_hwq *hwq)
{
	struct batch_hwq *b = smq_policy_hwq_priv(policy, hwq);

	smq_hold_exit(&b->hold);
}

static void batch_show(struct seq_file *m, struct smq_policy *policy, struct smq_hwq *hwq)
{
	struct batch_hwq *b = smq_policy_hwq_priv(policy, hwq);

	spin_lock_irq(&b->hold.lock);
	seq_printf(m, " held=%u bytes=%u inflight=%d doorbell_ns=%u expensive=%d pass=%d",
		   b->hold.nr, b->hold.bytes, atomic_read(&b->inflight), smq_batch_cost(&b->choice),
		   b->choice.expensive, b->choice.pass);
	spin_unlock_irq(&b->hold.lock);
}

static void batch_init_knobs(void *data)
{
	struct batch_knobs *knobs = data;

	knobs->requests = 16;
	knobs->bytes = SZ_64K;
	knobs->usecs = 50;
}

/* A setting of a host, from @_min to @_max; other values are refused. */
#define BATCH_ATTR(_name, _min, _max)							\
static ssize_t _name##_show(struct device *dev, struct device_attribute *attr,		\
			    char *buf)							\
{											\
	const struct batch_knobs *knobs = smq_policy_knobs(dev, &smq_batch_ops);	\
											\
	return sysfs_emit(buf, "%u\n", READ_ONCE(knobs->_name));			\
}											\
											\
static ssize_t _name##_store(struct device *dev, struct device_attribute *attr,		\
			     const char *buf, size_t count)				\
{											\
	struct batch_knobs *knobs = smq_policy_knobs(dev, &smq_batch_ops);		\
											\
	return smq_knob_store_uint(dev, attr, "smq_batch", buf, count, &knobs->_name,	\
				   _min, _max);						\
}											\
static DEVICE_ATTR_RW(_name)

BATCH_ATTR(requests, 1, SMQ_MAX_DEPTH);
BATCH_ATTR(bytes, 512, SZ_16M);
BATCH_ATTR(usecs, 1, 10000);

static struct attribute *batch_attrs[] = {
	&dev_attr_requests.attr,
	&dev_attr_bytes.attr,
	&dev_attr_usecs.attr,
	NULL
};

static const struct attribute_group batch_group = {
	.name = "smq_batch",
	.attrs = batch_attrs,
};

const struct smq_policy_ops smq_batch_ops = {
	.name		= "batch",
	.owner		= THIS_MODULE,
	.holds		= true,
	.knobs_size	= sizeof(struct batch_knobs),
	.hwq_size	= sizeof(struct batch_hwq),
	.cmd_size	= sizeof(struct batch_cmd),
	.knobs		= &batch_group,
	.init_knobs	= batch_init_knobs,
	.init_hwq	= batch_init_hwq,
	.exit_hwq	= batch_exit_hwq,
	.queue		= smq_batch_queue,
	.done		= smq_batch_done,
	.last		= batch_last,
	.has_use	= batch_has_use,
	.look		= batch_look,
	.pass		= batch_pass,
	.show		= batch_show,
};
