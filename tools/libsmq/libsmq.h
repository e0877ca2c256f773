/* SPDX-License-Identifier: GPL-2.0 */
/*
 * libsmq: prepared SCSI commands through /dev/smqsgN.
 *
 * A device (struct smq_device) is an open node with slots of its own. The program lends memory to
 * it once (smq_lend) and puts commands into its slots once (smq_prepare). Then it runs them as
 * often as it wants: through a ring (struct smq_ring), which serves any number of devices, or by
 * smq_execute(), which waits until all commands of the call have ended. smq_queue_command() sends a
 * command without a slot, which suits commands that are needed only now and then.
 *
 *	smq_open -> smq_setup -> smq_lend -> smq_prepare
 *	smq_ring_new -> { smq_queue_... -> smq_reap -> smq_slot_outcome }
 *
 * Structures and limits whose names begin with smq_sg_ or SMQ_SG_ are the kernel's; <scsi/smq_sg.h>
 * describes them.
 *
 * Units: lengths and offsets in bytes, LBAs and block counts in logical blocks,
 * timeouts of commands in milliseconds, waits in nanoseconds.
 *
 * Errors: functions that return int return 0 or a count, or a negative errno; they print nothing.
 * smq_strerror() says what an errno means for a call, and smq_outcome_text() how a command ended.
 * If smq_prepare() refuses a slot, it also stores the number of the wrong field in *@field;
 * smq_field_name() returns that field's name.
 *
 * Threads: a ring is used by one thread at a time. The functions of a device may be called by
 * several threads at once, but while smq_open(), smq_close(), smq_setup() or smq_setup_held() runs,
 * no other thread may use the device. smq_ring_add() and smq_ring_remove() may be called only by
 * the thread that uses the ring. Functions on outcomes and names keep no state. After fork() only
 * one of the two processes may use a device or ring. Commands go on using the parent's pages of
 * memory that was lent before fork(). The child has its own copy, unless the memory is shared.
 *
 * Lifetimes: lent memory, the lists of batches and all that a struct smq_sg_uring_cmd points to
 * must stay valid until the completion has been reaped. A structure passed by its address is not
 * needed any more when the call has returned. Free the rings before the devices. smq_ring_free()
 * does not wait for commands in flight; they end later. Reap them first if the program is to reuse
 * their memory.
 */
#ifndef LIBSMQ_H
#define LIBSMQ_H

#include <scsi/smq_sg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LIBSMQ_VERSION	"0.1.0"

struct smq_device;
struct smq_ring;

/**
 * struct smq_event - a completion
 * @tag: the tag that was given when the run, batch or command was queued
 * @result: for a run: struct smq_sg_status.result. For a batch: how many commands did not end
 *	GOOD, or a negative errno if none of them was run. For a command without a slot: 0, or the
 *	negative errno if it was not sent
 * @more: for a command without a slot: status, host byte, sense length and residual, packed
 */
struct smq_event {
	uint64_t tag;
	int32_t result;
	uint32_t reserved;
	uint64_t more;
};

/**
 * struct smq_outcome - how a command ended, unpacked
 * @error: 0, or an errno. With an errno all other fields are 0: the command was not sent, or (EIO)
 *	its driver reported an error without a status or a host byte
 * @status: SCSI status (SAM)
 * @host: the mid-layer's host byte, DID_
 * @key: sense key; @asc, @ascq: additional sense code and qualifier; 0 without sense
 * @sense_len: bytes of sense data stored, 0 if there is none
 * @resid: how many of the bytes asked for were not transferred
 * @sense: the sense data. For a slot it is in the kernel's mapped array, and valid until the slot
 *	runs again. For a command without a slot it is in the command's response buffer
 */
struct smq_outcome {
	int error;
	uint8_t status;
	uint8_t host;
	uint8_t key;
	uint8_t asc;
	uint8_t ascq;
	uint8_t sense_len;
	uint32_t resid;
	const uint8_t *sense;
};

/* The calls that smq_strerror() distinguishes. */
enum smq_call {
	SMQ_CALL_OPEN,
	SMQ_CALL_SETUP,
	SMQ_CALL_LEND,
	SMQ_CALL_PREPARE,
	SMQ_CALL_RING,
	SMQ_CALL_QUEUE,
	SMQ_CALL_RUN,		/* also for results of runs and batches */
	SMQ_CALL_COMMAND,
	SMQ_CALL_CANCEL,
};

