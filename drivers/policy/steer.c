// SPDX-License-Identifier: GPL-2.0
/*
 * The policy "steer": a command whose own hardware queue is busy goes to an idle one.
 * steer_choice.h chooses; while steering does not help, the layer runs the host as "direct". A
 * command that ends sooner may delay others, so the layer also compares how many commands end.
 */
#include <linux/seq_file.h>
#include <linux/topology.h>

#include "builtin.h"
#include "steer_choice.h"

/* How many hardware queues the policy checks at most for a command that may leave its own. */
#define STEER_LOOK	16U

/**
 * struct steer_knobs - settings of a host
 * @threshold: a hardware queue with more commands in flight than this is busy
 *
 * Read with READ_ONCE: settings take effect on the commands that follow.
 */
struct steer_knobs {
	unsigned int threshold;
};

/**
 * struct steer_hwq - a hardware queue
 * @queued: commands that went to it, foreign ones included; wraps. Atomic because any CPU steers
 *	commands to it
 * @done: how many of these have ended; wraps. Atomic because any CPU completes them
 * @cpu: the CPU that completed its last command
 * @knobs: the host's settings
 * @lock: protects @choice to @steered_at. Taken for a command that comes while the hardware queue
 *	is busy, and when a steered command has ended or has been refused
 * @choice: state of the choice
 * @next: index of the hardware queue that the last search ended with; the next search begins after
 *	it
 * @steered: commands that have left for another hardware queue
 * @backed_off: how often the policy stopped steering because it did not help
 * @fell_back: steered commands for which the other hardware queue was full
 * @steered_at: when the last command was steered away, in jiffies; also read without the lock
 * @queued_at_look: how many commands the hardware queue had got at the last call of steer_passed();
 *	under the host's policy lock
 */
struct steer_hwq {
	atomic_t queued;
	atomic_t done;
	unsigned int cpu;
	const struct steer_knobs *knobs;
	spinlock_t lock;	/* protects all below */
	struct smq_steer choice;
	unsigned int next;
	u64 steered;
	u64 backed_off;
	u64 fell_back;
	unsigned long steered_at;
	u64 queued_at_look;	/* not protected by @lock */
};

/**
 * struct steer_cmd - a command; only the code that owns the command uses this
 * @at: the hardware queue that counts it
 * @own: its own hardware queue, if it was steered; else NULL
 * @ahead: commands that @own had in flight when the command left
 * @mark: @own->done when the command left
 */
struct steer_cmd {
	struct steer_hwq *at;
	struct steer_hwq *own;
	unsigned int ahead;
	unsigned int mark;
};

/* Returns the number of commands in flight. */
static unsigned int steer_inflight(const struct steer_hwq *s)
{
	/*
	 * Reads @done before @queued: commands that end in between make the result too high, never
	 * negative.
	 */
	unsigned int done = atomic_read_acquire(&s->done);

	return atomic_read(&s->queued) - done;
}

/*
 * Returns the best of at most STEER_LOOK hardware queues, beginning after the one that the last
 * search ended with; NULL if none will do.
 */
static struct smq_hwq *steer_find(struct smq_policy *policy, const struct smq_hwq *hwq,
				  struct steer_hwq *own, unsigned int threshold)
{
	struct smq_host *host = policy->host;
	unsigned int nr = host->nr_hwqs - host->nr_poll, i, rank, best = 0;
	unsigned int here = raw_smp_processor_id();
	struct smq_hwq *found = NULL;

	lockdep_assert_held(&own->lock);
	for (i = 0; i < min(nr, STEER_LOOK) && best < SMQ_STEER_BEST; i++) {
		struct smq_steer_queue q;
		struct steer_hwq *its;
		unsigned int cpu;

		own->next = own->next + 1 < nr ? own->next + 1 : 0;
		if (own->next == hwq->index)
			continue;
		its = smq_policy_hwq_priv(policy, host->hwq[own->next]);
		cpu = READ_ONCE(its->cpu);
		q.inflight = steer_inflight(its);
		q.open = smq_hwq_is_open(host->hwq[own->next]);
		q.elsewhere = cpu != here;
		/*
		 * A module cannot find out which CPUs share a cache; CPUs of one die probably do.
		 */
		q.near = cpumask_test_cpu(cpu, topology_die_cpumask(here));
		rank = smq_steer_rank(&q, threshold);
		if (rank > best) {
			best = rank;
			found = host->hwq[own->next];
		}
	}
	return found;
}

