// SPDX-License-Identifier: GPL-2.0
/*
 * --via sg: commands with the v3 header, by SG_IO on sg and sd nodes, or by write() on sg nodes.
 * --via bsg: SG_IO with the v4 header.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bsg.h>
#include <poll.h>
#include <scsi/sg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "paths.h"

#ifndef SG_FLAG_Q_AT_TAIL
#define SG_FLAG_Q_AT_TAIL	0x10	/* missing in glibc's header */
#endif

static void fill_header(struct sg_io_hdr *h, const struct worker *w, struct request *rq)
{
	static const int dirs[] = {
		[DIR_NONE] = SG_DXFER_NONE,
		[DIR_IN] = SG_DXFER_FROM_DEV,
		[DIR_OUT] = SG_DXFER_TO_DEV,
	};
	const struct command *cmd = rq->cmd;

	*h = (struct sg_io_hdr){
		.interface_id = 'S',
		.dxfer_direction = dirs[cmd->dir],
		.cmd_len = cmd->cdb_len,
		.mx_sb_len = SENSE_BYTES,
		.dxfer_len = cmd->bytes,
		.dxferp = cmd->dir == DIR_OUT ? (void *)request_data(w, rq) : rq->buffer,
		.cmdp = cdb_of(cmd),
		.sbp = rq->out.sense,
		.timeout = cmd->timeout_ms,
		/* By default sg inserts at the head, which would reverse the file's order. */
		.flags = SG_FLAG_Q_AT_TAIL,
		.pack_id = rq->index,
		.usr_ptr = rq,
	};
}

static void take_result(const struct sg_io_hdr *h, struct outcome *out)
{
	out->error = 0;
	out->status = h->status;
	out->host = h->host_status;
	out->driver = h->driver_status;
	out->resid = h->resid;
	out->sense_len = h->sb_len_wr;
}

static void queue_ioctl(struct worker *w, struct request *rq)
{
	struct sg_io_hdr h;

	fill_header(&h, w, rq);
	if (ioctl(request_file(w, rq), SG_IO, &h) < 0) {
		worker_failed(w, rq, errno);
		return;
	}
	take_result(&h, &rq->out);
	worker_done(w, rq);
}

static void queue_bsg(struct worker *w, struct request *rq)
{
	const struct command *cmd = rq->cmd;
	struct outcome *out = &rq->out;
	struct sg_io_v4 h = {
		.guard = 'Q',
		.protocol = BSG_PROTOCOL_SCSI,
		.subprotocol = BSG_SUB_PROTOCOL_SCSI_CMD,
		.request_len = cmd->cdb_len,
		.request = (uintptr_t)cdb_of(cmd),
		.max_response_len = SENSE_BYTES,
		.response = (uintptr_t)out->sense,
		.timeout = cmd->timeout_ms,
		.flags = BSG_FLAG_Q_AT_TAIL,
	};

	if (cmd->dir == DIR_OUT) {
		h.dout_xfer_len = cmd->bytes;
		h.dout_xferp = (uintptr_t)request_data(w, rq);
	} else if (cmd->dir == DIR_IN) {
		h.din_xfer_len = cmd->bytes;
		h.din_xferp = (uintptr_t)rq->buffer;
	}
	if (ioctl(request_file(w, rq), SG_IO, &h) < 0) {
		worker_failed(w, rq, errno);
		return;
	}
	out->error = 0;
	out->status = h.device_status;
	out->host = h.transport_status;
	out->driver = h.driver_status;
	out->resid = cmd->dir == DIR_OUT ? h.dout_resid : h.din_resid;
	out->sense_len = h.response_len < SENSE_BYTES ? h.response_len : SENSE_BYTES;
	worker_done(w, rq);
}

const struct engine engine_sg_ioctl = {
	.name = "sg",
	.node = NODE_SG,
	.flags = O_NONBLOCK,
	.sync = true,
	.queue = queue_ioctl,
};

const struct engine engine_sd_ioctl = {
	.name = "sg",
	.node = NODE_BLOCK,
	.flags = O_NONBLOCK,
	.sync = true,
	.queue = queue_ioctl,
};

const struct engine engine_bsg = {
	.name = "bsg",
	.node = NODE_BSG,
	.sync = true,
	.queue = queue_bsg,
};

/*
 * write() sends a header, poll() reports that commands have ended, read() fetches a result. sg
 * takes SG_MAX_QUEUE commands per open file.
 */
static int open_queue(struct worker *w)
{
	struct pollfd *polls = calloc(w->nr_files, sizeof(*polls));
	unsigned int i;

	w->priv = polls;
	if (!polls) {
		warnx("no memory");
		return -1;
	}
	for (i = 0; i < w->nr_files; i++)
		polls[i] = (struct pollfd){ .fd = w->files[i], .events = POLLIN };
	return 0;
}

static void close_queue(struct worker *w)
{
	free(w->priv);
}

/* The file of a request: 16 of a target share a file. */
static struct pollfd *file_of(const struct worker *w, const struct request *rq)
{
	struct pollfd *polls = w->priv;

	return &polls[(rq->target - w->targets) * (w->nr_files / w->nr_targets) +
		      rq->place / SG_MAX_QUEUE];
}

static void queue_queue(struct worker *w, struct request *rq)
{
	struct sg_io_hdr h;

	if (file_of(w, rq)->fd < 0) {
		worker_failed(w, rq, ENODEV);
		return;
	}
	fill_header(&h, w, rq);
	if (write(file_of(w, rq)->fd, &h, sizeof(h)) < 0)
		worker_failed(w, rq, errno);
}

/* After a failed read(): the device is gone. Ends the commands of the file with @error. */
static void fail_file(struct worker *w, struct pollfd *file, int error)
{
	unsigned int i;

	file->fd = -1;
	for (i = 0; i < w->nr_requests; i++)
		if (w->requests[i].in_flight && file_of(w, &w->requests[i]) == file)
			worker_failed(w, &w->requests[i], error);
}

static unsigned int read_file(struct worker *w, struct pollfd *file)
{
	unsigned int done = 0;
	struct sg_io_hdr h;
	struct request *rq;

	for (;;) {
		memset(&h, 0, sizeof(h));
		h.interface_id = 'S';
		if (read(file->fd, &h, sizeof(h)) < 0) {
			if (errno == EINTR)
				continue;
			if (errno != EAGAIN)
				fail_file(w, file, errno);
			return done;
		}
		rq = h.usr_ptr;
		take_result(&h, &rq->out);
		worker_done(w, rq);
		done++;
	}
}

static void reap_queue(struct worker *w, unsigned int min, __u64 wait_ns)
{
	struct pollfd *polls = w->priv, *p;
	__u64 now = wait_ns ? clock_ns() : 0, end = now + wait_ns;
	unsigned int done = 0;
	struct timespec ts;

	do {
		ts.tv_sec = (end - now) / NS_PER_S;
		ts.tv_nsec = (end - now) % NS_PER_S;
		if (ppoll(polls, w->nr_files, &ts, NULL) > 0)
			for (p = polls; p < polls + w->nr_files; p++)
				if (p->fd >= 0 && p->revents)
					done += read_file(w, p);
		now = wait_ns ? clock_ns() : 0;
	} while (done < min && w->in_flight && now < end);
}

const struct engine engine_sg_queue = {
	.name = "sg",
	.node = NODE_SG,
	.flags = O_NONBLOCK,
	.per_file = SG_MAX_QUEUE,
	.open = open_queue,
	.queue = queue_queue,
	.reap = reap_queue,
	.close = close_queue,
};
