/* SPDX-License-Identifier: GPL-2.0 */
/*
 * smq: what a dispatch policy includes.
 *
 * A policy decides between the mid-layer's queuecommand and the LLD's queue_cmd. It
 * fills one static const struct smq_policy_ops and registers it; root chooses it for a
 * host by writing its name to /sys/class/scsi_host/hostN/smq/policy. The host then has
 * a struct smq_policy. drivers/policy/README.md tells what a new policy has to write.
 */
#ifndef SMQ_POLICY_H
#define SMQ_POLICY_H

#include <linux/device/driver.h>
#include <linux/hrtimer.h>
#include <linux/list.h>
#include <linux/percpu-refcount.h>
#include <linux/spinlock.h>
#include <linux/sysfs.h>
#include <linux/workqueue.h>
#include <smq/lld.h>

struct module;
struct seq_file;
struct smq_hold;
struct smq_policy;
struct smq_policy_lun;

/**
 * struct smq_policy_ops - a dispatch policy as the layer sees it
 * @name: in sysfs, 1 to 31 characters. A module of that policy has
 *	MODULE_ALIAS("smq-policy-" NAME): it is loaded when its name is written
 * @owner: THIS_MODULE; referenced while a host has the policy
 * @holds: it may hold commands. The layer then advertises more than the device takes
 *	(can_queue, queue_depth), and calls @queue only for a command that has room in
 *	its LUN's inner depth. A command that ends with TASK SET FULL, or that the LLD
 *	refuses, is held and tried again. With other policies it goes back to the
 *	mid-layer, unless it was refused with SMQ_HWQ_BUSY
 * @moves: @queue may name another hardware queue. Such a policy is refused to a host whose
 *	LLD does not take that: see smq_lld.any_hwq
 * @knobs_size: bytes of its settings per host, zeroed before @init_knobs; they exist
 *	from its registration on, whether a host has the policy or not; 0 if none
 * @host_size: bytes of its private area per host that has it, zeroed; 0 if none
 * @hwq_size: the same per hardware queue, on cache lines of its own
 * @lun_size: the same per LUN
 * @cmd_size: the same per command, but not zeroed: the last command with that tag has used it
 * @knobs: attributes of its settings, a named group beside hostN/smq; optional
 * @hold_ms: how long a command may be held before the mid-layer gets it back, in ms,
 *	whatever its timeout; 0: for a second, or a quarter of its timeout where that is
 *	less
 *
 * @init_knobs: sets the defaults. May sleep. Optional.
 * @init: a host chooses the policy: 0, or a negative errno, after a message, which
 *	refuses it; then @exit is not called. May sleep, under the host's policy lock.
 *	Optional.
 * @exit: undoes it, when the last command that the policy saw has ended and no
 *	operation runs. May sleep. Optional.
 * @init_hwq: sets up the area of a hardware queue, after @init; may sleep. Optional.
 * @exit_hwq: undoes it, before @exit; may sleep. Optional.
 * @init_lun: sets up the area of a LUN; may sleep. Optional.
 * @exit_lun: undoes it, when the LUN has no commands left; may sleep. Optional.
 *
 * @rated: whether commands may have to wait although their LUN has room. Context: as
 *	@queue. Optional.
 * @wait: a command finds no room in its LUN's inner depth, or is @rated, or others wait
 *	for room: the policy adds it to a list of the LUN. Context: as @queue. Optional,
 *	and needs @holds: without it commands get room in the order they came.
 * @next: there is room in a LUN for one more command. Returns the one that gets it, which
 *	it has taken off its list; NULL if none waits, or none may go yet: then the
 *	policy has set a timer of one of its lists, whose dispatch calls
 *	smq_policy_room(). With @drain: none may be kept back. Context: as @queue; may be
 *	called by several CPUs at once. Required with @wait.
 *
 * @passes: a command is on its way to @hwq, its own. Returns @policy if the command goes to the
 *	LLD at once, as without a policy. The policy does not see such a command: @passed is
 *	called for it, but neither @queue nor @done. Returns NULL if @queue is to be called.
 *	Context: as @queue. Optional, not with @holds.
 * @passed: the LLD has a command that passed, and a doorbell was rung if it was the last of its
 *	batch; or the LLD has refused the command, which the layer then treats as without a
 *	policy. Context: as @passes. Required with it.
 * @queue: a command is on its way to the LLD. Returns where it goes: @hwq, another
 *	hardware queue, which gets a commit of its own, if smq_cmd_may_move() and
 *	smq_hwq_is_open() say that it may go there, or NULL if the policy holds the
 *	command; then it has added it to a struct smq_hold, and may not touch it again.
 *	@last: no more commands of this batch follow at once. Context: as the LLD's
 *	queue_cmd: process context, interrupts on, inside an RCU read-side section: may
 *	not sleep; holds no lock.
 * @done: a command that @queue was called for has left: it was completed, refused by
 *	the LLD, or taken by error handling from the LLD or from a struct smq_hold.
 *	Called once for each call of @queue. Context: any, inside an RCU read-side
 *	section; may not sleep. Optional.
 * @refused: the hardware queue that @queue has named, cmd->hwq, has no room: the command
 *	goes to @hwq, its own, instead. Context: as @queue. Optional.
 * @last: the block layer's batch is over, and its last command did not reach @queue.
 *	Context: as @queue. Optional.
 * @has_use: whether the policy has anything to do. While it returns false the host runs as
 *	"direct"; the layer calls it again every few seconds after a look of
 *	SMQ_POLICY_LOOK, in which commands pass the policy. Context: may sleep, under
 *	the host's policy lock. Optional: without it the policy is always effective.
 * @look: such a look begins. Context: as @has_use. Optional.
 * @show: prints "key=value" words about a hardware queue into the host's stats file,
 *	each with a space before it. Context: may sleep. Optional.
 */
