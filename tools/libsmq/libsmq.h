/* SPDX-License-Identifier: GPL-2.0 */
/*
 * libsmq: prepared SCSI commands through /dev/smqsgN.
 *
 * A device (struct smq_device) is an open node with slots of its own. Memory is
 * lent to it once (smq_lend), commands are put into its slots once (smq_prepare),
 * and are then run as often as wanted: through a ring (struct smq_ring), where one
 * ring serves any number of devices, or at once by smq_execute(), which waits.
 * Commands that are needed only now and then go whole, with smq_queue_command().
 *
 *	smq_open -> smq_setup -> smq_lend -> smq_prepare
 *	smq_ring_new -> { smq_queue_... -> smq_reap -> smq_slot_outcome }
 *
 * Structures and limits beginning with smq_sg_ and SMQ_SG_ are the kernel's and
 * told in <scsi/smq_sg.h>.
 *
 * Units: lengths and offsets in bytes, LBAs and block counts in logical blocks,
 * timeouts of commands in milliseconds, waits in nanoseconds.
 *
 * Errors: functions that return int give 0 or a count, or a negative errno;
 * nothing is printed. smq_strerror() says what it means for a call, and
 * smq_outcome_text() how a command ended. smq_prepare() tells which field of a slot it
 * refuses, smq_field_name() what that is called.
 *
 * Threads: a ring is used by one thread at a time. The functions of a device may
 * be called by several threads at once; the exceptions are smq_open(), smq_close(),
 * smq_setup() and smq_setup_held(), which have to be alone with their device.
 * smq_ring_add() and smq_ring_remove() belong to the ring's thread. Functions on
 * outcomes and names keep no state. After fork() only one of the two processes
 * may go on with a device or ring; memory lent before is the parent's, of which the
 * child has a copy that no command reaches, unless it is shared.
 *
 * Lifetimes: memory that is lent, the lists of batches and all that a struct
 * smq_sg_uring_cmd points to must stay until the completion has been reaped; the
 * structures passed by address may go as soon as the call has returned. Free the
 * rings before the devices: smq_ring_free() does not wait for commands in flight,
 * which end by themselves, so reap them first if their memory is to be reused.
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

#define LIBSMQ_VERSION	"1.0"

struct smq_device;
struct smq_ring;

/**
 * struct smq_event - a completion
 * @tag: what was given when it was queued
 * @result: of a run: struct smq_sg_status.result. Of a batch: commands that did
 *	not end GOOD, or below 0 the errno of the whole batch, of which nothing was
 *	run then. Of a command: 0, or the errno for which it was not sent
 * @more: of a command: status, host byte, sense length and residual, packed
 */
struct smq_event {
	uint64_t tag;
	int32_t result;
	uint32_t reserved;
	uint64_t more;
};

/**
 * struct smq_outcome - how a command ended, unpacked
 * @error: 0, or the errno for which the command was not sent; the rest is 0 then. EIO also if
 *	its driver told of an error by neither a status nor a host byte
 * @status: SCSI status (SAM)
 * @host: the mid-layer's host byte, DID_
 * @key: sense key; @asc, @ascq: additional sense code and qualifier; 0 without sense
 * @sense_len: bytes of sense data kept, 0 without
 * @resid: bytes that were asked for and not transferred
 * @sense: the sense data, where the kernel put it: valid until the slot runs again
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

/* The calls that smq_strerror() tells apart. */
enum smq_call {
	SMQ_CALL_OPEN,
	SMQ_CALL_SETUP,
	SMQ_CALL_LEND,
	SMQ_CALL_PREPARE,
	SMQ_CALL_RING,
	SMQ_CALL_QUEUE,
	SMQ_CALL_RUN,		/* results of runs and batches, too */
	SMQ_CALL_COMMAND,
	SMQ_CALL_CANCEL,
};

/* The version of the library in use; LIBSMQ_VERSION is that of this header. */
const char *smq_library_version(void);

/* Devices */

/**
 * smq_open() - open the node of a SCSI device
 * @node: /dev/smqsgN
 * @dev: the device, for smq_close(); written on success only
 *
 * While another program has the node open with O_EXCL this waits until that is closed, or
 * a signal comes.
 *
 * Return: 0; -ENOTTY: @node is something else; -ENODEV, -EACCES, -ENOENT ... of open(2);
 * -ENOMEM.
 */
int smq_open(const char *node, struct smq_device **dev);

/* Close it: slots, buffers and the mapped results go. NULL is allowed. */
void smq_close(struct smq_device *dev);

/* Its file descriptor, which stays the library's. */
int smq_fd(const struct smq_device *dev);

/**
 * smq_info() - limits of the device, and its depth at this moment
 * @dev: the device
 * @info: the answer
 *
 * Return: 0; -ENODEV: the device is gone.
 */
