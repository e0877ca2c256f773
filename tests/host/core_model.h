/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Models of what the explored code calls: the mid-layer, the LLD, the workqueue and timers. The end
 * of this file includes the modules' functions, which cut.py has taken out of their files.
 */
#ifndef CORE_MODEL_H
#define CORE_MODEL_H

#include "core_types.h"

static struct explore_rcu *explore_rcu(void)
{
	return &world.rcu;
}

/* The layer learns: with each completion another depth than before. */
static bool smq_depth_completed(struct smq_depth *depth, struct smq_policy *policy,
				unsigned int bytes)
{
	WRITE_ONCE(depth->limit, READ_ONCE(depth->limit) == 1 ? set.depth : 1);
	return false;
}

static int number(const struct smq_cmd *cmd)
{
	return container_of(cmd, struct command, cmd) - world.command;
}

/* Whether a thread takes held commands back. */
static bool takes_back(void)
{
	return has_thread(aborter) || has_thread(resetter) || has_thread(scanner);
}

/* Whether a thread changes the policy. */
static bool changes_policy(void)
{
	return has_thread(switcher) || has_thread(chooser);
}

/* Whether a hardware queue may be full. */
static bool has_full(void)
{
	return set.busy || set.alone || set.ring < CMDS;
}

static bool explore_needs_no_step(const void *at)
{
	const struct smq_depth *depth = &world.lun.depth;
	int i;

	for (i = 0; i < 2 * HWQS * CMDS; i++) {
		const struct smq_policy_cmd *seen = i < HWQS * CMDS ?
			(const void *)world.seen[i] : (const void *)world.own_seen[i - HWQS * CMDS];

		if (IS_IN(at, seen->held_at) || IS_IN(at, seen->held_since) ||
		    IS_IN(at, seen->issued_at))
			return true;
		if (IS_IN(at, seen->held_in))
			return !takes_back();
	}
	for (i = 0; i < CMDS; i++) {
		if (IS_IN(at, world.command[i].cmd.seen))
			return !takes_back();
	}
	if (IS_IN(at, world.core.no_policy) || IS_IN(at, world.sdev) || IS_IN(at, world.knobs) ||
	    IS_IN(at, depth->max) || IS_IN(at, depth->learn))
		return true;
	if (IS_IN(at, depth->limit))
		return !set.learn;
	if (IS_IN(at, depth->depth) || IS_IN(at, depth->full_since))
		return !set.full && !set.device_busy;
	if (IS_IN(at, world.host.frozen))
		return !has_thread(resetter);
	if (IS_IN(at, world.host.policy) || IS_IN(at, world.lun.policy) ||
	    IS_IN(at, world.core.choice.policy))
		return !changes_policy();
	for (i = 0; i < HWQS; i++) {
		if (IS_IN(at, world.hwq_core[i].refused.nr))
			return !has_full();
		if (IS_IN(at, world.hwq[i].detour))
			return !has_full() && !changes_policy();
		if (IS_IN(at, world.hwq_core[i].move.open))
			return !has_thread(offliner);
	}
	return false;
}

/* Begins a step if a thread marks commands as timed out. */
static void look_at_mark(void)
{
	if (has_thread(aborter))
		explore_step("test_bit");
}