/* Returns the hardware queue to which a command of a busy hardware queue goes. */
static noinline struct smq_hwq *steer_away(struct smq_policy *policy, struct smq_hwq *hwq,
					   struct smq_cmd *cmd, unsigned int ahead,
					   unsigned int threshold)
{
	struct steer_hwq *own = smq_policy_hwq_priv(policy, hwq);
	struct steer_cmd *sc = smq_policy_cmd_priv(cmd);
	struct smq_hwq *to = NULL;
	unsigned long flags;

	if (!smq_cmd_may_move(cmd))
		return hwq;
	spin_lock_irqsave(&own->lock, flags);
	if (smq_steer_wants(&own->choice))
		to = steer_find(policy, hwq, own, threshold);
	if (to) {
		smq_steer_leaves(&own->choice);
		own->steered++;
		WRITE_ONCE(own->steered_at, jiffies);
	}
	spin_unlock_irqrestore(&own->lock, flags);
	if (!to)
		return hwq;
	sc->at = smq_policy_hwq_priv(policy, to);
	sc->own = own;
	sc->ahead = ahead;
	sc->mark = atomic_read(&own->done);
	return to;
}

struct smq_hwq *smq_steer_queue(struct smq_policy *policy, struct smq_hwq *hwq,
				struct smq_cmd *cmd, bool last)
{
	struct steer_hwq *own = smq_policy_hwq_priv(policy, hwq);
	unsigned int threshold = READ_ONCE(own->knobs->threshold);
	struct steer_cmd *sc = smq_policy_cmd_priv(cmd);
	unsigned int ahead = steer_inflight(own);

	sc->at = own;
	sc->own = NULL;
	if (unlikely(smq_steer_is_busy(ahead, threshold)))
		hwq = steer_away(policy, hwq, cmd, ahead, threshold);
	atomic_inc(&sc->at->queued);
	return hwq;
}

/* Judges whether steering helped a command that has ended, or that the other queue refused. */
static void steer_judge(struct smq_policy *policy, struct steer_hwq *own, unsigned int ahead,
			unsigned int ended, bool full)
{
	unsigned long flags;
	bool began;

	spin_lock_irqsave(&own->lock, flags);
	own->fell_back += full;
	began = !own->choice.on;
	own->backed_off += smq_steer_judge(&own->choice, ahead, ended);
	began = began && own->choice.on;
	spin_unlock_irqrestore(&own->lock, flags);
	if (began)
		smq_policy_found_use(policy->host);
}

void smq_steer_done(struct smq_policy *policy, struct smq_cmd *cmd)
{
	struct steer_cmd *sc = smq_policy_cmd_priv(cmd);
	unsigned int cpu = raw_smp_processor_id();
	struct steer_hwq *at = sc->at;

	/* Pairs with steer_inflight(): a command is in @queued before it is in @done. */
	smp_mb__before_atomic();
	atomic_inc(&at->done);
	/* Written only if it changes, because submitters read the same cache line. */
	if (READ_ONCE(at->cpu) != cpu)
		WRITE_ONCE(at->cpu, cpu);
	if (unlikely(sc->own))
		steer_judge(policy, sc->own, sc->ahead,
			    (unsigned int)atomic_read(&sc->own->done) - sc->mark, false);
}

/* The other hardware queue is full: counts the command on its own queue, to which it goes now. */
static void steer_refused(struct smq_policy *policy, struct smq_hwq *hwq, struct smq_cmd *cmd)
{
	struct steer_cmd *sc = smq_policy_cmd_priv(cmd);

	atomic_dec(&sc->at->queued);
	sc->at = sc->own;
	sc->own = NULL;
	atomic_inc(&sc->at->queued);
	steer_judge(policy, sc->at, sc->ahead, sc->ahead, true);
}

static u64 steer_commands(const struct smq_hwq *hwq)
{
	u64 sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += READ_ONCE(per_cpu_ptr(hwq->stats, cpu)->queued);
	return sum;
}

/*
 * Returns how many commands the hardware queue got since the last call. While the host runs as
 * "direct", the choice does not see these commands. Context: the host's policy lock.
 */
static u64 steer_passed(struct steer_hwq *s, const struct smq_hwq *hwq)
{
	u64 before = s->queued_at_look;

	s->queued_at_look = steer_commands(hwq);
	/* The counters change while they are summed: the sum may be lower than the last one. */
	return s->queued_at_look > before ? s->queued_at_look - before : 0;
}