int smq_info(const struct smq_device *dev, struct smq_sg_info *info);

/**
 * smq_setup() - get slots, once
 * @dev: the device
 * @slots: 1 to SMQ_SG_MAX_SLOTS
 * @sense_size: bytes of sense kept for each, 0 to SMQ_SG_MAX_SENSE, a multiple of 8
 *
 * Return: 0; -EBUSY: it has slots; -EINVAL: out of range; -ENOMEM. When the slots' status could
 * not be mapped, -ENOMEM as a rule, the slots are there but of no use: close the device.
 */
int smq_setup(struct smq_device *dev, uint32_t slots, uint32_t sense_size);

/**
 * smq_setup_held() - get slots that may keep their requests between runs, once
 * @dev: the device
 * @slots: as of smq_setup()
 * @sense_size: as of smq_setup()
 * @share: percent of the device's queue depth that slots prepared with SMQ_SG_SLOT_HELD
 *	may keep, 0 to 100; smq_sg_info.max_held says how many that is, 0 where nothing can
 *	be kept: the slots work there as well, for what others cost
 *
 * Return: as smq_setup().
 */
int smq_setup_held(struct smq_device *dev, uint32_t slots, uint32_t sense_size, uint32_t share);

/* How many slots it has, 0 before smq_setup(). */
uint32_t smq_slots(const struct smq_device *dev);

/**
 * smq_lend() - lend memory to the device as one of its buffers
 * @dev: the device
 * @index: the buffer's number, 0 to SMQ_SG_MAX_BUFFERS - 1
 * @memory: its begin, at least at a multiple of smq_sg_info.alignment; of whole
 *	pages at best, and of huge ones for long transfers (max_segments)
 * @length: its bytes, up to SMQ_SG_MAX_BUFFER
 * @flags: SMQ_SG_BUFFER_READONLY for data-out from memory that cannot be written,
 *	else 0
 *
 * Return: 0; -EEXIST: @index is in use; -ENOMEM: over RLIMIT_MEMLOCK, without
 * CAP_IPC_LOCK; -EFAULT: not all of it is memory of the right kind; -EOPNOTSUPP: it is a
 * mapped file's, not on tmpfs or hugetlbfs, and not read-only; -EINVAL: out of range.
 */
int smq_lend(struct smq_device *dev, uint32_t index, const void *memory, size_t length,
	     uint32_t flags);

/**
 * smq_take_back() - take a buffer back from the device
 * @dev: the device
 * @index: the buffer's number
 *
 * Return: 0; -ENOENT: there is none; -EBUSY: slots use it.
 */
int smq_take_back(struct smq_device *dev, uint32_t index);

/**
 * smq_prepare() - put commands into slots
 * @dev: the device
 * @first: the first slot
 * @slots: the commands; one with cdb_len 0 empties its slot
 * @count: how many
 * @done: how many have been put in place; when the call failed, the one at fault is
 *	@slots[@done]. May be NULL
 * @field: its field at fault, enum smq_sg_field; smq_field_name() has its name.
 *	SMQ_SG_FIELD_FIRST or _COUNT: there are not as many slots. May be NULL
 *
 * Return: 0; -EINVAL: a field is wrong, or smq_setup() is missing; -ERANGE: the
 * data is not inside the buffer; -ENOENT: there is no such buffer; -EMSGSIZE: more
 * than max_transfer or max_segments; -EPERM: this user may not send this CDB, or
 * the slots are somebody else's; -EBUSY: the slot is in flight.
 */
int smq_prepare(struct smq_device *dev, uint32_t first, const struct smq_sg_slot *slots,
		uint32_t count, uint32_t *done, uint32_t *field);

/**
 * smq_cdb_blocks() - a CDB of READ, WRITE or VERIFY
 * @cdb: at least 16 bytes; those behind the CDB stay as they are, and have to be 0 in a slot
 * @opcode: READ 08h 28h A8h 88h, WRITE 0Ah 2Ah AAh 8Ah, VERIFY 2Fh AFh 8Fh
 * @lba: the first logical block
 * @blocks: how many; 256 at most for the 6-byte commands, 65535 for those of 10
 *
 * Return: bytes of the CDB; -EINVAL: another opcode; -ERANGE: @lba or @blocks does
 * not fit it (0 blocks means 256 in a CDB of 6 bytes, and is refused there).
 */
int smq_cdb_blocks(uint8_t *cdb, uint8_t opcode, uint64_t lba, uint32_t blocks);

/* Batches: which slots to run */

/* @count slots by number. */
static inline struct smq_sg_batch smq_list(const uint32_t *slots, uint32_t count)
{
	struct smq_sg_batch batch = { (uintptr_t)slots, count, 0 };

	return batch;
}

