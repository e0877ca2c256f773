/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * The sg passthrough fast path: /dev/smqsgN.
 *
 * A program opens the node of a SCSI device, says how many slots it wants (SMQ_SG_SETUP), lends
 * buffers (SMQ_SG_BUFFER), fills slots with commands (SMQ_SG_PREPARE), and then runs them as often
 * as it likes: one per io_uring SQE (SMQ_SG_URING_RUN), many per SQE (SMQ_SG_URING_BATCH), or many
 * per ioctl (SMQ_SG_RUN). It reads the results in an array that it maps from the node.
 *
 * One READ of 8 blocks at LBA 0, without io_uring:
 *
 *	struct smq_sg_setup setup = { .slots = 1, .sense_size = 32 };
 *	struct smq_sg_buffer buffer = { .address = (uintptr_t)data, .length = 4096 };
 *	struct smq_sg_slot slot = { .cdb = { 0x28, [8] = 8 }, .cdb_len = 10,
 *				    .direction = SMQ_SG_IN, .length = 4096 };
 *	struct smq_sg_prepare prepare = { .slots = (uintptr_t)&slot, .count = 1 };
 *	struct smq_sg_run_batch run = { .batch = { .list = 0, .count = 1,
 *						   .flags = SMQ_SG_BATCH_RANGE } };
 *	const struct smq_sg_status *status;
 *	int fd = open("/dev/smqsg0", O_RDWR);
 *
 *	ioctl(fd, SMQ_SG_SETUP, &setup);
 *	status = mmap(NULL, setup.status_size, PROT_READ, MAP_SHARED, fd, setup.status_offset);
 *	ioctl(fd, SMQ_SG_BUFFER, &buffer);
 *	ioctl(fd, SMQ_SG_PREPARE, &prepare);
 *	ioctl(fd, SMQ_SG_RUN, &run);
 *	if (run.failed)
 *		printf("result %#x, sense key %u\n", status->result, status->sense_key);
 *
 * With io_uring an SQE takes the place of SMQ_SG_RUN: opcode IORING_OP_URING_CMD, fd, cmd_op
 * SMQ_SG_URING_RUN, and struct smq_sg_run at cmd. The res of its CQE is smq_sg_status.result.
 *
 * The node also accepts what /dev/sgN accepts: SG_IO with headers of interface 3 and 4, and
 * write(), read() and poll() with those of interface 3. An SQE whose cmd_op is not of type
 * SMQ_SG_IOC is an ad hoc command: it has the struct bsg_uring_cmd of Linux 7.1, also on kernels
 * that do not define it, see struct smq_sg_uring_cmd.
 *
 * Rings with IORING_SETUP_IOPOLL send their commands to the poll queues of the device's
 * host. If the host has none, each command ends with EOPNOTSUPP.
 *
 * All structures have the same layout for 32-bit and 64-bit programs. Addresses are 64 bits wide.
 * All that is not used must be 0, or the call fails with EINVAL: reserved fields, unknown flags, a
 * field whose flag is not set, the bytes of a CDB beyond its length, all fields of a slot that is
 * emptied, and in an SQE of 128 bytes the bytes after struct smq_sg_run or struct smq_sg_batch. A
 * later module can thus use these bytes; smq_sg_info.features says what a module can do. The other
 * fields of the SQE are io_uring's; its flags for uring_cmd (IORING_URING_CMD_FIXED) are for ad hoc
 * commands only. An unknown cmd_op of type SMQ_SG_IOC ends with EOPNOTSUPP.
 *
 * Commands that are in flight at the same time may be executed in any order, even those of one
 * batch.
 *
 * A run has its slot's timeout, and no I/O priority. A later module can take both from the bytes
 * after struct smq_sg_run in an SQE of 128 bytes, and from a batch's list with a new SMQ_SG_BATCH_*
 * flag; today's programs will work unchanged.
 */
#ifndef _UAPI_SCSI_SMQ_SG_H
#define _UAPI_SCSI_SMQ_SG_H

#include <linux/ioctl.h>
#include <linux/types.h>

