// SPDX-License-Identifier: GPL-2.0
/*
 * smq_old: an LLD for the tests, written as drivers were before multiqueue. Its entry is
 * queuecommand_lck, which the layer calls under host_lock. This lock protects its one list of
 * commands. Its error handlers take the lock themselves and complete the commands that they find.
 * It is a RAM disk of 16 MiB; a timer replaces its interrupt.
 *
 * It counts the calls of its entry that come in a wrong context. The entry can drop host_lock, as
 * some drivers did while they waited for their controller.
 */
#define pr_fmt(fmt) "smq_old: " fmt

#include <linux/delay.h>
#include <linux/device.h>
#include <linux/hrtimer.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/scatterlist.h>
#include <linux/sizes.h>
#include <linux/vmalloc.h>
#include <scsi/scsi_proto.h>
#include <smq/lld.h>

/* Where commands are completed. */
enum old_where {
	OLD_ENTRY,	/* each in its own queuecommand_lck */
	OLD_IRQ,	/* in the interrupt, without host_lock */
	OLD_IRQ_LOCKED,	/* in the interrupt, under host_lock */
	OLD_NEXT,	/* in the next queuecommand_lck, or as OLD_IRQ_LOCKED if that comes first */
};

static unsigned int where;
module_param(where, uint, 0644);
MODULE_PARM_DESC(where, "where commands complete, 0: entry, 1: interrupt, 2: interrupt with host_lock, 3: next entry");

/* What happens to a command whose entry drops host_lock. */
enum old_drop {
	DROP_THEN_START,	/* the controller gets the command after the drop */
	START_THEN_DROP,	/* the controller ends the command during the drop */
	DROP_THEN_REFUSE,	/* the entry refuses the command with refuse_with */
	DROP_THEN_COMPLETE,	/* the entry completes the command itself */
};

static unsigned int drop_how;
module_param(drop_how, uint, 0644);
MODULE_PARM_DESC(drop_how, "what happens to a command whose entry drops host_lock, 0: started after the drop, 1: started before it, 2: refused, 3: completed by the entry");

static unsigned int hw_queues = 1;
module_param(hw_queues, uint, 0444);
MODULE_PARM_DESC(hw_queues, "number of hardware queues; the layer accepts only 1");

static unsigned int entry = 1;
module_param(entry, uint, 0444);
MODULE_PARM_DESC(entry, "which entries the LLD has, 0: none, 1: queuecommand_lck, 2: also queue_cmd");

static ushort max_cmd_len = 16;
module_param(max_cmd_len, ushort, 0444);
MODULE_PARM_DESC(max_cmd_len, "bytes of the longest CDB; the layer accepts 6 to 32");

static ushort sg_tablesize = 128;
module_param(sg_tablesize, ushort, 0444);
MODULE_PARM_DESC(sg_tablesize, "most scatterlist entries; the layer accepts 1 to SG_MAX_SEGMENTS");

static bool eh_done;
module_param(eh_done, bool, 0644);
MODULE_PARM_DESC(eh_done, "the abort handler itself completes the command");

static bool fail_abort;
module_param(fail_abort, bool, 0644);
MODULE_PARM_DESC(fail_abort, "the abort fails");

/* Used under host_lock: how many commands to refuse, with which result; how many to lose. */
static unsigned int refuse;
module_param(refuse, uint, 0644);
static unsigned int refuse_with = SCSI_MLQUEUE_HOST_BUSY;
module_param(refuse_with, uint, 0644);
static unsigned int lose;
module_param(lose, uint, 0644);

/*
 * Used under host_lock. drop=N: the entry of every Nth READ or WRITE drops the lock (0: none).
 * overlaps counts the drops during which another entry ran from beginning to end. stolen counts
 * commands that the layer ended while the driver had them; with OLD_IRQ the driver also writes it
 * without the lock.
 */
static unsigned int drop;
module_param(drop, uint, 0644);
static unsigned int overlaps;
module_param(overlaps, uint, 0444);
static unsigned int stolen;
module_param(stolen, uint, 0444);

/* Protected by host_lock: number of calls of the entry, and of calls in a wrong context. */
static unsigned int entries;
module_param(entries, uint, 0444);
static unsigned int bad_context;
module_param(bad_context, uint, 0444);
/* CPUs inside the entry. Atomic, because it shows whether host_lock serialises the entries. */
static atomic_t in_entry = ATOMIC_INIT(0);

struct old_cmd {
	struct list_head list;
	bool lost;
};

