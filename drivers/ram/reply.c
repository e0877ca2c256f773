// SPDX-License-Identifier: GPL-2.0
/* Responses: sense data, parameter data, pending unit attentions. */
#include <linux/bitops.h>
#include <linux/scatterlist.h>
#include <scsi/scsi_common.h>
#include <scsi/scsi_proto.h>

#include "ram.h"

/* Sets fixed-format sense data, because the control mode page has D_SENSE=0. */
void ram_sense(struct scsi_cmnd *scmd, u8 key, u8 asc, u8 ascq)
{
	scsi_build_sense(scmd, 0, key, asc, ascq);
}

/*
 * Sets a field pointer (SPC-5, 4.4.2.4) to @byte. @bit: the most significant bit of a field that is
 * shorter than a byte; -1: the field pointer has no bit.
 */
static void ram_field_pointer(struct scsi_cmnd *scmd, unsigned int byte, int bit, bool in_cdb)
{
	scsi_set_sense_field_pointer(scmd->sense_buffer, SCSI_SENSE_BUFFERSIZE, byte,
				     bit < 0 ? 8 : bit, in_cdb);	/* 8: no bit pointer */
	scmd->sense_buffer[7] = 10;	/* 18 bytes in all; the call above set 26 */
}

/* Sets INVALID FIELD IN CDB; @byte and @bit as for ram_field_pointer(). */
void ram_invalid_cdb(struct scsi_cmnd *scmd, unsigned int byte, int bit)
{
	ram_sense(scmd, ILLEGAL_REQUEST, 0x24, 0);
	ram_field_pointer(scmd, byte, bit, true);
}

/* The same for INVALID FIELD IN PARAMETER LIST. */
void ram_invalid_param(struct scsi_cmnd *scmd, unsigned int byte, int bit)
{
	ram_sense(scmd, ILLEGAL_REQUEST, 0x26, 0);
	ram_field_pointer(scmd, byte, bit, false);
}

/*
 * Checks the direction of the buffer. If it is wrong, the command ends with DID_ERROR, as if the
 * transport had not sent it to a target.
 */
bool ram_dir_ok(struct scsi_cmnd *scmd, enum dma_data_direction dir)
{
	if (!scsi_bufflen(scmd) || scmd->sc_data_direction == dir)
		return true;
	scmd->result = DID_ERROR << 16;
	return false;
}

/* Returns parameter data, up to the allocation length and the length of the buffer. */
void ram_data_in(struct scsi_cmnd *scmd, const void *data, unsigned int len, unsigned int alloc)
{
	unsigned int n = min3(len, alloc, scsi_bufflen(scmd));

	if (!ram_dir_ok(scmd, DMA_FROM_DEVICE))
		return;
	if (n)
		sg_copy_from_buffer(scsi_sglist(scmd), scsi_sg_count(scmd), data, n);
	scsi_set_resid(scmd, scsi_bufflen(scmd) - n);
	scmd->result = SAM_STAT_GOOD;
}

/* Clears and returns the first pending unit attention; returns false if none is pending. */
bool ram_report_ua(struct ram_lun *lun, u8 *asc, u8 *ascq)
{
	static const u8 code[RAM_NR_UA][2] = {
		[RAM_UA_POWER_ON] = { 0x29, 0x00 },	/* POWER ON, RESET, ... OCCURRED */
		[RAM_UA_RESET] = { 0x29, 0x03 },	/* BUS DEVICE RESET FUNCTION OCCURRED */
		[RAM_UA_LUNS_CHANGED] = { 0x3f, 0x0e },	/* REPORTED LUNS DATA HAS CHANGED */
	};
	unsigned int ua;

	for (ua = 0; ua < RAM_NR_UA; ua++) {
		if (test_and_clear_bit(ua, &lun->attn)) {
			*asc = code[ua][0];
			*ascq = code[ua][1];
			return true;
		}
	}
	return false;
}
