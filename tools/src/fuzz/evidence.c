// SPDX-License-Identifier: GPL-2.0
/*
 * After a read that returned wrong data: reports details that help to choose between the possible
 * causes. These are: the command was not run; the device transferred no data; the device has other
 * data; the completion came before the data; the data went to memory that no longer belongs to the
 * process.
 */
#include <linux/bsg.h>
#include <scsi/sg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "evidence.h"
#include "slot.h"
#include "tally.h"
#include "way.h"

#define LATE_SECONDS	0.1
#define READ_10		1	/* the kind of media_command() that is READ(10) */
#define TIMEOUT_MS	60000

static void report_way(const struct transfer *transfer)
{
	const struct ring *ring = last_sending.ring;

	report_more("%u bytes, CDB %#x, slot flags %#x buffer %u, run flags %#x LBA %llu buffer %u",
		    transfer->slot.length, transfer->slot.cdb[0], transfer->slot.flags,
		    transfer->slot.buffer, transfer->run.flags,
		    (unsigned long long)transfer->run.lba, transfer->run.buffer);
	if (ring)
		report_more("ring %#x: CQE with result %d, flags %#x, %#llx %#llx, after %.6f s",
			    ring->flags, ring->res, ring->cqe_flags,
			    (unsigned long long)ring->rest[0], (unsigned long long)ring->rest[1],
			    last_sending.ended - last_sending.began);
	else
		report_more("ended after %.6f s", last_sending.ended - last_sending.began);
}

/*
 * Only runs change the status: each run that ends increments status.runs. own->runs has the value
 * from before the command. If the command was sent as a run and the two are equal, the run has not
 * ended.
 */
static void report_status(const struct own *own, unsigned int slot, const char *when)
{
	const struct smq_sg_status *status = own_status(own, slot);

	report_more("status %s: result %#x, resid %u, runs %u (before %u); forks since lending: %u",
		    when, status->result, status->resid, status->runs, own->runs[slot], own->forks);
}

/* Describes the contents of a block: @expected, still @found, or neither. */
static const char *verdict(const unsigned char *data, const unsigned char *found,
			   const unsigned char *expected)
{
	if (!memcmp(data, expected, BLOCK))
		return "what was written";
	return memcmp(data, found, BLOCK) ? "something else" : "what was found first";
}

/* Reads the block again, by SG_IO into other memory: is the data on the device right? */
static void report_device(const struct own *own, uint32_t lba, const unsigned char *found,
			  const unsigned char *expected)
{
	struct smq_sg_slot slot = { 0 };
	unsigned char data[BLOCK] = { 0 };
	struct sg_io_v4 hdr = {
		.guard = 'Q', .timeout = TIMEOUT_MS, .request = ADDRESS(slot.cdb),
		.din_xferp = ADDRESS(data), .din_xfer_len = BLOCK,
	};
	int ret;

	media_command(&slot, READ_10, lba, 1);
	hdr.request_len = slot.cdb_len;
	ret = result_of(ioctl(own->fd, SG_IO, &hdr));
	report_more("SG_IO of LBA %u: %d, status %#x %#x %#x, resid %d: %s", lba, ret,
		    hdr.device_status, hdr.transport_status, hdr.driver_status, hdr.din_resid,
		    verdict(data, found, expected));
}

void own_evidence(struct task *task, const struct transfer *transfer, uint32_t lba,
		  const unsigned char *found, const unsigned char *expected)
{
	unsigned char first[BLOCK], later[BLOCK];
	double end = seconds_now() + LATE_SECONDS * task->options->time_factor;

	memcpy(first, found, BLOCK);
	report_way(transfer);
	report_status(&task->own, transfer->run.slot, "at once");
	report_device(&task->own, lba, first, expected);
	while (seconds_now() < end)
		usleep(1000);
	memcpy(later, found, BLOCK);
	report_more("%.1f s later the buffer has %s", LATE_SECONDS,
		    verdict(later, first, expected));
	report_status(&task->own, transfer->run.slot, "later");
}
