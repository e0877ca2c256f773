// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <linux/bsg.h>
#include <poll.h>
#include <scsi/sg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "ring.h"
#include "tally.h"
#include "way.h"

#define SENSE		64
#define TIMEOUT_MS	60000
#define READ_SECONDS	150

static unsigned char sense[SENSE];

struct sending last_sending = { .way = "none" };

/* Calls a function by_*() and stores its name, which the report of a failure prints. */
#define BY(name)	(last_sending.way = #name, by_ ## name)

/* Return: a ring that has room for another SQE, or NULL. */
static struct ring *some_ring(struct task *task, struct rnd *r)
{
	struct ring *ring = &task->rings[rnd(r, RINGS)];

	ring_submit(ring);
	if (!ring->open || ring->used == RING_MAX_SQES || !io_uring_sq_space_left(&ring->uring))
		return NULL;
	return ring;
}

static int by_run(struct task *task, struct ring *ring, int fd, const struct transfer *transfer,
		  struct rnd *r)
{
	struct ring_command command = { transfer->op, SMQ_SG_URING_RUN, &transfer->run,
					sizeof(transfer->run) };

	return ring_wait(task, ring, ring_push(task, ring, fd, &command, r));
}

static int by_batch(struct task *task, struct ring *ring, int fd, const struct transfer *transfer,
		    struct rnd *r)
{
	struct smq_sg_batch batch = { ADDRESS(&transfer->run), 1, SMQ_SG_BATCH_RUNS };
	struct ring_command command = { transfer->op, SMQ_SG_URING_BATCH, &batch, sizeof(batch) };

	if (!transfer->run.flags && once_in(r, 2))
		batch = (struct smq_sg_batch){ transfer->run.slot, 1, SMQ_SG_BATCH_RANGE };
	return ring_wait(task, ring, ring_push(task, ring, fd, &command, r));
}

static int by_ioctl(int fd, const struct transfer *transfer, struct rnd *r)
{
	struct smq_sg_run_batch arg = {
		.batch = { ADDRESS(&transfer->run), 1, SMQ_SG_BATCH_RUNS }
	};
	int ret;

	if (!transfer->run.flags && once_in(r, 2))
		arg.batch = (struct smq_sg_batch){ ADDRESS(&transfer->run.slot), 1, 0 };
	ret = result_of(ioctl(fd, SMQ_SG_RUN, &arg));
	return ret ? ret : (int)arg.failed;
}

static int by_adhoc(struct task *task, struct ring *ring, int fd, const struct transfer *transfer,
		    struct rnd *r)
{
	const struct smq_sg_slot *slot = &transfer->slot;
	struct smq_sg_uring_cmd io = {
		.request = ADDRESS(slot->cdb), .request_len = slot->cdb_len,
		.response = ADDRESS(sense), .max_response_len = SENSE, .timeout_ms = TIMEOUT_MS,
	};
	struct ring_command command = { transfer->op, 0, &io, sizeof(io) };

	if (slot->direction == SMQ_SG_OUT) {
		io.dout_xferp = ADDRESS(transfer->data);
		io.dout_xfer_len = slot->length;
	} else {
		io.din_xferp = ADDRESS(transfer->data);
		io.din_xfer_len = slot->length;
	}
	return ring_wait(task, ring, ring_push(task, ring, fd, &command, r));
}

static struct sg_io_hdr v3_header(const struct transfer *transfer)
{
	return (struct sg_io_hdr){
		.interface_id = 'S', .timeout = TIMEOUT_MS, .sbp = sense, .mx_sb_len = SENSE,
		.cmdp = (unsigned char *)transfer->slot.cdb, .cmd_len = transfer->slot.cdb_len,
		.dxferp = transfer->data, .dxfer_len = transfer->slot.length,
		.dxfer_direction = transfer->slot.direction == SMQ_SG_OUT ?
			SG_DXFER_TO_DEV : SG_DXFER_FROM_DEV,
	};
}

