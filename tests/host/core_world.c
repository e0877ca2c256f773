// SPDX-License-Identifier: GPL-2.0
/*
 * Explores what the layer does with held commands, in every interleaving of up to three CPUs: the
 * inner depth, lists of held commands, error handling, and commands that the policy "steer" moves.
 * cut.py has taken the types and functions out of the modules' files, unchanged. The mid-layer, the
 * LLD, the workqueue and timers are models. Built and run by test_hold.py, test_depth.py,
 * test_full_queue.py and test_steer_explore.py.
 *
 * core_world KEY=VALUE... THREAD...
 *
 * Threads: sN: a CPU that queues N commands, one after the other, on hardware queue 0; sN@H: on
 * hardware queue H. abort=C: the mid-layer aborts command C at any time. reset: a host reset at any
 * time; reset=other: a reset of another LUN. scan: a scan of held commands; all of them have
 * exceeded the hold bound. switch: the host changes from its policy to "direct". choose: with
 * later=1, the host chooses its policy. offline: the last CPU of hardware queue 1 goes offline.
 * show=H: reads how many commands hardware queue H has.
 * Options: ring=N: a hardware queue has room for N commands. timer=0: no timer expires. waited=1:
 * the LLD completes a command in queue_cmd only if it has refused the command before. alone=N: the
 * LLD answers N times that it has no room, even if it has no command. enter=1: if a command ends
 * inside queue_cmd, the LLD leaves its completion to the submitter, as smq_lio does. batch=1: the
 * commands of a CPU are one batch, and the device gets a command only when the doorbell has rung.
 * plug=1: with batch=1, the batch is one of smq_sg, whose plug rings the doorbell later.
 * later=1: the host begins without its policy. inactive=1: the CPUs of hardware queue 0 are going
 * offline, and no command has exceeded the hold bound. busy=N, device_busy=N, full=N and at_once=N
 * set refusals, device_refusals, fulls and at_once of "world" (core_types.h).
 * Each command has a thread that completes it once the LLD has it; one thread runs work items.
 */
#include "core_policies.h"

/* smq_template.dispatch */
static enum smq_status dispatch_list(struct smq_hwq *hwq, struct list_head *cmds, bool commit)
{
	struct smq_cmd *cmd;

	list_for_each_entry(cmd, cmds, node)
		EXPLORE_EXPECT(world.counting != explore_self() + 1 ||
			       cmd->seen->flags & SMQ_SEEN_COUNTED);
	return smq_dispatch_list(hwq->host->lld, hwq, cmds, commit);
}

/* If the host has already chosen a policy that holds, this call may issue only counted commands. */
static void refused_dispatch(struct smq_hold *hold)
{
	world.counting = world.core.choice.policy && ops.holds ? explore_self() + 1 : 0;
	smq_wait_dispatch_hwq(hold);
	world.counting = 0;
}

static bool may_queue(long unused)
{
	return !world.shost.host_self_blocked && world.budget < world.queue_depth;
}

/* As smq_queue_one() does without a policy. */
static smq_qc_t queue_direct(struct smq_hwq *hwq, struct smq_cmd *cmd, bool last)
{
	enum smq_status st = lld_queue(hwq, cmd);
	smq_qc_t ret = 0;

	if (st == SMQ_DONE)
		smq_cmd_done_inline(hwq, cmd);
	else if (st != SMQ_QUEUED)
		ret = smq_cmd_refused(cmd, st);
	if (!ret && last)
		lld_commit(hwq);
	return ret;
}

/* Notes which commands wait for room in @hwq: the LLD must get them before @cmd. */
static void note_before(struct smq_hwq *hwq, struct smq_cmd *cmd)
{
	int i;

	world.before[number(cmd)] = 0;
	for (i = 0; hwq->detour >> SMQ_DETOUR_FULL & 1 && i < nr_cmds; i++) {
		const struct smq_cmd *other = &world.command[i].cmd;

		if (other->state.counter == SMQ_HELD && other->hwq == hwq &&
		    other->seen->held_in == &hwq->core->refused)
			world.before[number(cmd)] |= 1 << i;
	}
}

/*
 * Queues a command, as scsi_queue_rq() and smq_queue_one() do. @alone: the command is a batch by
 * itself; otherwise the caller is inside an RCU read-side section.
 */
