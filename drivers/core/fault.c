// SPDX-License-Identifier: GPL-2.0
/*
 * Faults on demand, for the commands of any LLD: which command gets a fault, and what happens
 * to it before the LLD gets it and after the LLD has completed it. A static branch skips all
 * of this while no host has faults.
 *
 * A dropped, lost or late command (SMQ_FAULT_DROPPED, _LOST, _TIMEOUT) is in the state
 * SMQ_WITHHELD: this file has it, and the LLD does not. Error handling takes it back by
 * smq_fault_take_back(). A late command also ends when its delay is over.
 */
#include <linux/export.h>
#include <linux/jiffies.h>
#include <linux/math64.h>
#include <linux/rcupdate.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <scsi/scsi_proto.h>
#include <smq/rw_cdb.h>

#include "core.h"

struct static_key_false smq_faults = STATIC_KEY_FALSE_INIT;
EXPORT_SYMBOL_GPL(smq_faults);

/**
 * struct smq_fault_hit - a command that got a fault
 * @node: in smq_host_faults.hits, under its lock
 * @cmd: the command
 * @kind: the fault
 * @due: for SMQ_FAULT_TIMEOUT: when to complete the command, in jiffies
 * @blocks: original number of blocks in the CDB; this field and the following ones are for
 *	SMQ_FAULT_SHORT
 * @length: original length of the buffer, in bytes
 * @nents: original number of scatterlist entries
 * @last: the scatterlist entry in which the first half ends
 * @last_length: original length of that entry
 * @last_is_end: that entry was the last one of the list
 *
 * Lifetime: until the command ends, is returned to the mid-layer, or error handling takes it back.
 */
struct smq_fault_hit {
	struct list_head node;
	struct smq_cmd *cmd;
	enum smq_fault_kind kind;
	unsigned long due;
	u32 blocks;
	u32 length;
	unsigned int nents;
	struct scatterlist *last;
	unsigned int last_length;
	bool last_is_end;
};

static struct smq_host_faults *smq_cmd_faults(const struct smq_cmd *cmd)
{
	return &cmd->hwq->host->core->faults;
}

/* Whether the layer, not the LLD, injects this kind of fault. */
static bool smq_fault_by_layer(unsigned int kind)
{
	return kind != SMQ_FAULT_NONE && kind < SMQ_FAULT_LLD;
}

/*
 * Turns the static branch on before a command of the host gets a fault. It stays on until the
 * host is removed: commands with a fault may be under way until then.
 */
static void smq_faults_update(struct smq_host_faults *faults)
{
	lockdep_assert_held(&faults->lock);
	if (faults->on || !smq_fault_by_layer(READ_ONCE(faults->settings->kind)))
		return;
	static_branch_inc(&smq_faults);
	WRITE_ONCE(faults->on, true);
}

void smq_fault_changed(struct smq_host *host)
{
	struct smq_host_faults *faults = &host->core->faults;

	mutex_lock(&faults->lock);
	if (faults->running) {
		smq_faults_update(faults);
		if (host->lld->faults)
			host->lld->faults->changed(host);
	}
	mutex_unlock(&faults->lock);
}
EXPORT_SYMBOL_GPL(smq_fault_changed);

void smq_fault_use(struct smq_host *host, struct smq_fault *fault)
{
	host->core->faults.settings = fault;
}
EXPORT_SYMBOL_GPL(smq_fault_use);

struct smq_fault *smq_host_fault(struct smq_host *host)
{
	return host->core->faults.settings;
}
EXPORT_SYMBOL_GPL(smq_host_fault);

void smq_fault_init(struct smq_fault *fault)
{
	memset(fault, 0, sizeof(*fault));
	fault->every = 1;
	fault->last_lba = U64_MAX;
	fault->status = SAM_STAT_BUSY;
	fault->sense = MEDIUM_ERROR << 16 | 0x11 << 8;	/* UNRECOVERED READ ERROR */
	fault->delay_ms = 60000;
}
EXPORT_SYMBOL_GPL(smq_fault_init);

bool smq_fault_count_down(atomic_t *count)
{
	int old = atomic_read(count);

	do {
		if (old <= 0)
			return old < 0;
	} while (!atomic_try_cmpxchg(count, &old, old - 1));
	return true;
}
EXPORT_SYMBOL_GPL(smq_fault_count_down);

/* Only READ and WRITE match, so that other commands can be used to examine the device. */
static bool smq_fault_matches(const struct smq_fault *fault, const u8 *cdb)
{
	u32 blocks;
	u64 lba;

	if (!smq_is_read(cdb) && !smq_is_write(cdb))
		return false;
	smq_decode_rw(cdb, &lba, &blocks);
	return blocks && lba <= READ_ONCE(fault->last_lba) &&
	       lba + blocks - 1 >= READ_ONCE(fault->first_lba);
}