/* Slots of one open file. */
#define SMQ_SG_MAX_SLOTS	1048576
/* Buffers of one open file. */
#define SMQ_SG_MAX_BUFFERS	65535
/* Bytes of a CDB: variable-length CDBs (SPC-5 4.2.3) up to what the mid-layer carries. */
#define SMQ_SG_MAX_CDB		32
/* Bytes of sense per slot: the mid-layer's buffer. */
#define SMQ_SG_MAX_SENSE	96
/* Bytes of one buffer. */
#define SMQ_SG_MAX_BUFFER	0x40000000U
/* Commands of one batch. */
#define SMQ_SG_MAX_BATCH	SMQ_SG_MAX_SLOTS
/* Entries of one timed batch. */
#define SMQ_SG_MAX_TIMED	65536
/* Files of one timed batch. */
#define SMQ_SG_MAX_FILES	1024
/* Nanoseconds for which a timed batch spins rather than sleeps, before each entry. */
#define SMQ_SG_MAX_SPIN		1000000
/*
 * Numbers of a file's timed batches that may be waited for at a time, see smq_sg_timed_entry.after.
 */
#define SMQ_SG_TIMED_WINDOW	65536

/*
 * smq_sg_info.features: what this module can do with this device. Later modules may add bits; a bit
 * never changes its meaning.
 */
/*
 * Requests are kept from one run to the next, up to smq_sg_info.max_held. Not on every kernel. The
 * bit does not depend on SMQ_SG_SLOT_HELD.
 */
#define SMQ_SG_FEATURE_HELD	0x1ULL
/* Rings with IORING_SETUP_IOPOLL: the host has poll queues. */
#define SMQ_SG_FEATURE_POLLED	0x2ULL
/* SMQ_SG_CANCEL. */
#define SMQ_SG_FEATURE_CANCEL	0x4ULL
/* SMQ_SG_BATCH_TIMED. */
#define SMQ_SG_FEATURE_TIMED	0x8ULL

/*
 * A field of a structure below. A call that fails because of one field writes that field's number
 * into the member field of its structure, and SMQ_SG_FIELD_NONE if it failed for another reason.
 * SMQ_SG_FIELD_RESERVED stands for all members named reserved.
 */
enum smq_sg_field {
	SMQ_SG_FIELD_NONE = 0,
	SMQ_SG_FIELD_RESERVED = 1,
	SMQ_SG_FIELD_FLAGS = 2,
	SMQ_SG_FIELD_SLOTS = 3,
	SMQ_SG_FIELD_SENSE_SIZE = 4,
	SMQ_SG_FIELD_HELD_SHARE = 5,
	SMQ_SG_FIELD_ADDRESS = 6,
	SMQ_SG_FIELD_LENGTH = 7,
	SMQ_SG_FIELD_INDEX = 8,
	SMQ_SG_FIELD_CDB = 9,
	SMQ_SG_FIELD_CDB_LEN = 10,
	SMQ_SG_FIELD_DIRECTION = 11,
	SMQ_SG_FIELD_BUFFER = 12,
	SMQ_SG_FIELD_OFFSET = 13,
	SMQ_SG_FIELD_FIRST = 14,
	SMQ_SG_FIELD_COUNT = 15,
	SMQ_SG_FIELD_LIST = 16,
	SMQ_SG_FIELD_SLOT = 17,
	SMQ_SG_FIELD_LBA = 18,
	SMQ_SG_FIELD_FILES = 19,
	SMQ_SG_FIELD_START = 20,
	SMQ_SG_FIELD_SPIN = 21,
	SMQ_SG_FIELD_DUE = 22,
	SMQ_SG_FIELD_NUMBER = 23,
	SMQ_SG_FIELD_AFTER = 24,
	SMQ_SG_FIELD_FILE = 25,
};

/**
 * struct smq_sg_info - what the node offers and what the device takes
 * @features: out: SMQ_SG_FEATURE_*
 * @slots: out: slots of this file, 0 before SMQ_SG_SETUP
 * @depth: out: the device's queue depth at this moment, in commands
 * @max_transfer: out: the most bytes that a slot's command may transfer: as many as the device
 *	takes and a buffer can hold
 * @max_segments: out: the most pieces of memory that the data of one command may have
 * @alignment: out: address and length of a slot's data must be multiples of this, a power of two,
 *	in bytes
 * @slot_bytes: out: bytes of kernel memory for one slot of this file, including its status; before
 *	SMQ_SG_SETUP as if the file had the smallest status
 * @max_waiting: out: how many of a file's commands may wait for a place in the device's
 *	queue depth at a time; a batch counts as one. Further commands end with EAGAIN
 * @max_held: out: how many requests this file may keep from one command to the next at this
 *	moment: its part of the node's attribute pool_share; 0: none, or before SMQ_SG_SETUP
 * @reserved: out: 0
 *
 * For SMQ_SG_INFO.
 */
