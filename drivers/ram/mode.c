// SPDX-License-Identifier: GPL-2.0
/* MODE SENSE (SPC-5, 6.14 and 7.5; SBC-4, 6.5): fixed pages, nothing changeable. */
#include <linux/string.h>
#include <scsi/scsi_proto.h>

#include "ram.h"

static const u8 ram_pages[][20] = {
	/* Read-Write Error Recovery: ARRE, AWRE */
	{ 0x01, 0x0a, 0xc0, 0x0b, [8] = 0x05 },
	/* Caching: WCE=0, because there is no write cache; RCD=0 */
	{ 0x08, 0x12 },
	/* Control: GLTSD, D_SENSE=0, queue algorithm 1h, unlimited busy timeout */
	{ 0x0a, 0x0a, 0x02, 0x10, [8] = 0xff, 0xff },
	/* Informational Exceptions Control: DEXCPT */
	{ 0x1c, 0x0a, 0x08 },
};

/*
 * Writes a page to @p: its current values, which are also its defaults; or, if @changeable, the
 * mask of its changeable values, which is all 0. Returns the length.
 */
static unsigned int ram_put_page(u8 *p, const u8 *page, bool changeable)
{
	unsigned int len = 2 + page[1];

	memcpy(p, page, changeable ? 2 : len);
	if (changeable)
		memset(p + 2, 0, len - 2);
	return len;
}

static unsigned int ram_put_block_descriptor(const struct ram_lun *lun, u8 *p, bool long_lba)
{
	u32 size = 1U << lun->shift;

	if (long_lba) {
		put_unaligned_be64(lun->nr_blocks, p);
		put_unaligned_be32(size, p + 12);
		return 16;
	}
	put_unaligned_be32(min_t(u64, lun->nr_blocks, U32_MAX), p);
	put_unaligned_be32(size, p + 4);	/* 24 bits used, the first byte is 0 */
	return 8;
}

void ram_mode_sense(struct ram_lun *lun, struct scsi_cmnd *scmd)
{
	const u8 *cdb = scmd->cmnd;
	bool six = cdb[0] == MODE_SENSE, dbd = cdb[1] & 0x08;
	bool long_lba = !six && cdb[1] & 0x10;
	unsigned int alloc = six ? cdb[4] : get_unaligned_be16(cdb + 7);
	unsigned int control = cdb[2] >> 6, code = cdb[2] & 0x3f, sub = cdb[3];
	unsigned int head = six ? 4 : 8, pos = head, pages = 0, i;
	u8 data[128] = {};

	if (control == 3) {		/* SAVING PARAMETERS NOT SUPPORTED */
		ram_sense(scmd, ILLEGAL_REQUEST, 0x39, 0);
		return;
	}
	if (sub && sub != 0xff) {
		ram_invalid_cdb(scmd, 3, -1);
		return;
	}
	if (!dbd)
		pos += ram_put_block_descriptor(lun, data + pos, long_lba);
	data[six ? 3 : 7] = pos - head;
	data[six ? 2 : 3] = 0x10;	/* DPOFUA, not write protected */
	if (!six && !dbd && long_lba)
		data[4] = 0x01;		/* LONGLBA */

	for (i = 0; i < ARRAY_SIZE(ram_pages); i++) {
		if (code != 0x3f && code != ram_pages[i][0])
			continue;
		pos += ram_put_page(data + pos, ram_pages[i], control == 1);
		pages++;
	}
	if (!pages) {
		ram_invalid_cdb(scmd, 2, 5);
		return;
	}
	if (six)
		data[0] = pos - 1;
	else
		put_unaligned_be16(pos - 2, data);
	ram_data_in(scmd, data, pos, alloc);
}
