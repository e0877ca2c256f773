// SPDX-License-Identifier: GPL-2.0
/* The device server: the checks that all commands need, and their execution. */
#include <linux/bitops.h>
#include <scsi/scsi_proto.h>

#include "ram.h"

/* The checks that SAM-6 and SPC-5 require before a command is executed. */
static const struct ram_op *ram_check(struct ram_lun *lun, struct scsi_cmnd *scmd)
{
	const u8 *cdb = scmd->cmnd;
	const struct ram_op *op = ram_find_op(cdb[0], cdb[1] & 0x1f);
	u8 asc, ascq;

	if (test_bit(RAM_ABSENT, &lun->attn) && cdb[0] != REPORT_LUNS) {
		smq_lun_absent(scmd);
		return NULL;
	}
	/* A unit attention comes first, except for the commands that are exempt. */
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
	if (cdb[op->len - 1] & RAM_CONTROL_NACA) {
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
 * Executes any command. If a command cannot be finished without sleeping, the worker executes it
 * again from its start; a WRITE then writes its first blocks a second time.
 */
enum smq_status ram_execute(struct smq_cmd *cmd, bool may_sleep)
{
	struct scsi_cmnd *scmd = smq_cmd_to_scmd(cmd);
	struct ram_lun *lun = ram_scmd_lun(scmd);
	struct ram_cmd *rc = smq_cmd_priv(cmd);
	const struct ram_op *op;

	/* Until a command moves data, the residual is the whole buffer. */
	scsi_set_resid(scmd, scsi_bufflen(scmd));
	op = ram_check(lun, scmd);
	if (!op)
		return SMQ_DONE;
	if (!may_sleep)
		rc->fault = test_bit(RAM_FAULT, &lun->attn) ? ram_fault_hits(lun->ram, scmd) : 0;
	if (!may_sleep && (op->sleeps || rc->fault == RAM_FAULT_NO_MEMORY))
		return smq_cmd_defer(cmd);
	if (unlikely(rc->fault == RAM_FAULT_NO_MEMORY))
		ram_fault_no_memory(lun->ram, scmd);
	if (op->fn)
		op->fn(lun, scmd);
	else if (!ram_rw(lun, scmd, may_sleep))
		return smq_cmd_defer(cmd);
	if (unlikely(rc->fault == RAM_FAULT_WRONG_BYTE))
		ram_fault_wrong_byte(scmd);
	return SMQ_DONE;
}