/* The version of the library in use; LIBSMQ_VERSION is the version of this header. */
const char *smq_library_version(void);

/* Devices */

/**
 * smq_open() - open the node of a SCSI device
 * @node: /dev/smqsgN
 * @dev: the device, for smq_close(); stored only on success
 *
 * If another program has the node open with O_EXCL, smq_open() waits until that program closes it,
 * or until a signal comes.
 *
 * Return: 0; -ENOTTY: @node is not a node of smq_sg; -ENODEV, -EACCES, -ENOENT or another error of
 * open(2); -ENOMEM.
 */
int smq_open(const char *node, struct smq_device **dev);

/* Close a device and free its slots, buffers and mapped results. NULL is allowed. */
void smq_close(struct smq_device *dev);

/* A device's file descriptor. The library still owns it: do not close it. */
int smq_fd(const struct smq_device *dev);

/**
 * smq_info() - read the device's limits and its present queue depth
 * @dev: the device
 * @info: receives the limits and the depth
 *
 * Return: 0; -ENODEV: the device is gone.
 */
int smq_info(const struct smq_device *dev, struct smq_sg_info *info);

/**
 * smq_setup() - allocate a device's slots, once
 * @dev: the device
 * @slots: 1 to SMQ_SG_MAX_SLOTS
 * @sense_size: bytes of sense data stored for each slot, 0 to SMQ_SG_MAX_SENSE, a multiple of 8
 *
 * Return: 0; -EBUSY: the device has slots already; -EINVAL: out of range; -ENOMEM. If the slots
 * exist but their status could not be mapped (usually -ENOMEM), they cannot be used: close the
 * device.
 */
int smq_setup(struct smq_device *dev, uint32_t slots, uint32_t sense_size);

/**
 * smq_setup_held() - as smq_setup(), for programs that use SMQ_SG_SLOT_HELD
 * @dev: the device
 * @slots: as in smq_setup()
 * @sense_size: as in smq_setup()
 * @share: 0 to 100; has no effect: all slots keep requests between runs, as many as
 *	smq_sg_info.max_held says
 *
 * Return: as in smq_setup().
 */
int smq_setup_held(struct smq_device *dev, uint32_t slots, uint32_t sense_size, uint32_t share);

/* How many slots a device has; 0 before smq_setup(). */
uint32_t smq_slots(const struct smq_device *dev);

/**
 * smq_lend() - lend memory to the device as one of its buffers
 * @dev: the device
 * @index: the buffer's number, 0 to SMQ_SG_MAX_BUFFERS - 1
 * @memory: its address, a multiple of smq_sg_info.alignment. Whole pages are best, and huge pages
 *	for long transfers (see max_segments)
 * @length: its length in bytes, up to SMQ_SG_MAX_BUFFER
 * @flags: SMQ_SG_BUFFER_READONLY for read-only memory, which can be used only for data-out;
 *	otherwise 0
 *
 * Return: 0; -EEXIST: @index is in use; -ENOMEM: more than RLIMIT_MEMLOCK allows, without
 * CAP_IPC_LOCK; -EFAULT: a part of the range is not mapped, is not memory (but registers of a
 * device), or is not writable; -EOPNOTSUPP: the memory maps a file that is neither on tmpfs nor on
 * hugetlbfs, and @flags is not SMQ_SG_BUFFER_READONLY (kernels newer than 6.1: -EFAULT); -EINVAL:
 * out of range.
 */
int smq_lend(struct smq_device *dev, uint32_t index, const void *memory, size_t length,
	     uint32_t flags);

/**
 * smq_take_back() - take a buffer back from the device
 * @dev: the device
 * @index: the buffer's number
 *
 * Return: 0; -ENOENT: there is no such buffer; -EBUSY: slots use it.
 */
int smq_take_back(struct smq_device *dev, uint32_t index);