struct smq_sg_info {
	__u64 features;
	__u32 slots;
	__u32 depth;
	__u32 max_transfer;
	__u32 max_segments;
	__u32 alignment;
	__u32 slot_bytes;
	__u32 max_waiting;
	__u32 max_held;
	__u32 reserved[22];
};

/**
 * struct smq_sg_setup - how many slots a file has
 * @slots: in: 1 to SMQ_SG_MAX_SLOTS
 * @sense_size: in: bytes of sense that a slot's status holds, 0 to
 *	SMQ_SG_MAX_SENSE, a multiple of 8; longer sense is cut off
 * @flags: in: 0
 * @status_stride: out: bytes from one struct smq_sg_status to the next
 * @status_size: out: bytes of the status array, a multiple of the page size
 * @status_offset: out: the offset for mmap() of the array, with PROT_READ and MAP_SHARED. Before
 *	SMQ_SG_SETUP mmap() fails with ENXIO
 * @held_share: in: 0 to 100; has no effect, see SMQ_SG_SLOT_HELD
 * @field: out: the field at fault, enum smq_sg_field
 * @reserved: in: 0
 *
 * For SMQ_SG_SETUP, once per file. EINVAL: a field is out of its range. EBUSY: the file is set up
 * already. ENOMEM.
 */
struct smq_sg_setup {
	__u32 slots;
	__u32 sense_size;
	__u32 flags;
	__u32 status_stride;
	__u64 status_size;
	__u64 status_offset;
	__u32 held_share;
	__u32 field;
	__u64 reserved[3];
};

/**
 * struct smq_sg_buffer - lends memory to slots, or takes it back
 * @address: in: address of the memory; 0 with @length 0
 * @length: in: bytes, up to SMQ_SG_MAX_BUFFER; 0 takes the buffer back
 * @index: in: 0 to SMQ_SG_MAX_BUFFERS - 1
 * @flags: in: SMQ_SG_BUFFER_READONLY or 0
 * @field: out: the field at fault, enum smq_sg_field
 * @reserved0: in: 0
 * @reserved: in: 0
 *
 * For SMQ_SG_BUFFER. With SMQ_SG_BUFFER_READONLY use memory that is writable, or that will not
 * change: if the next write to a mapping makes a copy (copy-on-write), Linux 6.1 may pin the pages
 * from before the copy. The pages are pinned until the buffer is taken back or the file is closed.
 * Until then they count as memory that the caller's user has locked, as io_uring's registered
 * buffers do, up to the caller's RLIMIT_MEMLOCK; a caller with CAP_IPC_LOCK has no limit. Memory
 * that is unmapped meanwhile stays pinned: commands go on using the old pages.
 *
 * EPERM: the slots belong to other credentials, see SMQ_SG_PREPARE. EEXIST: @index is taken.
 * ENOENT: there is no buffer @index to take back. EBUSY: slots still use it. ENOMEM: beyond
 * RLIMIT_MEMLOCK. EFAULT: not all of it is memory, or it is not writable and SMQ_SG_BUFFER_READONLY
 * is missing. EOPNOTSUPP: without SMQ_SG_BUFFER_READONLY, memory of a mapped file that is not on
 * tmpfs or hugetlbfs; kernels newer than 6.1 return EFAULT.
 */
struct smq_sg_buffer {
	__u64 address;
	__u64 length;
	__u32 index;
	__u32 flags;
	__u32 field;
	__u32 reserved0;
	__u64 reserved;
};

/* The device only reads the buffer: for data-out. */
#define SMQ_SG_BUFFER_READONLY	1U

enum smq_sg_direction {
	SMQ_SG_NONE = 0,	/* no data */
	SMQ_SG_IN = 1,		/* from the device */
	SMQ_SG_OUT = 2,		/* to the device */
};

