// SPDX-License-Identifier: GPL-2.0
/* Faults on demand: the choice of a command, and the faults that need no LLD. */
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/time64.h>
#include <scsi/scsi_cmnd.h>
#include <scsi/scsi_proto.h>

#include "fault.h"
#include "rw_cdb.h"

void ram_fault_init(struct ram_fault *fault)
{
	fault->every = 1;
	fault->last_lba = U64_MAX;
	fault->status = SAM_STAT_BUSY;
	fault->sense = MEDIUM_ERROR << 16 | 0x11 << 8;	/* UNRECOVERED READ ERROR */
	fault->delay_ms = 60000;
	atomic_set(&fault->count, -1);
}

/* Only READ and WRITE match: other commands serve to look at the fault. */
static bool ram_fault_matches(const struct ram_fault *fault, enum ram_fault_kind kind,
			      const u8 *cdb)
{
	u32 blocks;
	u64 lba;

	if (!(ram_is_read(cdb) && kind != RAM_FAULT_NO_MEMORY) &&
	    !(ram_is_write(cdb) && kind != RAM_FAULT_WRONG_BYTE))
		return false;
	ram_decode_rw(cdb, &lba, &blocks);
	return blocks && lba <= READ_ONCE(fault->last_lba) &&
	       lba + blocks - 1 >= READ_ONCE(fault->first_lba);
}

/**
 * ram_fault_take() - takes one from a count
 * @count: of a struct ram_fault
 *
 * Context: any. Return: false if the count is used up; one without end never is.
 */
bool ram_fault_take(atomic_t *count)
{
	int old = atomic_read(count);

	do {
		if (old <= 0)
			return old < 0;
	} while (!atomic_try_cmpxchg(count, &old, old - 1));
	return true;
}

/**
 * ram_fault_hits() - decides which fault a command gets, and counts it
 * @fault: the settings
 * @scmd: the command, asked about once
 *
 * Context: any. Return: the kind, RAM_FAULT_NONE for a command that is spared.
 */
enum ram_fault_kind ram_fault_hits(struct ram_fault *fault, const struct scsi_cmnd *scmd)
{
	enum ram_fault_kind kind = READ_ONCE(fault->kind);
	u32 every = READ_ONCE(fault->every), rem;

	if (kind == RAM_FAULT_NONE || !every || !ram_fault_matches(fault, kind, scmd->cmnd))
		return RAM_FAULT_NONE;
	div_u64_rem(atomic64_inc_return(&fault->seen), every, &rem);
	if (rem || !ram_fault_take(&fault->count))
		return RAM_FAULT_NONE;
	atomic64_inc(&fault->injected);
	return kind;
}

/**
 * ram_fault_before() - the faults that take the place of a command
 * @fault: the settings
 * @scmd: the command; its result is set if it ends here
 * @kind: what ram_fault_hits() said
 *
 * Context: any. Return: true if the command has ended and is not to be carried out.
 */
bool ram_fault_before(const struct ram_fault *fault, struct scsi_cmnd *scmd,
		      enum ram_fault_kind kind)
{
	u32 sense = READ_ONCE(fault->sense);

	switch (kind) {
	case RAM_FAULT_STATUS:
		scmd->result = READ_ONCE(fault->status);
		return true;
	case RAM_FAULT_SENSE:
		scsi_build_sense(scmd, 0, sense >> 16 & 0x0f, sense >> 8 & 0xff, sense & 0xff);
		return true;
	case RAM_FAULT_TASK_SET_FULL:
		scmd->result = SAM_STAT_TASK_SET_FULL;
		return true;
	default:
		return false;
	}
}

/**
 * ram_fault_after() - the faults of a command that has been carried out
 * @fault: the settings
 * @kind: what ram_fault_hits() said
 *
 * Context: any. Return: by how many ns its answer is late, KTIME_MAX: it never comes.
 */
u64 ram_fault_after(const struct ram_fault *fault, enum ram_fault_kind kind)
{
	switch (kind) {
	case RAM_FAULT_TIMEOUT:
		return READ_ONCE(fault->delay_ms) * (u64)NSEC_PER_MSEC;
	case RAM_FAULT_LOST:
		return KTIME_MAX;
	default:
		return 0;
	}
}
