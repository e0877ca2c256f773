/* SPDX-License-Identifier: GPL-2.0 */
/*
 * smq: what a dispatch policy includes.
 *
 * A policy decides when a command that the mid-layer has queued goes to the LLD, and on which
 * hardware queue. It fills one static const struct smq_policy_ops and registers it; root chooses
 * it for a host by writing its name to /sys/class/scsi_host/hostN/smq/policy. The host then has a
 * struct smq_policy.
 * drivers/policy/README.md describes how to write one.
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
 * @name: in sysfs, 1 to 31 characters. The policy's module has MODULE_ALIAS("smq-policy-" NAME):
 *	the layer loads it when this name is written
 * @owner: THIS_MODULE; referenced from the choice by a host until @exit has returned
 * @holds: it may hold commands. The layer then advertises more than the device takes
 *	(can_queue, queue_depth), and calls @queue only for a command that has room in
 *	its LUN's inner depth. A command that ends with TASK SET FULL, or that the LLD
 *	refuses, is held and tried again. With other policies it goes back to the
 *	mid-layer, unless it was refused with SMQ_HWQ_BUSY
 * @moves: @queue may name another hardware queue. A host refuses such a policy if its LLD does not
 *	support that: see smq_lld.any_hwq
 * @knobs_size: bytes of its settings per host, zeroed before @init_knobs; each host has them from
 *	the policy's registration on, whether it chooses the policy or not; 0 if none
 * @host_size: bytes of its private area per host that chooses it, zeroed; 0 if none
 * @hwq_size: the same per hardware queue, on cache lines of its own
 * @lun_size: the same per LUN
 * @cmd_size: the same per command, but not zeroed: the last command with that tag has used it
 * @knobs: attributes of its settings, a named group beside hostN/smq; optional
 * @hold_ms: the hold bound in ms, the same for every timeout of a command: a command that was held
 *	longer is returned to the mid-layer. 0: the bound is a second, or a quarter of the command's
 *	timeout if that is less
 *
 * @init_knobs: sets the defaults. May sleep. Optional.
 * @init: called when a host chooses the policy. Returns 0, or a negative errno if the host cannot
 *	have the policy (after a message, unless it is -ENOMEM): @exit is not called then. May
 *	sleep, under the host's policy lock. Optional.
 * @exit: undoes @init, when the last command that the policy saw has ended and no operation runs.
 *	May sleep. Optional.
 * @init_hwq: sets up the area of a hardware queue, after @init; may sleep. Optional.
 * @exit_hwq: undoes @init_hwq, before @exit; may sleep. Optional.
 * @init_lun: sets up the area of a LUN; may sleep. Optional.
 * @exit_lun: undoes @init_lun, when the LUN has no commands left; may sleep. Optional.
 *
 * @rated: whether commands may have to wait although their LUN has room. Context: as
 *	@queue. Optional.
 * @learns: whether the layer is to learn how many commands each LUN's device needs, and to hold the
 *	others. Sets the smallest and the largest number that may be learned. Only for a
 *	policy that holds commands. Context: any; takes no lock. Optional.
 * @wait: adds a command to one of the policy's lists for the LUN. The command must wait: the inner
 *	depth has no room, other commands wait for room, or @rated returned true. Context: as
 *	@queue. Optional; needs @holds. Without @wait commands get room in the order they came.
 * @next: called when a LUN has room for one more command. Takes a command off one of the policy's
 *	lists and returns it: that command gets the room. Returns NULL if no command waits, or if
 *	none may go yet. In the second case the policy has set the timer of one of its lists, whose
 *	dispatch calls smq_policy_room(). If @drain, every waiting command may go. Context: as
 *	@queue; may be called by several CPUs at once. Required with @wait.
 *
 * @ring: the LLD has got a command that is the last of its batch. Rings @hwq's doorbell by
 *	smq_policy_commit(), or leaves that to another CPU. A policy with @ring has neither
 *	@queue nor @holds, and sees no commands: they go to the LLD as without a policy. Context: as
 *	@queue.
 * @queue: a command is on its way to the LLD. Returns the hardware queue that it goes to: @hwq; or
 *	another one, whose doorbell the layer then rings at once, if smq_cmd_may_move() and
 *	smq_hwq_is_open() allow that; or NULL if the policy has added the command to a struct
 *	smq_hold: the policy then may not touch it again.
 *	@last: no more commands of this batch follow at once. Context: as the LLD's
 *	queue_cmd: process context, interrupts on, inside an RCU read-side section: may
 *	not sleep; holds no lock.
 * @done: a command that @queue was called for has left the policy: it was completed, refused by the
 *	LLD, taken by error handling from the LLD or from a struct smq_hold, or returned to the
 *	mid-layer. Called once for each call of @queue. Context: any, inside an RCU read-side
 *	section; may not sleep. Optional.
 * @refused: the hardware queue that @queue has named, cmd->hwq, has no room: the command
 *	goes to @hwq, its own, instead. Context: as @queue. Optional.
 * @last: the block layer's batch is over, and its last command did not reach @queue. Context: as
 *	@queue. Optional.
 * @has_use: whether the policy has anything to do. While it returns false the host runs as
 *	"direct". Every few seconds the layer lets commands go through the policy for
 *	SMQ_POLICY_LOOK (a look), and then calls @has_use again. Context: may sleep, under the
 *	host's policy lock. Optional: without it the policy is always effective.
 * @look: called when such a look begins. Context: as @has_use. Optional.
 * @pass: lets all commands go on at once, as if there was nothing to do, or, if @on is false, no
 *	longer. The layer calls it to compare the policy with "direct" by the commands that end;
 *	while the policy is more than 1 % slower the host runs as "direct". Context: as @has_use.
 *	Optional; needs @has_use.
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
	bool (*learns)(struct smq_policy *policy, unsigned int *least, unsigned int *most);
	void (*wait)(struct smq_policy_lun *lun, struct smq_cmd *cmd);
	struct smq_cmd *(*next)(struct smq_policy_lun *lun, bool drain);
	void (*ring)(struct smq_policy *policy, struct smq_hwq *hwq);
	struct smq_hwq *(*queue)(struct smq_policy *policy, struct smq_hwq *hwq,
				 struct smq_cmd *cmd, bool last);
	void (*done)(struct smq_policy *policy, struct smq_cmd *cmd);
	void (*refused)(struct smq_policy *policy, struct smq_hwq *hwq, struct smq_cmd *cmd);
	void (*last)(struct smq_policy *policy, struct smq_hwq *hwq);
	bool (*has_use)(struct smq_policy *policy);
	void (*look)(struct smq_policy *policy);
	void (*pass)(struct smq_policy *policy, bool on);
	void (*show)(struct seq_file *m, struct smq_policy *policy, struct smq_hwq *hwq);
};

/* Length of a look, in which commands go through a policy that had nothing to do, in jiffies. */
#define SMQ_POLICY_LOOK		msecs_to_jiffies(200)
/*
 * Time between two looks. Also, how long a policy has nothing to do before the host runs as
 * "direct". In jiffies.
 */
