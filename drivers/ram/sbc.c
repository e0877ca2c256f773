// SPDX-License-Identifier: GPL-2.0
/* Block commands (SBC-4) other than READ and WRITE. */
#include <linux/mm.h>
#include <linux/rcupdate.h>
#include <linux/scatterlist.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <scsi/scsi_proto.h>
#include <smq/rw_cdb.h>

#include "ram.h"

void ram_start_stop(struct ram_lun *lun, struct scsi_cmnd *scmd)
{
	const u8 *cdb = scmd->cmnd;

	if (cdb[4] & 0xf0) {		/* POWER CONDITION: only 0 (START_VALID) */
		ram_invalid_cdb(scmd, 4, 7);
		return;
	}
	if (cdb[4] & 0x02) {		/* LOEJ: nothing to load */
		ram_invalid_cdb(scmd, 4, 1);
		return;
	}
	if (cdb[4] & 0x01)
		clear_bit(RAM_STOPPED, &lun->attn);
	else
		set_bit(RAM_STOPPED, &lun->attn);
	scmd->result = SAM_STAT_GOOD;
}

void ram_read_capacity10(struct ram_lun *lun, struct scsi_cmnd *scmd)
{
	u8 data[8];

	put_unaligned_be32(min_t(u64, lun->nr_blocks - 1, U32_MAX), data);
	put_unaligned_be32(1U << lun->shift, data + 4);
	ram_data_in(scmd, data, sizeof(data), sizeof(data));
}

void ram_read_capacity16(struct ram_lun *lun, struct scsi_cmnd *scmd)
{
	u8 data[32] = {};

	put_unaligned_be64(lun->nr_blocks - 1, data);
	put_unaligned_be32(1U << lun->shift, data + 8);
	data[14] = 0x80 | 0x40;		/* LBPME, LBPRZ */
	ram_data_in(scmd, data, sizeof(data), get_unaligned_be32(scmd->cmnd + 10));
}

void ram_sync_cache(struct ram_lun *lun, struct scsi_cmnd *scmd)
{
	u32 blocks;
	u64 lba;

	/* Check only the range (0 blocks: to the end of the medium), because there is no cache. */
	smq_decode_rw(scmd->cmnd, &lba, &blocks);
	if (ram_check_range(lun, scmd, lba, blocks))
		scmd->result = SAM_STAT_GOOD;
}

/* Compares part of one page of the medium with @buf; a hole reads as zeroes. */
static bool ram_same_part(struct ram_lun *lun, u64 pos, const void *buf, unsigned int len)
{
	void *page;
	bool same;

	rcu_read_lock();
	page = ram_store_find(&lun->store, pos >> PAGE_SHIFT);
	same = page ? !memcmp(page + offset_in_page(pos), buf, len) : !memchr_inv(buf, 0, len);
	rcu_read_unlock();
	return same;
}

/* Compares @len bytes of the medium with the data-out buffer, which is at least as long. */
static bool ram_same(struct ram_lun *lun, struct scsi_cmnd *scmd, u64 pos, unsigned int len)
{
	struct sg_mapping_iter piece;
	bool same = true;

	sg_miter_start(&piece, scsi_sglist(scmd), scsi_sg_count(scmd), SG_MITER_FROM_SG);
	while (len && same && sg_miter_next(&piece)) {
		unsigned int n = min3(len, (unsigned int)piece.length,
				      (unsigned int)(PAGE_SIZE - offset_in_page(pos)));

		same = ram_same_part(lun, pos, piece.addr, n);
		piece.consumed = n;
		pos += n;
		len -= n;
		cond_resched();
	}
	sg_miter_stop(&piece);
	return same;
}

/*
 * SBC-4, 5.34: BYTCHK 01b compares each block with its own block in the buffer, 11b compares all
 * blocks with the one block in the buffer. Runs in the worker. With 11b the length is limited as
 * for WRITE SAME, because error handling waits for the worker.
 */