struct old_host {
	struct list_head pending;	/* of old_cmd; protected by host_lock */
	struct hrtimer irq;
	/*
	 * Only one entry at a time drops host_lock, because two would wait for each other. The
	 * fields below are written under host_lock, except that OLD_IRQ clears @dropped without it.
	 * @dropped and @ended are also read without it.
	 */
	struct old_cmd *dropped;	/* the command of START_THEN_DROP, until it is completed */
	bool dropping;
	unsigned int ended;		/* how many entries have returned, or are about to */
	unsigned int rws;		/* counts READs and WRITEs, to find each drop-th */
	struct smq_host *host;
	u8 *disk;
};

#define OLD_BYTES	SZ_16M
#define OLD_DELAY_NS	50000
/* The longest time for which an entry waits with host_lock dropped. */
#define OLD_DROP_US	100000

static struct old_host *old_of(struct scsi_device *sdev)
{
	return smq_host_priv(smq_sdev_to_host(sdev));
}

static struct old_cmd *old_cmd(struct scsi_cmnd *scmd)
{
	return smq_cmd_priv(smq_scmd_to_cmd(scmd));
}

static struct scsi_cmnd *old_scmd(struct old_cmd *oc)
{
	return smq_cmd_to_scmd(container_of((void *)oc, struct smq_cmd, priv));
}

static void old_data(struct scsi_cmnd *scmd, const void *data, unsigned int len)
{
	len = min(len, scsi_bufflen(scmd));
	sg_copy_from_buffer(scsi_sglist(scmd), scsi_sg_count(scmd), data, len);
	scsi_set_resid(scmd, scsi_bufflen(scmd) - len);
}

static void old_rw(struct scsi_cmnd *scmd, u8 *disk)
{
	u64 at = get_unaligned_be32(scmd->cmnd + 2) * 512ULL;
	unsigned int len = scsi_bufflen(scmd);

	if (at + len > OLD_BYTES)
		scsi_build_sense(scmd, 0, ILLEGAL_REQUEST, 0x21, 0);
	else if (scmd->sc_data_direction == DMA_TO_DEVICE)
		sg_copy_to_buffer(scsi_sglist(scmd), scsi_sg_count(scmd), disk + at, len);
	else
		sg_copy_from_buffer(scsi_sglist(scmd), scsi_sg_count(scmd), disk + at, len);
}

/* Executes a command, as a controller would. */
static void old_execute(struct scsi_cmnd *scmd, struct old_host *old)
{
	static const u8 inquiry[36] = "\0\0\5\2\37\0\0\2SMQ     OLD             1";
	__be32 capacity[2] = { cpu_to_be32(OLD_BYTES / 512 - 1), cpu_to_be32(512) };

	scmd->result = SAM_STAT_GOOD;
	switch (scmd->cmnd[0]) {
	case READ_10:
	case WRITE_10:
		old_rw(scmd, old->disk);
		return;
	case INQUIRY:
		if (!(scmd->cmnd[1] & 1)) {
			old_data(scmd, inquiry, sizeof(inquiry));
			return;
		}
		break;
	case READ_CAPACITY:
		old_data(scmd, capacity, sizeof(capacity));
		return;
	case TEST_UNIT_READY:
		return;
	}
	scsi_build_sense(scmd, 0, ILLEGAL_REQUEST, 0x20, 0);
}

/*
 * Whether the layer has ended a command that the driver still had. If so, completing it would end
 * it twice, or end another command that now has its tag.
 */
static bool old_is_stolen(struct old_cmd *oc)
{
	struct smq_cmd *cmd = container_of((void *)oc, struct smq_cmd, priv);

	if (atomic_read(&cmd->state) != SMQ_FREE)
		return false;
	stolen++;
	return true;
}

/* Completes all commands in @ready. Called under host_lock, except for OLD_IRQ. */
static void old_complete(struct old_host *old, struct list_head *ready)
{
	struct old_cmd *oc, *next;

	list_for_each_entry_safe(oc, next, ready, list) {
		struct scsi_cmnd *scmd = old_scmd(oc);

		list_del_init(&oc->list);
		if (old_is_stolen(oc))
			continue;
		old_execute(scmd, old);
		smq_scsi_done(scmd);
		if (READ_ONCE(old->dropped) == oc)
			WRITE_ONCE(old->dropped, NULL);
	}
}

/* Moves the pending commands, except lost ones, to @ready. Called under host_lock. */
static void old_ready(struct old_host *old, struct list_head *ready)
{
	struct old_cmd *oc, *next;

	list_for_each_entry_safe(oc, next, &old->pending, list)
		if (!oc->lost)
			list_move_tail(&oc->list, ready);
}