bool smq_fault_hits(struct smq_fault *fault, const struct scsi_cmnd *scmd)
{
	u32 every = READ_ONCE(fault->every), rem;

	if (!every || !smq_fault_matches(fault, scmd->cmnd))
		return false;
	div_u64_rem(atomic64_inc_return(&fault->seen), every, &rem);
	if (rem || !smq_fault_count_down(&fault->count))
		return false;
	atomic64_inc(&fault->injected);
	return true;
}
EXPORT_SYMBOL_GPL(smq_fault_hits);

/* Corrects the counts for a fault that was counted, but not injected. */
static void smq_fault_uncount(struct smq_fault *fault)
{
	int old = atomic_read(&fault->count);

	while (old >= 0 && !atomic_try_cmpxchg(&fault->count, &old, old + 1))
		;
	atomic64_dec(&fault->injected);
}

static struct smq_fault_hit *smq_fault_find(struct smq_host_faults *faults,
					    const struct smq_cmd *cmd)
{
	struct smq_fault_hit *hit;

	lockdep_assert_held(&faults->hits_lock);
	list_for_each_entry(hit, &faults->hits, node) {
		if (hit->cmd == cmd)
			return hit;
	}
	return NULL;
}

/* Shortens the buffer to @length bytes, at least 1. */
static void smq_fault_cut(struct smq_fault_hit *hit, struct scsi_data_buffer *sdb, u32 length)
{
	struct scatterlist *sg;
	unsigned int i;
	u32 left = length;

	for_each_sg(sdb->table.sgl, sg, sdb->table.nents, i) {
		if (left <= sg->length)
			break;
		left -= sg->length;
	}
	hit->nents = sdb->table.nents;
	hit->last = sg;
	hit->last_length = sg->length;
	hit->last_is_end = sg_is_last(sg);
	sdb->length = length;
	sdb->table.nents = i + 1;
	sg->length = left;
	sg_mark_end(sg);
}

/* Undoes smq_fault_halve(): restores the CDB and the buffer. */
static void smq_fault_mend(struct smq_fault_hit *hit, struct scsi_cmnd *scmd)
{
	struct scsi_data_buffer *sdb = &scmd->sdb;

	smq_encode_rw_blocks(scmd->cmnd, hit->blocks);
	sdb->length = hit->length;
	sdb->table.nents = hit->nents;
	hit->last->length = hit->last_length;
	if (!hit->last_is_end)
		sg_unmark_end(hit->last);
}

/*
 * Ends the fault of a command: restores CDB and buffer if they were shortened, and frees the hit.
 * Context: any; the caller owns the command.
 */
void smq_fault_forget(struct smq_cmd *cmd)
{
	struct smq_host_faults *faults = smq_cmd_faults(cmd);
	struct smq_fault_hit *hit;
	unsigned long flags;

	cmd->fault = false;
	spin_lock_irqsave(&faults->hits_lock, flags);
	hit = smq_fault_find(faults, cmd);
	list_del(&hit->node);
	spin_unlock_irqrestore(&faults->hits_lock, flags);
	if (hit->kind == SMQ_FAULT_SHORT)
		smq_fault_mend(hit, smq_cmd_to_scmd(cmd));
	kfree(hit);
}

/* Completes the late commands that are due, and queues the work item again for the others. */
static void smq_faults_late(struct work_struct *work)
{
	struct smq_host_faults *faults = container_of(to_delayed_work(work),
						      struct smq_host_faults, late);
	unsigned long next = MAX_JIFFY_OFFSET;
	struct smq_fault_hit *hit, *more;
	unsigned long now = jiffies;
	LIST_HEAD(due);

	/*
	 * One RCU read-side section from taking the command to scsi_done(), as in smq_cmd_done().
	 */
	rcu_read_lock();
	spin_lock_irq(&faults->hits_lock);
	list_for_each_entry_safe(hit, more, &faults->hits, node) {
		if (hit->kind != SMQ_FAULT_TIMEOUT ||
		    atomic_read(&hit->cmd->state) != SMQ_WITHHELD)
			continue;
		if (time_before(now, hit->due)) {
			next = min(next, hit->due - now);
			continue;
		}
		atomic_set(&hit->cmd->state, SMQ_FREE);
		hit->cmd->fault = false;
		list_move_tail(&hit->node, &due);
	}
	spin_unlock_irq(&faults->hits_lock);
	list_for_each_entry_safe(hit, more, &due, node) {
		struct smq_cmd *cmd = hit->cmd;

		kfree(hit);
		faults->end(cmd);
	}
	rcu_read_unlock();
	if (next != MAX_JIFFY_OFFSET)
		queue_delayed_work(faults->host->core->wq, &faults->late, next);
}

