// SPDX-License-Identifier: GPL-2.0
/*
 * The device server: which commands there are, what is checked for all of them,
 * and how sense data and parameter data are given back.
 */
#include <linux/bitops.h>
#include <linux/scatterlist.h>
#include <scsi/scsi_common.h>
#include <scsi/scsi_proto.h>

#include "ram.h"

/* CONTROL byte: of its bits only NACA is looked at, and NACA=1 is refused. */
#define CTL	0x04

/*
 * SPC-5 and SBC-4. Obsolete and reserved bits are not looked at, but for INQUIRY's
 * CMDDT, nor is the group number: there is nothing to group.
 */
const struct ram_op ram_ops[] = {
	{ TEST_UNIT_READY, .medium = true, .len = 6, .fn = ram_test_unit_ready,
	  .usage = { 0x00, 0, 0, 0, 0, CTL } },
	{ REQUEST_SENSE, .ua_exempt = true, .len = 6, .fn = ram_request_sense,
	  .usage = { 0x03, 0x01, 0, 0, 0xff, CTL } },
	{ READ_6, .medium = true, .len = 6,
	  .usage = { 0x08, 0x1f, 0xff, 0xff, 0xff, CTL } },
	{ WRITE_6, .medium = true, .len = 6,
	  .usage = { 0x0a, 0x1f, 0xff, 0xff, 0xff, CTL } },
	{ INQUIRY, .ua_exempt = true, .len = 6, .fn = ram_inquiry,
	  .usage = { 0x12, 0x03, 0xff, 0xff, 0xff, CTL } },
	{ MODE_SENSE, .len = 6, .fn = ram_mode_sense,
	  .usage = { 0x1a, 0x08, 0xff, 0xff, 0xff, CTL } },
	{ START_STOP, .len = 6, .fn = ram_start_stop,
	  .usage = { 0x1b, 0x01, 0, 0x0f, 0xf7, CTL } },
	{ READ_CAPACITY, .len = 10, .fn = ram_read_capacity10,
	  .usage = { 0x25, 0, 0, 0, 0, 0, 0, 0, 0, CTL } },
	{ READ_10, .medium = true, .len = 10,
	  .usage = { 0x28, 0xf8, 0xff, 0xff, 0xff, 0xff, 0, 0xff, 0xff, CTL } },
	{ WRITE_10, .medium = true, .len = 10,
	  .usage = { 0x2a, 0xf8, 0xff, 0xff, 0xff, 0xff, 0, 0xff, 0xff, CTL } },
	{ VERIFY, .medium = true, .sleeps = true, .len = 10, .fn = ram_verify,
	  .usage = { 0x2f, 0xf6, 0xff, 0xff, 0xff, 0xff, 0, 0xff, 0xff, CTL } },
	{ SYNCHRONIZE_CACHE, .medium = true, .len = 10, .fn = ram_sync_cache,
	  .usage = { 0x35, 0x02, 0xff, 0xff, 0xff, 0xff, 0, 0xff, 0xff, CTL } },
	{ WRITE_SAME, .medium = true, .sleeps = true, .len = 10, .fn = ram_write_same,
	  .usage = { 0x41, 0xf8, 0xff, 0xff, 0xff, 0xff, 0, 0xff, 0xff, CTL } },
	{ UNMAP, .medium = true, .sleeps = true, .len = 10, .fn = ram_unmap,
	  .usage = { 0x42, 0x01, 0, 0, 0, 0, 0, 0xff, 0xff, CTL } },
	{ MODE_SENSE_10, .len = 10, .fn = ram_mode_sense,
	  .usage = { 0x5a, 0x18, 0xff, 0xff, 0, 0, 0, 0xff, 0xff, CTL } },
	{ READ_16, .medium = true, .len = 16,
	  .usage = { 0x88, 0xf8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
		     0xff, 0xff, 0xff, 0xff, 0, CTL } },
	{ WRITE_16, .medium = true, .len = 16,
	  .usage = { 0x8a, 0xf8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
		     0xff, 0xff, 0xff, 0xff, 0, CTL } },
	{ VERIFY_16, .medium = true, .sleeps = true, .len = 16, .fn = ram_verify,
	  .usage = { 0x8f, 0xf6, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
		     0xff, 0xff, 0xff, 0xff, 0, CTL } },
	{ SYNCHRONIZE_CACHE_16, .medium = true, .len = 16, .fn = ram_sync_cache,
	  .usage = { 0x91, 0x02, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
		     0xff, 0xff, 0xff, 0xff, 0, CTL } },
	{ WRITE_SAME_16, .medium = true, .sleeps = true, .len = 16, .fn = ram_write_same,
	  .usage = { 0x93, 0xf9, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
		     0xff, 0xff, 0xff, 0xff, 0, CTL } },
	{ SERVICE_ACTION_IN_16, SAI_READ_CAPACITY_16, .has_action = true, .len = 16,
	  .fn = ram_read_capacity16,
	  .usage = { 0x9e, 0x1f, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, CTL } },
	{ REPORT_LUNS, .ua_exempt = true, .len = 12, .fn = ram_report_luns,
	  .usage = { 0xa0, 0, 0xff, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, CTL } },
	{ MAINTENANCE_IN, MI_REPORT_SUPPORTED_OPERATION_CODES, .has_action = true, .len = 12,
	  .fn = ram_report_opcodes,
	  .usage = { 0xa3, 0x1f, 0x87, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, CTL } },
	{ READ_12, .medium = true, .len = 12,
	  .usage = { 0xa8, 0xf8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, CTL } },
	{ WRITE_12, .medium = true, .len = 12,
	  .usage = { 0xaa, 0xf8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, CTL } },
	{ VERIFY_12, .medium = true, .sleeps = true, .len = 12, .fn = ram_verify,
	  .usage = { 0xaf, 0xf6, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, CTL } },
};