/**
 * smq_prepare() - put commands into slots
 * @dev: the device
 * @first: the first slot
 * @slots: the commands; an element with cdb_len 0 empties its slot
 * @count: how many elements @slots has
 * @done: how many slots have been filled; if the call failed, @slots[@done] is at fault. May be
 *	NULL
 * @field: the field at fault, an enum smq_sg_field; smq_field_name() has its name.
 *	SMQ_SG_FIELD_FIRST or _COUNT: the device has too few slots. May be NULL
 *
 * Return: 0; -EINVAL: a field is wrong, or smq_setup() was not called; -ERANGE: the data is not
 * inside the buffer; -ENOENT: there is no such buffer; -EMSGSIZE: more than max_transfer or
 * max_segments; -EPERM: this user may not send this CDB, or other credentials own the slots;
 * -EBUSY: the slot is in flight.
 */
int smq_prepare(struct smq_device *dev, uint32_t first, const struct smq_sg_slot *slots,
		uint32_t count, uint32_t *done, uint32_t *field);

/**
 * smq_cdb_blocks() - write the CDB of a READ, WRITE or VERIFY
 * @cdb: an array of at least 16 bytes. The bytes after the CDB are not changed; in a slot they must
 *	be 0
 * @opcode: READ 08h 28h A8h 88h, WRITE 0Ah 2Ah AAh 8Ah, VERIFY 2Fh AFh 8Fh
 * @lba: the first logical block
 * @blocks: how many blocks; at most 256 for CDBs of 6 bytes, 65535 for those of 10
 *
 * Return: the CDB's length; -EINVAL: another opcode; -ERANGE: @lba or @blocks does not fit into the
 * CDB, or @blocks is 0 in a CDB of 6 bytes, where it would mean 256.
 */
int smq_cdb_blocks(uint8_t *cdb, uint8_t opcode, uint64_t lba, uint32_t blocks);

/* Batches: which slots to run */

/* A batch of the @count slots whose numbers are in @slots. */
static inline struct smq_sg_batch smq_list(const uint32_t *slots, uint32_t count)
{
	struct smq_sg_batch batch = { (uintptr_t)slots, count, 0 };

	return batch;
}

/* A batch of @count slots, from @first on. */
static inline struct smq_sg_batch smq_range(uint32_t first, uint32_t count)
{
	struct smq_sg_batch batch = { first, count, SMQ_SG_BATCH_RANGE };

	return batch;
}

/* A batch of @count runs, each of which may have an LBA or a buffer of its own. */
static inline struct smq_sg_batch smq_runs(const struct smq_sg_run *runs, uint32_t count)
{
	struct smq_sg_batch batch = { (uintptr_t)runs, count, SMQ_SG_BATCH_RUNS };

	return batch;
}

/**
 * smq_timed() - a timed batch, whose entries are sent when they are due
 * @timed: its entries and results, see <scsi/smq_sg.h>. The kernel writes to it: it says which
 *	entry and field are at fault, and how many entries were sent
 * @count: how many entries it has, up to SMQ_SG_MAX_TIMED
 *
 * Needs SMQ_SG_FEATURE_TIMED. smq_execute() sends the entries itself; a ring that gets the batch
 * needs a worker of io_uring for it.
 *
 * Return: the batch.
 */
static inline struct smq_sg_batch smq_timed(struct smq_sg_timed *timed, uint32_t count)
{
	struct smq_sg_batch batch = { (uintptr_t)timed, count, SMQ_SG_BATCH_TIMED };

	return batch;
}

/* A run of @slot with @lba in its CDB. The slot itself is not changed. */
static inline struct smq_sg_run smq_run_at(uint32_t slot, uint64_t lba)
{
	struct smq_sg_run run = { slot, 0, SMQ_SG_RUN_LBA, lba };

	return run;
}

/**
 * smq_execute() - run a batch without a ring, and wait until it has ended
 * @dev: the device
 * @batch: from smq_list(), smq_range(), smq_runs() or smq_timed()
 * @failed: how many commands did not end GOOD; smq_slot_outcome() says how each ended. May be NULL
 *
 * Return: 0: all commands have ended, GOOD or not. -EINTR: a signal came. Commands that had not
 * been sent are never sent; commands that had been sent use their slots until they end. *@failed
 * may be 0 then although commands failed. Another errno: the batch was wrong and nothing was run.
 */
int smq_execute(struct smq_device *dev, struct smq_sg_batch batch, uint32_t *failed);

