// SPDX-License-Identifier: GPL-2.0
/* Faults that only this LLD can inject, because they concern the medium. */
#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/scatterlist.h>
#include <smq/rw_cdb.h>

#include "ram.h"

const char * const ram_fault_names[RAM_NR_FAULTS] = {
	[RAM_FAULT_WRONG_BYTE - SMQ_FAULT_LLD]	= "wrong_byte",
	[RAM_FAULT_NO_MEMORY - SMQ_FAULT_LLD]	= "no_memory",
};

/* Returns the fault of a command, 0 if none. Called once for each command. Context: any. */
unsigned int ram_fault_hits(struct ram_host *ram, const struct scsi_cmnd *scmd)
{
	struct smq_fault *fault = smq_host_fault(ram->smq);
	unsigned int kind = READ_ONCE(fault->kind);

	switch (kind) {
	case RAM_FAULT_WRONG_BYTE:
		return smq_is_read(scmd->cmnd) && smq_fault_hits(fault, scmd) ? kind : 0;
	case RAM_FAULT_NO_MEMORY:
		return smq_is_write(scmd->cmnd) && smq_fault_hits(fault, scmd) ? kind : 0;
	default:
		return 0;
	}
}

/*
 * Makes the worker wait, as if it waited for memory. The wait ends at the latest when the command
 * times out, because error handling waits for the worker. Context: may sleep.
 */
void ram_fault_no_memory(struct ram_host *ram, const struct scsi_cmnd *scmd)
{
	const struct smq_fault *fault = smq_host_fault(ram->smq);
	unsigned long end = jiffies + msecs_to_jiffies(READ_ONCE(fault->delay_ms));

	while (time_before(jiffies, end) && !test_bit(SCMD_STATE_COMPLETE, &scmd->state))
		msleep(20);
}

/* Inverts the first byte that a READ has returned. Context: any. */
void ram_fault_wrong_byte(struct scsi_cmnd *scmd)
{
	u8 byte;

	if (sg_copy_to_buffer(scsi_sglist(scmd), scsi_sg_count(scmd), &byte, 1) != 1)
		return;
	byte = ~byte;
	sg_copy_from_buffer(scsi_sglist(scmd), scsi_sg_count(scmd), &byte, 1);
}