static enum hrtimer_restart old_irq(struct hrtimer *timer)
{
	struct old_host *old = container_of(timer, struct old_host, irq);
	spinlock_t *lock = old->host->shost->host_lock;
	unsigned long flags;
	LIST_HEAD(ready);

	spin_lock_irqsave(lock, flags);
	old_ready(old, &ready);
	if (where != OLD_IRQ)
		old_complete(old, &ready);
	spin_unlock_irqrestore(lock, flags);
	old_complete(old, &ready);
	return HRTIMER_NORESTART;
}

static bool old_count_down(unsigned int *count)
{
	if (!*count)
		return false;
	(*count)--;
	return true;
}

static void old_start(struct old_host *old, struct old_cmd *oc)
{
	list_add_tail(&oc->list, &old->pending);
	if (!hrtimer_is_queued(&old->irq))
		hrtimer_start(&old->irq, OLD_DELAY_NS, HRTIMER_MODE_REL);
}

/*
 * Drops host_lock until another CPU's entry has run from beginning to end and, with
 * START_THEN_DROP, this command has been completed, but no longer than OLD_DROP_US.
 */
static void old_drop_lock(struct old_host *old, struct old_cmd *oc, unsigned int how)
	__must_hold(old->host->shost->host_lock)
{
	spinlock_t *lock = old->host->shost->host_lock;
	unsigned int waited, before = old->ended;

	old->dropping = true;
	if (how == START_THEN_DROP) {
		WRITE_ONCE(old->dropped, oc);
		old_start(old, oc);
	}
	atomic_dec(&in_entry);
	spin_unlock_irq(lock);
	for (waited = 0; waited < OLD_DROP_US; waited += 5) {
		if (READ_ONCE(old->ended) != before && !READ_ONCE(old->dropped))
			break;
		udelay(5);
	}
	spin_lock_irq(lock);
	atomic_inc(&in_entry);
	old->dropped = NULL;
	old->dropping = false;
	if (old->ended != before)
		overlaps++;
}

/*
 * If another entry has dropped host_lock with START_THEN_DROP, completes that entry's command.
 */
static void old_end_dropped(struct old_host *old)
{
	LIST_HEAD(ready);

	if (!old->dropped || list_empty(&old->dropped->list))
		return;
	list_move(&old->dropped->list, &ready);
	old_complete(old, &ready);
}

static smq_qc_t old_queuecommand_lck(struct scsi_cmnd *scmd)
{
	struct old_host *old = old_of(scmd->device);
	struct old_cmd *oc = old_cmd(scmd);
	bool rw = scmd->cmnd[0] == READ_10 || scmd->cmnd[0] == WRITE_10;
	unsigned int nth;
	smq_qc_t ret = 0;

	entries++;
	if (atomic_inc_return(&in_entry) != 1 || !irqs_disabled()) {
		bad_context++;
	} else if (spin_trylock(old->host->shost->host_lock)) {
		/* The lock was not held. */
		bad_context++;
		spin_unlock(old->host->shost->host_lock);
	}

	if (!list_empty(&oc->list)) {
		/*
		 * The layer ended an earlier command with this tag while the controller had that
		 * command.
		 */
		list_del_init(&oc->list);
		stolen++;
	}
	/* Read once: a write to the parameter may make it 0 before the division. */
	nth = READ_ONCE(drop);
	if (rw && nth && !old->dropping && ++old->rws % nth == 0) {
		unsigned int how = drop_how;

		oc->lost = false;
		old_drop_lock(old, oc, how);
		if (how == DROP_THEN_REFUSE) {
			ret = refuse_with;
		} else if (how == DROP_THEN_COMPLETE) {
			old_execute(scmd, old);
			smq_scsi_done(scmd);
		} else if (how == DROP_THEN_START) {
			old_start(old, oc);
		}
		goto out;
	}
	old_end_dropped(old);
	if (rw && old_count_down(&refuse)) {
		ret = refuse_with;
		goto out;
	}
	oc->lost = rw && old_count_down(&lose);
	if (where == OLD_NEXT) {
		LIST_HEAD(ready);

		old_ready(old, &ready);
		old_complete(old, &ready);
	}
	if (where == OLD_ENTRY && !oc->lost) {
		old_execute(scmd, old);
		smq_scsi_done(scmd);
		goto out;
	}
	old_start(old, oc);
out:
	WRITE_ONCE(old->ended, old->ended + 1);
	atomic_dec(&in_entry);
	return ret;
}

/* The error handlers that the old driver had. */