const unsigned int ram_nr_ops = ARRAY_SIZE(ram_ops);
static_assert(ARRAY_SIZE(ram_ops) <= RAM_MAX_OPS);

/* The command, or NULL; of a known opcode any action, if @action has none. */
const struct ram_op *ram_find_op(u8 opcode, u8 action)
{
	const struct ram_op *op;

	for (op = ram_ops; op < ram_ops + ram_nr_ops; op++)
		if (op->opcode == opcode && (!op->has_action || op->action == action))
			return op;
	return NULL;
}

/* Fixed format: the control mode page says D_SENSE=0. */
void ram_sense(struct scsi_cmnd *scmd, u8 key, u8 asc, u8 ascq)
{
	scsi_build_sense(scmd, 0, key, asc, ascq);
}

/*
 * INVALID FIELD IN CDB with the field pointer of SPC-5, 4.4.2.4: the byte and,
 * for a field that is less than a byte, its most significant bit; -1 if none.
 */
void ram_invalid_cdb(struct scsi_cmnd *scmd, unsigned int byte, int bit)
{
	ram_sense(scmd, ILLEGAL_REQUEST, 0x24, 0);
	scsi_set_sense_field_pointer(scmd->sense_buffer, SCSI_SENSE_BUFFERSIZE, byte,
				     bit < 0 ? 8 : bit, true);	/* 8: no bit pointer */
	scmd->sense_buffer[7] = 10;	/* 18 bytes: the line above said 26 */
}

/* INVALID FIELD IN PARAMETER LIST */
void ram_invalid_param(struct scsi_cmnd *scmd, unsigned int byte)
{
	ram_sense(scmd, ILLEGAL_REQUEST, 0x26, 0);
	scsi_set_sense_field_pointer(scmd->sense_buffer, SCSI_SENSE_BUFFERSIZE, byte, 8, false);
	scmd->sense_buffer[7] = 10;
}

/* An initiator's buffer of the wrong direction: no target ever sees that. */
bool ram_dir_ok(struct scsi_cmnd *scmd, enum dma_data_direction dir)
{
	if (!scsi_bufflen(scmd) || scmd->sc_data_direction == dir)
		return true;
	scmd->result = DID_ERROR << 16;
	return false;
}

/* Parameter data: as much as the allocation length and the buffer take. */
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

/* The first pending unit attention, reported once. */
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

/* What SAM-6 and SPC-5 ask for before any command is carried out. */
static const struct ram_op *ram_check(struct ram_lun *lun, struct scsi_cmnd *scmd)
{
	const u8 *cdb = scmd->cmnd;
	const struct ram_op *op = ram_find_op(cdb[0], cdb[1] & 0x1f);
	u8 asc, ascq;

	/* Unit attention goes first, whatever the command but for the exempt. */
	if ((!op || !op->ua_exempt) && ram_report_ua(lun, &asc, &ascq)) {
		ram_sense(scmd, UNIT_ATTENTION, asc, ascq);
		return NULL;
	}
	if (!op) {
		if (cdb[0] == SERVICE_ACTION_IN_16 || cdb[0] == MAINTENANCE_IN)
			ram_invalid_cdb(scmd, 1, 4);
		else	/* INVALID COMMAND OPERATION CODE */
			ram_sense(scmd, ILLEGAL_REQUEST, 0x20, 0);
		return NULL;
	}
	if (cdb[op->len - 1] & CTL) {
		ram_invalid_cdb(scmd, op->len - 1, 2);
		return NULL;
	}
	if (op->medium && test_bit(RAM_STOPPED, &lun->attn)) {
		/* LOGICAL UNIT NOT READY, INITIALIZING COMMAND REQUIRED */
		ram_sense(scmd, NOT_READY, 0x04, 0x02);
		return NULL;
	}
	return op;
}

/*
 * Carries out any command. Entered again in the worker for one that could not be
 * finished without sleeping: what it had written by then it writes once more.
 */
enum smq_status ram_execute(struct smq_cmd *cmd, bool may_sleep)
{
	struct scsi_cmnd *scmd = smq_cmd_to_scmd(cmd);
	struct ram_lun *lun = ram_scmd_lun(scmd);
	struct ram_fault *fault = lun->ram->fault;
	struct ram_cmd *rc = smq_cmd_priv(cmd);
	const struct ram_op *op;

	/* Until a command moves data all of its buffer is left over. */
	scsi_set_resid(scmd, scsi_bufflen(scmd));
	op = ram_check(lun, scmd);
	if (!op)
		return SMQ_DONE;
	if (!may_sleep)
		rc->fault = test_bit(RAM_FAULT, &lun->attn) ? ram_fault_hits(fault, scmd) :
							      RAM_FAULT_NONE;
	if (unlikely(rc->fault) && ram_fault_before(fault, scmd, rc->fault))
		return SMQ_DONE;
	if (!may_sleep && (op->sleeps || rc->fault == RAM_FAULT_NO_MEMORY))
		return smq_cmd_defer(cmd);
	if (unlikely(rc->fault == RAM_FAULT_NO_MEMORY))
		ram_fault_no_memory(fault, scmd);
	if (op->fn)
		op->fn(lun, scmd);
	else if (!ram_rw(lun, scmd, rc->fault == RAM_FAULT_SHORT, may_sleep))
		return smq_cmd_defer(cmd);
	if (unlikely(rc->fault))
		rc->delay_ns = ram_fault_after(fault, rc->fault);
	if (unlikely(rc->fault == RAM_FAULT_WRONG_BYTE))
		ram_fault_wrong_byte(scmd);
	return SMQ_DONE;
}
