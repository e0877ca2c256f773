// SPDX-License-Identifier: GPL-2.0
/*
 * Commands that a policy gives to another hardware queue than the block layer's. The LLD must
 * accept them there, and not every command may be moved. When the last CPU of a hardware queue goes
 * offline, the queue's interrupt stops too. Before that blk-mq waits only for commands of the
 * queue's own hctx, so a CPU hotplug state of the layer waits for the foreign ones.
 */
#define pr_fmt(fmt) "smq: " fmt

#include <linux/blkdev.h>
#include <linux/cpu.h>
#include <linux/cpuhotplug.h>
#include <linux/delay.h>
#include <linux/export.h>
#include <linux/slab.h>

#include "core.h"
#include "policy_cmd.h"

/* How often the CPU hotplug state checks for foreign commands, in ms. */
#define SMQ_MOVE_POLL_MS	5

/* The dynamic CPU hotplug state; set when the module is loaded. */
static int smq_move_state;

bool smq_cmd_may_move(struct smq_cmd *cmd)
{
	struct request *rq = scsi_cmd_to_rq(smq_cmd_to_scmd(cmd));

	return cmd->hwq->type == HCTX_TYPE_DEFAULT && !blk_rq_is_passthrough(rq) &&
	       !op_is_flush(rq->cmd_flags) && !(rq->rq_flags & RQF_FLUSH_SEQ) &&
	       !(rq->cmd_flags & REQ_POLLED) && !blk_mq_is_reserved_rq(rq) &&
	       !blk_queue_is_zoned(rq->q);
}
EXPORT_SYMBOL_GPL(smq_cmd_may_move);

bool smq_hwq_is_open(const struct smq_hwq *hwq)
{
	/*
	 * The queue may close right after this read: the CPU that closes it waits for a grace
	 * period, then for the foreign commands.
	 */
	return READ_ONCE(hwq->core->move.open) && !smq_hwq_is_full(hwq);
}
EXPORT_SYMBOL_GPL(smq_hwq_is_open);

static struct smq_hwq *smq_move_home_of(struct smq_cmd *cmd)
{
	return cmd->hwq->host->hwq[scsi_cmd_to_rq(smq_cmd_to_scmd(cmd))->mq_hctx->queue_num];
}

/* Stops counting a command as foreign. Context: any; the caller owns the command. */
void smq_move_end(struct smq_cmd *cmd)
{
	cmd->seen->flags &= ~SMQ_SEEN_MOVED;
	/* Release: when smq_move_cpu_offline() reads 0, it sees that each foreign command ended. */
	atomic_dec_return_release(&cmd->hwq->core->move.foreign);
}

/*
 * Moves a command, which a policy must have seen, to another hardware queue. Context: inside an RCU
 * read-side section; the caller owns the command.
 */
void smq_move(struct smq_cmd *cmd, struct smq_hwq *to)
{
	if (cmd->seen->flags & SMQ_SEEN_MOVED)
		smq_move_end(cmd);
	if (to != smq_move_home_of(cmd)) {
		atomic_inc(&to->core->move.foreign);
		cmd->seen->flags |= SMQ_SEEN_MOVED;
	}
	this_cpu_dec(cmd->hwq->stats->queued);
	this_cpu_inc(to->stats->queued);
	cmd->hwq = to;
}

/* Moves a command back to the block layer's hardware queue. Context: as smq_move(). */
void smq_move_home(struct smq_cmd *cmd)
{
	struct smq_hwq *home = smq_move_home_of(cmd);

	if (cmd->hwq != home)
		smq_move(cmd, home);
}

static struct smq_host *smq_node_to_host(struct hlist_node *node)
{
	return hlist_entry(node, struct smq_host_core, move.cpus)->host;
}

static struct smq_hwq *smq_move_hwq_of(struct smq_host *host, unsigned int cpu)
{
	return host->hwq[host->core->move.hwq_of[cpu]];
}

