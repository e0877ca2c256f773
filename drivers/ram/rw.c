// SPDX-License-Identifier: GPL-2.0
/*
 * READ and WRITE. The usual command is carried out inside queue_cmd, in one
 * pass; what is unusual about a command, or wrong with it, is left to
 * ram_execute(), which looks at everything again.
 */
#include <linux/mm.h>
#include <linux/rcupdate.h>
#include <linux/scatterlist.h>
#include <linux/string.h>
#include <scsi/scsi_proto.h>

#include "ram.h"

#ifdef CONFIG_HIGHMEM
#error "smq_ram reaches data buffers through the direct mapping"
#endif

/*
 * Moves data between the scatterlist and the store, from byte @pos of the medium
 * on. False if a hole to be written could not be filled: the command may run
 * again from its start. Context: RCU read-side section unless @may_sleep.
 */
static bool ram_copy(struct ram_lun *lun, struct scsi_cmnd *scmd, u64 pos, unsigned int len,
		     bool write, bool may_sleep)
{
	struct ram_store *store = &lun->store;
	struct scatterlist *sg = scsi_sglist(scmd);
	unsigned int done = 0;		/* of this scatterlist entry */

	while (len) {
		unsigned int n = min3(len, sg->length - done,
				      (unsigned int)(PAGE_SIZE - offset_in_page(pos)));
		void *buf = sg_virt(sg) + done;
		u64 pgno = pos >> PAGE_SHIFT;
		void *page;

		/* In process context the hole is filled before the section begins. */
		if (write && may_sleep && !ram_store_get(store, pgno, GFP_NOIO))
			return false;

		rcu_read_lock();
		page = write ? ram_store_get(store, pgno, GFP_NOWAIT) :
			       ram_store_find(store, pgno);
		if (page && write)
			memcpy(page + offset_in_page(pos), buf, n);
		else if (page)
			memcpy(buf, page + offset_in_page(pos), n);
		else if (!write)
			memset(buf, 0, n);
		rcu_read_unlock();

		if (!page && write) {
			/* UNMAP took the page at once: fill the hole again. */
			if (may_sleep)
				continue;
			return false;
		}

		pos += n;
		len -= n;
		done += n;
		if (done == sg->length) {
			sg = sg_next(sg);
			done = 0;
		}
		if (may_sleep)
			cond_resched();
	}
	return true;
}

bool ram_check_range(const struct ram_lun *lun, struct scsi_cmnd *scmd, u64 lba, u64 blocks)
{
	if (lba <= lun->nr_blocks && blocks <= lun->nr_blocks - lba)
		return true;
	/* LOGICAL BLOCK ADDRESS OUT OF RANGE */
	ram_sense(scmd, ILLEGAL_REQUEST, 0x21, 0);
	return false;
}

/* Where a command of 6, 10, 12 or 16 bytes has its LBA and length (SBC-4, 5). */
void ram_decode_rw(const u8 *cdb, u64 *lba, u32 *blocks)
{
	switch (cdb[0] >> 5) {
	case 0:
		*lba = get_unaligned_be24(cdb + 1) & 0x1fffff;
		*blocks = cdb[4] ?: 256;
		break;
	case 4:
		*lba = get_unaligned_be64(cdb + 2);
		*blocks = get_unaligned_be32(cdb + 10);
		break;
	case 5:
		*lba = get_unaligned_be32(cdb + 2);
		*blocks = get_unaligned_be32(cdb + 6);
		break;
	default:
		*lba = get_unaligned_be32(cdb + 2);
		*blocks = get_unaligned_be16(cdb + 7);
		break;
	}
}

/*
 * Any READ or WRITE, with everything checked. Less buffer than blocks moves what
 * fits, more leaves a residual.
 */
bool ram_rw(struct ram_lun *lun, struct scsi_cmnd *scmd, bool may_sleep)
{
	const u8 *cdb = scmd->cmnd;
	bool write = cdb[0] & 2;
	unsigned int len;
	u32 blocks;
	u64 lba;

	ram_decode_rw(cdb, &lba, &blocks);
	/* No protection information: RDPROTECT and WRPROTECT are 0 (SBC-4, 4.21). */
	if (cdb[0] >> 5 && cdb[1] & 0xe0) {
		ram_invalid_cdb(scmd, 1, 7);
		return true;
	}
	if (!ram_check_range(lun, scmd, lba, blocks) ||
	    !ram_dir_ok(scmd, write ? DMA_TO_DEVICE : DMA_FROM_DEVICE))
		return true;

	len = min_t(u64, (u64)blocks << lun->shift, scsi_bufflen(scmd));
	if (!lun->null && !ram_copy(lun, scmd, lba << lun->shift, len, write, may_sleep)) {
		if (!may_sleep)
			return false;
		/* SPACE ALLOCATION FAILED WRITE PROTECT (SBC-4, 4.7.3.6) */
		ram_sense(scmd, DATA_PROTECT, 0x27, 0x07);
		return true;
	}
	scsi_set_resid(scmd, scsi_bufflen(scmd) - len);
	scmd->result = SAM_STAT_GOOD;
	return true;
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
enum smq_status ram_queue_cmd(struct smq_hwq *hwq, struct smq_cmd *cmd)
{
	struct scsi_cmnd *scmd = smq_cmd_to_scmd(cmd);
	struct ram_lun *lun = ram_scmd_lun(scmd);
	const u8 *cdb = scmd->cmnd;
	bool write = cdb[0] & 2;
	struct scatterlist *sg;
	unsigned int len, off;
	u8 control;
	u32 blocks;
	void *page;
	u64 lba;

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

	len = blocks << lun->shift;
	if (unlikely(cdb[1] & 0xe0 || control & 0x04 || READ_ONCE(lun->attn) ||
		     lba >= lun->nr_blocks || blocks > lun->nr_blocks - lba ||
		     len != scsi_bufflen(scmd) || len >> lun->shift != blocks ||
		     scmd->sc_data_direction != (write ? DMA_TO_DEVICE : DMA_FROM_DEVICE)))
		return ram_queue_slow(hwq, cmd);

	if (!lun->null) {
		lba <<= lun->shift;
		off = offset_in_page(lba);
		sg = scsi_sglist(scmd);
		page = ram_store_find(&lun->store, lba >> PAGE_SHIFT);
		if (unlikely(!page || off + len > PAGE_SIZE || scsi_sg_count(scmd) != 1))
			return ram_queue_slow(hwq, cmd);
		if (write)
			memcpy(page + off, sg_virt(sg), len);
		else
			memcpy(sg_virt(sg), page + off, len);
	}
	scmd->result = SAM_STAT_GOOD;
	return ram_finish(hwq, cmd);
}

/* Deferred commands: what sleeps, and WRITEs that found no memory at once. */
enum smq_status ram_work(struct smq_hwq *hwq, struct smq_cmd *cmd)
{
	return ram_execute(cmd, true);
}

/*
 * A command leaves the list before it is completed, so it is found once. From
 * there to its completion is one RCU read-side section, for ram_abort().
 */
int ram_poll(struct smq_hwq *hwq)
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
int ram_abort(struct smq_hwq *hwq, struct smq_cmd *cmd)
{
	ram_poll(hwq);
	synchronize_rcu();
	return 0;
}