/**
 * struct smq_sg_slot - a command to be prepared
 * @cdb: in: the command descriptor block; bytes beyond @cdb_len are 0
 * @cdb_len: in: bytes of the CDB, 6 to SMQ_SG_MAX_CDB; 0, with all other fields 0, empties the slot
 * @direction: in: enum smq_sg_direction
 * @buffer: in: index of the buffer; 0 with SMQ_SG_NONE
 * @length: in: bytes to transfer; 0 with SMQ_SG_NONE. A multiple of
 *	smq_sg_info.alignment: prepared data is never copied, unlike that of ad hoc
 *	commands
 * @offset: in: where the data begins in the buffer, in bytes; the data's address must be a multiple
 *	of smq_sg_info.alignment, too; 0 with SMQ_SG_NONE
 * @timeout_ms: in: milliseconds until error handling begins, 0 for 60 s
 * @flags: in: SMQ_SG_SLOT_* or 0
 * @reserved: in: 0
 */
struct smq_sg_slot {
	__u8  cdb[SMQ_SG_MAX_CDB];
	__u8  cdb_len;
	__u8  direction;
	__u16 buffer;
	__u32 length;
	__u64 offset;
	__u32 timeout_ms;
	__u32 flags;
	__u64 reserved;
};

/*
 * Has no effect. It asked once for a request and tag that the slot kept from one run to the next,
 * as part of smq_sg_setup.held_share. Now commands of all slots use requests that are kept, see
 * smq_sg_info.max_held.
 */
#define SMQ_SG_SLOT_HELD	1U

/**
 * struct smq_sg_prepare - fills slots
 * @slots: in: address of @count struct smq_sg_slot
 * @first: in: the first slot to fill
 * @count: in: how many
 * @flags: in: 0
 * @done: out: slots filled. If the call failed, slot @first + @done is at fault; with EFAULT one of
 *	the 32 slots from there on. All slots from there on are unchanged
 * @field: out: the field at fault, enum smq_sg_field: of the slot, or of this structure
 * @reserved0: in: 0
 * @reserved: in: 0
 *
 * For SMQ_SG_PREPARE. Without CAP_SYS_RAWIO the CDB must pass the kernel's filter for SG_IO, data
 * to the device needs a file that is open for writing, whatever the opcode, and the data must have
 * the direction of the opcode (SPC-5, SBC-4); and if the device is no CD drive, the opcode must be
 * a read, verify or inquiry, or, with a file that is open for writing, a write or SYNCHRONIZE
 * CACHE. The same holds for ad hoc commands and SG_IO. All
 * slots of a file belong to the credentials of the first call that lent a buffer or filled a slot.
 * A caller with other credentials may not lend or take back buffers, nor fill or run slots.
 *
 * EBUSY: the slot is in flight. EPERM: the CDB or its data needs CAP_SYS_RAWIO or a file open for
 * writing, or the slots belong to other credentials. ERANGE: the data is not inside the buffer.
 * ENOENT: no such buffer. EINVAL: another field is wrong. EMSGSIZE: more than max_transfer bytes or
 * max_segments pieces. The module's debug messages (dynamic debug) name the limit.
 */
struct smq_sg_prepare {
	__u64 slots;
	__u32 first;
	__u32 count;
	__u32 flags;
	__u32 done;
	__u32 field;
	__u32 reserved0;
	__u64 reserved;
};

/**
 * struct smq_sg_status - how a slot's command ended
 * @result: 0 for status GOOD, even with a @resid. Above 0: SCSI status in bits 0 to
 *	7 (SAM-6 5.3), the mid-layer's host byte in bits 8 to 15, SMQ_SG_RESULT_* above.
 *	Below 0 an errno: the command was not sent; or EIO: its driver reported an error
 *	by neither SCSI status nor host byte
 * @resid: bytes that were not transferred, of those asked for
 * @runs: how often the slot's command has ended, modulo 2^32
 * @sense_key: SPC-5 table 48; 0 without sense
 * @asc: additional sense code; 0 without sense
 * @ascq: its qualifier
 * @sense_len: bytes of @sense that are valid
 * @sense: sense data as the device gave it
 *
 * Written before the command's completion is posted. The mapped array has one for each slot;
 * smq_sg_setup.status_stride is the distance between two.
 */
struct smq_sg_status {
	__s32 result;
	__u32 resid;
	__u32 runs;
	__u8  sense_key;
	__u8  asc;
	__u8  ascq;
	__u8  sense_len;
	__u8  sense[];
};

