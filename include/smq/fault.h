/* SPDX-License-Identifier: GPL-2.0 */
/*
 * smq: faults on demand, for the commands of any LLD. <smq/lld.h> includes this file. Root sets a
 * host's faults in /sys/class/scsi_host/hostN/smq_fault/. An LLD may have another interface for
 * these settings, and kinds of faults that only it can inject.
 */
#ifndef SMQ_FAULT_H
#define SMQ_FAULT_H

#include <linux/atomic.h>
#include <linux/jump_label.h>
#include <linux/types.h>
#include <smq/objects.h>

/* On from a host's first fault until that host is removed. */
DECLARE_STATIC_KEY_FALSE(smq_faults);

/**
 * enum smq_fault_kind - what happens to a READ or WRITE
 * @SMQ_FAULT_NONE: nothing
 * @SMQ_FAULT_STATUS: ends with a status, without being executed
 * @SMQ_FAULT_SENSE: ends with CHECK CONDITION and given sense data, without being executed
 * @SMQ_FAULT_TASK_SET_FULL: ends with TASK SET FULL, without being executed
 * @SMQ_FAULT_DROPPED: never reaches the LLD, and never ends
 * @SMQ_FAULT_TIMEOUT: executed; completes only delay_ms after the LLD has completed it
 * @SMQ_FAULT_LOST: executed, never completed
 * @SMQ_FAULT_SHORT: half of the blocks are transferred, the rest is the residual
 * @SMQ_FAULT_WRONG_STATUS: executed, completed with a status in place of GOOD
 * @SMQ_FAULT_LLD: the first of the LLD's own kinds, which struct smq_fault_kinds names
 */
enum smq_fault_kind {
	SMQ_FAULT_NONE,
	SMQ_FAULT_STATUS,
	SMQ_FAULT_SENSE,
	SMQ_FAULT_TASK_SET_FULL,
	SMQ_FAULT_DROPPED,
	SMQ_FAULT_TIMEOUT,
	SMQ_FAULT_LOST,
	SMQ_FAULT_SHORT,
	SMQ_FAULT_WRONG_STATUS,
	SMQ_FAULT_LLD,
};

/**
 * struct smq_fault_kinds - faults that only one LLD can inject
 * @nr: number of kinds
 * @names: their names, beginning with the name of SMQ_FAULT_LLD
 * @changed: called when settings of a host have changed. Context: may sleep, under a lock of the
 *	host; not called for a host that is being removed
 */
struct smq_fault_kinds {
	unsigned int nr;
	const char * const *names;
	void (*changed)(struct smq_host *host);
};

/**
 * struct smq_fault - what goes wrong, and for which commands
 * @kind: enum smq_fault_kind
 * @every: only each Nth command that matches gets the fault
 * @first_lba: first block of the range that a READ or WRITE must touch
 * @last_lba: last block of that range
 * @status: for SMQ_FAULT_STATUS and SMQ_FAULT_WRONG_STATUS, a SAM status code
 * @sense: for SMQ_FAULT_SENSE, key << 16 | ASC << 8 | ASCQ
 * @delay_ms: for SMQ_FAULT_TIMEOUT
 * @count: how many more faults to inject; negative: no limit. smq_fault_store() makes it 1 if a
 *	kind is stored while it is 0, and 0 for SMQ_FAULT_NONE. Atomic, as are the next two,
 *	because commands on all CPUs are counted
 * @seen: commands that matched
 * @injected: number of faults so far
 * @fail_abort: how many more aborts fail, whatever @kind is; negative: all. Atomic, as are the
 *	next two, because a reset by ioctl may run at the same time as the error handler
 * @fail_lun_reset: likewise, for LUN resets
 * @fail_target_reset: likewise, for target resets
 *
 * Settings are read with READ_ONCE, because they may change at any time. A change applies to the
 * commands that follow.
 */
struct smq_fault {
	unsigned int kind;
	u64 every;
	u64 first_lba;
	u64 last_lba;
	u64 status;
	u64 sense;
	u64 delay_ms;
	atomic_t count;
	atomic64_t seen;
	atomic64_t injected;
	atomic_t fail_abort;
	atomic_t fail_lun_reset;
	atomic_t fail_target_reset;
};

struct scsi_cmnd;

void smq_fault_init(struct smq_fault *fault);
ssize_t smq_fault_show(const struct smq_fault *fault, const struct smq_fault_kinds *own,
		       const char *name, char *page);
int smq_fault_store(struct smq_fault *fault, const struct smq_fault_kinds *own,
		    const char *name, const char *page);

void smq_fault_use(struct smq_host *host, struct smq_fault *fault);
struct smq_fault *smq_host_fault(struct smq_host *host);
void smq_fault_changed(struct smq_host *host);
bool smq_fault_hits(struct smq_fault *fault, const struct scsi_cmnd *scmd);

/* Gives a command to the LLD, or injects its fault; the cold part of queuecommand. */
enum smq_status smq_fault_queue(struct smq_hwq *hwq, struct smq_cmd *cmd);

#endif /* SMQ_FAULT_H */