static void queue_one(struct smq_hwq *hwq, struct smq_cmd *cmd, bool last, bool alone)
{
	smq_qc_t ret;

	for (;;) {
		ret = 1;
		if (alone)
			explore_wait(may_queue, 0, "budget");
		world.budget++;
		if (alone)
			rcu_read_lock();
		explore_step("host is blocked?");
		if (!world.shost.host_self_blocked) {
			/* From here on the command's timer runs. */
			world.begun[number(cmd)] = true;
			cmd->hwq = hwq;
			atomic_set(&cmd->state, SMQ_OWNED);
			note_before(hwq, cmd);
			/* In this model data_race() is a step of its own. */
			if (data_race(hwq->detour))
				ret = smq_queue_detour(world.host.lld, hwq, cmd, last);
			else
				ret = queue_direct(hwq, cmd, last);
		}
		if (alone)
			rcu_read_unlock();
		/* If a refused command was aborted, error handling ends it. */
		if (ret && world.command[number(cmd)].scmd.state)
			return;
		if (!ret)
			return;
		world.begun[number(cmd)] = false;
		world.budget--;
		if (!alone)
			break;
	}
}

/* smqsg_bell_ring() and scsi_host_template.commit_rqs; no policy here has the operation last. */
static void commit_rqs(struct smq_hwq *hwq)
{
	rcu_read_lock();
	explore_step("host is frozen?");
	if (!world.host.frozen)
		lld_commit(hwq);
	rcu_read_unlock();
}

/* @arg: bits 0-3: the first command, 4-7: the number of commands, 8 and up: the hardware queue. */
static void submitter(int arg)
{
	struct smq_hwq *hwq = &world.hwq[arg >> 8];
	int i, first = arg & 15, end = first + (arg >> 4 & 15);

	if (set.plug) {
		for (i = first; i < end; i++)
			queue_one(hwq, &world.command[i].cmd, false, true);
		commit_rqs(hwq);
		return;
	}
	if (set.batch) {
		rcu_read_lock();
		for (i = first; i < end; i++)
			queue_one(hwq, &world.command[i].cmd, i == end - 1, false);
		rcu_read_unlock();
	}
	for (i = first; i < end; i++) {
		if (!world.begun[i])
			queue_one(hwq, &world.command[i].cmd, true, true);
	}
}

static bool is_with_device(long cmd)
{
	return world.with_lld[cmd] && !(world.uncommitted >> cmd & 1);
}

/* Models the device: completes a command at any time while the device has it. */
static void completer(int cmd)
{
	struct scsi_cmnd *scmd = &world.command[cmd].scmd;

	for (;;) {
		explore_wait(is_with_device, cmd, "completion");
		scmd->result = 0;
		if (world.fulls) {
			world.fulls--;
			scmd->result = SAM_STAT_TASK_SET_FULL;
		}
		lld_forget(cmd);
		smq_cmd_done(&world.command[cmd].cmd);
	}
}

static bool has_work(long unused)
{
	int i;

	for (i = 0; world.holds[i]; i++) {
		if (world.holds[i]->work.pending || world.holds[i]->timer.queued)
			return true;
	}
	return false;
}

/* Runs the work items of all lists. A queued timer expires at any time, and runs them too. */
static void worker(int unused)
{
	struct smq_hold *hold;
	int i;

	for (;;) {
		explore_wait(has_work, 0, "work");
		for (i = 0; !world.holds[i]->work.pending && !world.holds[i]->timer.queued; i++)
			;
		hold = world.holds[i];
		if (hold->work.pending)
			hold->work.pending = false;
		else
			hold->timer.queued = false;
		smq_hold_work(&hold->work);
	}
}

static bool has_begun(long cmd)
{
	return world.begun[cmd];
}

/* scsi_timeout() and scmd_eh_abort_handler(). */
static void aborter(int nr)
{
	struct smq_cmd *cmd = &world.command[nr].cmd;

	explore_wait(has_begun, nr, "abort");
	if (!complete_first(&world.command[nr].scmd))
		return;
	EXPLORE_EXPECT(!smq_abort_cmd(&world.host, cmd));
	explore_step("abort returns");
	world.aborted[nr] = true;
	ended(nr);
	EXPLORE_EXPECT(!world.with_lld[nr]);
	EXPLORE_EXPECT(cmd->state.counter == SMQ_FREE && !cmd->seen && list_empty(&cmd->node));
}