/* In smq_sg_status.result and in the CQE of SMQ_SG_URING_RUN. */
#define SMQ_SG_RESULT_STATUS(result)	((result) & 0xff)
#define SMQ_SG_RESULT_HOST(result)	(((result) >> 8) & 0xff)
/* The device gave sense data. */
#define SMQ_SG_RESULT_SENSE		0x10000
/* With a status other than GOOD: fewer bytes were transferred than asked for. */
#define SMQ_SG_RESULT_SHORT		0x20000

/**
 * struct smq_sg_run - runs one slot
 * @slot: the slot
 * @buffer: with SMQ_SG_RUN_BUFFER: the buffer to use instead of the slot's, at the
 *	same offset and length; else 0
 * @flags: SMQ_SG_RUN_* or 0
 * @lba: with SMQ_SG_RUN_LBA: the logical block address to write into the CDB; else 0
 *
 * The 16 bytes at sqe->cmd of an SMQ_SG_URING_RUN, and an element of the list of a batch with
 * SMQ_SG_BATCH_RUNS. CQE: res is smq_sg_status.result, even if the command was not sent. With EBUSY
 * and EPERM, and for a slot number out of range, no status is written.
 *
 * io_uring ends a chain of linked SQEs (IOSQE_IO_LINK) only at a CQE below 0: after a command that
 * ended with CHECK CONDITION, or a batch with failed commands, the chain goes on. If it must stop
 * there, submit the next SQE after reading the CQE of this one.
 *
 * EAGAIN: max_waiting commands of the file wait already. EBUSY: the slot is in flight.
 * ECANCELED: the command was waiting when the task that submitted it exited, was killed or called
 * exec(), when a signal ended SMQ_SG_RUN, or when SMQ_SG_CANCEL cancelled it.
 * IORING_OP_ASYNC_CANCEL and IORING_OP_LINK_TIMEOUT do not cancel a waiting command. EINVAL: an
 * unknown flag or slot, an unused byte that is not 0, or IORING_URING_CMD_FIXED; with
 * SMQ_SG_RUN_BUFFER: a slot without data, data-in for a buffer that is read-only, memory that is
 * not aligned or has a gap for this device. EMSGSIZE: more pieces of memory than max_segments.
 * ENODATA: the slot is empty. ENODEV: the device is gone. ENOENT: there is no such buffer. ENOMEM.
 * EOPNOTSUPP: the CDB has no LBA that could be replaced, or the ring is polled and the host has no
 * poll queue. EPERM: the slot belongs to other credentials. ERANGE: @lba does not fit the CDB, or
 * the data does not fit @buffer. ETIMEDOUT: the command waited for a place in the device's queue
 * depth for as long as its timeout; in a batch, for 60 s since it began to wait or
 * last made progress.
 */
struct smq_sg_run {
	__u32 slot;
	__u16 buffer;
	__u16 flags;
	__u64 lba;
};

/*
 * @lba is valid. For READ, WRITE, WRITE AND VERIFY, VERIFY and WRITE ATOMIC of 6, 10, 12, 16 bytes
 * (SBC-5).
 */
#define SMQ_SG_RUN_LBA		1U
/* @buffer is valid. */
#define SMQ_SG_RUN_BUFFER	2U

/**
 * struct smq_sg_batch - runs many slots
 * @list: address of @count slot numbers (__u32), or see SMQ_SG_BATCH_*
 * @count: 1 to SMQ_SG_MAX_BATCH
 * @flags: SMQ_SG_BATCH_* or 0
 *
 * The 16 bytes at sqe->cmd of an SMQ_SG_URING_BATCH. CQE: res is the number of commands that did
 * not end with status GOOD, 0 for none. Below 0 it is an errno: the batch itself was wrong, and no
 * slot was run. EFAULT: not all of the list is memory. EINVAL: a field is wrong, or an unused byte
 * is not 0. EPERM: the slots belong to other credentials. ENOMEM. Each slot's own result is in its
 * status, as with struct smq_sg_run. A slot that fails does not stop the slots after it in the
 * list. If SMQ_SG_CANCEL or the end of the task cancels a batch that waits, the commands that it
 * has not sent fail with ECANCELED and are counted.
 */
