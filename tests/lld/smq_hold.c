// SPDX-License-Identifier: GPL-2.0
/*
 * smq_hold: an LLD for the tests. It completes each READ and WRITE after a settable time, or never,
 * counts its commands in flight, and fails aborts and resets on demand. It stores no data: READ
 * returns zeroes, WRITE is ignored.
 *
 * All settings are in /sys/module/smq_hold/parameters/.
 */
#define pr_fmt(fmt) "smq_hold: " fmt

#include <linux/delay.h>
#include <linux/device.h>
#include <linux/hrtimer.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/scatterlist.h>
#include <linux/sizes.h>
#include <linux/string.h>
#include <scsi/scsi_proto.h>
#include <smq/lld.h>

static unsigned int depth = 16;
module_param(depth, uint, 0444);
MODULE_PARM_DESC(depth, "commands per hardware queue, and the LUNs' queue_depth");

static unsigned int luns = 1;
module_param(luns, uint, 0444);
MODULE_PARM_DESC(luns, "number of LUNs");

static unsigned int cmd_per_lun;
module_param(cmd_per_lun, uint, 0444);
MODULE_PARM_DESC(cmd_per_lun, "the LUNs' first queue_depth, less than depth; 0: depth");

static unsigned int hw_queues = 2;
module_param(hw_queues, uint, 0444);
MODULE_PARM_DESC(hw_queues, "number of hardware queues");

static unsigned int delay_us = 1000;
module_param(delay_us, uint, 0644);
MODULE_PARM_DESC(delay_us, "time from the start of a command to its completion, in us");

static bool in_commit;
module_param(in_commit, bool, 0444);
MODULE_PARM_DESC(in_commit, "start commands in commit, not one by one in queue_cmd");

static unsigned int doorbell_us;
module_param(doorbell_us, uint, 0644);
MODULE_PARM_DESC(doorbell_us, "CPU time that a commit which starts commands costs, in us");

static unsigned int lun_depth;
module_param(lun_depth, uint, 0644);
MODULE_PARM_DESC(lun_depth, "queue_depth of LUNs that are configured later; 0: unchanged");

static unsigned int lun_segments;
module_param(lun_segments, uint, 0644);
MODULE_PARM_DESC(lun_segments, "max_segments of LUNs that are configured later; 0: as the host");

static bool no_lun;
module_param(no_lun, bool, 0644);
MODULE_PARM_DESC(no_lun, "lun_configure fails, so that the mid-layer drops the LUN");

static int refuse_hwq = -1;
module_param(refuse_hwq, int, 0644);
MODULE_PARM_DESC(refuse_hwq, "the only hardware queue that refuses commands and has a ring; -1: all");

static unsigned int ring = UINT_MAX;
module_param(ring, uint, 0644);
MODULE_PARM_DESC(ring, "number of commands that a hardware queue has room for");

/* While this is set, hold_rw() refuses all commands. See hold_set_closed(). */
static bool closed;

static unsigned int result;
module_param(result, uint, 0644);
MODULE_PARM_DESC(result, "status | host byte << 16 of the next \"answer\" commands");

static unsigned int resid;
module_param(resid, uint, 0644);
MODULE_PARM_DESC(resid, "residual of the next \"answer\" commands, in bytes");

static unsigned int sense;
module_param(sense, uint, 0644);
MODULE_PARM_DESC(sense, "sense data of the next \"answer\" commands: descriptor format << 24 | key << 16 | ASC << 8 | ASCQ; 0: none");

/* Number of calls of commit that started commands. */
static atomic_t commits = ATOMIC_INIT(0);

static bool fail_abort;
module_param(fail_abort, bool, 0644);
MODULE_PARM_DESC(fail_abort, "the abort fails");

static bool race_abort;
module_param(race_abort, bool, 0644);
MODULE_PARM_DESC(race_abort, "the abort of a lost command competes with its completion");

static bool fail_lun_reset;
module_param(fail_lun_reset, bool, 0644);
MODULE_PARM_DESC(fail_lun_reset, "the LUN reset fails");

static bool fail_target_reset;
module_param(fail_target_reset, bool, 0644);
MODULE_PARM_DESC(fail_target_reset, "the target reset fails");