/* Simple replacements for what the explored functions call in the kernel and in the modules. */
#define scsi_cmd_to_rq(scmd)		(&(scmd)->rq)
#define smq_cmd_to_scmd(c)		(&container_of(c, struct command, cmd)->scmd)
#define smq_scmd_to_cmd(s)		(&container_of(s, struct command, scmd)->cmd)
#define smq_rq_to_cmd(host, rq)		smq_scmd_to_cmd(blk_mq_rq_to_pdu(rq))
#define smq_cmd_lun(cmd)		(&world.lun)
#define smq_sdev_to_host(sdev)		(&world.host)
#define smq_policy_hwq_priv(p, hwq)	((void *)(p)->hwqs[(hwq)->index]->priv)
#define smq_policy_cmd_priv(cmd)	((void *)(cmd)->seen->priv)
#define scsi_bufflen(scmd)		1
#define scsi_set_resid(scmd, n)		((void)0)
#define blk_mq_rq_to_pdu(rq)		container_of(rq, struct scsi_cmnd, rq)
#define scsi_target(sdev)		((void *)(sdev))
#define INDIRECT_CALL_2(f, f2, f1, ...)	((f)(__VA_ARGS__))
#define INDIRECT_CALL_3(f, f3, f2, f1, ...)	((f)(__VA_ARGS__))
#define percpu_ref_get(ref)		((void)((ref)->count++))
#define percpu_ref_put(ref)		(EXPLORE_EXPECT((ref)->count), (void)((ref)->count--))
#define percpu_ref_is_dying(ref)	false
#define static_branch_unlikely(key)	0
#define smq_fault_after(cmd)		false
#define smq_fault_take_back(cmd)		false
#define smq_fault_forget(cmd)		((void)0)
#define trace_smq_done_enabled()	0
#define trace_smq_done(cmd)		((void)0)
#define trace_smq_busy(cmd)		((void)0)
#define trace_smq_taken(cmd)		((void)0)
#define trace_smq_eh(scmd, step, err)	((void)(step))
#define tracepoint_enabled(name)	0
#define smq_trace_done(cmd)		((void)0)
#define cancel_work_sync(work)		false
#define flush_workqueue(wq)		((void)0)
#define smq_cmd_defer_again(host, cmd)	((void)0)
#define smq_count_refusal(hwq, st)	((void)(st))
#define smq_depth_credit(depth, cmd)	((void)0)
#define smq_policy_found_use(host)	((void)(host))
#define smq_use_fast(host)		((void)(host))
#define smq_wait_count_full(hwq)		((void)(hwq))
#define smq_wait_was_full(cmd)	false
#define smq_lld_commit(lld, hwq)	lld_commit(hwq)
#define smq_policy_commit(hwq)		lld_commit(hwq)
#define delayed_work_pending(work)	((work)->pending)
#define queue_delayed_work(wq, work, delay)	((void)((work)->pending = true))
#define msleep(ms)			explore_step("msleep")
#define test_bit(nr, word)		(look_at_mark(), *(word) >> (nr) & 1)
#define smq_lld_queue(lld, hwq, cmd)	lld_queue(hwq, cmd)
#define smq_scsi_done_inline(scmd)	scsi_done(scmd)
#define raw_smp_processor_id()		(explore_self() < HWQS ? explore_self() : 0)
#define topology_die_cpumask(cpu)	(cpu)
#define cpumask_test_cpu(cpu, mask)	((cpu) || true)
#define smq_cmd_may_move(cmd)		true
typedef int smq_qc_t;
#define SCSI_MLQUEUE_DEVICE_BUSY	1
#define SCSI_MLQUEUE_TARGET_BUSY	2
#define SCSI_MLQUEUE_HOST_BUSY		3

/* scsi_done() and the timeout both set this bit: the first of the two ends the command. */
static bool complete_first(struct scsi_cmnd *scmd)
{
	bool first = !(scmd->state & 1);

	scmd->state |= 1;
	return first;
}

/* Called when the LLD gets a command or the command ends: no other one waits for it any more. */
static void left_queue(int cmd)
{
	int i;

	for (i = 0; i < CMDS; i++)
		world.before[i] &= ~(1 << cmd);
}

static void ended(int cmd)
{
	EXPLORE_EXPECT(++world.ended[cmd] == 1);
	left_queue(cmd);
	world.budget--;
}

static void scsi_done(struct scsi_cmnd *scmd)
{
	int cmd = number(smq_scmd_to_cmd(scmd));

	explore_step("scsi_done");
	EXPLORE_EXPECT(!world.aborted[cmd] && !world.with_lld[cmd]);
	if (complete_first(scmd))
		ended(cmd);
}

/* The LLD's queue_cmd. */
static enum smq_status lld_queue(struct smq_hwq *hwq, struct smq_cmd *cmd)
{
	int nr = number(cmd);

