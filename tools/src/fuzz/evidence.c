// SPDX-License-Identifier: GPL-2.0
/*
 * Finds out why a read did not return what was written: the run did not happen, the device moved no
 * data or has other data, the completion came before the data, or the data went to memory that no
 * longer belongs to the process.
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
#define READ_10		1	/* of media_command()'s kinds */
#define TIMEOUT_MS	60000

static void tell_way(const struct transfer *transfer)
{
	const struct ring *ring = last_sending.ring;

	fault_more("%u bytes, CDB %#x, slot flags %#x buffer %u, run flags %#x LBA %llu buffer %u",
		   transfer->slot.length, transfer->slot.cdb[0], transfer->slot.flags,
		   transfer->slot.buffer, transfer->run.flags,
		   (unsigned long long)transfer->run.lba, transfer->run.buffer);
	if (ring)
		fault_more("ring %#x: CQE with result %d, flags %#x, %#llx %#llx, after %.6f s",
			   ring->flags, ring->res, ring->cqe_flags,
			   (unsigned long long)ring->rest[0], (unsigned long long)ring->rest[1],
			   last_sending.ended - last_sending.began);
	else
		fault_more("ended after %.6f s", last_sending.ended - last_sending.began);
}

/* Only a run changes the status. A run that left it unchanged has not ended. */
static void tell_status(const struct own *own, unsigned int slot, const char *when)
{
	const struct smq_sg_status *status = own_status(own, slot);

	fault_more("status %s: result %#x, resid %u, runs %u after %u; forks since lending: %u",
		   when, status->result, status->resid, status->runs, own->runs[slot], own->forks);
}

/* Says whether a block holds @expected, or still @found. */
static const char *verdict(const unsigned char *data, const unsigned char *found,
			   const unsigned char *expected)
{
	if (!memcmp(data, expected, BLOCK))
		return "what was written";
	return memcmp(data, found, BLOCK) ? "something else" : "what was found first";
}

/* Reads the block again, through other memory and in another way. */
static void tell_device(const struct own *own, uint32_t lba, const unsigned char *found,
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
	fault_more("SG_IO of LBA %u: %d, status %#x %#x %#x, resid %d: %s", lba, ret,
		   hdr.device_status, hdr.transport_status, hdr.driver_status, hdr.din_resid,
		   verdict(data, found, expected));
}

void own_evidence(struct life *life, const struct transfer *transfer, uint32_t lba,
		  const unsigned char *found, const unsigned char *expected)
{
	unsigned char first[BLOCK], later[BLOCK];
	double end = seconds_now() + LATE_SECONDS * life->options->time_factor;

	memcpy(first, found, BLOCK);
	tell_way(transfer);
	tell_status(&life->own, transfer->run.slot, "at once");
	tell_device(&life->own, lba, first, expected);
	while (seconds_now() < end)
		usleep(1000);
	memcpy(later, found, BLOCK);
	fault_more("%.1f s later the buffer has %s", LATE_SECONDS, verdict(later, first, expected));
	tell_status(&life->own, transfer->run.slot, "then");
}