/* Withholds a command until error handling takes it back, or a late one until its delay is over. */
static void smq_fault_withhold(struct smq_host_faults *faults, struct smq_fault_hit *hit)
{
	lockdep_assert_held(&faults->hits_lock);
	if (hit->kind == SMQ_FAULT_TIMEOUT)
		hit->due = jiffies + msecs_to_jiffies(READ_ONCE(faults->settings->delay_ms));
	atomic_set(&hit->cmd->state, SMQ_WITHHELD);
}

/*
 * Halves a command: half the blocks in the CDB, and a buffer of that length. The buffer is
 * shortened too because devices differ in how they treat a buffer that is longer than the CDB's
 * length. Returns false if half of the command would transfer nothing.
 */
static bool smq_fault_halve(struct smq_fault_hit *hit, struct scsi_cmnd *scmd)
{
	u32 block = scmd->device->sector_size, half, length;
	u64 lba;

	smq_decode_rw(scmd->cmnd, &lba, &hit->blocks);
	half = hit->blocks / 2;
	hit->length = scsi_bufflen(scmd);
	if (!block)
		block = hit->length / hit->blocks;
	length = min_t(u64, (u64)half * block, hit->length);
	if (!length)
		return false;
	smq_encode_rw_blocks(scmd->cmnd, half);
	smq_fault_cut(hit, &scmd->sdb, length);
	return true;
}

/*
 * If this kind of fault ends a command without executing it: sets the command's result, and returns
 * true.
 */
static bool smq_fault_end_now(const struct smq_fault *fault, struct scsi_cmnd *scmd,
			      enum smq_fault_kind kind)
{
	u32 sense = READ_ONCE(fault->sense);

	switch (kind) {
	case SMQ_FAULT_STATUS:
		scmd->result = READ_ONCE(fault->status);
		break;
	case SMQ_FAULT_SENSE:
		scsi_build_sense(scmd, 0, sense >> 16 & 0x0f, sense >> 8 & 0xff, sense & 0xff);
		break;
	case SMQ_FAULT_TASK_SET_FULL:
		scmd->result = SAM_STAT_TASK_SET_FULL;
		break;
	default:
		return false;
	}
	scsi_set_resid(scmd, scsi_bufflen(scmd));
	return true;
}

/*
 * Gives a command its fault before the LLD gets the command. Returns true if the LLD must not get
 * the command: then the caller returns *@st. Context: as queue_cmd.
 */
static bool smq_fault_before(struct smq_host_faults *faults, struct smq_cmd *cmd,
			     enum smq_fault_kind kind, enum smq_status *st)
{
	struct scsi_cmnd *scmd = smq_cmd_to_scmd(cmd);
	struct smq_fault_hit *hit;
	bool execute = true;

	*st = SMQ_DONE;
	if (smq_fault_end_now(faults->settings, scmd, kind))
		return true;
	hit = kzalloc(sizeof(*hit), GFP_NOWAIT | __GFP_NOWARN);
	if (!hit) {
		smq_fault_uncount(faults->settings);
		return false;
	}
	hit->cmd = cmd;
	hit->kind = kind;
	if (kind == SMQ_FAULT_SHORT && !smq_fault_halve(hit, scmd)) {
		scsi_set_resid(scmd, hit->length);
		scmd->result = SAM_STAT_GOOD;
		kfree(hit);
		return true;
	}
	cmd->fault = true;
	spin_lock_irq(&faults->hits_lock);
	list_add_tail(&hit->node, &faults->hits);
	if (kind == SMQ_FAULT_DROPPED) {
		smq_fault_withhold(faults, hit);
		execute = false;
	}
	spin_unlock_irq(&faults->hits_lock);
	*st = SMQ_QUEUED;
	return !execute;
}

enum smq_status smq_fault_queue(struct smq_hwq *hwq, struct smq_cmd *cmd)
{
	struct smq_host_faults *faults = &hwq->host->core->faults;
	struct scsi_cmnd *scmd = smq_cmd_to_scmd(cmd);
	enum smq_fault_kind kind = READ_ONCE(faults->settings->kind);
	enum smq_status st;