/**
 * smq_cancel() - cancel a run that has not been sent
 * @dev: the device
 * @slot: the slot of the run, as given to smq_queue_run() or smq_queue_run_with()
 *
 * A command that still waits for room in the device's queue depth is never sent. It ends with
 * ECANCELED, and its completion is reaped like any other. A command that was sent is not aborted:
 * it ends as usual.
 *
 * Return: 0; -EALREADY: the command was sent; -ENOENT: the slot is not in flight, or its command
 * belongs to a waiting batch, which only smq_cancel_all() cancels; -EPERM: other credentials own
 * the slots; -EINVAL: no such slot; -ENOTTY: the module has no SMQ_SG_FEATURE_CANCEL.
 */
int smq_cancel(struct smq_device *dev, uint32_t slot);

/**
 * smq_cancel_all() - cancel all commands of a device that have not been sent
 * @dev: the device. Commands sent through another open file of the node are not cancelled
 *
 * Does what smq_cancel() does, for all runs, for all commands that batches have not sent yet, and
 * for commands of smq_queue_command().
 *
 * Return: how many waited, a batch counting as one; one of these may end with ETIMEDOUT instead of
 * ECANCELED. -EPERM and -ENOTTY: as in smq_cancel().
 */
int smq_cancel_all(struct smq_device *dev);

/* Rings */

/* The ring also takes smq_queue_command(); for that its entries are twice as large. */
#define SMQ_RING_COMMANDS	1U
/*
 * The ring polls for completions (IORING_SETUP_IOPOLL), in poll queues of the devices' hosts: only
 * smq_reap() finds them, and they cause no interrupts. If a device's host has no poll queue, or the
 * file is not a node of smq_sg, everything sent to it ends with EOPNOTSUPP.
 */
#define SMQ_RING_POLL		2U

/**
 * smq_ring_new() - make a ring
 * @entries: how many entries can be queued between two submissions, 1 to 32768. The ring has room
 *	for twice as many completions. The kernel keeps further ones outside the ring, which costs
 *	more
 * @flags: SMQ_RING_*, or 0
 * @ring: the ring, for smq_ring_free(); stored only on success
 *
 * Return: 0; -EINVAL: out of range, or the kernel has no uring_cmd (before 5.19); -ENOMEM; -ENOSYS:
 * the kernel has no io_uring; -EPERM: this user may not use it.
 */
int smq_ring_new(unsigned int entries, unsigned int flags, struct smq_ring **ring);

/* Free a ring. NULL is allowed. */
void smq_ring_free(struct smq_ring *ring);

/**
 * smq_ring_add() - register a device with a ring, so that each run costs less
 * @ring: the ring
 * @dev: the device; its file stays open until the device is removed from the ring, or the ring is
 *	freed
 *
 * This is optional: the queue functions also take devices that are not registered.
 *
 * Return: 0; -EEXIST: it is registered already; -ENOSPC: the ring has SMQ_RING_DEVICES devices.
 */
int smq_ring_add(struct smq_ring *ring, struct smq_device *dev);
/*
 * Removes a device from a ring; sends queued entries first. Return: 0; -ENOENT: not registered; or
 * an error of smq_submit().
 */
int smq_ring_remove(struct smq_ring *ring, struct smq_device *dev);
#define SMQ_RING_DEVICES	64

/* The same for a file that smq_queue_command_fd() uses. Remove @fd before you close it. */
int smq_ring_add_fd(struct smq_ring *ring, int fd);
int smq_ring_remove_fd(struct smq_ring *ring, int fd);

/**
 * smq_queue_run() - queue a run of one slot
 * @ring: the ring
 * @dev: the device
 * @slot: its slot
 * @tag: returned in the event
 *
 * Like each of the smq_queue_ functions, it queues one entry. The entry is sent by the next
 * smq_submit() or smq_reap().
 *
 * Return: 0; -EAGAIN: the ring is full, and smq_submit() makes room.
 */
int smq_queue_run(struct smq_ring *ring, struct smq_device *dev, uint32_t slot, uint64_t tag);

/*
 * Queue a run of one slot with another LBA or buffer than the slot's. smq_run_at() returns a @run
 * with another LBA.
 */
int smq_queue_run_with(struct smq_ring *ring, struct smq_device *dev,
		       const struct smq_sg_run *run, uint64_t tag);

/* Queue a batch. It has one completion, when all its commands have ended. */
int smq_queue_batch(struct smq_ring *ring, struct smq_device *dev, struct smq_sg_batch batch,
		    uint64_t tag);