void ram_verify(struct ram_lun *lun, struct scsi_cmnd *scmd)
{
	unsigned int bytchk = scmd->cmnd[1] >> 1 & 3, size = 1U << lun->shift;
	u64 lba, pos, len;
	u32 blocks;

	smq_decode_rw(scmd->cmnd, &lba, &blocks);
	if (scmd->cmnd[1] & 0xe0) {	/* VRPROTECT */
		ram_invalid_cdb(scmd, 1, 7);
		return;
	}
	if (bytchk == 2) {
		ram_invalid_cdb(scmd, 1, 2);
		return;
	}
	if (!ram_check_range(lun, scmd, lba, blocks))
		return;
	if (bytchk && blocks) {
		if (bytchk == 3 && blocks > RAM_MAX_WRITE_SAME_BYTES >> lun->shift) {
			ram_invalid_cdb(scmd, scmd->cmnd[0] == VERIFY ? 7 :
					      scmd->cmnd[0] == VERIFY_12 ? 6 : 10, -1);
			return;
		}
		if (!ram_dir_ok(scmd, DMA_TO_DEVICE))
			return;
		len = bytchk == 1 ? (u64)blocks << lun->shift : size;
		if (scsi_bufflen(scmd) < len) {	/* data is missing: a transport error */
			scmd->result = DID_ERROR << 16;
			return;
		}
		scsi_set_resid(scmd, scsi_bufflen(scmd) - len);
		if (lun->null)
			blocks = 0;
		for (pos = lba << lun->shift; blocks; pos += len) {
			if (!ram_same(lun, scmd, pos, len)) {
				/* MISCOMPARE DURING VERIFY OPERATION */
				ram_sense(scmd, MISCOMPARE, 0x1d, 0);
				return;
			}
			blocks -= bytchk == 1 ? blocks : 1;
			cond_resched();
		}
	}
	scmd->result = SAM_STAT_GOOD;
}

static bool ram_block_is_zero(struct scsi_cmnd *scmd, unsigned int size)
{
	unsigned int skip;
	u8 buf[256];

	for (skip = 0; skip < size; skip += sizeof(buf)) {
		sg_pcopy_to_buffer(scsi_sglist(scmd), scsi_sg_count(scmd), buf, sizeof(buf), skip);
		if (memchr_inv(buf, 0, sizeof(buf)))
			return false;
	}
	return true;
}

/*
 * Writes the one block in the buffer to all blocks of a range, and allocates their pages. Returns
 * false if there was no memory.
 */
static bool ram_fill(struct ram_lun *lun, struct scsi_cmnd *scmd, u64 pos, u64 len)
{
	unsigned int size = 1U << lun->shift;

	while (len) {
		u64 pgno = pos >> PAGE_SHIFT;
		void *page;

		if (!ram_store_get(&lun->store, pgno, RAM_GFP_WAIT))
			return false;
		rcu_read_lock();
		page = ram_store_find(&lun->store, pgno);
		if (page)
			sg_copy_to_buffer(scsi_sglist(scmd), scsi_sg_count(scmd),
					  page + offset_in_page(pos), size);
		rcu_read_unlock();
		if (!page)		/* UNMAP removed the page again: repeat */
			continue;
		pos += size;
		len -= size;
		cond_resched();
	}
	return true;
}

