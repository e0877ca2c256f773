// SPDX-License-Identifier: GPL-2.0
/* --via bsg: SG_IO with the v4 header. */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bsg.h>
#include <scsi/sg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "paths.h"

struct bsg_file {
	int fd;
};

static int open_bsg(struct worker *w)
{
	struct bsg_file *f = malloc(sizeof(*f));

	if (!f) {
		warnx("no memory");
		return -1;
	}
	f->fd = engine_open_node(w, w->requests[0].target, NODE_BSG, 0);
	if (f->fd < 0) {
		free(f);
		return -1;
	}
	w->priv = f;
	return 0;
}

static void close_bsg(struct worker *w)
{
	struct bsg_file *f = w->priv;

	close(f->fd);
	free(f);
}

static void queue_bsg(struct worker *w, struct request *rq)
{
	const struct bsg_file *f = w->priv;
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
	if (ioctl(f->fd, SG_IO, &h) < 0) {
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

const struct engine engine_bsg = {
	.name = "bsg",
	.node = NODE_BSG,
	.sync = true,
	.check = passthrough_check,
	.open = open_bsg,
	.queue = queue_bsg,
	.close = close_bsg,
};
