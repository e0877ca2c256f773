// SPDX-License-Identifier: GPL-2.0
/*
 * The LLD: the operations that the layer calls. queue_cmd executes a plain READ or WRITE in one
 * pass. It leaves a command that is unusual or wrong in any way to ram_execute(), which checks
 * everything again.
 */
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/rcupdate.h>
#include <linux/scatterlist.h>
#include <linux/sizes.h>
#include <linux/string.h>
#include <scsi/scsi_proto.h>

#include "ram.h"

static int ram_init_hwq(struct smq_hwq *hwq)
{
	ram_hwq_init(hwq);
	return 0;
}

/*
 * Decides how an executed command completes: on a poll queue by the poller, elsewhere by the
 * hardware model if it is on, otherwise at once. The error handler does not poll, so its own
 * commands on a poll queue complete at once, too.
 */
static enum smq_status ram_finish(struct smq_hwq *hwq, struct smq_cmd *cmd)
{
	const struct scsi_cmnd *scmd = smq_cmd_to_scmd(cmd);
	const struct ram_lun *lun = ram_scmd_lun(scmd);
	bool polled = hwq->type == HCTX_TYPE_POLL;

	if (polled ? scmd->submitter == SUBMITTED_BY_BLOCK_LAYER :
		     test_bit(RAM_MODEL, &lun->attn))
		return ram_submit(hwq, cmd);
	ram_release(hwq, cmd);
	return SMQ_DONE;
}

static noinline enum smq_status ram_queue_slow(struct smq_hwq *hwq, struct smq_cmd *cmd)
{
	enum smq_status st;

	if (!ram_reserve(hwq, cmd))
		return SMQ_HWQ_BUSY;
	st = ram_execute(cmd, false);
	return st == SMQ_DONE ? ram_finish(hwq, cmd) : st;
}

/*
 * Executes a plain command: a READ or WRITE whose CDB has 10 or 16 bytes, and whose buffer has
 * exactly the length of its blocks. The LUN has no pending conditions, and the data lies in one
 * scatterlist entry and in one page of the store; where the store has a hole, a READ zeroes its
 * buffer. Each of these conditions costs one branch; except on poll queues the only calls are
 * memcpy and memset.
 */
static __always_inline enum smq_status ram_queue_cmd(struct smq_hwq *hwq, struct smq_cmd *cmd)
{
	struct scsi_cmnd *scmd = smq_cmd_to_scmd(cmd);
	struct ram_lun *lun = ram_scmd_lun(scmd);
	const u8 *cdb = scmd->cmnd;
	bool write = cdb[0] & 2;
	struct scatterlist *sg;
	unsigned int off;
	u8 control;
	u32 blocks;
	void *page;
	u64 lba, len;

	switch (cdb[0]) {
	case READ_10:
	case WRITE_10:
		lba = get_unaligned_be32(cdb + 2);
		blocks = get_unaligned_be16(cdb + 7);
		control = cdb[9];
		break;
	case READ_16:
	case WRITE_16:
		lba = get_unaligned_be64(cdb + 2);
		blocks = get_unaligned_be32(cdb + 10);
		control = cdb[15];
		break;
	default:
		return ram_queue_slow(hwq, cmd);
	}

	len = (u64)blocks << lun->shift;
	if (unlikely(cdb[1] & 0xe0 || control & 0x04 || READ_ONCE(lun->attn) ||
		     lba >= lun->nr_blocks || blocks > lun->nr_blocks - lba ||
		     len != scsi_bufflen(scmd) ||
		     scmd->sc_data_direction != (write ? DMA_TO_DEVICE : DMA_FROM_DEVICE)))
		return ram_queue_slow(hwq, cmd);

	scmd->result = SAM_STAT_GOOD;
	if (!lun->null) {
		lba <<= lun->shift;
		off = offset_in_page(lba);
		sg = scsi_sglist(scmd);
		page = ram_store_find(&lun->store, lba >> PAGE_SHIFT);
		if (unlikely(off + len > PAGE_SIZE || scsi_sg_count(scmd) != 1 ||
			     (write && !page)))
			return ram_queue_slow(hwq, cmd);
		if (write) {
			memcpy(page + off, sg_virt(sg), len);
		} else {
			if (page)
				memcpy(sg_virt(sg), page + off, len);
			else
				memset(sg_virt(sg), 0, len);
			ram_flush_dcache(sg_virt(sg), len);
		}
		if (unlikely(hwq->type == HCTX_TYPE_POLL))
			return ram_ready(hwq, cmd);
	}
	return SMQ_DONE;
}