static bool steer_has_use(struct smq_policy *policy)
{
	bool effective = rcu_access_pointer(policy->host->policy) == policy, use = false;
	unsigned int i;

	for (i = 0; i < policy->host->nr_hwqs; i++) {
		struct smq_hwq *hwq = policy->host->hwq[i];
		struct steer_hwq *s = smq_policy_hwq_priv(policy, hwq);

		if (effective)
			steer_passed(s, hwq);
		/* data_race: if steering begins just now, the next look sees it. */
		if (data_race(s->choice.on) &&
		    time_before(jiffies, READ_ONCE(s->steered_at) + SMQ_POLICY_IDLE))
			use = true;
	}
	return use;
}

static void steer_look(struct smq_policy *policy)
{
	unsigned int i;

	for (i = 0; i < policy->host->nr_hwqs; i++) {
		struct smq_hwq *hwq = policy->host->hwq[i];
		struct steer_hwq *s = smq_policy_hwq_priv(policy, hwq);
		u64 passed = steer_passed(s, hwq);

		spin_lock_irq(&s->lock);
		smq_steer_look(&s->choice, passed);
		spin_unlock_irq(&s->lock);
	}
}

static void steer_pass(struct smq_policy *policy, bool on)
{
	unsigned int i;

	for (i = 0; i < policy->host->nr_hwqs; i++) {
		struct steer_hwq *s = smq_policy_hwq_priv(policy, policy->host->hwq[i]);

		spin_lock_irq(&s->lock);
		s->choice.pass = on;
		spin_unlock_irq(&s->lock);
	}
}

/*
 * Returns the first CPU of a hardware queue: the value of steer_hwq.cpu until a command completes.
 */
static unsigned int steer_first_cpu(const struct smq_hwq *hwq)
{
	const struct blk_mq_queue_map *map = &hwq->host->shost->tag_set.map[hwq->type];
	unsigned int cpu;

	for_each_possible_cpu(cpu) {
		if (map->mq_map[cpu] == hwq->index)
			return cpu;
	}
	return 0;
}

static int steer_init_hwq(struct smq_policy *policy, struct smq_hwq *hwq)
{
	struct steer_hwq *s = smq_policy_hwq_priv(policy, hwq);

	spin_lock_init(&s->lock);
	smq_steer_init(&s->choice);
	s->cpu = steer_first_cpu(hwq);
	s->knobs = policy->knobs;
	s->next = hwq->index;
	s->queued_at_look = steer_commands(hwq);
	return 0;
}

static void steer_show(struct seq_file *m, struct smq_policy *policy, struct smq_hwq *hwq)
{
	struct steer_hwq *s = smq_policy_hwq_priv(policy, hwq);

	spin_lock_irq(&s->lock);
	seq_printf(m, " inflight=%u cpu=%u on=%d steered=%llu backed_off=%llu fell_back=%llu",
		   steer_inflight(s), READ_ONCE(s->cpu), s->choice.on, s->steered,
		   s->backed_off, s->fell_back);
	spin_unlock_irq(&s->lock);
}

static void steer_init_knobs(void *data)
{
	struct steer_knobs *knobs = data;

	knobs->threshold = 16;
}

static ssize_t threshold_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	const struct steer_knobs *knobs = smq_policy_knobs(dev, &smq_steer_ops);

	return sysfs_emit(buf, "%u\n", READ_ONCE(knobs->threshold));
}

static ssize_t threshold_store(struct device *dev, struct device_attribute *attr,
			       const char *buf, size_t count)
{
	struct steer_knobs *knobs = smq_policy_knobs(dev, &smq_steer_ops);

	return smq_knob_store_uint(dev, attr, "smq_steer", buf, count, &knobs->threshold, 1,
				   SMQ_MAX_DEPTH);
}
static DEVICE_ATTR_RW(threshold);

static struct attribute *steer_attrs[] = {
	&dev_attr_threshold.attr,
	NULL
};

static const struct attribute_group steer_group = {
	.name = "smq_steer",
	.attrs = steer_attrs,
};

const struct smq_policy_ops smq_steer_ops = {
	.name		= "steer",
	.owner		= THIS_MODULE,
	.moves		= true,
	.knobs_size	= sizeof(struct steer_knobs),
	.hwq_size	= sizeof(struct steer_hwq),
	.cmd_size	= sizeof(struct steer_cmd),
	.knobs		= &steer_group,
	.init_knobs	= steer_init_knobs,
	.init_hwq	= steer_init_hwq,
	.queue		= smq_steer_queue,
	.done		= smq_steer_done,
	.refused	= steer_refused,
	.has_use	= steer_has_use,
	.look		= steer_look,
	.pass		= steer_pass,
	.show		= steer_show,
};