/* smq_eh_host_reset(); with @other, smq_eh_lun_reset() for another LUN. */
static void resetter(int other)
{
	struct smq_reset reset = { .host = &world.host, .sdev = other ? &world.other : NULL };
	struct scsi_cmnd handler = { .submitter = SUBMITTED_BY_SCSI_RESET_IOCTL };
	int i;

	EXPLORE_EXPECT(smq_reset_begin(&world.host, &handler));
	explore_step("reset by the LLD");
	/* The device knows all commands that the LLD has. */
	EXPLORE_EXPECT(!world.uncommitted);
	world.quiet = true;
	for (i = 0; i < nr_cmds && !other; i++)
		lld_forget(i);
	smq_reset_end(&reset, &handler, "reset", 0);
	explore_step("reset returns");
	world.quiet = false;
}

/* smq_hold_scan(). */
static void scanner(int unused)
{
	struct smq_hold_scan scan = { 0 };

	blk_mq_tagset_busy_iter(&world.shost.tag_set, smq_hold_scan_at, &scan);
}

static bool is_lowered(long unused)
{
	return world.budget <= world.queue_depth;
}

/* smq_policy_change() to "direct". */
static void switcher(int unused)
{
	int i;

	/* smq_depth_lower() */
	explore_step("lower");
	world.queue_depth = READ_ONCE(world.lun.depth.depth);
	explore_wait(is_lowered, 0, "is lowered");
	/* smq_use_swap() */
	rcu_assign_pointer(world.host.policy, NULL);
	for (i = 0; i < set.hwqs; i++)
		clear_bit(SMQ_DETOUR_POLICY, &world.hwq[i].detour);
	synchronize_rcu();
	/* smq_policy_drop_luns() */
	rcu_assign_pointer(world.lun.policy, NULL);
	rcu_assign_pointer(world.core.choice.policy, NULL);
	synchronize_rcu();
	/* smq_policy_drain(), the first round */
	smq_hold_kick_all(&world.host);
}

/* smq_policy_change() from "direct". */
static void chooser(int unused)
{
	int i;

	/* smq_policy_add_luns() */
	explore_step("choose");
	rcu_assign_pointer(world.lun.policy, &world.policy_lun);
	rcu_assign_pointer(world.core.choice.policy, &world.policy);
	/* smq_use_swap() */
	explore_step("swap");
	rcu_assign_pointer(world.host.policy, &world.policy);
	for (i = 0; i < set.hwqs; i++) {
		explore_step("detour");
		world.hwq[i].detour |= BIT(SMQ_DETOUR_POLICY);
	}
	synchronize_rcu();
	if (set.batch)
		smq_use_commit_all(&world.host, false);
}

static void offliner(int cpu)
{
	int i;

	smq_move_cpu_offline(cpu, (void *)&world.host);
	explore_step("offline");
	world.offline = true;
	/* No CPU is left that would complete a command of this hardware queue. */
	for (i = 0; i < nr_cmds; i++)
		EXPLORE_EXPECT(!world.with_lld[i] || world.command[i].cmd.hwq->index != 1);
}

/* Reads the number that debugfs and steer_find() read. It must never fall below 0. */
static void shower(int hwq)
{
	unsigned int nr = steer_inflight((void *)world.policy_hwq[hwq].head.priv);

	EXPLORE_EXPECT(nr <= (unsigned int)nr_cmds);
}

static void hold_begin(struct smq_hold *hold, void (*dispatch)(struct smq_hold *hold))
{
	int i;

	hold->host = &world.host;
	hold->dispatch = dispatch;
	INIT_LIST_HEAD(&hold->cmds);
	list_add_tail(&hold->node, &world.core.hold.lists);
	for (i = 0; world.holds[i]; i++)
		;
	world.holds[i] = hold;
}

