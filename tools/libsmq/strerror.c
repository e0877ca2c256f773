// SPDX-License-Identifier: GPL-2.0
/* What an errno means for the call that gave it. */
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
	{ SMQ_CALL_OPEN, EPROTONOSUPPORT, "smq_sg is older than this library" },
	{ SMQ_CALL_SETUP, EINVAL, "slots, sense_size or share is out of its range" },
	{ SMQ_CALL_SETUP, EOPNOTSUPP, "smq_sg is too old for held slots" },
	{ SMQ_CALL_SETUP, EBUSY, "the file has its slots already" },
	{ SMQ_CALL_LEND, EINVAL, "index, length or flags is out of its range" },
	{ SMQ_CALL_LEND, EEXIST, "the buffer's index is in use" },
	{ SMQ_CALL_LEND, ENOENT, "there is no buffer of this index" },
	{ SMQ_CALL_LEND, EBUSY, "slots still use the buffer" },
	{ SMQ_CALL_LEND, ENOMEM, "more memory would be locked than RLIMIT_MEMLOCK allows" },
	{ SMQ_CALL_LEND, EOPNOTSUPP, "the memory is a mapped file's, and not lent as read-only" },
	{ SMQ_CALL_LEND, EFAULT, "not all of it is memory, or it cannot be written" },
	{ SMQ_CALL_PREPARE, EBUSY, "the slot is in flight" },
	{ SMQ_CALL_PREPARE, EPERM, "the kernel's filter refuses the CDB without CAP_SYS_RAWIO, "
				   "or the slots are another user's" },
	{ SMQ_CALL_PREPARE, ERANGE, "the data is not inside the buffer" },
	{ SMQ_CALL_PREPARE, ENOENT, "there is no buffer of this index" },
	{ SMQ_CALL_PREPARE, EMSGSIZE,
	  "the data is more than max_transfer, or in more pieces than max_segments" },
	{ SMQ_CALL_PREPARE, EINVAL, "a field is wrong; the kernel log names it" },
	{ SMQ_CALL_RING, EINVAL, "entries or flags is out of its range, or a kernel before 5.19" },
	{ SMQ_CALL_QUEUE, EAGAIN, "the ring is full: submit what it has" },
	{ SMQ_CALL_QUEUE, EOPNOTSUPP, "the ring was made without SMQ_RING_COMMANDS" },
	{ SMQ_CALL_RUN, EAGAIN, "too many commands of this file wait for their turn" },
	{ SMQ_CALL_RUN, EBUSY, "the slot is in flight" },
	{ SMQ_CALL_RUN, EINVAL, "there is no such slot, or a flag is unknown" },
	{ SMQ_CALL_RUN, ENODATA, "the slot is empty" },
	{ SMQ_CALL_RUN, EPERM, "the slot was prepared by another user" },
	{ SMQ_CALL_RUN, ERANGE, "the LBA does not fit the CDB" },
	{ SMQ_CALL_RUN, EOPNOTSUPP, "the CDB has no LBA that could be replaced, or the ring polls "
	  "and the host has no poll queues" },
	{ SMQ_CALL_RUN, ENODEV, "the device is gone" },
	{ SMQ_CALL_RUN, ETIMEDOUT, "it waited for its turn as long as it may" },
	{ SMQ_CALL_RUN, ECANCELED, "given up before it was sent" },
	{ SMQ_CALL_COMMAND, EOPNOTSUPP, "the node takes no commands from io_uring, "
	  "or none that are polled" },
	{ SMQ_CALL_COMMAND, EPERM, "the kernel's filter refuses the CDB without CAP_SYS_RAWIO" },
	{ SMQ_CALL_COMMAND, ENODEV, "the device is gone" },
};

const char *smq_strerror(enum smq_call call, int error)
{
	unsigned int i;
	const char *text;

	error = error < 0 ? -error : error;
	for (i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++)
		if (meanings[i].call == call && meanings[i].error == error)
			return meanings[i].text;
	/* Not strerror(): its buffer is everybody's. */
	text = strerrordesc_np(error);
	return text ? text : "unknown error";
}