/* @count slots from @first on. */
static inline struct smq_sg_batch smq_range(uint32_t first, uint32_t count)
{
	struct smq_sg_batch batch = { first, count, SMQ_SG_BATCH_RANGE };

	return batch;
}

/* @count runs, each with an LBA or buffer of its own if it says so. */
static inline struct smq_sg_batch smq_runs(const struct smq_sg_run *runs, uint32_t count)
{
	struct smq_sg_batch batch = { (uintptr_t)runs, count, SMQ_SG_BATCH_RUNS };

	return batch;
}

/* A run of @slot that writes @lba into its CDB for this once. */
static inline struct smq_sg_run smq_run_at(uint32_t slot, uint64_t lba)
{
	struct smq_sg_run run = { slot, 0, SMQ_SG_RUN_LBA, lba };

	return run;
}

/**
 * smq_execute() - run a batch and wait for all of it, without a ring
 * @dev: the device
 * @batch: from smq_list(), smq_range() or smq_runs()
 * @failed: how many did not end GOOD, see smq_slot_outcome(). May be NULL
 *
 * Return: 0 when all have ended, in whichever way; -EINTR: a signal came, what had
 * not been sent never is, what was sent ends by itself and has its slot until then, and
 * @failed may be 0; else the batch was wrong and nothing was run.
 */
int smq_execute(struct smq_device *dev, struct smq_sg_batch batch, uint32_t *failed);

/**
 * smq_cancel() - end the waiting of a run
 * @dev: the device
 * @slot: its slot, as it was given to smq_queue_run() or smq_queue_run_with()
 *
 * What waits for a place in the device's queue depth is not sent any more, and ends with
 * ECANCELED, which is reaped as any other end. A command that was sent ends by itself.
 *
 * Return: 0; -EALREADY: it was sent; -ENOENT: the slot is not in flight, and does not wait by
 * itself: a batch waits as a whole, see smq_cancel_all(); -EPERM: the slots are somebody else's;
 * -EINVAL: no such slot; -ENOTTY: a module without SMQ_SG_FEATURE_CANCEL.
 */
int smq_cancel(struct smq_device *dev, uint32_t slot);

/**
 * smq_cancel_all() - end the waiting of all commands of this device
 * @dev: the device; only commands of this open device, not of others who have the node open
 *
 * As smq_cancel(), for all runs, for what batches have not sent yet, and for whole commands.
 *
 * Return: how many waited, a batch being one; -EPERM: the slots are somebody else's;
 * -ENOTTY: as smq_cancel().
 */
int smq_cancel_all(struct smq_device *dev);

/* Rings */

/* The ring takes smq_queue_command(); its entries are twice as large. */
#define SMQ_RING_COMMANDS	1U
/*
 * Completions are polled for, in poll queues of the devices' hosts (IORING_SETUP_IOPOLL): they
 * come to smq_reap() alone, and without interrupts. A device whose host has none ends
 * everything with EOPNOTSUPP, and so does one that is not of smq_sg.
 */
#define SMQ_RING_POLL		2U

/**
 * smq_ring_new() - set up a ring
 * @entries: what can be queued between two submissions, 1 to 32768; twice as many
 *	completions find room, more are kept by the kernel at a higher cost
 * @flags: SMQ_RING_*, or 0
 * @ring: the ring, for smq_ring_free(); written on success only
 *
 * Return: 0; -EINVAL: out of range, or a kernel without uring_cmd (before 5.19);
 * -ENOMEM; -ENOSYS, -EPERM: the system has no io_uring, or not for this user.
 */
int smq_ring_new(unsigned int entries, unsigned int flags, struct smq_ring **ring);

/* NULL is allowed. */
void smq_ring_free(struct smq_ring *ring);

/**
 * smq_ring_add() - make the device known to the ring, which makes it cheaper to use
 * @ring: the ring
 * @dev: the device; its file stays open until it is removed or the ring freed
 *
 * Not a must: the queue functions take any device.
 *
 * Return: 0; -EEXIST: it is known; -ENOSPC: the ring knows SMQ_RING_DEVICES.
 */
int smq_ring_add(struct smq_ring *ring, struct smq_device *dev);
/* What is queued is sent before. Return: 0; -ENOENT: it is not known; or as smq_submit(). */
int smq_ring_remove(struct smq_ring *ring, struct smq_device *dev);
#define SMQ_RING_DEVICES	64

/* The same for smq_queue_command_fd(). Remove @fd before it is closed. */
int smq_ring_add_fd(struct smq_ring *ring, int fd);
int smq_ring_remove_fd(struct smq_ring *ring, int fd);