#define SMQ_POLICY_IDLE		(5 * HZ)

/**
 * struct smq_policy_hwq - a policy's part of a hardware queue
 * @uncommitted: 1 if the LLD has commands for which no doorbell was rung; atomic because several
 *	CPUs set and clear it
 * @priv: the policy's own
 */
struct smq_policy_hwq {
	atomic_t uncommitted;
	unsigned char priv[] __aligned(8);
};

/**
 * struct smq_policy_lun - a policy's part of a LUN
 * @policy: the policy
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

#define SMQ_SEEN_COUNTED	BIT(0)	/* counted in the inner depth of its LUN */
#define SMQ_SEEN_QUEUED		BIT(1)	/* ops->queue() was called, ops->done() not yet */
#define SMQ_SEEN_MOVED		BIT(2)	/* counted in smq_hwq_move.foreign of its hardware queue */

/**
 * struct smq_policy_cmd - a policy's part of a command that it has seen
 * @policy: the policy; referenced until the command ends
 * @lun: the policy's part of its LUN
 * @held_in: the list that it is in, NULL if it is in none; changes under the lock of
 *	that list
 * @held_since: when it was first held after the mid-layer queued it, in jiffies | 1;
 *	0 if it has not been held
 * @held_at: when it was held the last time, in jiffies
 * @issued_at: when it went from a list to the LLD, in jiffies
 * @flags: SMQ_SEEN_*; only the command's owner uses them
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
 * @ops: its operations
 * @host: the host
 * @knobs: the host's settings for it; read them with READ_ONCE()
 * @refs: one reference for each command that it has seen and that has not ended, and one that the
 *	host drops when it chooses another policy
 * @hwqs: its parts of the hardware queues, by their index
 * @cmds: its parts of commands, by hardware queue and tag
 * @cmd_stride: bytes of each part in @cmds
 * @tag_step: how many commands of @cmds each hardware queue has; 0: all share them
 * @luns: its parts of the LUNs, under the host's policy lock
 * @free: frees the policy in process context, after a grace period
 * @priv: the policy's own area per host
 *
 * Lifetime: begins when the host chooses it. Ends when the host has chosen another one or is
 * removed, and the last command that the policy saw has ended. A lost command delays that end, but
 * not the choice of another policy.
 */
