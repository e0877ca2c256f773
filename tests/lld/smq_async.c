// SPDX-License-Identifier: GPL-2.0
/*
 * smq_async: the smallest LLD whose commands end later. It has one disk of 16 MiB of memory. A
 * timer for each command stands for the device: after "usecs" it moves the data and "interrupts".
 * Abort and resets take commands back from the device; a real LLD tells its device, and waits.
 */
#include <linux/hrtimer.h>
#include <linux/module.h>
#include <linux/scatterlist.h>
#include <linux/sizes.h>
#include <linux/vmalloc.h>
#include <scsi/scsi_proto.h>
#include <smq/lld.h>
#include <smq/rw_cdb.h>

#define ASYNC_BLOCKS	(SZ_16M / 512)

static unsigned int usecs = 100;
module_param(usecs, uint, 0644);
MODULE_PARM_DESC(usecs, "time of each command, in microseconds");

static struct smq_host *async_host;
static u8 *async_medium;

/* The private area of a command: allocated with its tag, set up once. */
struct async_cmd {
	struct smq_cmd *cmd;
	struct hrtimer timer;
};

static unsigned int async_rw(struct scsi_cmnd *scmd)
{
	unsigned int len;
	u32 blocks;
	u64 lba;

	smq_decode_rw(scmd->cmnd, &lba, &blocks);
	if (blocks > ASYNC_BLOCKS || lba > ASYNC_BLOCKS - blocks) {
		scsi_build_sense(scmd, 0, ILLEGAL_REQUEST, 0x21, 0);
		return 0;
	}
	len = min(blocks * 512, scsi_bufflen(scmd));
	return sg_copy_buffer(scsi_sglist(scmd), scsi_sg_count(scmd), async_medium + lba * 512, len,
			      0, smq_is_write(scmd->cmnd));
}

/* Sets the result of a command, and its residual: the bytes of the buffer that were not used. */
static void async_execute(struct scsi_cmnd *scmd)
{
	static const u8 inquiry[36] = "\0\0\5\2\37\0\0\2SMQ     ASYNC           1";
	__be32 capacity[2] = { cpu_to_be32(ASYNC_BLOCKS - 1), cpu_to_be32(512) };
	unsigned int moved = 0;

	scmd->result = SAM_STAT_GOOD;
	if (smq_is_read(scmd->cmnd) || smq_is_write(scmd->cmnd))
		moved = async_rw(scmd);
	else if (scmd->cmnd[0] == INQUIRY && !(scmd->cmnd[1] & 1))
		moved = sg_copy_from_buffer(scsi_sglist(scmd), scsi_sg_count(scmd), inquiry,
					    min_t(u32, sizeof(inquiry), scsi_bufflen(scmd)));
	else if (scmd->cmnd[0] == READ_CAPACITY)
		moved = sg_copy_from_buffer(scsi_sglist(scmd), scsi_sg_count(scmd), capacity,
					    min_t(u32, sizeof(capacity), scsi_bufflen(scmd)));
	else if (scmd->cmnd[0] != TEST_UNIT_READY)
		scsi_build_sense(scmd, 0, ILLEGAL_REQUEST, 0x20, 0);
	scsi_set_resid(scmd, scsi_bufflen(scmd) - moved);
}

/* The interrupt. After smq_cmd_done() the command belongs to the layer: do not touch it. */
static enum hrtimer_restart async_irq(struct hrtimer *timer)
{
	struct smq_cmd *cmd = container_of(timer, struct async_cmd, timer)->cmd;

	async_execute(smq_cmd_to_scmd(cmd));
	smq_cmd_done(cmd);
	return HRTIMER_NORESTART;
}

static void async_init_cmd(struct smq_cmd *cmd)
{
	struct async_cmd *async = smq_cmd_priv(cmd);

	async->cmd = cmd;
	hrtimer_setup(&async->timer, async_irq, CLOCK_MONOTONIC, HRTIMER_MODE_REL_SOFT);
}

/* The command may end before hrtimer_start() has returned: do not touch it afterwards. */
static enum smq_status async_queue_cmd(struct smq_hwq *hwq, struct smq_cmd *cmd)
{
	struct async_cmd *async = smq_cmd_priv(cmd);

	hrtimer_start(&async->timer, ns_to_ktime((u64)READ_ONCE(usecs) * NSEC_PER_USEC),
		      HRTIMER_MODE_REL_SOFT);
	return SMQ_QUEUED;
}

/* After the timer has ended or was stopped, nothing uses the command: so 0 is true. */
static int async_abort(struct smq_hwq *hwq, struct smq_cmd *cmd)
{
	struct async_cmd *async = smq_cmd_priv(cmd);

	hrtimer_cancel(&async->timer);
	return 0;
}

static bool async_reset_cmd(struct scsi_cmnd *scmd, void *unused)
{
	async_abort(NULL, smq_scmd_to_cmd(scmd));
	return true;
}

/* Takes all commands of the host back. The layer ends them after that. */
static int async_host_reset(struct smq_host *host)
{
	scsi_host_busy_iter(host->shost, async_reset_cmd, NULL);
	return 0;
}

/* There is one LUN. */
static int async_lun_reset(struct smq_host *host, struct scsi_device *sdev)
{
	return async_host_reset(host);
}

static const struct smq_lld async_lld = {
	.name		= "smq_async",
	.cmd_size	= sizeof(struct async_cmd),
	.max_cmd_len	= 16,
	.sg_tablesize	= 128,
	.max_sectors	= 1024,
	.init_cmd	= async_init_cmd,
	.queue_cmd	= async_queue_cmd,
	.abort		= async_abort,
	.lun_reset	= async_lun_reset,
	.host_reset	= async_host_reset,
};

SMQ_LLD_TEMPLATE(async_template, async_lld);

static int __init async_init(void)
{
	const struct smq_host_config cfg = {
		.hw_queues = num_online_cpus(), .depth = 64, .max_id = 1, .max_lun = 1,
	};
	int err;

	async_medium = vzalloc(ASYNC_BLOCKS * 512);
	if (!async_medium)
		return -ENOMEM;
	async_host = smq_host_alloc(&async_lld, &async_template, &cfg);
	if (IS_ERR(async_host)) {
		err = PTR_ERR(async_host);
		goto free_medium;
	}
	err = smq_host_add(async_host, NULL);
	if (err)
		goto free_host;
	scsi_scan_host(async_host->shost);
	return 0;

free_host:
	smq_host_free(async_host);
free_medium:
	vfree(async_medium);
	return err;
}
module_init(async_init);

/* smq_host_remove() returns when no command is left, and no CPU is in async_irq() any more. */
static void __exit async_exit(void)
{
	smq_host_remove(async_host);
	smq_host_free(async_host);
	vfree(async_medium);
}
module_exit(async_exit);

MODULE_DESCRIPTION("The smallest LLD on smq whose commands end later");
MODULE_LICENSE("GPL");
