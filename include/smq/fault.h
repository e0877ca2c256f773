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

/**
 * smq_fault_init() - sets the defaults: no fault
 * @fault: the settings
 *
 * Context: any.
 */
void smq_fault_init(struct smq_fault *fault);

/**
 * smq_fault_show() - prints one of a host's settings as text
 * @fault: the settings
 * @own: the LLD's own kinds, or NULL
 * @name: the setting's name: a number or count in struct smq_fault, "kind" or "injected"
 * @page: where the text goes
 *
 * Context: any.
 * Return: the length, or -ENOENT.
 */
ssize_t smq_fault_show(const struct smq_fault *fault, const struct smq_fault_kinds *own,
		       const char *name, char *page);

/**
 * smq_fault_store() - sets one of a host's settings from text
 * @fault: the settings
 * @own: the LLD's own kinds, or NULL
 * @name: as for smq_fault_show()
 * @page: the text
 *
 * The caller then calls smq_fault_changed().
 *
 * Context: any.
 * Return: 0, or a negative errno after a message.
 */
int smq_fault_store(struct smq_fault *fault, const struct smq_fault_kinds *own,
		    const char *name, const char *page);

/**
 * smq_fault_use() - makes a host use the LLD's own settings
 * @host: from smq_host_alloc(), not added yet
 * @fault: the LLD's settings, which must outlive the host
 *
 * Context: any.
 */
void smq_fault_use(struct smq_host *host, struct smq_fault *fault);

/**
 * smq_host_fault() - the settings that a host uses
 * @host: the host
 *
 * Context: any.
 * Return: the LLD's own settings after smq_fault_use(), else those of the layer.
 */
struct smq_fault *smq_host_fault(struct smq_host *host);

/**
 * smq_fault_count_down() - takes one from a count of faults
 * @count: for example smq_fault.fail_abort; a negative count means no limit, and stays
 *
 * Context: any.
 * Return: false if the count was 0 already.
 */
bool smq_fault_count_down(atomic_t *count);

/**
 * smq_fault_changed() - makes changed settings of a host take effect
 * @host: the host
 *
 * An LLD that called smq_fault_use() calls this after it has changed its settings.
 *
 * Context: may sleep.
 */
void smq_fault_changed(struct smq_host *host);

/**
 * smq_fault_hits() - decides whether a command gets a fault, and counts it
 * @fault: the settings
 * @scmd: the command; each call counts it, so call this once for each command
 *
 * The layer calls this for its kinds of faults, an LLD for the kinds that it has added.
 *
 * Context: any.
 * Return: true if the command gets a fault.
 */
bool smq_fault_hits(struct smq_fault *fault, const struct scsi_cmnd *scmd);

/**
 * smq_fault_queue() - gives a command to the LLD, or injects its fault
 * @hwq: the command's hardware queue
 * @cmd: the command
 *
 * The cold part of queuecommand, for <smq/lld_template.h>.
 *
 * Context: as queue_cmd.
 * Return: as queue_cmd.
 */
enum smq_status smq_fault_queue(struct smq_hwq *hwq, struct smq_cmd *cmd);

#endif /* SMQ_FAULT_H */
