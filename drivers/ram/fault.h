/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Faults on demand: which command gets one and what it does to the command. Knows
 * nothing but the command of the mid-layer; what a fault needs of the LLD is the LLD's
 * to do, as the kinds say.
 */
#ifndef SMQ_RAM_FAULT_H
#define SMQ_RAM_FAULT_H

#include <linux/atomic.h>
#include <linux/types.h>

struct scsi_cmnd;

/**
 * enum ram_fault_kind - what happens to a command
 * @RAM_FAULT_NONE: nothing
 * @RAM_FAULT_STATUS: ends with a status, not carried out
 * @RAM_FAULT_SENSE: ends with CHECK CONDITION and given sense data, not carried out
 * @RAM_FAULT_TASK_SET_FULL: ends with TASK SET FULL, not carried out
 * @RAM_FAULT_TIMEOUT: carried out, answered only after delay_ms
 * @RAM_FAULT_LOST: carried out, never answered
 * @RAM_FAULT_SHORT: the LLD moves half of the blocks and leaves a residual
 * @RAM_FAULT_WRONG_BYTE: the LLD inverts the first byte that a READ returns
 * @RAM_FAULT_NO_MEMORY: the LLD has a WRITE wait delay_ms for memory, in the worker
 * @RAM_NR_FAULTS: how many kinds there are
 */
enum ram_fault_kind {
	RAM_FAULT_NONE,
	RAM_FAULT_STATUS,
	RAM_FAULT_SENSE,
	RAM_FAULT_TASK_SET_FULL,
	RAM_FAULT_TIMEOUT,
	RAM_FAULT_LOST,
	RAM_FAULT_SHORT,
	RAM_FAULT_WRONG_BYTE,
	RAM_FAULT_NO_MEMORY,
	RAM_NR_FAULTS,
};

/**
 * struct ram_fault - what goes wrong, and for which commands
 * @kind: enum ram_fault_kind
 * @every: each Nth of the commands that match
 * @first_lba: of the range a READ or WRITE has to touch
 * @last_lba: of that range
 * @status: for RAM_FAULT_STATUS, a SAM status code
 * @sense: for RAM_FAULT_SENSE, key << 16 | ASC << 8 | ASCQ
 * @delay_ms: for RAM_FAULT_TIMEOUT and RAM_FAULT_NO_MEMORY
 * @count: how many more; negative: no end. Atomic, as are the next two, because
 *	commands on all CPUs are counted
 * @seen: commands that matched
 * @injected: faults there were
 * @fail_abort: how many more aborts fail, whatever @kind is; negative: all. Atomic,
 *	as are the next two: an ioctl's reset runs beside the error handler
 * @fail_lun_reset: LUN resets
 * @fail_target_reset: target resets
 *
 * Settings are read with READ_ONCE: they may change at any time, for the commands that
 * follow.
 */
struct ram_fault {
	enum ram_fault_kind kind;
	u32 every;
	u64 first_lba;
	u64 last_lba;
	u8 status;
	u32 sense;
	u32 delay_ms;
	atomic_t count;
	atomic64_t seen;
	atomic64_t injected;
	atomic_t fail_abort;
	atomic_t fail_lun_reset;
	atomic_t fail_target_reset;
};

void ram_fault_init(struct ram_fault *fault);
bool ram_fault_take(atomic_t *count);
enum ram_fault_kind ram_fault_hits(struct ram_fault *fault, const struct scsi_cmnd *scmd);
bool ram_fault_before(const struct ram_fault *fault, struct scsi_cmnd *scmd,
		      enum ram_fault_kind kind);
u64 ram_fault_after(const struct ram_fault *fault, enum ram_fault_kind kind);

#endif /* SMQ_RAM_FAULT_H */