struct smq_policy_ops {
	const char *name;
	struct module *owner;
	bool holds;
	bool moves;
	unsigned int knobs_size;
	unsigned int host_size;
	unsigned int hwq_size;
	unsigned int lun_size;
	unsigned int cmd_size;
	const struct attribute_group *knobs;
	unsigned int hold_ms;

	void (*init_knobs)(void *knobs);
	int (*init)(struct smq_policy *policy);
	void (*exit)(struct smq_policy *policy);
	int (*init_hwq)(struct smq_policy *policy, struct smq_hwq *hwq);
	void (*exit_hwq)(struct smq_policy *policy, struct smq_hwq *hwq);
	void (*init_lun)(struct smq_policy_lun *lun);
	void (*exit_lun)(struct smq_policy_lun *lun);
	bool (*rated)(struct smq_policy *policy);
	void (*wait)(struct smq_policy_lun *lun, struct smq_cmd *cmd);
	struct smq_cmd *(*next)(struct smq_policy_lun *lun, bool drain);
	struct smq_policy *(*passes)(struct smq_policy *policy, struct smq_hwq *hwq);
	void (*passed)(struct smq_policy *policy, struct smq_hwq *hwq);
	struct smq_hwq *(*queue)(struct smq_policy *policy, struct smq_hwq *hwq,
				 struct smq_cmd *cmd, bool last);
	void (*done)(struct smq_policy *policy, struct smq_cmd *cmd);
	void (*refused)(struct smq_policy *policy, struct smq_hwq *hwq, struct smq_cmd *cmd);
	void (*last)(struct smq_policy *policy, struct smq_hwq *hwq);
	bool (*has_use)(struct smq_policy *policy);
	void (*look)(struct smq_policy *policy);
	void (*show)(struct seq_file *m, struct smq_policy *policy, struct smq_hwq *hwq);
};

/* Commands pass a policy for this long when the layer looks whether it has use, in jiffies. */
#define SMQ_POLICY_LOOK		msecs_to_jiffies(200)
/* Time between two looks, and time without use before the host runs as "direct", in jiffies. */
#define SMQ_POLICY_IDLE		(5 * HZ)

/**
 * struct smq_policy_hwq - a policy's part of a hardware queue
 * @uncommitted: commands went to the LLD that have not been committed; atomic because
 *	CPUs that share the queue take turns at it
 * @priv: the policy's own
 */
struct smq_policy_hwq {
	atomic_t uncommitted;
	unsigned char priv[] __aligned(8);
};

/**
 * struct smq_policy_lun - a policy's part of a LUN
 * @policy: whose it is
 * @lun: the LUN; valid while it has commands
 * @node: in smq_policy.luns
 * @priv: the policy's own
 */
struct smq_policy_lun {
	struct smq_policy *policy;
	struct smq_lun_core *lun;
	struct list_head node;
	unsigned char priv[] __aligned(8);
};

#define SMQ_SEEN_COUNTED	BIT(0)	/* in the inner depth of its LUN */
#define SMQ_SEEN_QUEUED		BIT(1)	/* the policy's queue was called for it, done was not */
#define SMQ_SEEN_MOVED		BIT(2)	/* counted in smq_hwq_move.foreign of its hardware queue */

/**
 * struct smq_policy_cmd - a policy's part of a command that it has seen
 * @policy: whose it is; referenced until the command ends
 * @lun: the policy's part of its LUN
 * @held_in: the list that it is in, NULL if it is in none; changes under the lock of
 *	that list
 * @held_since: when it was first held since the mid-layer queued it, in jiffies | 1;
 *	0 if it was not
 * @held_at: when it was held the last time, in jiffies
 * @issued_at: when it went from a list to the LLD, in jiffies
 * @flags: SMQ_SEEN_*; the owner's
 * @priv: the policy's own
 */
