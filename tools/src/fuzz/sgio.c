// SPDX-License-Identifier: GPL-2.0
/* The calls that /dev/sgN has too: SG_IO of interface 3 and 4, write(), read(), poll(). */
#include <linux/bsg.h>
#include <poll.h>
#include <scsi/sg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "process.h"
#include "steps.h"
#include "tally.h"

#define SENSE		64
#define TIMEOUT_MS	5000

/* What a header points to. Static in step_write(), because a later read() may write to it. */
struct sg_words {
	unsigned char cdb[16];
	unsigned char sense[SENSE];
	struct iovec pieces[2];
};

static unsigned int cdb_random(unsigned char *cdb, bool *out, struct rnd *r)
{
	unsigned int lba = rnd(r, SHARED_BLOCKS - 4 * MOST_BLOCKS), blocks = 1 << rnd(r, 6);

	memset(cdb, 0, 16);
	*out = once_in(r, 3);
	if (once_in(r, 6))
		return 0;
	cdb[0] = *out ? 0x2a : 0x28;
	cdb[4] = lba >> 8;
	cdb[5] = lba;
	cdb[8] = blocks;
	return blocks * BLOCK;
}

static struct sg_io_hdr v3_random(struct task *task, struct sg_words *words, struct rnd *r)
{
	struct sg_io_hdr hdr = { .interface_id = 'S', .cmd_len = 10, .cmdp = words->cdb,
				 .sbp = words->sense, .mx_sb_len = SENSE, .timeout = TIMEOUT_MS,
				 .dxfer_direction = SG_DXFER_NONE };
	unsigned char *data = task->area + 512 * rnd(r, 512);
	bool out;

	hdr.dxfer_len = cdb_random(words->cdb, &out, r);
	hdr.dxferp = data;
	if (hdr.dxfer_len)
		hdr.dxfer_direction = out ? SG_DXFER_TO_DEV : SG_DXFER_FROM_DEV;
	if (hdr.dxfer_len && once_in(r, 6)) {
		words->pieces[0] = (struct iovec){ data, BLOCK };
		words->pieces[1] = (struct iovec){ data + BLOCK, hdr.dxfer_len - BLOCK };
		hdr.dxferp = words->pieces;
		hdr.iovec_count = 2;
	}
	hdr.flags = once_in(r, 3) ? SG_FLAG_DIRECT_IO : 0;
	hdr.pack_id = rnd(r, 4);
	switch (rnd(r, 40)) {
	case 0:
		hdr.interface_id = rnd64(r);
		break;
	case 1:
		hdr.cmd_len = rnd64(r);
		break;
	case 2:
		hdr.dxferp = (void *)(uintptr_t)rnd(r, 4096);
		break;
	case 3:
		hdr.flags = rnd64(r);
		break;
	case 4:
		hdr.dxfer_direction = SG_DXFER_TO_FROM_DEV;
		break;
	}
	return hdr;
}

void step_sg_io3(struct task *task, struct rnd *r)
{
	struct sg_words words;
	struct sg_io_hdr hdr = v3_random(task, &words, r);
	bool interrupt = once_in(r, 5);
	int ret;

	if (interrupt)
		interrupt_soon(1 + rnd(r, 5000));
	ret = result_of(ioctl(task->fd, SG_IO, &hdr));
	if (interrupt)
		interrupt_no_more();
	if (!ret && hdr.info & SG_INFO_CHECK)
		ret = 1;
	tally(OP_SG_IO3, ret);
}

void step_sg_io4(struct task *task, struct rnd *r)
{
	unsigned char cdb[16], sense[SENSE];
	struct sg_io_v4 hdr = { .guard = 'Q', .request_len = 10, .request = ADDRESS(cdb),
				.response = ADDRESS(sense), .max_response_len = SENSE,
				.timeout = TIMEOUT_MS };
	bool out;
	unsigned int bytes = cdb_random(cdb, &out, r);
	uint64_t data = ADDRESS(task->area + 512 * rnd(r, 512));
	int ret;

	if (once_in(r, 40))
		data = rnd(r, 4096);
	hdr.dout_xferp = out ? data : 0;
	hdr.dout_xfer_len = out ? bytes : 0;
	hdr.din_xferp = out ? 0 : data;
	hdr.din_xfer_len = out ? 0 : bytes;
	switch (rnd(r, 40)) {
	case 0:
		hdr.guard = rnd(r, 256);
		break;
	case 1:
		hdr.request_len = rnd(r, 64);
		break;
	case 2:
		hdr.subprotocol = 1;
		break;
	case 3:
		hdr.dout_iovec_count = 1;
		break;
	}
	ret = result_of(ioctl(task->fd, SG_IO, &hdr));
	if (!ret && (hdr.device_status || hdr.transport_status || hdr.driver_status))
		ret = 1;
	tally(OP_SG_IO4, ret);
}

void step_write(struct task *task, struct rnd *r)
{
	static struct sg_words words[16];
	struct sg_io_hdr hdr = v3_random(task, &words[rnd(r, 16)], r);
	size_t size = once_in(r, 40) ? rnd(r, sizeof(hdr)) : sizeof(hdr);

	interrupt_soon(1 + rnd(r, 50000));
	tally(OP_WRITE, result_of(write(task->fd, &hdr, size)));
	interrupt_no_more();
}

/* If the file is blocking, read() may wait for a result that never comes: a timer ends the wait. */
void step_read(struct task *task, struct rnd *r)
{
	struct sg_io_hdr hdr = { .interface_id = 'S', .pack_id = once_in(r, 2) ? -1 : 1 };
	size_t size = once_in(r, 40) ? rnd(r, sizeof(hdr)) : sizeof(hdr);

	interrupt_soon(1 + rnd(r, 20000));
	tally(OP_READ, result_of(read(task->fd, &hdr, size)));
	interrupt_no_more();
}

void step_poll(struct task *task, struct rnd *r)
{
	struct pollfd wanted = { .fd = task->fd, .events = POLLIN | POLLOUT };

	tally(OP_POLL, result_of(poll(&wanted, 1, rnd(r, 20))));
}

void step_query(struct task *task, struct rnd *r)
{
	static const unsigned int codes[] = {
		SG_SET_FORCE_PACK_ID, SG_SET_COMMAND_Q, SG_SET_KEEP_ORPHAN, SG_SET_RESERVED_SIZE,
		SG_GET_RESERVED_SIZE, SG_GET_NUM_WAITING, SG_GET_PACK_ID, SG_GET_REQUEST_TABLE,
		SG_GET_SCSI_ID, SG_GET_VERSION_NUM, SG_GET_TIMEOUT,
	};
	struct sg_req_info table[SG_MAX_QUEUE] = { 0 };
	int ret;

	*(int *)table = once_in(r, 20) ? -1 : (int)rnd(r, 2);
	ret = ioctl(task->fd, codes[rnd(r, sizeof(codes) / sizeof(codes[0]))], table);
	/* A positive value is a success: SG_GET_TIMEOUT returns the timeout. */
	tally(OP_QUERY, result_of(ret));
}
