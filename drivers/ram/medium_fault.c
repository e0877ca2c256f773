// SPDX-License-Identifier: GPL-2.0
/* Faults that only the owner of the medium can bring about. */
#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/scatterlist.h>

#include "ram.h"

/*
 * The worker waits for memory, at most until the command times out: error handling
 * waits for the worker. Context: may sleep.
 */
void ram_fault_no_memory(const struct ram_fault *fault, const struct scsi_cmnd *scmd)
{
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
