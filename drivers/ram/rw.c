// SPDX-License-Identifier: GPL-2.0
/*
 * READ and WRITE of any length, with any number of scatterlist entries. A hole of the medium is a
 * page that is not allocated: READ returns zeroes for it, and WRITE allocates it.
 */
#include <linux/mm.h>
#include <linux/rcupdate.h>
#include <linux/scatterlist.h>
#include <linux/string.h>
#include <scsi/scsi_proto.h>
#include <smq/rw_cdb.h>

#include "ram.h"

#ifdef CONFIG_HIGHMEM
#error "smq_ram needs all data buffers in the kernel's direct mapping"
#endif

/*
 * Moves data between the scatterlist and the store, from byte @pos of the medium on. Returns false
 * if there was no memory to fill a hole: the caller may run the command again from its start.
 * Context: RCU read-side section unless @may_sleep.
 */
static bool ram_copy(struct ram_lun *lun, struct scsi_cmnd *scmd, u64 pos, unsigned int len,
		     bool write, bool may_sleep)
{
	struct ram_store *store = &lun->store;
	struct scatterlist *sg = scsi_sglist(scmd);
	unsigned int done = 0;		/* bytes of this scatterlist entry */

	while (len) {
		unsigned int n = min3(len, sg->length - done,
				      (unsigned int)(PAGE_SIZE - offset_in_page(pos)));
		void *buf = sg_virt(sg) + done;
		u64 pgno = pos >> PAGE_SHIFT;
		void *page;

		/* In process context fill the hole before the RCU read-side section begins. */
		if (write && may_sleep && !ram_store_get(store, pgno, RAM_GFP_WAIT))
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
		if (!write)
			ram_flush_dcache(buf, n);

		if (!page && write) {
			/* UNMAP removed the page again: fill the hole once more. */
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

/*
 * Checks and executes any READ or WRITE. If the buffer is shorter than the blocks, moves as much
 * as fits; if it is longer, sets a residual. Returns false if there was no memory and the worker
 * must execute the command again; with @may_sleep it always returns true.
 */
bool ram_rw(struct ram_lun *lun, struct scsi_cmnd *scmd, bool may_sleep)
{
	const u8 *cdb = scmd->cmnd;
	bool write = cdb[0] & 2;
	unsigned int len;
	u32 blocks;
	u64 lba;

	smq_decode_rw(cdb, &lba, &blocks);
	/* No protection information: RDPROTECT and WRPROTECT must be 0 (SBC-4, 4.21). */
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
