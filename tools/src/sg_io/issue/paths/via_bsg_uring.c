// SPDX-License-Identifier: GPL-2.0
/* --via bsg-uring: complete commands, struct bsg_uring_cmd, in large entries of an io_uring. */
#include <err.h>
#include <errno.h>
#include <libsmq.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "paths.h"

#define MAX_EVENTS	256	/* fetched at a time */

struct bsg_uring {
	struct smq_ring *ring;
	struct smq_event events[MAX_EVENTS];
};

static void close_uring(struct worker *w)
{
	struct bsg_uring *u = w->priv;

	smq_ring_free(u->ring);
	free(u);
}

/*
 * Checks whether a file accepts commands from io_uring: sends a command without a CDB. The kernel
 * always refuses it, with EOPNOTSUPP if the file does not accept such commands.
 */
static int probe(struct bsg_uring *u, int fd, const struct device *dev)
{
	struct smq_sg_uring_cmd none = {};
	struct smq_event event;
	int n;

	if (smq_queue_command_fd(u->ring, fd, &none, 0))
		return -1;
	do
		n = smq_reap(u->ring, &event, 1, 1, -1);
	while (!n);
	if (n < 0) {
		warnx("%s: io_uring: %s", dev->node[NODE_BSG], strerror(-n));
		return -1;
	}
	if (event.result != -EOPNOTSUPP)
		return 0;
	warnx("%s: bsg takes commands from io_uring since Linux 7.1; %s takes them in this kernel",
	      dev->node[NODE_BSG],
	      dev->node[NODE_SMQ][0] ? dev->node[NODE_SMQ] : "/dev/smqsgN (modprobe smq_sg)");
	return -1;
}

static int open_uring(struct worker *w)
{
	struct bsg_uring *u = calloc(1, sizeof(*u));
	unsigned int i;
	int ret;

	w->priv = u;
	if (!u) {
		warnx("no memory");
		return -1;
	}
	ret = smq_ring_new(engine_ring_entries(w),
			   SMQ_RING_COMMANDS | (w->run->poll ? SMQ_RING_POLL : 0), &u->ring);
	if (ret) {
		warnx("io_uring: %s", smq_strerror(SMQ_CALL_RING, ret));
		return -1;
	}
	for (i = 0; i < w->nr_files; i++) {
		if (w->run->engine->node == NODE_BSG && probe(u, w->files[i], w->targets[i].dev))
			return -1;
		/* Errors do not matter: a registered file only saves some instructions. */
		smq_ring_add_fd(u->ring, w->files[i]);
	}
	return 0;
}

static void queue_uring(struct worker *w, struct request *rq)
{
	struct bsg_uring *u = w->priv;
	const struct command *cmd = rq->cmd;
	struct smq_sg_uring_cmd c = {
		.request = (uintptr_t)cdb_of(cmd),
		.request_len = cmd->cdb_len,
		.response = (uintptr_t)rq->out.sense,
		.max_response_len = SENSE_BYTES,
		.timeout_ms = cmd->timeout_ms,
	};
	int ret;

	if (cmd->dir == DIR_OUT) {
		c.dout_xferp = (uintptr_t)request_data(w, rq);
		c.dout_xfer_len = cmd->bytes;
	} else if (cmd->dir == DIR_IN) {
		c.din_xferp = (uintptr_t)rq->buffer;
		c.din_xfer_len = cmd->bytes;
	}
	ret = smq_queue_command_fd(u->ring, request_file(w, rq), &c, rq->index);
	if (ret)
		worker_failed(w, rq, -ret);
}

static void submit_uring(struct worker *w)
{
	struct bsg_uring *u = w->priv;

	/* An SQE that is refused now is submitted with the next reap. */
	smq_submit(u->ring);
}

static void finish(struct worker *w, const struct smq_event *event)
{
	struct request *rq = &w->requests[event->tag];
	struct smq_sg_uring_cmd c = { .response = (uintptr_t)rq->out.sense };
	struct smq_outcome got;

	smq_command_outcome(event, &c, &got);
	if (got.error) {
		worker_failed(w, rq, got.error);
		return;
	}
	/* The kernel has written the sense data to rq->out.sense. */
	rq->out.error = 0;
	rq->out.status = got.status;
	rq->out.host = got.host;
	rq->out.driver = 0;
	rq->out.resid = got.resid;
	rq->out.sense_len = got.sense_len < SENSE_BYTES ? got.sense_len : SENSE_BYTES;
	worker_done(w, rq);
}

static void reap_uring(struct worker *w, unsigned int min, __u64 wait_ns)
{
	struct bsg_uring *u = w->priv;
	int i, n;

	if (min > MAX_EVENTS)
		min = MAX_EVENTS;
	n = smq_reap(u->ring, u->events, MAX_EVENTS, min, wait_ns);
	for (i = 0; i < n; i++)
		finish(w, &u->events[i]);
}

const struct engine engine_bsg_uring = {
	.name = "bsg-uring",
	.node = NODE_BSG,
	.open = open_uring,
	.queue = queue_uring,
	.submit = submit_uring,
	.reap = reap_uring,
	.close = close_uring,
};

/* The same for the smqsg node, which accepts such commands on every kernel. */
const struct engine engine_smq_uring = {
	.name = "bsg-uring",
	.node = NODE_SMQ,
	.polls = true,
	.open = open_uring,
	.queue = queue_uring,
	.submit = submit_uring,
	.reap = reap_uring,
	.close = close_uring,
};