	explore_step("queue_cmd");
	EXPLORE_EXPECT(explore_rcu()->nested[explore_self()]);
	/* Only the owner issues a command, and only if the LLD does not have the command. */
	EXPLORE_EXPECT(!world.with_lld[nr] && cmd->state.counter == SMQ_OWNED);
	EXPLORE_EXPECT(!world.aborted[nr] && !world.ended[nr]);
	EXPLORE_EXPECT(cmd->hwq == hwq);
	/* No command is issued during a reset, or to a hardware queue without a CPU. */
	EXPLORE_EXPECT(!(world.quiet && world.host.frozen));
	EXPLORE_EXPECT(!(world.offline && hwq->index == 1));
	if (world.nr_ring[hwq->index] >= set.ring) {
		world.refused |= 1 << nr;
		return SMQ_HWQ_BUSY;
	}
	if (world.refusals_alone) {
		world.refusals_alone--;
		return SMQ_HWQ_BUSY;
	}
	if (world.refusals && world.nr_lld) {
		world.refusals--;
		return SMQ_HWQ_BUSY;
	}
	if (world.device_refusals && world.nr_lld) {
		world.device_refusals--;
		return SMQ_DEVICE_BUSY;
	}
	EXPLORE_EXPECT(!ops.holds || world.nr_lld < set.depth);
	EXPLORE_EXPECT(ops.holds || !world.before[nr]);
	left_queue(nr);
	if (world.at_once && (!set.waited || world.refused >> nr & 1)) {
		world.at_once--;
		return SMQ_DONE;
	}
	if (set.enter)
		smq_cmd_enter(cmd);
	world.with_lld[nr] = true;
	if (set.batch)
		world.uncommitted |= 1 << nr;
	world.nr_lld++;
	world.nr_ring[hwq->index]++;
	return set.enter ? smq_cmd_leave(cmd) : SMQ_QUEUED;
}

/* Rings the doorbell: the device learns of all commands in the ring of @hwq. */
static void lld_commit(struct smq_hwq *hwq)
{
	int i;

	if (!set.batch)
		return;
	explore_step("commit");
	EXPLORE_EXPECT(explore_rcu()->nested[explore_self()]);
	/* No doorbell rings during a reset. */
	EXPLORE_EXPECT(!(world.quiet && world.host.frozen));
	for (i = 0; i < nr_cmds; i++) {
		if (world.command[i].cmd.hwq == hwq)
			world.uncommitted &= ~(1 << i);
	}
}

/* Takes the command from the LLD. */
static void lld_forget(int cmd)
{
	if (!world.with_lld[cmd])
		return;
	world.uncommitted &= ~(1 << cmd);
	world.with_lld[cmd] = false;
	world.nr_lld--;
	world.nr_ring[world.command[cmd].cmd.hwq->index]--;
}

/* As smq_lld_abort() in eh.c, without fault injection. */
static int smq_lld_abort(struct smq_host *host, struct smq_cmd *cmd)
{
	if (atomic_read(&cmd->state) != SMQ_OWNED)
		return 0;
	explore_step("abort by the LLD");
	lld_forget(number(cmd));
	return 0;
}

static void blk_mq_tagset_busy_iter(int *tags, bool (*fn)(struct request *rq, void *data),
				    void *data)
{
	int i;

	for (i = 0; i < nr_cmds; i++) {
		explore_step("next busy command");
		if (world.begun[i] && !world.ended[i])
			fn(&world.command[i].scmd.rq, data);
	}
}

/* The number of commands that the mid-layer has begun and that have not ended. */
static int scsi_device_busy(const struct scsi_device *sdev)
{
	int i, nr = 0;

	explore_step("scsi_device_busy");
	for (i = 0; i < nr_cmds; i++)
		nr += world.begun[i] && !world.ended[i];
	return nr;
}

static void smq_hold_wait(struct smq_hold *hold, u64 ns)
{
	lockdep_assert_held(&hold->lock);
	hold->timer.queued = set.timer;
}

static void smq_hold_kick(struct smq_hold *hold)
{
	explore_step("kick");
	hold->work.pending = true;
}

struct smq_hold_scan;

/*
 * The model has no clock: at every scan the hold bound of each command counts as expired, or, with
 * inactive=1, that of none.
 */
static bool smq_wait_is_over(struct smq_cmd *cmd, const struct smq_hold_scan *scan)
{
	return !set.inactive;
}

#define for_each_online_cpu(cpu)	for ((cpu) = 0; (cpu) < 1; (cpu)++)
/* The CPU that goes offline is the last one of its hardware queue. */
#define smq_move_has_other_cpu(host, cpu)	false
#define smq_node_to_host(node)		((struct smq_host *)(node))
#define smq_move_hwq_of(host, cpu)	((host)->hwq[1])
#define SMQ_MOVE_POLL_MS		5

#include FUNCTIONS

#endif /* CORE_MODEL_H */