static int by_sg_io3(int fd, const struct transfer *transfer, struct rnd *r)
{
	struct sg_io_hdr hdr = v3_header(transfer);
	int ret;

	hdr.flags = once_in(r, 2) ? SG_FLAG_DIRECT_IO : 0;
	ret = result_of(ioctl(fd, SG_IO, &hdr));
	return ret ? ret : (int)(hdr.info & SG_INFO_CHECK);
}

static int by_sg_io4(int fd, const struct transfer *transfer)
{
	bool out = transfer->slot.direction == SMQ_SG_OUT;
	struct sg_io_v4 hdr = {
		.guard = 'Q', .timeout = TIMEOUT_MS, .request = ADDRESS(transfer->slot.cdb),
		.request_len = transfer->slot.cdb_len, .response = ADDRESS(sense),
		.max_response_len = SENSE,
		.dout_xferp = out ? ADDRESS(transfer->data) : 0,
		.dout_xfer_len = out ? transfer->slot.length : 0,
		.din_xferp = out ? 0 : ADDRESS(transfer->data),
		.din_xfer_len = out ? 0 : transfer->slot.length,
	};
	int ret = result_of(ioctl(fd, SG_IO, &hdr));

	if (ret)
		return ret;
	return hdr.device_status || hdr.transport_status || hdr.driver_status;
}

/* No other command was sent by write() to this file, so read() returns the result of this one. */
static int by_write(struct task *task, int fd, const struct transfer *transfer)
{
	struct sg_io_hdr hdr = v3_header(transfer);
	struct pollfd wanted = { .fd = fd, .events = POLLIN };
	double end = seconds_now() + READ_SECONDS * task->options->time_factor;

	if (write(fd, &hdr, sizeof(hdr)) < 0)
		return -errno;
	for (;;) {
		poll(&wanted, 1, 100);
		if (read(fd, &hdr, sizeof(hdr)) >= 0)
			return hdr.info & SG_INFO_CHECK;
		if (errno != EAGAIN && errno != EINTR)
			return -errno;
		if (seconds_now() > end) {
			report("no result of write() after %u s", READ_SECONDS);
			return -ETIMEDOUT;
		}
	}
}

static int by_some_ring(struct task *task, struct ring *ring, int fd,
			const struct transfer *transfer, struct rnd *r)
{
	unsigned int kinds = transfer->run.flags || !ring->big ? 3 : 5;

	switch (rnd(r, kinds)) {
	case 0:
	case 1:
		return BY(run)(task, ring, fd, transfer, r);
	case 2:
		return BY(batch)(task, ring, fd, transfer, r);
	default:
		return BY(adhoc)(task, ring, fd, transfer, r);
	}
}

static int by_some_call(struct task *task, int fd, const struct transfer *transfer, struct rnd *r)
{
	switch (rnd(r, transfer->run.flags ? 1 : 4)) {
	case 0:
		return BY(ioctl)(fd, transfer, r);
	case 1:
		return BY(sg_io3)(fd, transfer, r);
	case 2:
		/* The kernel refuses write() if the file was opened with other credentials. */
		return geteuid() ? BY(sg_io4)(fd, transfer) : BY(write)(task, fd, transfer);
	default:
		return BY(sg_io4)(fd, transfer);
	}
}

int send_by_some_way(struct task *task, int fd, const struct transfer *transfer, struct rnd *r)
{
	struct ring *ring = some_ring(task, r);
	int result;

	if (ring && once_in(r, 3))
		ring = NULL;
	last_sending = (struct sending){ .ring = ring, .began = seconds_now() };
	result = ring ? by_some_ring(task, ring, fd, transfer, r) :
			by_some_call(task, fd, transfer, r);
	last_sending.ended = seconds_now();
	/* A transfer that a ring sent was counted when its CQE was reaped. */
	if (!ring)
		tally(transfer->op, result);
	return result;
}