struct smq_sg_batch {
	__u64 list;
	__u32 count;
	__u32 flags;
};

/* @list is the number of the first of @count consecutive slots. */
#define SMQ_SG_BATCH_RANGE	1U
/* @list is the address of @count struct smq_sg_run. */
#define SMQ_SG_BATCH_RUNS	2U
/* A timed batch: @list is the address of struct smq_sg_timed, @count 1 to SMQ_SG_MAX_TIMED. */
#define SMQ_SG_BATCH_TIMED	4U

/**
 * struct smq_sg_timed_entry - a command of a timed batch, or a wait
 * @run: the slot to run, with SMQ_SG_RUN_* and SMQ_SG_TIMED_* in its flags
 * @due: nanoseconds from smq_sg_timed.start at which it is due; not below that of the entry before
 * @number: with SMQ_SG_TIMED_NUMBER: the entry's number, at least 1; else 0. Numbers are unique
 *	among all timed batches of the file for as long as it is open, and ascend within a batch
 * @after: with SMQ_SG_TIMED_AFTER: the number of an entry that must have ended before this one is
 *	sent, of this or another timed batch of the file; lower than @number. Else 0. If an entry
 *	has ended whose number is higher by a multiple of SMQ_SG_TIMED_WINDOW, @after counts as
 *	ended, too. If no entry with this number ever ends, the batch waits until it is cancelled
 * @inflight: not sent while this many commands or more are in flight, of those of all timed batches
 *	of the file that have an entry with @inflight above 0; 0: no limit
 * @file: index in smq_sg_timed.files of the file whose slot is run; 0 if there are no files
 * @reserved: 0
 *
 * Entries are sent strictly in the order of the list. An entry is sent when it is due, its
 * condition @after holds, fewer than @inflight commands are in flight, and its slot is not in
 * flight; those behind it wait meanwhile.
 */
struct smq_sg_timed_entry {
	struct smq_sg_run run;
	__u64 due;
	__u32 number;
	__u32 after;
	__u16 inflight;
	__u16 file;
	__u32 reserved;
};

/* @number is valid. */
#define SMQ_SG_TIMED_NUMBER	0x100U
/* @after is valid; needs SMQ_SG_TIMED_NUMBER. */
#define SMQ_SG_TIMED_AFTER	0x200U
/* No command: the entry only waits, and ends when it would be sent. All else in @run is 0. */
#define SMQ_SG_TIMED_NOTHING	0x400U

/**
 * struct smq_sg_timed_result - how an entry of a timed batch ended
 * @issued: nanoseconds from smq_sg_timed.start at which the command was sent, or the entry has
 *	ended without that
 * @ended: nanoseconds from smq_sg_timed.start at which it has ended
 * @result: as smq_sg_status.result; 0 for an entry without a command
 * @resid: as smq_sg_status.resid
 * @sense_key: likewise
 * @asc: likewise
 * @ascq: likewise
 * @reserved0: 0
 * @reserved: 0
 *
 * Written by the time that the batch ends. If a signal ended SMQ_SG_RUN, commands that were in
 * flight then have no result: it stays as it was.
 */
struct smq_sg_timed_result {
	__u64 issued;
	__u64 ended;
	__s32 result;
	__u32 resid;
	__u8  sense_key;
	__u8  asc;
	__u8  ascq;
	__u8  reserved0;
	__u32 reserved;
};