static bool fail_host_reset;
module_param(fail_host_reset, bool, 0644);
MODULE_PARM_DESC(fail_host_reset, "the host reset takes all commands back, but returns an error");

static unsigned int room_ms;
module_param(room_ms, uint, 0644);
MODULE_PARM_DESC(room_ms, "time from opening the LUNs to smq_lun_room(), in ms");

static unsigned int reset_ms;
module_param(reset_ms, uint, 0644);
MODULE_PARM_DESC(reset_ms, "duration of a LUN reset, in ms");

/* Number of LUN resets that run now; number of commands that the LLD got while one ran. */
static atomic_t resetting = ATOMIC_INIT(0);
static atomic_t in_reset = ATOMIC_INIT(0);
/* Number of faults of the layer: LUN resets after lun_exit, lun_exit calls during a LUN reset. */
static atomic_t lun_gone = ATOMIC_INIT(0);
/* How many of the next commands end with CHECK CONDITION and no sense data. */
static atomic_t no_sense = ATOMIC_INIT(0);
/* How many of the next commands end with "result", "resid" and "sense". */
static atomic_t answer = ATOMIC_INIT(0);
/*
 * How many of the next commands are never completed. None that the mid-layer repeats: it would not
 * abort that again, but reset the LUN.
 */
static atomic_t lose = ATOMIC_INIT(0);
/* How many of the next commands the LLD refuses, as if it had no resources: SMQ_HOST_BUSY. */
static atomic_t refuse = ATOMIC_INIT(0);
/* How many commands the LLD has now, and the most that it has had. */
static atomic_t inflight = ATOMIC_INIT(0);
static atomic_t max_inflight = ATOMIC_INIT(0);

static int hold_set_atomic(const char *val, const struct kernel_param *kp)
{
	int n, err = kstrtoint(val, 0, &n);

	if (!err)
		atomic_set(kp->arg, n);
	return err;
}

static int hold_get_atomic(char *buf, const struct kernel_param *kp)
{
	return sysfs_emit(buf, "%d\n", atomic_read((atomic_t *)kp->arg));
}

static const struct kernel_param_ops hold_atomic_ops = {
	.set = hold_set_atomic,
	.get = hold_get_atomic,
};
module_param_cb(lose, &hold_atomic_ops, &lose, 0644);
module_param_cb(refuse, &hold_atomic_ops, &refuse, 0644);
module_param_cb(answer, &hold_atomic_ops, &answer, 0644);
module_param_cb(no_sense, &hold_atomic_ops, &no_sense, 0644);
module_param_cb(resetting, &hold_atomic_ops, &resetting, 0444);
module_param_cb(in_reset, &hold_atomic_ops, &in_reset, 0444);
module_param_cb(lun_gone, &hold_atomic_ops, &lun_gone, 0444);
module_param_cb(inflight, &hold_atomic_ops, &inflight, 0444);
module_param_cb(commits, &hold_atomic_ops, &commits, 0644);
module_param_cb(max_inflight, &hold_atomic_ops, &max_inflight, 0644);

struct hold_cmd {
	struct hrtimer timer;
	bool lost;
};

struct hold_hwq {
	spinlock_t lock;	/* protects batch: commands waiting for commit */
	struct list_head batch;
	atomic_t nr;		/* commands on this queue; any CPU may change it */
};

#define HOLD_SECTORS	(SZ_64M / 512)

/* Counts a command that leaves the device. */
static void hold_count_end(struct smq_hwq *hwq)
{
	struct hold_hwq *hq = smq_hwq_priv(hwq);

	atomic_dec(&inflight);
	atomic_dec(&hq->nr);
}

static void hold_put(struct smq_cmd *cmd)
{
	hold_count_end(cmd->hwq);
	smq_cmd_done(cmd);
}

static enum hrtimer_restart hold_timer(struct hrtimer *timer)
{
	struct hold_cmd *hold = container_of(timer, struct hold_cmd, timer);

	hold_put(container_of((void *)hold, struct smq_cmd, priv));
	return HRTIMER_NORESTART;
}