/**
 * smq_queue_run() - queue a run of one slot
 * @ring: the ring; -EAGAIN when it is full: smq_submit() makes room
 * @dev: whose slot
 * @slot: which
 * @tag: comes back in the event
 *
 * Nothing is sent before smq_submit() or smq_reap(). Of the other smq_queue_
 * functions each queues one entry as well.
 *
 * Return: 0; -EAGAIN.
 */
int smq_queue_run(struct smq_ring *ring, struct smq_device *dev, uint32_t slot, uint64_t tag);

/* The same with an LBA or a buffer of its own: smq_run_at() makes a @run. */
int smq_queue_run_with(struct smq_ring *ring, struct smq_device *dev,
		       const struct smq_sg_run *run, uint64_t tag);

/* A batch, which completes as one when the last of it has ended. */
int smq_queue_batch(struct smq_ring *ring, struct smq_device *dev, struct smq_sg_batch batch,
		    uint64_t tag);

/**
 * smq_queue_command() - queue a whole command, without any slot
 * @ring: made with SMQ_RING_COMMANDS, else -EOPNOTSUPP
 * @dev: to send it to
 * @command: what to send; it may go after the call, what it points to may not
 * @tag: comes back in the event, which smq_command_outcome() unpacks
 *
 * Return: 0; -EAGAIN: the ring is full; -EOPNOTSUPP.
 */
int smq_queue_command(struct smq_ring *ring, struct smq_device *dev,
		      const struct smq_sg_uring_cmd *command, uint64_t tag);

/*
 * The same for another node that takes them: /dev/bsg/H:C:T:L from Linux 7.1 on. Or -EBADF: @fd is
 * below 0.
 */
int smq_queue_command_fd(struct smq_ring *ring, int fd, const struct smq_sg_uring_cmd *command,
			 uint64_t tag);

/* Send what is queued. Return: how many entries were sent, or a negative errno. */
int smq_submit(struct smq_ring *ring);

/**
 * smq_reap() - send what is queued and fetch completions
 * @ring: the ring
 * @events: room for @most of them
 * @most: at least 1
 * @least: wait for as many, up to @most; 0 does not wait. More than twice the ring's
 *	entries may take several calls
 * @wait_ns: nanoseconds to wait at most, below 0 for no end
 *
 * Return: events fetched, fewer than @least when the time was over, a signal came or
 * the ring had no room for more; a negative errno when nothing could be sent and
 * nothing was there. A ring that polls (SMQ_RING_POLL) is no wait that a signal ends:
 * give it an end by @wait_ns.
 */
int smq_reap(struct smq_ring *ring, struct smq_event *events, unsigned int most,
	     unsigned int least, int64_t wait_ns);

/* Results */

/* The slot's entry of the mapped array; NULL for a slot that is none. */
const struct smq_sg_status *smq_status(const struct smq_device *dev, uint32_t slot);

/*
 * How the slot's last run ended; EINVAL in outcome->error for a slot that is none. A run that found
 * the slot in flight (EBUSY) leaves no trace there: a batch that names a slot twice counts it, and
 * the outcome is that of the other.
 */
void smq_slot_outcome(const struct smq_device *dev, uint32_t slot, struct smq_outcome *outcome);

/* How a whole command ended: its event, and what had been sent. */
void smq_command_outcome(const struct smq_event *event, const struct smq_sg_uring_cmd *command,
			 struct smq_outcome *outcome);

/* Status GOOD or CONDITION MET, and nothing wrong on the way. It may be short: @resid. */
bool smq_good(const struct smq_outcome *outcome);

/**
 * smq_outcome_text() - an outcome for people
 * @outcome: the outcome
 * @text: "GOOD", "CHECK CONDITION: Illegal Request (5h): ... (21h/00h)", ...
 * @size: of @text; what does not fit is cut off
 *
 * Return: @text.
 */
const char *smq_outcome_text(const struct smq_outcome *outcome, char *text, size_t size);

/* Names as in the standards and in the kernel; the number for one that has none. */
const char *smq_status_name(unsigned int status, char *text, size_t size);
const char *smq_host_name(unsigned int host, char *text, size_t size);
/* "Illegal Request (5h): Logical block address out of range (21h/00h)" */
const char *smq_sense_text(unsigned int key, unsigned int asc, unsigned int ascq, char *text,
			   size_t size);

/* What @error, of either sign, means as an answer of @call. Constant text. */
const char *smq_strerror(enum smq_call call, int error);

/*
 * The name of a field of <scsi/smq_sg.h>, "cdb_len" of SMQ_SG_FIELD_CDB_LEN; "reserved" is any
 * that is not used and not 0. Constant text; NULL for SMQ_SG_FIELD_NONE and unknown ones.
 */
const char *smq_field_name(unsigned int field);

#ifdef __cplusplus
}
#endif

#endif