/**
 * struct smq_sg_timed - runs slots at given times
 * @entries: in: address of smq_sg_batch.count struct smq_sg_timed_entry, which are read once
 * @results: in: address of as many struct smq_sg_timed_result; 0: no results, which takes less time
 * @files: in: address of @nr_files descriptors (__s32) of nodes, which entries name by their index
 * @start: in: the time from which all times count, in nanoseconds of CLOCK_MONOTONIC; 0: now. out:
 *	that time
 * @max_past: in: how far in the past the first entry may be due when the call begins, in
 *	nanoseconds
 * @spun: out: nanoseconds for which the batch has spun
 * @nr_files: in: up to SMQ_SG_MAX_FILES; 0: all entries run slots of the file itself
 * @spin: in: for how many nanoseconds at most to spin rather than sleep before an entry, up to
 *	SMQ_SG_MAX_SPIN: the CPU is busy meanwhile, but the entry is sent sooner
 * @done: out: how many entries were sent or have ended, from the first on
 * @index: out: the entry at fault, if @field is not SMQ_SG_FIELD_NONE
 * @field: out: the field at fault, enum smq_sg_field: of that entry, or of this structure for
 *	RESERVED, FILES, START and SPIN; then @index is smq_sg_batch.count
 * @flags: in: 0
 * @reserved: in: 0
 *
 * A batch with SMQ_SG_BATCH_TIMED, whose caller sends each entry when it is due: with SMQ_SG_RUN
 * the caller itself, with SMQ_SG_URING_BATCH a worker of io_uring, of which a ring has only a few.
 * It sleeps between entries and when it has to wait. All entries are checked before the first is
 * sent.
 *
 * Batches may be submitted from several threads, each on a CPU of its own, with the same @start on
 * the same file. Then @after and @inflight hold across them. A load that is longer than a batch is
 * a chain of batches. A batch ends when all of its commands have ended; to begin the next one
 * without a pause, submit it earlier from another thread or as another SQE.
 *
 * The errors of struct smq_sg_batch, of which EFAULT may also mean that all entries were sent, but
 * not all results could be written; and EINTR: a signal, or the cancellation of the SQE. EBADF: a
 * descriptor is no open node. EINVAL: @due is before that of the entry before, so large that the
 * time overflows, or more than @max_past in the past; @after is not lower than @number; @number is
 * not above that of the entry before. EOPNOTSUPP: the ring is polled. For a slot: EINVAL, ENODATA,
 * EOPNOTSUPP, ERANGE as described at struct smq_sg_run; a slot that changes meanwhile, and all else
 * that can be wrong with a slot or buffer, is the result of that entry. EPERM: also if the slots of
 * another file belong to other credentials.
 *
 * smq_sg_cancel.cancelled counts a timed batch as one, and once more if one of its commands waits
 * for a place in the queue depth of the same device. The cancellation takes up to 100 ms. The
 * removal of the device of the file that the batch was submitted on ends the batch likewise, with
 * ENODEV; that of another device only its own commands. Entries that were not sent for such reasons
 * are counted as failed.
 */
struct smq_sg_timed {
	__u64 entries;
	__u64 results;
	__u64 files;
	__u64 start;
	__u64 max_past;
	__u64 spun;
	__u32 nr_files;
	__u32 spin;
	__u32 done;
	__u32 index;
	__u32 field;
	__u32 flags;
	__u64 reserved[2];
};

/**
 * struct smq_sg_run_batch - a batch without io_uring
 * @batch: in: see struct smq_sg_batch
 * @failed: out: commands that did not end with status GOOD
 * @field: out: the field at fault, enum smq_sg_field
 * @reserved: in: 0
 *
 * For SMQ_SG_RUN, which waits until all commands have ended. EINTR: the caller got a signal that
 * kills it or that it handles. Commands in flight end by themselves, and their status is written;
 * commands that waited did not run, and their result is -ECANCELED. SIGSTOP, a debugger and the
 * freezer of cgroup v2 stop the caller only after its commands have ended. Suspend and the freezer
 * of cgroup v1 freeze the caller even while its commands are in flight.
 */
struct smq_sg_run_batch {
	struct smq_sg_batch batch;
	__u32 failed;
	__u32 field;
	__u32 reserved[2];
};

/**
 * struct smq_sg_cancel - cancels commands that wait
 * @slot: in: with SMQ_SG_CANCEL_SLOT: the slot; else 0
 * @flags: in: SMQ_SG_CANCEL_SLOT: the run of one slot. 0: all waiting commands of the file
 * @cancelled: out: how many commands waited; a batch counts as one. One of these may end with
 *	ETIMEDOUT instead of ECANCELED, if its time is just over
 * @field: out: the field at fault, enum smq_sg_field
 * @reserved: in: 0
 *
 * For SMQ_SG_CANCEL. Commands that wait for a place in the device's queue depth are not sent and
 * end with ECANCELED: a run, the commands that a batch has not sent yet, an ad hoc command or an
 * SG_IO. A command that was sent ends by itself, at the latest by its timeout and error handling.
 * SMQ_SG_CANCEL_SLOT cancels only a run that was submitted by itself, because a batch waits as a
 * whole.
 *
 * EALREADY: the slot is in flight or is just being sent, and will not wait again. ENOENT: the slot
 * is not in flight, and does not wait by itself; it may be in a batch that waits. EPERM: the slots
 * belong to other credentials. EINVAL: a field is wrong.
 */
