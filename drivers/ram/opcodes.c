// SPDX-License-Identifier: GPL-2.0
/* The table of supported commands, and REPORT SUPPORTED OPERATION CODES, which returns it. */
#include <linux/string.h>
#include <scsi/scsi_proto.h>

#include "ram.h"

/* An abbreviation for the table. */
#define CTL	RAM_CONTROL_NACA

/*
 * SPC-5 and SBC-4. Obsolete and reserved bits are not checked, except INQUIRY's CMDDT. The
 * group number is not checked either, because there are no groups.
 */
static const struct ram_op ram_ops[] = {
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
	{ MODE_SELECT, .len = 6, .fn = ram_mode_select,
	  .usage = { 0x15, 0x10, 0, 0, 0xff, CTL } },
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
	{ MODE_SELECT_10, .len = 10, .fn = ram_mode_select,
	  .usage = { 0x55, 0x10, 0, 0, 0, 0, 0, 0xff, 0xff, CTL } },
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

static_assert(ARRAY_SIZE(ram_ops) <= RAM_MAX_OPS);

/* Returns the command, or NULL. An opcode without service actions matches any @action. */
const struct ram_op *ram_find_op(u8 opcode, u8 action)
{
	const struct ram_op *op;

	for (op = ram_ops; op < ram_ops + ARRAY_SIZE(ram_ops); op++)
		if (op->opcode == opcode && (!op->has_action || op->action == action))
			return op;
	return NULL;
}

/* Command timeouts descriptor (SPC-5, 6.38.4), without values. */
static unsigned int ram_put_timeouts(u8 *p)
{
	memset(p, 0, 12);
	put_unaligned_be16(10, p);
	return 12;
}

static unsigned int ram_put_all_opcodes(u8 *data, bool timeouts)
{
	unsigned int pos = 4;
	const struct ram_op *op;

	for (op = ram_ops; op < ram_ops + ARRAY_SIZE(ram_ops); op++) {
		u8 *p = data + pos;

		memset(p, 0, 8);
		p[0] = op->opcode;
		put_unaligned_be16(op->action, p + 2);
		p[5] = (timeouts ? 0x02 : 0) | (op->has_action ? 0x01 : 0);
		put_unaligned_be16(op->len, p + 6);
		pos += 8;
		if (timeouts)
			pos += ram_put_timeouts(data + pos);
	}
	put_unaligned_be32(pos - 4, data);
	return pos;
}

void ram_report_opcodes(struct ram_lun *lun, struct scsi_cmnd *scmd)
{
	const u8 *cdb = scmd->cmnd;
	unsigned int alloc = get_unaligned_be32(cdb + 6);
	u16 action = get_unaligned_be16(cdb + 4);
	bool timeouts = cdb[2] & 0x80, known = false, has_action = false;
	const struct ram_op *op, *found = NULL;
	u8 data[4 + RAM_MAX_OPS * 20] = {};
	unsigned int len;

	for (op = ram_ops; op < ram_ops + ARRAY_SIZE(ram_ops); op++) {
		if (op->opcode != cdb[3])
			continue;
		known = true;
		has_action = op->has_action;
		if (action == op->action)
			found = op;
	}

	switch (cdb[2] & 7) {
	case 0:
		ram_data_in(scmd, data, ram_put_all_opcodes(data, timeouts), alloc);
		return;
	case 1:				/* by opcode, which must have no service actions */
		if (known && has_action) {
			ram_invalid_cdb(scmd, 2, 2);
			return;
		}
		break;
	case 2:				/* by service action: the opcode must have some */
		if (known && !has_action) {
			ram_invalid_cdb(scmd, 4, -1);
			return;
		}
		break;
	case 3:
		break;
	default:
		ram_invalid_cdb(scmd, 2, 2);
		return;
	}
	if ((cdb[2] & 7) == 1 && known)
		found = ram_find_op(cdb[3], 0);

	/* SUPPORT: 1: not supported, 3: supported as the standard specifies */
	data[1] = (timeouts && found ? 0x80 : 0) | (found ? 3 : 1);
	len = 4;
	if (found) {
		put_unaligned_be16(found->len, data + 2);
		memcpy(data + 4, found->usage, found->len);
		/* The field of a service action holds its value, not a mask. */
		if (found->has_action)
			data[5] = (data[5] & 0xe0) | found->action;
		len += found->len;
		if (timeouts)
			len += ram_put_timeouts(data + len);
	}
	ram_data_in(scmd, data, len, alloc);
}