/**
 * smq_queue_command() - queue a command without a slot
 * @ring: a ring made with SMQ_RING_COMMANDS
 * @dev: the device
 * @command: the command. After the call the structure is not needed any more; what it points to
 *	must stay valid until the completion
 * @tag: returned in the event, which smq_command_outcome() unpacks
 *
 * Return: 0; -EAGAIN: the ring is full; -EOPNOTSUPP: @ring was made without SMQ_RING_COMMANDS.
 */
int smq_queue_command(struct smq_ring *ring, struct smq_device *dev,
		      const struct smq_sg_uring_cmd *command, uint64_t tag);

/*
 * The same for another node that takes such commands: /dev/bsg/H:C:T:L from Linux 7.1 on. Returns
 * -EBADF if @fd is negative.
 */
int smq_queue_command_fd(struct smq_ring *ring, int fd, const struct smq_sg_uring_cmd *command,
			 uint64_t tag);

/* Send queued entries. Return: how many entries were sent, or a negative errno. */
int smq_submit(struct smq_ring *ring);

/**
 * smq_reap() - send queued entries and fetch completions
 * @ring: the ring
 * @events: an array of at least @most elements
 * @most: at least 1
 * @least: how many completions to wait for, 0 to @most; with 0 the call does not wait. If @least is
 *	more than twice the ring's entries, several calls may be needed
 * @wait_ns: the longest wait, in nanoseconds; negative: no limit
 *
 * Return: how many events were fetched; fewer than @least if @wait_ns passed, a signal came, or the
 * ring had no room for more. A negative errno if nothing could be sent and there was no completion.
 * A signal does not end the wait of a ring that polls (SMQ_RING_POLL): set a limit by @wait_ns.
 */
int smq_reap(struct smq_ring *ring, struct smq_event *events, unsigned int most,
	     unsigned int least, int64_t wait_ns);

/* Results */

/* A slot's entry in the mapped array; NULL if there is no such slot. */
const struct smq_sg_status *smq_status(const struct smq_device *dev, uint32_t slot);

/*
 * How a slot's last run ended; outcome->error is EINVAL if there is no such slot. A run that found
 * its slot in flight (EBUSY) is not recorded in the slot. So if a batch names a slot twice, the
 * result of the batch counts one of the runs as failed, but the slot has the outcome of the other.
 */
void smq_slot_outcome(const struct smq_device *dev, uint32_t slot, struct smq_outcome *outcome);

/*
 * How an entry of a timed batch ended. It has no sense data, only sense key and additional sense
 * code; sense_len is 0.
 */
void smq_timed_outcome(const struct smq_sg_timed_result *result, struct smq_outcome *outcome);

/* How a command without a slot ended, from its event. @command is the command that was queued. */
void smq_command_outcome(const struct smq_event *event, const struct smq_sg_uring_cmd *command,
			 struct smq_outcome *outcome);

/*
 * Returns true if a command ended with status GOOD or CONDITION MET, and with DID_OK as host byte.
 * It may have moved less data than asked for: see @resid.
 */
bool smq_good(const struct smq_outcome *outcome);

/**
 * smq_outcome_text() - describe an outcome in words
 * @outcome: the outcome
 * @text: "GOOD", "CHECK CONDITION: Illegal Request (5h): ... (21h/00h)", ...
 * @size: bytes in @text; what does not fit is cut off
 *
 * Return: @text.
 */
const char *smq_outcome_text(const struct smq_outcome *outcome, char *text, size_t size);

/* Names as in the standards and in the kernel; a number if there is no name. */
const char *smq_status_name(unsigned int status, char *text, size_t size);
const char *smq_host_name(unsigned int host, char *text, size_t size);
/* "Illegal Request (5h): Logical block address out of range (21h/00h)" */
const char *smq_sense_text(unsigned int key, unsigned int asc, unsigned int ascq, char *text,
			   size_t size);

/* What @error means if @call returned it; its sign does not matter. The text is constant. */
const char *smq_strerror(enum smq_call call, int error);

/*
 * The name of a field of <scsi/smq_sg.h>: "cdb_len" for SMQ_SG_FIELD_CDB_LEN. "reserved" stands for
 * any unused field that is not 0. The text is constant; NULL for SMQ_SG_FIELD_NONE and unknown
 * numbers.
 */
const char *smq_field_name(unsigned int field);

#ifdef __cplusplus
}
#endif

#endif