struct smq_policy {
	const struct smq_policy_ops *ops;
	struct smq_host *host;
	void *knobs;
	struct percpu_ref refs;
	struct smq_policy_hwq **hwqs;
	void *cmds;
	size_t cmd_stride;
	unsigned int tag_step;
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
 * @nr: number of @cmds; also read without the lock, to see whether there are any
 * @bytes: data of @cmds, in bytes
 * @timer: runs @work later
 * @work: calls @dispatch in process context
 * @dispatch: gives the LLD the commands that may go; called inside an RCU read-side section with
 *	interrupts on. Gives the LLD none while smq_host.frozen is set
 * @node: in the host's list of all struct smq_hold
 *
 * Lifetime: smq_hold_init() to smq_hold_exit(), which is called when the list is empty.
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

/**
 * smq_policy_register() - makes a dispatch policy known
 * @ops: the policy; must stay valid until smq_policy_unregister()
 *
 * Context: may sleep.
 * Return: 0; -EINVAL, after a message, if the name or an operation is missing or if operations
 * exclude each other; -EEXIST if the name is taken; -ENOMEM.
 */
int smq_policy_register(const struct smq_policy_ops *ops);

/**
 * smq_policy_unregister() - undoes smq_policy_register()
 * @ops: the policy; no host has chosen it, because a host references its policy's module
 *
 * Context: may sleep.
 */
void smq_policy_unregister(const struct smq_policy_ops *ops);

/* Registers a policy when its module is loaded, and unregisters it when the module is unloaded. */
#define smq_module_policy(ops)	module_driver(ops, smq_policy_register, smq_policy_unregister)

/**
 * smq_policy_knobs() - finds a policy's settings, for an attribute of its group
 * @dev: the device that the attribute's show or store was called with
 * @ops: the policy
 *
 * Context: may sleep.
 * Return: the settings, valid while the attribute runs.
 */
void *smq_policy_knobs(struct device *dev, const struct smq_policy_ops *ops);

/**
 * smq_dev_to_host() - finds the layer's part of a host, for an attribute of a group
 * @dev: the device that the attribute's show or store was called with
 *
 * Context: may sleep.
 * Return: the layer's part, valid while the attribute runs.
 */
struct smq_host *smq_dev_to_host(struct device *dev);

/**
 * smq_knob_store_uint() - the store function of an attribute that is a number
 * @dev: the device that the attribute's store was called with
 * @attr: the attribute
 * @group: the name of the attribute's group
 * @buf: the text that store was called with
 * @count: its length
 * @knob: the setting; written with WRITE_ONCE()
 * @least: the smallest value that is accepted
 * @most: the largest value that is accepted
 *
 * Context: may sleep.
 * Return: @count, or a negative errno after a message that names the attribute and its limits.
 */
ssize_t smq_knob_store_uint(struct device *dev, struct device_attribute *attr, const char *group,
			    const char *buf, size_t count, unsigned int *knob,
			    unsigned int least, unsigned int most);

/**
 * smq_hold_init() - sets up a list of held commands
 * @hold: the list
 * @host: its host
 * @dispatch: see struct smq_hold
 *
 * Context: may sleep.
 */
void smq_hold_init(struct smq_hold *hold, struct smq_host *host,
		   void (*dispatch)(struct smq_hold *hold));

/**
 * smq_hold_exit() - undoes smq_hold_init()
 * @hold: the list: empty, and no code adds to it any more
 *
 * Context: may sleep.
 */
void smq_hold_exit(struct smq_hold *hold);

/**
 * smq_hold_add() - holds a command
 * @hold: the list
 * @cmd: a command that the caller owns until the call
 * @first: add it at the front of the list, rather than at its end
 *
 * Context: any, with the list's lock held and interrupts off.
 */
void smq_hold_add(struct smq_hold *hold, struct smq_cmd *cmd, bool first);

/**
 * smq_hold_take() - takes commands that may go to the LLD now, in order
 * @hold: the list
 * @list: where the commands are added; the caller owns them, and gives them to
 *	smq_policy_issue() inside the same RCU read-side section
 * @most: how many at most
 *
 * Leaves a command on the list if error handling has it, because error handling looks for it there.
 * Takes no command while a reset is under way.
 *
 * Context: any, inside an RCU read-side section, with the list's lock held and interrupts off.
 * Return: how many were taken.
 */
unsigned int smq_hold_take(struct smq_hold *hold, struct list_head *list, unsigned int most);

/**
 * smq_hold_wait() - dispatches a list later
 * @hold: the list
 * @ns: the longest delay, in ns; a timer that already runs is not changed
 *
 * Context: any, with the list's lock held and interrupts off.
 */
void smq_hold_wait(struct smq_hold *hold, u64 ns);

/**
 * smq_hold_kick() - dispatches a list soon, in process context
 * @hold: the list
 *
 * Context: any.
 */
void smq_hold_kick(struct smq_hold *hold);

/**
 * smq_policy_issue() - gives commands to the LLD
 * @hwq: a hardware queue
 * @list: commands for it that the caller owns; empty after the call
 * @commit: ring the doorbell after the last of them
 *
 * Commands that the LLD refuses are held and tried again. While other commands wait for room
 * in the hardware queue, these wait behind them.
 *
 * Context: as queue_cmd, inside the RCU read-side section in which the caller came to own the
 * commands.
 * Return: whether the LLD took them all.
 */
bool smq_policy_issue(struct smq_hwq *hwq, struct list_head *list, bool commit);

/**
 * smq_policy_commit() - rings the doorbell for commands that the LLD has not committed yet
 * @hwq: a hardware queue
 *
 * Context: as queue_cmd, inside an RCU read-side section.
 */
void smq_policy_commit(struct smq_hwq *hwq);

/**
 * smq_policy_take_uncommitted() - whether commands of a batch wait for a doorbell
 * @hwq: the hardware queue of the batch
 *
 * For a policy that holds the last command of a batch, after the commands before it have passed or
 * were issued. The doorbell then becomes the caller's task.
 *
 * Context: as queue_cmd.
 * Return: whether the caller must have the doorbell rung.
 */
bool smq_policy_take_uncommitted(struct smq_hwq *hwq);

/**
 * smq_policy_room() - dispatches commands that a policy has in its lists of a LUN
 * @lun: the policy's part of the LUN
 *
 * Calls the policy's next for each command, while there is room.
 *
 * Context: smq_hold.dispatch of one of the policy's lists.
 */
void smq_policy_room(struct smq_policy_lun *lun);

/**
 * smq_policy_lun_is_full() - whether a LUN has as many commands as its device takes
 * @lun: the policy's part of the LUN
 *
 * Context: any; the LUN has commands.
 * Return: whether it has. Commands that the policy has not seen do not count.
 */
bool smq_policy_lun_is_full(const struct smq_policy_lun *lun);

/**
 * smq_policy_found_use() - tells the layer that the policy has something to do
 * @host: a host that has chosen the policy
 *
 * The layer soon checks whether to make the policy effective, and calls has_use for that. Cheap if
 * the layer already knows that the policy has something to do.
 *
 * Context: any; a command or a running sysfs attribute keeps the host from being freed.
 */
void smq_policy_found_use(struct smq_host *host);

/**
 * smq_cmd_may_move() - whether a policy may give a command to another hardware queue
 * @cmd: the command for which the policy's queue operation was called
 *
 * Allows reads, writes and the like from the block layer, which may run in any order. Excludes
 * flushes and their steps, commands whose order matters (passthrough, zoned devices), reserved
 * tags, and polled commands, whose poller polls its own hardware queue.
 *
 * Context: as queue_cmd.
 * Return: whether it may.
 */
bool smq_cmd_may_move(struct smq_cmd *cmd);

/**
 * smq_hwq_is_open() - whether commands of other hardware queues may go to this one
 * @hwq: a hardware queue
 *
 * Context: the policy's queue operation, in the RCU read-side section in which the command is
 * moved.
 * Return: false for a poll queue, while commands wait for room in the queue, and while no CPU of
 * the queue is online.
 */
bool smq_hwq_is_open(const struct smq_hwq *hwq);

static inline void *smq_policy_priv(struct smq_policy *policy)
{
	return policy->priv;
}

static inline void *smq_policy_hwq_priv(struct smq_policy *policy, const struct smq_hwq *hwq)
{
	return policy->hwqs[hwq->index]->priv;
}

/* The private area of a command that the policy has seen. */
static inline void *smq_policy_cmd_priv(const struct smq_cmd *cmd)
{
	return cmd->seen->priv;
}

/* The private area of the LUN of a command that the policy has seen. */
static inline void *smq_policy_lun_priv(const struct smq_cmd *cmd)
{
	return cmd->seen->lun->priv;
}

#endif /* SMQ_POLICY_H */