static int old_eh_abort(struct scsi_cmnd *scmd)
{
	struct old_host *old = old_of(scmd->device);
	spinlock_t *lock = old->host->shost->host_lock;

	if (fail_abort)
		return FAILED;
	spin_lock_irq(lock);
	if (!list_empty(&old_cmd(scmd)->list)) {
		list_del_init(&old_cmd(scmd)->list);
		if (eh_done) {
			scmd->result = DID_ABORT << 16;
			smq_scsi_done(scmd);
		}
	}
	spin_unlock_irq(lock);
	return SUCCESS;
}

static int old_eh_host_reset(struct old_host *old)
{
	spinlock_t *lock = old->host->shost->host_lock;
	struct old_cmd *oc, *next;

	spin_lock_irq(lock);
	list_for_each_entry_safe(oc, next, &old->pending, list) {
		list_del_init(&oc->list);
		old_scmd(oc)->result = DID_RESET << 16;
		smq_scsi_done(old_scmd(oc));
	}
	spin_unlock_irq(lock);
	return SUCCESS;
}

/* The layer's operations, which call the old handlers. */

static int old_abort(struct smq_hwq *hwq, struct smq_cmd *cmd)
{
	return old_eh_abort(smq_cmd_to_scmd(cmd)) == SUCCESS ? 0 : -EIO;
}

static int old_host_reset(struct smq_host *host)
{
	return old_eh_host_reset(smq_host_priv(host)) == SUCCESS ? 0 : -EIO;
}

static int old_lun_reset(struct smq_host *host, struct scsi_device *sdev)
{
	return old_host_reset(host);		/* there is one LUN */
}

static void old_init_cmd(struct smq_cmd *cmd)
{
	struct old_cmd *oc = smq_cmd_priv(cmd);

	INIT_LIST_HEAD(&oc->list);
}

static enum smq_status old_queue_cmd(struct smq_hwq *hwq, struct smq_cmd *cmd)
{
	return SMQ_HOST_BUSY;
}

#define OLD_LLD								\
	.name		= "smq_old",					\
	.cmd_size	= sizeof(struct old_cmd),			\
	.host_size	= sizeof(struct old_host),			\
	.max_sectors	= 1024,						\
	.init_cmd	= old_init_cmd,					\
	.abort		= old_abort,					\
	.lun_reset	= old_lun_reset,				\
	.host_reset	= old_host_reset

static struct smq_lld old_lld = {
	OLD_LLD,
	.queuecommand_lck = old_queuecommand_lck,
};

/* Two LLDs that the layer must refuse: one has no entry, the other has both. */
static struct smq_lld old_neither = {
	OLD_LLD,
};

static struct smq_lld old_both = {
	OLD_LLD,
	.queuecommand_lck = old_queuecommand_lck,
	.queue_cmd	= old_queue_cmd,
};

SMQ_LLD_TEMPLATE(old_template, old_lld);

static struct device *old_root;
static struct smq_host *old_host;

static int __init old_add(void)
{
	struct smq_lld *lld = entry == 0 ? &old_neither : entry == 1 ? &old_lld : &old_both;
	const struct smq_host_config cfg = {
		.hw_queues = hw_queues,
		.depth = 32,
		.max_id = 1,
		.max_lun = 1,
	};
	struct smq_host *host;
	struct old_host *old;
	int err = -ENOMEM;

	lld->max_cmd_len = max_cmd_len;
	lld->sg_tablesize = sg_tablesize;
	host = smq_host_alloc(lld, &old_template, &cfg);
	if (IS_ERR(host))
		return PTR_ERR(host);
	old = smq_host_priv(host);
	old->host = host;
	INIT_LIST_HEAD(&old->pending);
	hrtimer_setup(&old->irq, old_irq, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
	old->disk = vzalloc(OLD_BYTES);
	if (old->disk)
		err = smq_host_add(host, old_root);
	if (err) {
		vfree(old->disk);
		smq_host_free(host);
		return err;
	}
	scsi_add_device(host->shost, 0, 0, 0);
	old_host = host;
	return 0;
}

static int __init old_init(void)
{
	int err;

	old_root = root_device_register("smq_old");
	if (IS_ERR(old_root))
		return PTR_ERR(old_root);
	err = old_add();
	if (err)
		root_device_unregister(old_root);
	return err;
}
module_init(old_init);

static void __exit old_exit(void)
{
	struct old_host *old = smq_host_priv(old_host);

	smq_host_remove(old_host);
	hrtimer_cancel(&old->irq);
	vfree(old->disk);
	smq_host_free(old_host);
	root_device_unregister(old_root);
}
module_exit(old_exit);

MODULE_DESCRIPTION("An LLD on the legacy entry, for the tests of smq");
MODULE_LICENSE("GPL");