/* Context: process context on the CPU, which is online, inside the CPU hotplug lock. */
static int smq_move_cpu_online(unsigned int cpu, struct hlist_node *node)
{
	WRITE_ONCE(smq_move_hwq_of(smq_node_to_host(node), cpu)->core->move.open, true);
	return 0;
}

static bool smq_move_has_other_cpu(struct smq_host *host, unsigned int cpu)
{
	const unsigned int *hwq_of = host->core->move.hwq_of;
	unsigned int other;

	for_each_online_cpu(other) {
		if (other != cpu && hwq_of[other] == hwq_of[cpu])
			return true;
	}
	return false;
}

/*
 * Context: as smq_move_cpu_online(). The block layer's own hotplug state and the interrupts of the
 * CPU go offline only after this state, so the queue's commands can still complete.
 */
static int smq_move_cpu_offline(unsigned int cpu, struct hlist_node *node)
{
	struct smq_host *host = smq_node_to_host(node);
	struct smq_hwq_move *move = &smq_move_hwq_of(host, cpu)->core->move;

	if (smq_move_has_other_cpu(host, cpu))
		return 0;
	WRITE_ONCE(move->open, false);
	/* After the grace period every command that was being moved to the queue is counted. */
	synchronize_rcu();
	/* Acquire: pairs with smq_move_end(). Waits without a limit, as the block layer does. */
	while (atomic_read_acquire(&move->foreign))
		msleep(SMQ_MOVE_POLL_MS);
	return 0;
}

/*
 * Called when the host chooses a policy that moves commands. Return: 0; -EOPNOTSUPP, after a
 * message, if the LLD accepts a command only on the command's own hardware queue; another negative
 * errno. Context: policy lock; may sleep.
 */
int smq_move_begin_host(struct smq_host *host)
{
	struct smq_host_move *move = &host->core->move;
	const struct Scsi_Host *shost = host->shost;
	int err;

	lockdep_assert_held(&host->core->choice.lock);
	if (move->hwq_of)
		return 0;
	if (host->attached) {
		pr_err_ratelimited("host%u: an attached host has each command on its own hardware queue\n",
				   shost->host_no);
		return -EOPNOTSUPP;
	}
	if (host->nr_hwqs > 1 && !host->lld->any_hwq && !shost->host_tagset) {
		pr_err_ratelimited("host%u: %s takes a command on its own hardware queue only\n",
				   shost->host_no, host->lld->name);
		return -EOPNOTSUPP;
	}
	move->hwq_of = kmemdup(shost->tag_set.map[HCTX_TYPE_DEFAULT].mq_map,
			       nr_cpu_ids * sizeof(*move->hwq_of), GFP_KERNEL);
	if (!move->hwq_of)
		return -ENOMEM;
	/* Opens the hardware queues of the CPUs that are online. */
	err = cpuhp_state_add_instance(smq_move_state, &move->cpus);
	if (err) {
		kfree(move->hwq_of);
		move->hwq_of = NULL;
	}
	return err;
}

/* Undoes smq_move_begin_host(). The host has no policy left. Context: may sleep. */
void smq_move_end_host(struct smq_host *host)
{
	struct smq_host_move *move = &host->core->move;

	if (!move->hwq_of)
		return;
	cpuhp_state_remove_instance_nocalls(smq_move_state, &move->cpus);
	kfree(move->hwq_of);
	move->hwq_of = NULL;
}

int __init smq_moves_init(void)
{
	/* When a CPU goes offline, a dynamic state ends before CPUHP_AP_BLK_MQ_ONLINE does. */
	smq_move_state = cpuhp_setup_state_multi(CPUHP_AP_ONLINE_DYN, "scsi/smq:online",
						 smq_move_cpu_online, smq_move_cpu_offline);
	return min(smq_move_state, 0);
}

void smq_moves_exit(void)
{
	cpuhp_remove_multi_state(smq_move_state);
}
