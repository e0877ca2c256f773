// SPDX-License-Identifier: GPL-2.0
/*
 * The LLD: what smq calls. The usual READ or WRITE is carried out inside
 * queue_cmd, in one pass; what is unusual about a command, or wrong with it, is
 * left to ram_execute(), which looks at everything again.
 */
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/rcupdate.h>
#include <linux/scatterlist.h>
#include <linux/sizes.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <scsi/scsi_proto.h>

#include "ram.h"

static int ram_init_hwq(struct smq_hwq *hwq)
{
	struct ram_hwq *rq = smq_hwq_priv(hwq);

	spin_lock_init(&rq->lock);
	INIT_LIST_HEAD(&rq->done);
	return 0;
}

static noinline enum smq_status ram_wait_for_poll(struct smq_hwq *hwq, struct smq_cmd *cmd)
{
	struct ram_hwq *rq = smq_hwq_priv(hwq);

	spin_lock(&rq->lock);
	list_add_tail(&cmd->node, &rq->done);
	spin_unlock(&rq->lock);
	return SMQ_QUEUED;
}

/* On a poll queue a command waits to be found; elsewhere it is done. */
static __always_inline enum smq_status ram_finish(struct smq_hwq *hwq, struct smq_cmd *cmd)
{
	return likely(hwq->type != HCTX_TYPE_POLL) ? SMQ_DONE : ram_wait_for_poll(hwq, cmd);
}

static noinline enum smq_status ram_queue_slow(struct smq_hwq *hwq, struct smq_cmd *cmd)
{
	enum smq_status st = ram_execute(cmd, false);

	return st == SMQ_DONE ? ram_finish(hwq, cmd) : st;
}

/*
 * The plain READ or WRITE of 10 or 16 bytes that fits its buffer to the byte, of
 * a LUN that has nothing to tell, with data in one piece in one page of the
 * store: one branch for each of these, no call but memcpy.
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

	if (!lun->null) {
		lba <<= lun->shift;
		off = offset_in_page(lba);
		sg = scsi_sglist(scmd);
		page = ram_store_find(&lun->store, lba >> PAGE_SHIFT);
		if (unlikely(!page || off + len > PAGE_SIZE || scsi_sg_count(scmd) != 1))
			return ram_queue_slow(hwq, cmd);
		if (write) {
			memcpy(page + off, sg_virt(sg), len);
		} else {
			memcpy(sg_virt(sg), page + off, len);
			ram_flush_dcache(sg_virt(sg), len);
		}
	}
	scmd->result = SAM_STAT_GOOD;
	return ram_finish(hwq, cmd);
}

/* Deferred commands: what sleeps, and WRITEs that found no memory at once. */
static enum smq_status ram_work(struct smq_hwq *hwq, struct smq_cmd *cmd)
{
	return ram_execute(cmd, true);
}

/*
 * A command leaves the list before it is completed, so it is found once. From
 * there to its completion is one RCU read-side section, for ram_abort().
 */
static int ram_poll(struct smq_hwq *hwq)
{
	struct ram_hwq *rq = smq_hwq_priv(hwq);
	struct smq_cmd *cmd, *next;
	LIST_HEAD(done);
	int found = 0;

	if (list_empty_careful(&rq->done))
		return 0;
	rcu_read_lock();
	spin_lock(&rq->lock);
	list_splice_init(&rq->done, &done);
	spin_unlock(&rq->lock);

	list_for_each_entry_safe(cmd, next, &done, node) {
		list_del_init(&cmd->node);
		smq_cmd_done(cmd);
		found++;
	}
	rcu_read_unlock();
	return found;
}

/* Only a poll queue keeps commands: complete them, and wait for other pollers. */
static int ram_abort(struct smq_hwq *hwq, struct smq_cmd *cmd)
{
	ram_poll(hwq);
	synchronize_rcu();
	return 0;
}

static int ram_lun_init(struct smq_host *host, struct scsi_device *sdev)
{
	struct ram_host *ram = smq_host_priv(host);

	if (sdev->lun >= ram->nr_luns)
		return -ENXIO;
	sdev->hostdata = &ram->luns[sdev->lun];
	return 0;
}

/* Finishes what the poll queues hold; elsewhere nothing is ever left behind. */
static void ram_drain(struct smq_host *host)
{
	unsigned int i;

	for (i = 0; i < host->nr_hwqs; i++)
		ram_poll(host->hwq[i]);
	synchronize_rcu();
}

static int ram_lun_reset(struct smq_host *host, struct scsi_device *sdev)
{
	struct ram_lun *lun = sdev->hostdata;

	ram_drain(host);
	clear_bit(RAM_STOPPED, &lun->attn);
	set_bit(RAM_UA_RESET, &lun->attn);
	return 0;
}

static int ram_reset_all(struct smq_host *host, enum ram_attn ua)
{
	struct ram_host *ram = smq_host_priv(host);
	unsigned int i;

	ram_drain(host);
	for (i = 0; i < ram->nr_luns; i++) {
		clear_bit(RAM_STOPPED, &ram->luns[i].attn);
		set_bit(ua, &ram->luns[i].attn);
	}
	return 0;
}

static int ram_target_reset(struct smq_host *host, struct scsi_target *starget)
{
	return ram_reset_all(host, RAM_UA_RESET);
}

static int ram_host_reset(struct smq_host *host)
{
	return ram_reset_all(host, RAM_UA_POWER_ON);
}

static const struct smq_lld ram_lld = {
	.name		= "smq_ram",
	.hwq_size	= sizeof(struct ram_hwq),
	.host_size	= sizeof(struct ram_host),
	.max_cmd_len	= 16,
	.sg_tablesize	= SG_MAX_SEGMENTS,
	.max_sectors	= SZ_8M >> SECTOR_SHIFT,
	.init_hwq	= ram_init_hwq,
	.queue_cmd	= ram_queue_cmd,
	.poll		= ram_poll,
	.work		= ram_work,
	.abort		= ram_abort,
	.lun_reset	= ram_lun_reset,
	.target_reset	= ram_target_reset,
	.host_reset	= ram_host_reset,
	.lun_init	= ram_lun_init,
};

SMQ_LLD_TEMPLATE(ram_template, ram_lld);

struct smq_host *ram_host_alloc(const struct smq_host_config *cfg)
{
	return smq_host_alloc(&ram_lld, &ram_template, cfg);
}