static void ram_commit(struct smq_hwq *hwq)
{
	const struct ram_hwq *rq = smq_hwq_priv(hwq);

	if (!list_empty_careful(&rq->ring))
		ram_doorbell(hwq);
}

/* Executes deferred commands: those that sleep, and WRITEs that have to wait for memory. */
static enum smq_status ram_work(struct smq_hwq *hwq, struct smq_cmd *cmd)
{
	enum smq_status st = ram_execute(cmd, true);

	if (st == SMQ_DONE)
		st = ram_finish(hwq, cmd);
	/* The layer does not call commit after this, so ring the doorbell here. */
	if (st == SMQ_QUEUED)
		ram_commit(hwq);
	return st;
}

static int ram_abort(struct smq_hwq *hwq, struct smq_cmd *cmd)
{
	ram_forget(hwq, cmd);
	return 0;
}

static int ram_lun_init(struct smq_host *host, struct scsi_device *sdev)
{
	struct ram_host *ram = smq_host_priv(host);
	struct ram_lun *lun;

	xa_lock(&ram->luns);
	lun = xa_load(&ram->luns, sdev->lun);
	if (lun)
		kref_get(&lun->ref);
	xa_unlock(&ram->luns);
	/* Without a LUN 0, a scan asks an absent one for the LUNs: see smq_lun_absent(). */
	if (!lun && !sdev->lun) {
		lun = ram_lun_alloc(ram, 0, &ram_default_lun);
		if (!lun)
			return -ENOMEM;
		set_bit(RAM_ABSENT, &lun->attn);
	}
	*(struct ram_lun **)smq_lun_priv(sdev) = lun;
	return lun ? 0 : -ENXIO;
}

static void ram_lun_exit(struct smq_host *host, struct scsi_device *sdev)
{
	ram_lun_put(ram_sdev_lun(sdev));
}

/*
 * Resets the LUN @only, or all LUNs if it is NULL: takes back commands, starts stopped LUNs, sets
 * the mode parameters to their defaults and raises the unit attention @ua.
 */
static int ram_reset(struct smq_host *host, struct ram_lun *only, enum ram_attn ua)
{
	struct ram_host *ram = smq_host_priv(host);
	struct ram_lun *lun;
	unsigned long i;

	for (i = 0; i < host->nr_hwqs; i++)
		ram_forget_lun(host->hwq[i], only);
	synchronize_rcu();
	xa_lock(&ram->luns);
	xa_for_each(&ram->luns, i, lun) {
		if (only && lun != only)
			continue;
		clear_bit(RAM_STOPPED, &lun->attn);
		WRITE_ONCE(lun->caching, 0);
		set_bit(ua, &lun->attn);
	}
	xa_unlock(&ram->luns);
	return 0;
}

static int ram_lun_reset(struct smq_host *host, struct scsi_device *sdev)
{
	return ram_reset(host, ram_sdev_lun(sdev), RAM_UA_RESET);
}

static int ram_target_reset(struct smq_host *host, struct scsi_target *starget)
{
	return ram_reset(host, NULL, RAM_UA_RESET);
}

static int ram_host_reset(struct smq_host *host)
{
	return ram_reset(host, NULL, RAM_UA_POWER_ON);
}

static const struct smq_lld ram_lld = {
	.name		= "smq_ram",
	.cmd_size	= sizeof(struct ram_cmd),
	.hwq_size	= sizeof(struct ram_hwq),
	.host_size	= sizeof(struct ram_host),
	.lun_size	= sizeof(struct ram_lun *),
	.max_cmd_len	= 16,
	.sg_tablesize	= SG_MAX_SEGMENTS,
	.max_sectors	= SZ_8M >> SECTOR_SHIFT,
	.any_hwq	= true,
	.init_hwq	= ram_init_hwq,
	.exit_hwq	= ram_hwq_exit,
	.queue_cmd	= ram_queue_cmd,
	.commit		= ram_commit,
	.poll		= ram_poll,
	.work		= ram_work,
	.abort		= ram_abort,
	.lun_reset	= ram_lun_reset,
	.target_reset	= ram_target_reset,
	.host_reset	= ram_host_reset,
	.lun_init	= ram_lun_init,
	.lun_exit	= ram_lun_exit,
	.faults		= &ram_fault_kinds,
};

SMQ_LLD_TEMPLATE(ram_template, ram_lld);

struct smq_host *ram_host_alloc(const struct smq_host_config *cfg)
{
	return smq_host_alloc(&ram_lld, &ram_template, cfg);
}