	if (READ_ONCE(faults->on) && smq_fault_by_layer(kind) &&
	    !(kind == SMQ_FAULT_SHORT && scsi_prot_sg_count(scmd)) &&
	    smq_fault_hits(faults->settings, scmd) && smq_fault_before(faults, cmd, kind, &st))
		return st;

	st = faults->queue_cmd(hwq, cmd);
	/* After SMQ_QUEUED the command may have ended: do not touch it. */
	if (st == SMQ_QUEUED || !cmd->fault)
		return st;
	if (st == SMQ_DONE)
		return smq_fault_after(cmd) ? SMQ_QUEUED : SMQ_DONE;
	/* Refused: the command is queued again later, perhaps without a fault. */
	smq_fault_forget(cmd);
	smq_fault_uncount(faults->settings);
	return st;
}
EXPORT_SYMBOL_GPL(smq_fault_queue);

/*
 * Called when the LLD has completed a command that has a fault. Returns true if the command is
 * withheld. Context: any, inside an RCU read-side section; the caller owns the command.
 */
bool smq_fault_after(struct smq_cmd *cmd)
{
	struct smq_host_faults *faults = smq_cmd_faults(cmd);
	struct scsi_cmnd *scmd = smq_cmd_to_scmd(cmd);
	struct smq_fault_hit *hit;
	enum smq_fault_kind kind;
	unsigned long flags;
	u32 length;

	spin_lock_irqsave(&faults->hits_lock, flags);
	hit = smq_fault_find(faults, cmd);
	kind = hit->kind;
	length = hit->length;
	/* From here on error handling may take the command back. */
	if (kind == SMQ_FAULT_LOST || kind == SMQ_FAULT_TIMEOUT)
		smq_fault_withhold(faults, hit);
	spin_unlock_irqrestore(&faults->hits_lock, flags);

	switch (kind) {
	case SMQ_FAULT_TIMEOUT:
		/* Run now: the work computes the time of its next run. */
		mod_delayed_work(faults->host->core->wq, &faults->late, 0);
		return true;
	case SMQ_FAULT_LOST:
		return true;
	case SMQ_FAULT_SHORT:
		scsi_set_resid(scmd, scsi_get_resid(scmd) + length - scsi_bufflen(scmd));
		break;
	case SMQ_FAULT_WRONG_STATUS:
		if (!scmd->result)
			scmd->result = READ_ONCE(faults->settings->status);
		break;
	default:
		break;
	}
	smq_fault_forget(cmd);
	return false;
}

/*
 * Takes a withheld command back for error handling, which then calls smq_fault_forget(). Returns
 * true if the caller now owns the command. Context: any.
 */
bool smq_fault_take_back(struct smq_cmd *cmd)
{
	struct smq_host_faults *faults;
	unsigned long flags;
	bool mine;

	if (atomic_read_acquire(&cmd->state) != SMQ_WITHHELD)
		return false;
	faults = smq_cmd_faults(cmd);
	spin_lock_irqsave(&faults->hits_lock, flags);
	mine = atomic_read(&cmd->state) == SMQ_WITHHELD;
	if (mine)
		atomic_set(&cmd->state, SMQ_FREE);
	spin_unlock_irqrestore(&faults->hits_lock, flags);
	return mine;
}

void smq_faults_init_host(struct smq_host *host,
			  enum smq_status (*queue_cmd)(struct smq_hwq *hwq, struct smq_cmd *cmd),
			  void (*end)(struct smq_cmd *cmd))
{
	struct smq_host_faults *faults = &host->core->faults;

	faults->host = host;
	faults->queue_cmd = queue_cmd;
	faults->end = end;
	smq_fault_init(&faults->builtin);
	faults->settings = &faults->builtin;
	mutex_init(&faults->lock);
	spin_lock_init(&faults->hits_lock);
	INIT_LIST_HEAD(&faults->hits);
	INIT_DELAYED_WORK(&faults->late, smq_faults_late);
}

/* Called when the host was added: its settings may already ask for faults. Context: may sleep. */
void smq_faults_start_host(struct smq_host *host)
{
	mutex_lock(&host->core->faults.lock);
	host->core->faults.running = true;
	mutex_unlock(&host->core->faults.lock);
	smq_fault_changed(host);
}

/* Called when the host has no commands left. Context: may sleep. */
void smq_faults_stop_host(struct smq_host *host)
{
	struct smq_host_faults *faults = &host->core->faults;

	cancel_delayed_work_sync(&faults->late);
	mutex_lock(&faults->lock);
	faults->running = false;
	if (faults->on)
		static_branch_dec(&smq_faults);
	faults->on = false;
	mutex_unlock(&faults->lock);
}