static void hold_init_cmd(struct smq_cmd *cmd)
{
	struct hold_cmd *hold = smq_cmd_priv(cmd);

	hrtimer_setup(&hold->timer, hold_timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
}

static int hold_init_hwq(struct smq_hwq *hwq)
{
	struct hold_hwq *hq = smq_hwq_priv(hwq);

	spin_lock_init(&hq->lock);
	INIT_LIST_HEAD(&hq->batch);
	return 0;
}

/* Decrements a count; returns false if it was 0. */
static bool hold_take(atomic_t *count)
{
	return atomic_dec_if_positive(count) >= 0;
}

static void hold_start(struct smq_cmd *cmd)
{
	struct hold_cmd *hold = smq_cmd_priv(cmd);

	if (!hold->lost)
		hrtimer_start(&hold->timer, ns_to_ktime(delay_us * 1000ULL), HRTIMER_MODE_REL);
}

/* Takes room in a hardware queue. Returns false if the queue has a ring, and the ring is full. */
static bool hold_reserve(struct hold_hwq *hq, bool has_ring)
{
	if (atomic_inc_return(&hq->nr) <= READ_ONCE(ring) || !has_ring)
		return true;
	atomic_dec(&hq->nr);
	return false;
}

static void hold_answer(struct scsi_cmnd *scmd)
{
	if (sense)
		scsi_build_sense(scmd, sense >> 24, sense >> 16 & 0xf, sense >> 8 & 0xff,
				 sense & 0xff);
	scmd->result |= result;
	scsi_set_resid(scmd, resid);
}

static enum smq_status hold_rw(struct smq_hwq *hwq, struct smq_cmd *cmd)
{
	struct scsi_cmnd *scmd = smq_cmd_to_scmd(cmd);
	struct hold_hwq *hq = smq_hwq_priv(hwq);
	struct hold_cmd *hold = smq_cmd_priv(cmd);
	bool chosen = refuse_hwq < 0 || refuse_hwq == (int)hwq->index;
	int now, max;

	if (READ_ONCE(closed))
		return SMQ_DEVICE_BUSY;
	if (chosen && hold_take(&refuse))
		return SMQ_HOST_BUSY;
	if (!hold_reserve(hq, chosen))
		return SMQ_HWQ_BUSY;
	if (scmd->sc_data_direction == DMA_FROM_DEVICE)
		sg_zero_buffer(scsi_sglist(scmd), scsi_sg_count(scmd), scsi_bufflen(scmd), 0);
	scmd->result = hold_take(&no_sense) ? SAM_STAT_CHECK_CONDITION : SAM_STAT_GOOD;
	if (hold_take(&answer))
		hold_answer(scmd);

	now = atomic_inc_return(&inflight);
	for (max = atomic_read(&max_inflight); now > max; max = atomic_read(&max_inflight))
		atomic_cmpxchg(&max_inflight, max, now);

	hold->lost = !scmd->retries && hold_take(&lose);
	if (in_commit) {
		spin_lock(&hq->lock);
		list_add_tail(&cmd->node, &hq->batch);
		spin_unlock(&hq->lock);
	} else {
		hold_start(cmd);
	}
	return SMQ_QUEUED;
}

static void hold_commit(struct smq_hwq *hwq)
{
	struct hold_hwq *hq = smq_hwq_priv(hwq);
	struct smq_cmd *cmd;

	if (!in_commit || list_empty_careful(&hq->batch))
		return;
	atomic_inc(&commits);
	/* udelay() does not work for more than 250 ms. */
	mdelay(doorbell_us / 1000);
	udelay(doorbell_us % 1000);
	spin_lock(&hq->lock);
	while ((cmd = list_first_entry_or_null(&hq->batch, struct smq_cmd, node))) {
		list_del_init(&cmd->node);
		hold_start(cmd);
	}
	spin_unlock(&hq->lock);
}

static enum smq_status hold_data(struct scsi_cmnd *scmd, const void *data, unsigned int len)
{
	len = min(len, scsi_bufflen(scmd));
	sg_copy_from_buffer(scsi_sglist(scmd), scsi_sg_count(scmd), data, len);
	scsi_set_resid(scmd, scsi_bufflen(scmd) - len);
	scmd->result = SAM_STAT_GOOD;
	return SMQ_DONE;
}

static enum smq_status hold_queue_cmd(struct smq_hwq *hwq, struct smq_cmd *cmd)
{
	static const u8 inquiry[36] = "\0\0\5\2\37\0\0\2SMQ     HOLD            1";
	struct scsi_cmnd *scmd = smq_cmd_to_scmd(cmd);
	__be32 capacity[2] = { cpu_to_be32(HOLD_SECTORS - 1), cpu_to_be32(512) };

	if (atomic_read(&resetting))
		atomic_inc(&in_reset);
	switch (scmd->cmnd[0]) {
	case READ_10:
	case WRITE_10:
	case SYNCHRONIZE_CACHE:
		return hold_rw(hwq, cmd);
	case INQUIRY:
		if (scmd->cmnd[1] & 1)
			break;
		return hold_data(scmd, inquiry, sizeof(inquiry));
	case READ_CAPACITY:
		return hold_data(scmd, capacity, sizeof(capacity));
	case TEST_UNIT_READY:
		scmd->result = SAM_STAT_GOOD;
		return SMQ_DONE;
	}
	scsi_build_sense(scmd, 0, ILLEGAL_REQUEST, 0x20, 0);
	return SMQ_DONE;
}

/* Takes a command back from the device: afterwards its timer does not run and will not start. */
static void hold_forget(struct smq_hwq *hwq, struct smq_cmd *cmd)
{
	struct hold_cmd *hold = smq_cmd_priv(cmd);
	struct hold_hwq *hq = smq_hwq_priv(hwq);

	spin_lock(&hq->lock);
	list_del_init(&cmd->node);
	spin_unlock(&hq->lock);
	if (hrtimer_cancel(&hold->timer) || hold->lost)
		hold_count_end(hwq);
	hold->lost = false;
}

static int hold_abort(struct smq_hwq *hwq, struct smq_cmd *cmd)
{
	struct hold_cmd *hold = smq_cmd_priv(cmd);

	if (fail_abort)
		return -EIO;
	if (race_abort && hold->lost) {
		/* The timer may complete the command on another CPU at any moment. */
		hold->lost = false;
		hrtimer_start(&hold->timer, ns_to_ktime(50000), HRTIMER_MODE_REL);
		while (hrtimer_active(&hold->timer) && atomic_read(&cmd->state) == SMQ_OWNED)
			cpu_relax();
	}
	hold_forget(hwq, cmd);
	return 0;
}

struct hold_match {
	struct scsi_device *sdev;
	struct scsi_target *starget;
};

static bool hold_forget_one(struct request *rq, void *data)
{
	struct scsi_cmnd *scmd = blk_mq_rq_to_pdu(rq);
	struct smq_cmd *cmd = smq_scmd_to_cmd(scmd);
	const struct hold_match *match = data;

	if ((!match->sdev || match->sdev == scmd->device) &&
	    (!match->starget || match->starget == scsi_target(scmd->device)) &&
	    atomic_read(&cmd->state) == SMQ_OWNED)
		hold_forget(cmd->hwq, cmd);
	return true;
}

static int hold_lun_reset(struct smq_host *host, struct scsi_device *sdev)
{
	struct hold_match match = { .sdev = sdev };

	if (!sdev->hostdata)
		atomic_inc(&lun_gone);
	if (fail_lun_reset)
		return -EIO;
	atomic_inc(&resetting);
	msleep(reset_ms);
	atomic_dec(&resetting);
	blk_mq_tagset_busy_iter(&host->shost->tag_set, hold_forget_one, &match);
	return 0;
}

static int hold_lun_configure(struct smq_host *host, struct scsi_device *sdev,
			      struct queue_limits *lim)
{
	if (no_lun)
		return -ENXIO;
	if (lun_segments)
		lim->max_segments = lun_segments;
	if (lun_depth)
		smq_change_queue_depth(sdev, lun_depth);
	return 0;
}

static void hold_lun_exit(struct smq_host *host, struct scsi_device *sdev)
{
	if (atomic_read(&resetting))
		atomic_inc(&lun_gone);
}

static int hold_target_reset(struct smq_host *host, struct scsi_target *starget)
{
	struct hold_match match = { .starget = starget };

	if (fail_target_reset)
		return -EIO;
	blk_mq_tagset_busy_iter(&host->shost->tag_set, hold_forget_one, &match);
	return 0;
}

static int hold_host_reset(struct smq_host *host)
{
	struct hold_match match = {};

	blk_mq_tagset_busy_iter(&host->shost->tag_set, hold_forget_one, &match);
	return fail_host_reset ? -EIO : 0;
}

static const struct smq_lld hold_lld = {
	.name		= "smq_hold",
	.cmd_size	= sizeof(struct hold_cmd),
	.hwq_size	= sizeof(struct hold_hwq),
	.max_cmd_len	= 16,
	.sg_tablesize	= 128,
	.max_sectors	= 2048,
	.any_hwq	= true,
	.init_cmd	= hold_init_cmd,
	.init_hwq	= hold_init_hwq,
	.queue_cmd	= hold_queue_cmd,
	.commit		= hold_commit,
	.abort		= hold_abort,
	.lun_reset	= hold_lun_reset,
	.target_reset	= hold_target_reset,
	.host_reset	= hold_host_reset,
	.lun_configure	= hold_lun_configure,
	.lun_exit	= hold_lun_exit,
};

SMQ_LLD_TEMPLATE(hold_template, hold_lld);

static struct device *hold_root;
static struct smq_host *hold_host;
/* Protects hold_host. Set-up, hold_set_closed(), and both ways of removal use it. */
static DEFINE_MUTEX(hold_lock);

static void hold_remove(void)
{
	mutex_lock(&hold_lock);
	if (hold_host) {
		smq_host_remove(hold_host);
		smq_host_free(hold_host);
		hold_host = NULL;
	}
	mutex_unlock(&hold_lock);
}

static int hold_set_remove(const char *val, const struct kernel_param *kp)
{
	hold_remove();
	return 0;
}

static const struct kernel_param_ops hold_remove_ops = {
	.set = hold_set_remove,
};
module_param_cb(remove, &hold_remove_ops, NULL, 0200);
MODULE_PARM_DESC(remove, "write any value to remove the host, even with commands in flight");

/* Closes the LUNs to commands, or opens them again and calls smq_lun_room(). */
static int hold_set_closed(const char *val, const struct kernel_param *kp)
{
	struct scsi_device *sdev;
	int err;

	mutex_lock(&hold_lock);
	err = param_set_bool(val, kp);
	if (!err && !closed && hold_host) {
		shost_for_each_device(sdev, hold_host->shost) {
			msleep(room_ms);
			smq_lun_room(sdev);
		}
	}
	mutex_unlock(&hold_lock);
	return err;
}

static const struct kernel_param_ops hold_closed_ops = {
	.set = hold_set_closed,
	.get = param_get_bool,
};
module_param_cb(closed, &hold_closed_ops, &closed, 0644);

static int __init hold_add(void)
{
	const struct smq_host_config cfg = {
		.hw_queues = hw_queues,
		.depth = depth,
		.extra = min(depth, 256U),
		.max_id = 1,
		.max_lun = luns,
	};
	struct smq_host *host;
	int err;
	u64 lun;

	host = smq_host_alloc(&hold_lld, &hold_template, &cfg);
	if (IS_ERR(host))
		return PTR_ERR(host);
	if (cmd_per_lun)
		host->shost->cmd_per_lun = cmd_per_lun;
	err = smq_host_add(host, hold_root);
	if (err) {
		smq_host_free(host);
		return err;
	}
	mutex_lock(&hold_lock);
	for (lun = 0; lun < luns; lun++)
		scsi_add_device(host->shost, 0, 0, lun);
	hold_host = host;
	mutex_unlock(&hold_lock);
	return 0;
}

static int __init hold_init(void)
{
	int err;

	hold_root = root_device_register("smq_hold");
	if (IS_ERR(hold_root))
		return PTR_ERR(hold_root);
	err = hold_add();
	if (err)
		root_device_unregister(hold_root);
	return err;
}
module_init(hold_init);

static void __exit hold_exit(void)
{
	hold_remove();
	root_device_unregister(hold_root);
}
module_exit(hold_exit);

MODULE_DESCRIPTION("An LLD with delays and failures on demand, for the tests of smq");
MODULE_LICENSE("GPL");