static void policy_begin(void)
{
	struct smq_policy *policy = &world.policy;
	int i;

	memset(&ops, 0, sizeof(ops));
	ops.holds = true;
	ops.learns = set.learn ? learned : NULL;
	ops.queue = pass_queue;
	if (!strcmp(set.policy, "listed")) {
		ops.wait = listed_wait;
		ops.next = listed_next;
		hold_begin(&world.own, listed_dispatch);
	} else if (!strcmp(set.policy, "hold")) {
		ops.queue = hold_queue;
		hold_begin(&world.own, hold_dispatch);
	} else if (!strcmp(set.policy, "away")) {
		ops.holds = false;
		ops.queue = away_queue;
	} else if (!strcmp(set.policy, "steer")) {
		ops.holds = false;
		ops.queue = smq_steer_queue;
		ops.done = smq_steer_done;
		ops.refused = steer_refused;
	}
	world.own_policy.ops = &own_ops;
	world.own_policy.host = &world.host;
	world.own_policy.cmds = world.own_seen;
	world.own_policy.cmd_stride = SEEN_SIZE;
	world.own_policy.tag_step = CMDS;
	world.core.no_policy = &world.own_policy;
	if (!strcmp(set.policy, "none")) {
		ops.holds = false;
		return;
	}
	policy->ops = &ops;
	policy->host = &world.host;
	policy->hwqs = world.policy_hwqs;
	policy->cmds = world.seen;
	policy->cmd_stride = SEEN_SIZE;
	policy->tag_step = CMDS;
	world.policy_lun.policy = policy;
	world.policy_lun.lun = &world.lun;
	if (set.inactive)
		world.hctx[0].state = 1 << BLK_MQ_S_INACTIVE;
	if (!set.later) {
		world.lun.policy = &world.policy_lun;
		world.core.choice.policy = policy;
		world.host.policy = policy;
	}
	world.knobs.threshold = set.threshold;
	for (i = 0; i < set.hwqs; i++) {
		struct steer_hwq *steer = (void *)world.policy_hwq[i].head.priv;

		if (world.host.policy)
			world.hwq[i].detour = BIT(SMQ_DETOUR_POLICY);
		world.policy_hwqs[i] = &world.policy_hwq[i].head;
		smq_steer_init(&steer->choice);
		steer->choice.on = set.on;
		if (set.trying)
			steer->choice = (struct smq_steer){ .trying = set.trying };
		steer->knobs = &world.knobs;
		steer->cpu = i;
		steer->next = i;
	}
}

static void begin(void)
{
	static const struct smq_lld silent, with_doorbell = { .commit = lld_commit };
	int i;

	world.shost.host_lock = &world.host_lock;
	world.host.shost = &world.shost;
	world.host.lld = set.batch ? &with_doorbell : &silent;
	world.host.core = &world.core;
	world.host.hwq = world.hwqs;
	world.host.nr_hwqs = set.hwqs;
	world.core.host = &world.host;
	INIT_LIST_HEAD(&world.core.hold.lists);
	world.core.dispatch = dispatch_list;
	for (i = 0; i < set.hwqs; i++) {
		world.hwqs[i] = &world.hwq[i];
		world.hctx[i].queue_num = i;
		world.hwq[i].host = &world.host;
		world.hwq[i].core = &world.hwq_core[i];
		world.hwq[i].index = i;
		world.hwq_core[i].hwq = &world.hwq[i];
		world.hwq_core[i].move.open = true;
		hold_begin(&world.hwq_core[i].refused, refused_dispatch);
	}
	world.sdev.request_queue = &world.queue;
	world.sdev.queue_ramp_up_period = !set.grow;
	world.lun.sdev = &world.sdev;
	world.lun.depth.depth = set.depth;
	world.lun.depth.max = set.depth;
	world.lun.depth.limit = set.learn ? 1 : set.depth;
	hold_begin(&world.lun.depth.wait, smq_wait_dispatch_lun);
	policy_begin();
	for (i = 0; i < nr_cmds; i++) {
		struct command *command = &world.command[i];
		int t;

		command->scmd.device = &world.sdev;
		command->scmd.submitter = SUBMITTED_BY_BLOCK_LAYER;
		command->scmd.rq.q = &world.queue;
		command->scmd.rq.tag = i;
		INIT_LIST_HEAD(&command->cmd.node);
		for (t = 0; t < what.nr; t++) {
			int arg = what.threads[t].arg;

			if (what.threads[t].run == submitter && i >= (arg & 15) &&
			    i < (arg & 15) + (arg >> 4 & 15))
				command->scmd.rq.mq_hctx = &world.hctx[arg >> 8];
		}
	}
	world.queue_depth = CMDS;
	world.refusals = set.busy;
	world.refusals_alone = set.alone;
	world.device_refusals = set.device_busy;
	world.fulls = set.full;
	world.at_once = set.at_once;
}

