// SPDX-License-Identifier: GPL-2.0
/*
 * MODE SENSE and MODE SELECT (SPC-5, 6.12 to 6.15 and 7.5; SBC-4, 6.5). WCE and RCD can be changed,
 * so that programs can be tested with either; a LUN has no cache that they would change. They are
 * never saved, and a reset sets both to 0.
 */
#include <linux/string.h>
#include <scsi/scsi_proto.h>

#include "ram.h"

static const u8 ram_pages[][20] = {
	/* Read-Write Error Recovery: ARRE, AWRE */
	{ 0x01, 0x0a, 0xc0, 0x0b, [8] = 0x05 },
	/* Caching: WCE=0, because there is no write cache; RCD=0. See RAM_CACHING_BITS. */
	{ 0x08, 0x12 },
	/* Control: GLTSD, D_SENSE=0, queue algorithm 1h, unlimited busy timeout */
	{ 0x0a, 0x0a, 0x02, 0x10, [8] = 0xff, 0xff },
	/* Informational Exceptions Control: DEXCPT */
	{ 0x1c, 0x0a, 0x08 },
};

/* The caching page, and the bits of its byte 2 that can be changed: WCE and RCD. */
#define RAM_CACHING		0x08
#define RAM_CACHING_BITS	0x05

/* The page control field of MODE SENSE. */
enum ram_control { RAM_CURRENT, RAM_CHANGEABLE, RAM_DEFAULT, RAM_SAVED };

/*
 * Writes a page to @p: its current values, its defaults, or the mask of its changeable bits.
 * Returns the length.
 */
static unsigned int ram_put_page(const struct ram_lun *lun, u8 *p, const u8 *page,
				 enum ram_control control)
{
	unsigned int len = 2 + page[1];

	memcpy(p, page, len);
	if (control == RAM_CHANGEABLE)
		memset(p + 2, 0, len - 2);
	if (page[0] == RAM_CACHING && control != RAM_DEFAULT)
		p[2] |= control == RAM_CURRENT ? READ_ONCE(lun->caching) : RAM_CACHING_BITS;
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
	enum ram_control control = cdb[2] >> 6;
	unsigned int code = cdb[2] & 0x3f, sub = cdb[3];
	unsigned int head = six ? 4 : 8, pos = head, pages = 0, i;
	u8 data[128] = {};

	if (control == RAM_SAVED) {	/* SAVING PARAMETERS NOT SUPPORTED */
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
		pos += ram_put_page(lun, data + pos, ram_pages[i], control);
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

/*
 * Checks the page at byte @pos of the parameter list @data, which ends at @end, and stores the new
 * value of the bits that can be changed in @caching if it is the caching page. Returns the page's
 * length, or 0 if the page is wrong and the sense data is set.
 */
static unsigned int ram_check_page(const struct ram_lun *lun, struct scsi_cmnd *scmd,
				   const u8 *data, unsigned int pos, unsigned int end, u8 *caching)
{
	const u8 *page = data + pos;
	unsigned int len, i;
	u8 now[20], mask[20];

	for (i = 0; i < ARRAY_SIZE(ram_pages); i++) {
		if (ram_pages[i][0] == (page[0] & 0x7f))	/* PS is reserved here */
			break;
	}
	if (i == ARRAY_SIZE(ram_pages)) {
		ram_invalid_param(scmd, pos, page[0] & 0x40 ? 6 : 5);	/* SPF, PAGE CODE */
		return 0;
	}
	len = ram_put_page(lun, now, ram_pages[i], RAM_CURRENT);
	ram_put_page(lun, mask, ram_pages[i], RAM_CHANGEABLE);
	if (end - pos < len) {
		ram_sense(scmd, ILLEGAL_REQUEST, 0x1a, 0);	/* PARAMETER LIST LENGTH ERROR */
		return 0;
	}
	for (i = 1; i < len; i++) {
		if ((page[i] ^ now[i]) & (i < 2 ? 0xff : (u8)~mask[i])) {
			ram_invalid_param(scmd, pos + i, -1);
			return 0;
		}
	}
	if (now[0] == RAM_CACHING)
		*caching = page[2] & RAM_CACHING_BITS;
	return len;
}

/* Checks the whole parameter list before it changes anything. */
void ram_mode_select(struct ram_lun *lun, struct scsi_cmnd *scmd)
{
	const u8 *cdb = scmd->cmnd;
	bool six = cdb[0] == MODE_SELECT;
	unsigned int listed = six ? cdb[4] : get_unaligned_be16(cdb + 7);
	unsigned int head = six ? 4 : 8, pos = head, len, bd;
	u8 data[128], descriptor[16], caching = READ_ONCE(lun->caching);

	if (!(cdb[1] & 0x10) || cdb[1] & 0x03) {	/* PF=1, RTD=0, SP=0: nothing is saved */
		ram_invalid_cdb(scmd, 1, !(cdb[1] & 0x10) ? 4 : cdb[1] & 0x02 ? 1 : 0);
		return;
	}
	scmd->result = SAM_STAT_GOOD;
	if (!listed || !ram_dir_ok(scmd, DMA_TO_DEVICE))
		return;
	if (listed > sizeof(data)) {
		ram_invalid_cdb(scmd, six ? 4 : 7, -1);
		return;
	}
	if (listed < head || listed > scsi_bufflen(scmd))
		goto length_error;
	scsi_set_resid(scmd, scsi_bufflen(scmd) - listed);
	sg_copy_to_buffer(scsi_sglist(scmd), scsi_sg_count(scmd), data, listed);

	/* A block descriptor must not change anything. */
	bd = six ? data[3] : get_unaligned_be16(data + 6);
	if (bd) {
		len = ram_put_block_descriptor(lun, descriptor, !six && data[4] & 0x01);
		if (bd != len) {
			ram_invalid_param(scmd, six ? 3 : 6, -1);
			return;
		}
		if (listed - pos < bd)
			goto length_error;
		if (memcmp(data + pos, descriptor, bd)) {
			ram_invalid_param(scmd, pos, -1);
			return;
		}
		pos += bd;
	}
	for (; pos < listed; pos += len) {
		len = ram_check_page(lun, scmd, data, pos, listed, &caching);
		if (!len)
			return;
	}
	WRITE_ONCE(lun->caching, caching);
	return;

length_error:			/* PARAMETER LIST LENGTH ERROR */
	ram_sense(scmd, ILLEGAL_REQUEST, 0x1a, 0);
}
