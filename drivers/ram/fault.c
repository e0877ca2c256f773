// SPDX-License-Identifier: GPL-2.0
/* Faults on demand: which command gets one, and what it does to it. */
#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/math64.h>
#include <linux/scatterlist.h>
#include <scsi/scsi_proto.h>

#include "ram.h"

void ram_fault_init(struct ram_fault *fault)
{
	fault->every = 1;
	fault->last_lba = U64_MAX;
	fault->status = SAM_STAT_BUSY;
	fault->sense = MEDIUM_ERROR << 16 | 0x11 << 8;	/* UNRECOVERED READ ERROR */
	fault->delay_ms = 60000;
	atomic_set(&fault->count, -1);
}

/* READ and WRITE are what can be hit: the rest is how the fault is looked at. */
static bool ram_fault_matches(const struct ram_fault *fault, const struct scsi_cmnd *scmd)
{
	u32 blocks;
	u64 lba;

	switch (scmd->cmnd[0]) {
	case READ_6:
	case READ_10:
	case READ_12:
	case READ_16:
		if (READ_ONCE(fault->kind) == RAM_FAULT_NO_MEMORY)
			return false;
		break;
	case WRITE_6:
	case WRITE_10:
	case WRITE_12:
	case WRITE_16:
		if (READ_ONCE(fault->kind) == RAM_FAULT_WRONG_BYTE)
			return false;
		break;
	default:
		return false;
	}
	ram_decode_rw(scmd->cmnd, &lba, &blocks);
	return blocks && lba <= READ_ONCE(fault->last_lba) &&
	       lba + blocks - 1 >= READ_ONCE(fault->first_lba);
}

/* Takes one from a count, unless it is used up or without end. Context: any. */
bool ram_fault_take(atomic_t *count)
{
	int old = atomic_read(count);

	do {
		if (old <= 0)
			return old < 0;
	} while (!atomic_try_cmpxchg(count, &old, old - 1));
	return true;
}

/* The fault that this command gets. Context: any. */
enum ram_fault_kind ram_fault_hits(struct ram_lun *lun, struct scsi_cmnd *scmd)
{
	struct ram_fault *fault = lun->ram->fault;
	enum ram_fault_kind kind = READ_ONCE(fault->kind);
	u32 every = READ_ONCE(fault->every), rem;

	if (kind == RAM_FAULT_NONE || !every || !ram_fault_matches(fault, scmd))
		return RAM_FAULT_NONE;
	div_u64_rem(atomic64_inc_return(&fault->seen), every, &rem);
	if (rem || !ram_fault_take(&fault->count))
		return RAM_FAULT_NONE;
	atomic64_inc(&fault->injected);
	return kind;
}

/* Faults in place of the command: true if it has ended with one. */
bool ram_fault_before(struct ram_lun *lun, struct scsi_cmnd *scmd, enum ram_fault_kind kind)
{
	const struct ram_fault *fault = lun->ram->fault;
	u32 sense = READ_ONCE(fault->sense);

	switch (kind) {
	case RAM_FAULT_STATUS:
		scmd->result = READ_ONCE(fault->status);
		return true;
	case RAM_FAULT_SENSE:
		ram_sense(scmd, sense >> 16 & 0x0f, sense >> 8 & 0xff, sense & 0xff);
		return true;
	case RAM_FAULT_TASK_SET_FULL:
		scmd->result = SAM_STAT_TASK_SET_FULL;
		return true;
	default:
		return false;
	}
}

/*
 * The worker's wait for memory. It ends with the command's time at the latest:
 * error handling waits for the worker.
 */
void ram_fault_wait(const struct ram_lun *lun, const struct scsi_cmnd *scmd)
{
	unsigned long end = jiffies + msecs_to_jiffies(READ_ONCE(lun->ram->fault->delay_ms));

	while (time_before(jiffies, end) && !test_bit(SCMD_STATE_COMPLETE, &scmd->state))
		msleep(20);
}

static void ram_flip_first_byte(struct scsi_cmnd *scmd)
{
	u8 byte;

	if (sg_copy_to_buffer(scsi_sglist(scmd), scsi_sg_count(scmd), &byte, 1) != 1)
		return;
	byte = ~byte;
	sg_copy_from_buffer(scsi_sglist(scmd), scsi_sg_count(scmd), &byte, 1);
}

/* Faults of a command that has been carried out. */
void ram_fault_after(struct ram_lun *lun, struct smq_cmd *cmd, enum ram_fault_kind kind)
{
	struct scsi_cmnd *scmd = smq_cmd_to_scmd(cmd);
	struct ram_cmd *rc = smq_cmd_priv(cmd);

	switch (kind) {
	case RAM_FAULT_TIMEOUT:
		rc->delay_ns = READ_ONCE(lun->ram->fault->delay_ms) * (u64)NSEC_PER_MSEC;
		break;
	case RAM_FAULT_LOST:
		rc->delay_ns = KTIME_MAX;
		break;
	case RAM_FAULT_WRONG_BYTE:
		ram_flip_first_byte(scmd);
		break;
	default:
		break;
	}
}
