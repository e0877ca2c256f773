/* SPDX-License-Identifier: GPL-2.0 */
/*
 * smq: faults on demand, for the commands of any LLD. Comes with <smq/lld.h>. Root sets
 * them in /sys/class/scsi_host/hostN/smq_fault/; an LLD may have a place of its own for
 * a host's settings, and kinds of faults that only it can bring about.
 */
#ifndef SMQ_FAULT_H
#define SMQ_FAULT_H

#include <linux/atomic.h>
#include <linux/jump_label.h>
#include <linux/types.h>
#include <smq/objects.h>

/* On while there is a host that has had a fault armed. */
DECLARE_STATIC_KEY_FALSE(smq_faults);

/**
 * enum smq_fault_kind - what happens to a READ or WRITE
 * @SMQ_FAULT_NONE: nothing
 * @SMQ_FAULT_STATUS: ends with a status, not carried out
 * @SMQ_FAULT_SENSE: ends with CHECK CONDITION and given sense data, not carried out
 * @SMQ_FAULT_TASK_SET_FULL: ends with TASK SET FULL, not carried out
 * @SMQ_FAULT_DROPPED: never reaches the LLD, and never ends
 * @SMQ_FAULT_TIMEOUT: carried out, answered only delay_ms after the LLD's answer
 * @SMQ_FAULT_LOST: carried out, never answered
 * @SMQ_FAULT_SHORT: half of the blocks are moved, the rest is a residual
 * @SMQ_FAULT_WRONG_STATUS: carried out, answered with a status in place of GOOD
 * @SMQ_FAULT_OWN: the first of the LLD's own kinds, which struct smq_fault_kinds names
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
	SMQ_FAULT_OWN,
};

/**
 * struct smq_fault_kinds - faults that only one LLD can bring about
 * @nr: how many
 * @names: of them, the first is that of the kind SMQ_FAULT_OWN
 * @changed: settings of a host have changed. Context: may sleep, under a lock of the
 *	host's; not called for a host that is being removed
 */
struct smq_fault_kinds {
	unsigned int nr;
	const char * const *names;
	void (*changed)(struct smq_host *host);
};

/**
 * struct smq_fault - what goes wrong, and for which commands
 * @kind: enum smq_fault_kind
 * @every: each Nth of the commands that match
 * @first_lba: of the range a READ or WRITE has to touch
 * @last_lba: of that range
 * @status: for SMQ_FAULT_STATUS and SMQ_FAULT_WRONG_STATUS, a SAM status code
 * @sense: for SMQ_FAULT_SENSE, key << 16 | ASC << 8 | ASCQ
 * @delay_ms: for SMQ_FAULT_TIMEOUT
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

/* Gives a command to its LLD, or to its fault; the cold part of queuecommand. */
enum smq_status smq_fault_queue(struct smq_hwq *hwq, struct smq_cmd *cmd);

#endif /* SMQ_FAULT_H */