struct smq_policy_cmd {
	struct smq_policy *policy;
	struct smq_policy_lun *lun;
	struct smq_hold *held_in;
	unsigned long held_since;
	unsigned long held_at;
	unsigned long issued_at;
	u8 flags;
	unsigned char priv[] __aligned(8);
};

/**
 * struct smq_policy - the policy that a host has chosen
 * @ops: what it is
 * @host: the host
 * @knobs: the host's settings for it; read them with READ_ONCE()
 * @refs: a reference for each command that it has seen and that has not ended; the
 *	first one is dropped when the host chooses another policy
 * @hwqs: its parts of the hardware queues, by their index
 * @cmds: its parts of commands, by hardware queue and tag
 * @cmd_stride: bytes of each
 * @tags: of each hardware queue
 * @luns: its parts of the LUNs, under the host's policy lock
 * @free: ends it in process context, after a grace period
 * @priv: the policy's own area per host
 *
 * Lifetime: from the choice until another was chosen, or the host is removed, and the
 * last command that it saw has ended. A lost command delays that end, but not the choice of
 * another policy.
 */
struct smq_policy {
	const struct smq_policy_ops *ops;
	struct smq_host *host;
	void *knobs;
	struct percpu_ref refs;
	struct smq_policy_hwq **hwqs;
	void *cmds;
	size_t cmd_stride;
	unsigned int tags;
	struct list_head luns;
	struct rcu_work free;
	unsigned char priv[] __aligned(8);
};

/**
 * struct smq_hold - a list of held commands
 * @host: the host
 * @lock: protects @cmds, @nr and @bytes: commands are added and taken by several CPUs,
 *	in interrupts too. Held for list work only, never while the LLD or the
 *	mid-layer is called
 * @cmds: held commands, by smq_cmd.node; all are SMQ_HELD
 * @nr: of them; also read without the lock, to see whether there are any
 * @bytes: that they move
 * @timer: runs @work later
 * @work: calls @dispatch in process context
 * @dispatch: gives the LLD what may go; called inside an RCU read-side section with
 *	interrupts on. Gives nothing while smq_host.frozen is set
 * @node: in the host's list of these
 *
 * Lifetime: smq_hold_init() to smq_hold_exit(), which comes when it is empty.
 */
struct smq_hold {
	struct smq_host *host;
	spinlock_t lock;	/* protects the three below */
	struct list_head cmds;
	unsigned int nr;
	unsigned int bytes;
	struct hrtimer timer;
	struct work_struct work;
	void (*dispatch)(struct smq_hold *hold);
	struct list_head node;
};

int smq_policy_register(const struct smq_policy_ops *ops);
void smq_policy_unregister(const struct smq_policy_ops *ops);

/* Registers a policy as its module is loaded, and undoes that as it goes. */
#define smq_module_policy(ops)	module_driver(ops, smq_policy_register, smq_policy_unregister)

void *smq_policy_knobs(struct device *dev, const struct smq_policy_ops *ops);
ssize_t smq_knob_store_uint(struct device *dev, struct device_attribute *attr, const char *group,
			    const char *buf, size_t count, unsigned int *knob,
			    unsigned int least, unsigned int most);

void smq_hold_init(struct smq_hold *hold, struct smq_host *host,
		   void (*dispatch)(struct smq_hold *hold));
void smq_hold_exit(struct smq_hold *hold);
void smq_hold_add(struct smq_hold *hold, struct smq_cmd *cmd, bool first);
unsigned int smq_hold_take(struct smq_hold *hold, struct list_head *list, unsigned int most);
void smq_hold_wait(struct smq_hold *hold, u64 ns);
void smq_hold_kick(struct smq_hold *hold);
bool smq_policy_issue(struct smq_hwq *hwq, struct list_head *list, bool commit);
void smq_policy_commit(struct smq_hwq *hwq);
bool smq_policy_take_uncommitted(struct smq_hwq *hwq);
void smq_policy_room(struct smq_policy_lun *lun);
bool smq_policy_lun_is_full(const struct smq_policy_lun *lun);
void smq_policy_found_use(struct smq_host *host);
bool smq_cmd_may_move(struct smq_cmd *cmd);
bool smq_hwq_is_open(const struct smq_hwq *hwq);

static inline void *smq_policy_priv(struct smq_policy *policy)
{
	return policy->priv;
}

static inline void *smq_policy_hwq_priv(struct smq_policy *policy, const struct smq_hwq *hwq)
{
	return policy->hwqs[hwq->index]->priv;
}

/* Of a command that the policy has seen. */
static inline void *smq_policy_cmd_priv(const struct smq_cmd *cmd)
{
	return cmd->seen->priv;
}

/* Of the LUN of a command that the policy has seen. */
static inline void *smq_policy_lun_priv(const struct smq_cmd *cmd)
{
	return cmd->seen->lun->priv;
}

#endif /* SMQ_POLICY_H */