struct smq_sg_cancel {
	__u32 slot;
	__u32 flags;
	__u32 cancelled;
	__u32 field;
	__u64 reserved[2];
};

/* @slot is valid. */
#define SMQ_SG_CANCEL_SLOT	1U

/**
 * struct smq_sg_uring_cmd - a whole command in an SQE
 * @request: address of the CDB
 * @request_len: length of the CDB, 1 to SMQ_SG_MAX_CDB bytes
 * @protocol: 0 (BSG_PROTOCOL_SCSI)
 * @subprotocol: 0 (BSG_SUB_PROTOCOL_SCSI_CMD)
 * @max_response_len: bytes at @response for sense data
 * @response: address for sense data, or 0
 * @dout_xferp: address of data-out
 * @dout_xfer_len: bytes of data-out
 * @dout_iovec_count: above 0: @dout_xferp is the address of an array of this many struct iovec
 * @din_xferp: address for data-in
 * @din_xfer_len: bytes of data-in
 * @din_iovec_count: above 0: @din_xferp is the address of an array of this many struct iovec
 * @timeout_ms: milliseconds, 0 for 60 s
 * @reserved: ignored
 *
 * Has the same layout as struct bsg_uring_cmd of <linux/bsg.h> in Linux 7.1, for programs built
 * with older headers. <linux/bsg.h> describes the rules and the 64 bits in the second half of the
 * CQE. Needs a ring with IORING_SETUP_SQE128 and IORING_SETUP_CQE32, else EOPNOTSUPP. A command
 * with iovecs of a 32-bit program also ends with EOPNOTSUPP if a thread of io_uring submits the SQE
 * (IORING_SETUP_SQPOLL, IOSQE_ASYNC). With IORING_URING_CMD_FIXED the data address lies in a
 * registered buffer. Iovecs are read when the SQE is submitted, even if the command has to wait.
 *
 * If a command has to wait for a place in the queue depth, its data counts as locked memory of the
 * user until the command has ended, unless the data is in a registered buffer. If that exceeds
 * RLIMIT_MEMLOCK, without CAP_IPC_LOCK, the command does not wait and ends with EAGAIN, as when
 * max_waiting commands wait. If a waiting command ends without having been sent (ETIMEDOUT,
 * ECANCELED, ENODEV), it may write zeros to its memory for data-in. This happens if data-in has to
 * be copied, for example because the memory is not aligned or the device cannot reach it.
 */
struct smq_sg_uring_cmd {
	__u64 request;
	__u32 request_len;
	__u32 protocol;
	__u32 subprotocol;
	__u32 max_response_len;
	__u64 response;
	__u64 dout_xferp;
	__u32 dout_xfer_len;
	__u32 dout_iovec_count;
	__u64 din_xferp;
	__u32 din_xfer_len;
	__u32 din_iovec_count;
	__u32 timeout_ms;
	__u8  reserved[12];
};

#define SMQ_SG_IOC		0xeb

#define SMQ_SG_INFO		_IOR(SMQ_SG_IOC, 0x00, struct smq_sg_info)
#define SMQ_SG_SETUP		_IOWR(SMQ_SG_IOC, 0x01, struct smq_sg_setup)
#define SMQ_SG_BUFFER		_IOWR(SMQ_SG_IOC, 0x02, struct smq_sg_buffer)
#define SMQ_SG_PREPARE		_IOWR(SMQ_SG_IOC, 0x03, struct smq_sg_prepare)
#define SMQ_SG_RUN		_IOWR(SMQ_SG_IOC, 0x04, struct smq_sg_run_batch)
#define SMQ_SG_CANCEL		_IOWR(SMQ_SG_IOC, 0x05, struct smq_sg_cancel)

/* cmd_op of an SQE. */
#define SMQ_SG_URING_RUN	_IOW(SMQ_SG_IOC, 0x80, struct smq_sg_run)
#define SMQ_SG_URING_BATCH	_IOW(SMQ_SG_IOC, 0x81, struct smq_sg_batch)

#endif /* _UAPI_SCSI_SMQ_SG_H */