/* WRITE SAME (SBC-4, 5.52 and 5.53). Runs in the worker, because its range may be long. */
void ram_write_same(struct ram_lun *lun, struct scsi_cmnd *scmd)
{
	const u8 *cdb = scmd->cmnd;
	bool ndob = cdb[0] == WRITE_SAME_16 && cdb[1] & 0x01, unmap = cdb[1] & 0x08;
	unsigned int size = 1U << lun->shift, count_at = cdb[0] == WRITE_SAME ? 7 : 10;
	u64 lba, pos, len;
	u32 blocks;

	smq_decode_rw(cdb, &lba, &blocks);
	if (cdb[1] & 0xe0) {		/* WRPROTECT */
		ram_invalid_cdb(scmd, 1, 7);
		return;
	}
	if (cdb[1] & 0x10) {		/* ANCHOR: ANC_SUP=0 */
		ram_invalid_cdb(scmd, 1, 4);
		return;
	}
	if (!ram_check_range(lun, scmd, lba, blocks))
		return;
	/* WSNZ=1: 0 does not mean "to the end" */
	if (!blocks || blocks > RAM_MAX_WRITE_SAME_BYTES >> lun->shift) {
		ram_invalid_cdb(scmd, count_at, -1);
		return;
	}
	if (!ndob) {
		if (!ram_dir_ok(scmd, DMA_TO_DEVICE))
			return;
		if (scsi_bufflen(scmd) < size) {
			scmd->result = DID_ERROR << 16;
			return;
		}
		scsi_set_resid(scmd, scsi_bufflen(scmd) - size);
	}

	scmd->result = SAM_STAT_GOOD;
	if (lun->null)
		return;
	pos = lba << lun->shift;
	len = (u64)blocks << lun->shift;
	/* Zeroes need no pages: a hole reads as zeroes (LBPRZ). */
	if (ndob || (unmap && ram_block_is_zero(scmd, size)))
		ram_store_clear(&lun->store, pos, len);
	else if (!ram_fill(lun, scmd, pos, len))
		ram_sense(scmd, DATA_PROTECT, 0x27, 0x07);
}

/* Reads block descriptor @i of an UNMAP (SBC-4, 5.30.2). */
static void ram_unmap_descriptor(struct scsi_cmnd *scmd, unsigned int i, u64 *lba, u32 *blocks)
{
	u8 desc[16] = {};

	sg_pcopy_to_buffer(scsi_sglist(scmd), scsi_sg_count(scmd), desc, sizeof(desc),
			   8 + i * sizeof(desc));
	*lba = get_unaligned_be64(desc);
	*blocks = get_unaligned_be32(desc + 8);
}

/* Checks all descriptors before it unmaps any block. */
void ram_unmap(struct ram_lun *lun, struct scsi_cmnd *scmd)
{
	const u8 *cdb = scmd->cmnd;
	unsigned int listed = get_unaligned_be16(cdb + 7), nr, i;
	u32 blocks;
	u8 head[8];
	u64 lba;

	if (cdb[1] & 0x01) {		/* ANCHOR */
		ram_invalid_cdb(scmd, 1, 0);
		return;
	}
	scmd->result = SAM_STAT_GOOD;
	if (!listed || !ram_dir_ok(scmd, DMA_TO_DEVICE))
		return;
	if (listed < sizeof(head) || listed > scsi_bufflen(scmd)) {
		/* PARAMETER LIST LENGTH ERROR */
		ram_sense(scmd, ILLEGAL_REQUEST, 0x1a, 0);
		return;
	}
	scsi_set_resid(scmd, scsi_bufflen(scmd) - listed);
	sg_copy_to_buffer(scsi_sglist(scmd), scsi_sg_count(scmd), head, sizeof(head));
	nr = min_t(unsigned int, get_unaligned_be16(head + 2), listed - sizeof(head)) / 16;
	if (nr > RAM_MAX_UNMAP_DESCRIPTORS) {
		ram_invalid_param(scmd, 2, -1);
		return;
	}
	for (i = 0; i < nr; i++) {
		ram_unmap_descriptor(scmd, i, &lba, &blocks);
		if (!ram_check_range(lun, scmd, lba, blocks))
			return;
	}
	for (i = 0; i < nr && !lun->null; i++) {
		ram_unmap_descriptor(scmd, i, &lba, &blocks);
		/* Check again: since the check above the initiator may have changed the buffer. */
		if (lba > lun->nr_blocks || blocks > lun->nr_blocks - lba)
			break;
		ram_store_clear(&lun->store, lba << lun->shift, (u64)blocks << lun->shift);
	}
}
