// SPDX-License-Identifier: GPL-2.0
/* The meaning of an errno for the call that returned it, and names of fields at fault. */
#include <errno.h>
#include <string.h>

#include "libsmq.h"

struct meaning {
	enum smq_call call;
	int error;
	const char *text;
};

static const struct meaning meanings[] = {
	{ SMQ_CALL_OPEN, ENOTTY, "not a /dev/smqsgN" },
	{ SMQ_CALL_SETUP, EINVAL, "slots, sense_size or share is out of range" },
	{ SMQ_CALL_SETUP, EBUSY, "this open file already has slots" },
	{ SMQ_CALL_LEND, EINVAL, "index, length or flags is out of range" },
	{ SMQ_CALL_LEND, EEXIST, "the buffer's index is in use" },
	{ SMQ_CALL_LEND, ENOENT, "there is no buffer of this index" },
	{ SMQ_CALL_LEND, EBUSY, "slots still use the buffer" },
	{ SMQ_CALL_LEND, ENOMEM, "more memory would be locked than RLIMIT_MEMLOCK allows" },
	{ SMQ_CALL_LEND, EOPNOTSUPP, "the memory maps a file, and is not lent as read-only" },
	{ SMQ_CALL_LEND, EFAULT, "part of the memory is not mapped, not RAM, or not writable" },
	{ SMQ_CALL_PREPARE, EBUSY, "the slot is in flight" },
	{ SMQ_CALL_PREPARE, EPERM, "the kernel's filter refuses the CDB without CAP_SYS_RAWIO, "
				   "or the slots belong to another user" },
	{ SMQ_CALL_PREPARE, ERANGE, "the data is not inside the buffer" },
	{ SMQ_CALL_PREPARE, ENOENT, "there is no buffer of this index" },
	{ SMQ_CALL_PREPARE, EMSGSIZE,
	  "the data is more than max_transfer, or in more pieces than max_segments" },
	{ SMQ_CALL_PREPARE, EINVAL, "a field is wrong, or there is no such slot" },
	{ SMQ_CALL_RING, EINVAL,
	  "entries or flags is out of range, or the kernel is older than 5.19" },
	{ SMQ_CALL_QUEUE, EAGAIN, "the ring is full: submit its entries" },
	{ SMQ_CALL_QUEUE, EOPNOTSUPP, "the ring was made without SMQ_RING_COMMANDS" },
	{ SMQ_CALL_RUN, EAGAIN, "too many commands of this file wait for their turn" },
	{ SMQ_CALL_RUN, EBUSY, "the slot is in flight" },
	{ SMQ_CALL_RUN, EINVAL, "there is no such slot, a flag is unknown, an unused field is not "
	  "0, or the buffer does not suit the slot" },
	{ SMQ_CALL_RUN, ENODATA, "the slot is empty" },
	{ SMQ_CALL_RUN, ENOENT, "there is no buffer of this index" },
	{ SMQ_CALL_RUN, EPERM, "the slot was prepared by another user" },
	{ SMQ_CALL_RUN, ERANGE, "the LBA does not fit into the CDB, or the data into the buffer" },
	{ SMQ_CALL_RUN, EMSGSIZE, "the data is in more pieces than max_segments" },
	{ SMQ_CALL_RUN, EOPNOTSUPP, "the CDB has no LBA that could be replaced, or the ring polls "
	  "and the host has no poll queues" },
	{ SMQ_CALL_RUN, ENODEV, "the device is gone" },
	{ SMQ_CALL_RUN, ETIMEDOUT, "the command waited too long for its turn" },
	{ SMQ_CALL_RUN, ECANCELED, "cancelled before it was sent" },
	{ SMQ_CALL_COMMAND, EAGAIN, "too many commands of this file wait for their turn" },
	{ SMQ_CALL_COMMAND, ETIMEDOUT, "the command waited too long for its turn" },
	{ SMQ_CALL_COMMAND, EOPNOTSUPP, "the node takes no commands from io_uring, "
	  "or none that are polled" },
	{ SMQ_CALL_COMMAND, EPERM, "the kernel's filter refuses the CDB without CAP_SYS_RAWIO" },
	{ SMQ_CALL_COMMAND, ENODEV, "the device is gone" },
	{ SMQ_CALL_COMMAND, ECANCELED, "cancelled before it was sent" },
	{ SMQ_CALL_CANCEL, EALREADY, "the slot's command was sent already" },
	{ SMQ_CALL_CANCEL, ENOENT, "the slot is not in flight, or its command belongs to a waiting "
				   "batch" },
	{ SMQ_CALL_CANCEL, EINVAL, "there is no such slot" },
	{ SMQ_CALL_CANCEL, EPERM, "the slots belong to another user" },
	{ SMQ_CALL_CANCEL, ENOTTY, "this version of smq_sg cannot cancel" },
};

static const char * const fields[] = {
	[SMQ_SG_FIELD_RESERVED] = "reserved",
	[SMQ_SG_FIELD_FLAGS] = "flags",
	[SMQ_SG_FIELD_SLOTS] = "slots",
	[SMQ_SG_FIELD_SENSE_SIZE] = "sense_size",
	[SMQ_SG_FIELD_HELD_SHARE] = "held_share",
	[SMQ_SG_FIELD_ADDRESS] = "address",
	[SMQ_SG_FIELD_LENGTH] = "length",
	[SMQ_SG_FIELD_INDEX] = "index",
	[SMQ_SG_FIELD_CDB] = "cdb",
	[SMQ_SG_FIELD_CDB_LEN] = "cdb_len",
	[SMQ_SG_FIELD_DIRECTION] = "direction",
	[SMQ_SG_FIELD_BUFFER] = "buffer",
	[SMQ_SG_FIELD_OFFSET] = "offset",
	[SMQ_SG_FIELD_FIRST] = "first",
	[SMQ_SG_FIELD_COUNT] = "count",
	[SMQ_SG_FIELD_LIST] = "list",
	[SMQ_SG_FIELD_SLOT] = "slot",
	[SMQ_SG_FIELD_LBA] = "lba",
	[SMQ_SG_FIELD_FILES] = "files",
	[SMQ_SG_FIELD_START] = "start",
	[SMQ_SG_FIELD_SPIN] = "spin",
	[SMQ_SG_FIELD_DUE] = "due",
	[SMQ_SG_FIELD_NUMBER] = "number",
	[SMQ_SG_FIELD_AFTER] = "after",
	[SMQ_SG_FIELD_FILE] = "file",
};

const char *smq_field_name(unsigned int field)
{
	return field < sizeof(fields) / sizeof(fields[0]) ? fields[field] : NULL;
}

const char *smq_strerror(enum smq_call call, int error)
{
	unsigned int i;
	const char *text;

	error = error < 0 ? -error : error;
	for (i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++)
		if (meanings[i].call == call && meanings[i].error == error)
			return meanings[i].text;
	/* Not strerror(), whose buffer all threads share. */
	text = strerrordesc_np(error);
	return text ? text : "unknown error";
}
