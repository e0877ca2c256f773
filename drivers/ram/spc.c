// SPDX-License-Identifier: GPL-2.0
/* Primary commands (SPC-5) other than mode pages and vital product data. */
#include <linux/string.h>
#include <scsi/scsi_common.h>
#include <scsi/scsi_proto.h>

#include "ram.h"

void ram_test_unit_ready(struct ram_lun *lun, struct scsi_cmnd *scmd)
{
	scmd->result = SAM_STAT_GOOD;
}

void ram_inquiry(struct ram_lun *lun, struct scsi_cmnd *scmd)
{
	const u8 *cdb = scmd->cmnd;
	unsigned int alloc = get_unaligned_be16(cdb + 3);
	u8 data[96] = {
		[0] = TYPE_DISK,
		[2] = 0x07,		/* SPC-5 */
		[3] = 0x02,		/* HISUP=0, response data format 2 */
		[4] = sizeof(data) - 5,
		[7] = 0x02,		/* CMDQUE */
	};

	if (cdb[1] & 0x02) {		/* CMDDT, obsolete */
		ram_invalid_cdb(scmd, 1, 1);
		return;
	}
	if (cdb[1] & 0x01) {
		ram_vpd(lun, scmd, alloc);
		return;
	}
	if (cdb[2]) {			/* a page code needs EVPD */
		ram_invalid_cdb(scmd, 2, -1);
		return;
	}
	memcpy(data + 8, "SMQ     RAM DISK        0001", 28);
	put_unaligned_be16(0x00c0, data + 58);	/* SAM-6 */
	put_unaligned_be16(0x05c0, data + 60);	/* SPC-5 */
	put_unaligned_be16(0x0600, data + 62);	/* SBC-4 */
	ram_data_in(scmd, data, sizeof(data), alloc);
}

/* REQUEST SENSE returns a pending unit attention as data, and clears it (SPC-5, 6.36). */
void ram_request_sense(struct ram_lun *lun, struct scsi_cmnd *scmd)
{
	bool desc = scmd->cmnd[1] & 1;
	u8 sense[SCSI_SENSE_BUFFERSIZE] = {}, asc = 0, ascq = 0, key = NO_SENSE;

	if (ram_report_ua(lun, &asc, &ascq)) {
		key = UNIT_ATTENTION;
	} else if (test_bit(RAM_STOPPED, &lun->attn)) {
		key = NOT_READY;
		asc = 0x04;
		ascq = 0x02;
	}
	scsi_build_sense_buffer(desc, sense, key, asc, ascq);
	ram_data_in(scmd, sense, desc ? 8 : 18, scmd->cmnd[4]);
}

/* REPORT LUNS clears the unit attention of a changed inventory (SAM-6, 5.14). */
static void ram_luns_reported(struct ram_host *ram)
{
	struct ram_lun *lun;
	unsigned long i;

	xa_lock(&ram->luns);
	xa_for_each(&ram->luns, i, lun)
		clear_bit(RAM_UA_LUNS_CHANGED, &lun->attn);
	xa_unlock(&ram->luns);
}

void ram_report_luns(struct ram_lun *lun, struct scsi_cmnd *scmd)
{
	const u8 *cdb = scmd->cmnd;
	unsigned int alloc = min(get_unaligned_be32(cdb + 6), scsi_bufflen(scmd));
	struct xarray *luns = &lun->ram->luns;
	unsigned int pos = 8, nr = 0, n;
	struct scsi_lun entry;
	struct ram_lun *each;
	unsigned long i;
	u8 head[8] = {};

	if (cdb[2] > 2) {
		ram_invalid_cdb(scmd, 2, -1);
		return;
	}
	if (!ram_dir_ok(scmd, DMA_FROM_DEVICE))
		return;

	/* Clear the unit attentions before reading the list: a later change sets them again. */
	ram_luns_reported(lun->ram);
	/* Copy the list entry by entry, because it may be long. */
	xa_for_each(luns, i, each) {
		/* 1: only well known logical units; there are none */
		if (cdb[2] == 1)
			break;
		nr++;
		if (pos < alloc) {
			int_to_scsilun(i, &entry);
			n = min_t(unsigned int, alloc - pos, sizeof(entry));
			sg_pcopy_from_buffer(scsi_sglist(scmd), scsi_sg_count(scmd), &entry, n,
					     pos);
			pos += n;
		}
	}
	put_unaligned_be32(nr * sizeof(entry), head);
	sg_copy_from_buffer(scsi_sglist(scmd), scsi_sg_count(scmd), head,
			    min_t(unsigned int, alloc, sizeof(head)));
	scsi_set_resid(scmd, scsi_bufflen(scmd) - min(pos, alloc));
	scmd->result = SAM_STAT_GOOD;
}