/* Checks what must be true when all threads have ended or wait for ever. */
static void end(void)
{
	int i;

	for (i = 0; world.holds[i]; i++)
		EXPLORE_EXPECT(!world.holds[i]->nr && list_empty(&world.holds[i]->cmds) &&
			       !world.holds[i]->bytes);
	for (i = 0; i < nr_cmds; i++)
		EXPLORE_EXPECT(world.ended[i] == 1);
	for (i = 0; i < nr_cmds; i++)
		EXPLORE_EXPECT(world.command[i].cmd.state.counter == SMQ_FREE);
	EXPLORE_EXPECT(!world.nr_lld);
	EXPLORE_EXPECT(!world.lun.depth.inflight.counter);
	EXPLORE_EXPECT(!world.policy.refs.count && !world.own_policy.refs.count);
	for (i = 0; i < set.hwqs; i++) {
		const struct steer_hwq *steer = (void *)world.policy_hwq[i].head.priv;

		EXPLORE_EXPECT(!world.hwq_core[i].move.foreign.counter);
		EXPLORE_EXPECT(!(world.hwq[i].detour & BIT(SMQ_DETOUR_FULL)));
		EXPLORE_EXPECT(steer->queued.counter == steer->done.counter);
		EXPLORE_EXPECT(steer->choice.trying <= SMQ_STEER_WINDOW);
		EXPLORE_EXPECT(steer->choice.credit <= SMQ_STEER_TRIAL);
		EXPLORE_EXPECT(steer->choice.judged == steer->steered);
	}
}

static const struct explore_option options[] = {
	{ "depth", &set.depth }, { "busy", &set.busy }, { "device_busy", &set.device_busy },
	{ "full", &set.full }, { "grow", &set.grow }, { "hwqs", &set.hwqs },
	{ "threshold", &set.threshold }, { "on", &set.on }, { "trying", &set.trying },
	{ "at_once", &set.at_once }, { "enter", &set.enter }, { "ring", &set.ring },
	{ "timer", &set.timer }, { "waited", &set.waited }, { "alone", &set.alone },
	{ "batch", &set.batch }, { "later", &set.later },
	{ "plug", &set.plug },
	{ "inactive", &set.inactive }, { "learn", &set.learn },
};

static bool parse_option(const char *word)
{
	if (!strncmp(word, "policy=", 7)) {
		set.policy = word + 7;
		return true;
	}
	return set_option(word, options, sizeof(options) / sizeof(*options));
}

static bool parse_thread(const char *word)
{
	int nr, hwq = 0;

	if (sscanf(word, "s%d@%d", &nr, &hwq) >= 1) {
		thread(submitter, nr_cmds | nr << 4 | hwq << 8);
		nr_cmds += nr;
	} else if (sscanf(word, "abort=%d", &nr) == 1) {
		thread(aborter, nr);
	} else if (!strcmp(word, "reset")) {
		thread(resetter, 0);
	} else if (!strcmp(word, "reset=other")) {
		thread(resetter, 1);
	} else if (!strcmp(word, "choose")) {
		thread(chooser, 0);
	} else if (!strcmp(word, "scan")) {
		thread(scanner, 0);
	} else if (!strcmp(word, "switch")) {
		thread(switcher, 0);
	} else if (sscanf(word, "show=%d", &nr) == 1) {
		thread(shower, nr);
	} else if (!strcmp(word, "offline")) {
		thread(offliner, 1);
	} else {
		return false;
	}
	return true;
}

static bool parse(const char *word)
{
	return parse_option(word) || parse_thread(word);
}

int main(int argc, char **argv)
{
	int i;

	what.shared = &world;
	what.size = sizeof(world);
	what.begin = begin;
	what.end = end;
	read_words(argc, argv, parse);
	for (i = 0; i < nr_cmds; i++)
		thread(completer, i)->idle = true;
	thread(worker, 0)->idle = true;
	return explore_all();
}
