// SPDX-License-Identifier: GPL-2.0
/* --via sg: commands with the v3 header, by SG_IO on sg and sd nodes, or by write() on sg nodes. */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <scsi/sg.h>
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

/* SG_IO: the only state is the file descriptor. */
struct ioctl_file {
	int fd;
};

static int open_ioctl(struct worker *w)
{
	struct ioctl_file *f = malloc(sizeof(*f));

	if (!f) {
		warnx("no memory");
		return -1;
	}
	f->fd = engine_open_node(w, w->requests[0].target, w->run->engine->node, O_NONBLOCK);
	if (f->fd < 0) {
		free(f);
		return -1;
	}
	w->priv = f;
	return 0;
}

static void close_ioctl(struct worker *w)
{
	struct ioctl_file *f = w->priv;

	close(f->fd);
	free(f);
}

static void queue_ioctl(struct worker *w, struct request *rq)
{
	const struct ioctl_file *f = w->priv;
	struct sg_io_hdr h;

	fill_header(&h, w, rq);
	if (ioctl(f->fd, SG_IO, &h) < 0) {
		worker_failed(w, rq, errno);
		return;
	}
	take_result(&h, &rq->out);
	worker_done(w, rq);
}

const struct engine engine_sg_ioctl = {
	.name = "sg",
	.node = NODE_SG,
	.sync = true,
	.check = passthrough_check,
	.open = open_ioctl,
	.queue = queue_ioctl,
	.close = close_ioctl,
};

const struct engine engine_sd_ioctl = {
	.name = "sg",
	.node = NODE_BLOCK,
	.sync = true,
	.check = passthrough_check,
	.open = open_ioctl,
	.queue = queue_ioctl,
	.close = close_ioctl,
};

/*
 * write() sends a header, poll() reports that commands have ended, read() fetches a result. sg
 * takes SG_MAX_QUEUE commands per open file, so the node is opened once for every 16 requests of a
 * target.
 */
struct sg_queue {
	unsigned int per_target;
	unsigned int nr;
	struct pollfd *files;
};

static void close_queue(struct worker *w)
{
	struct sg_queue *q = w->priv;
	unsigned int i;

	for (i = 0; i < q->nr; i++)
		if (q->files[i].fd >= 0)
			close(q->files[i].fd);
	free(q->files);
	free(q);
}

static int open_queue(struct worker *w)
{
	struct run *run = w->run;
	struct sg_queue *q = calloc(1, sizeof(*q));
	unsigned int i;

	if (!q)
		goto nomem;
	w->priv = q;
	q->per_target = (run->depth + SG_MAX_QUEUE - 1) / SG_MAX_QUEUE;
	q->files = calloc(run->nr_targets * q->per_target, sizeof(*q->files));
	if (!q->files)
		goto nomem;
	for (i = 0; i < run->nr_targets * q->per_target; i++) {
		q->files[i].events = POLLIN;
		q->files[i].fd = engine_open_node(w, &run->targets[i / q->per_target],
						  NODE_SG, O_NONBLOCK);
		if (q->files[i].fd < 0)
			return -1;
		q->nr++;
	}
	return 0;
nomem:
	warnx("no memory");
	return -1;
}

/* The file of a request: 16 of a target share a file. */
static unsigned int file_of(const struct worker *w, const struct request *rq)
{
	const struct sg_queue *q = w->priv;

	return (rq->target - w->run->targets) * q->per_target + rq->place / SG_MAX_QUEUE;
}

static void queue_queue(struct worker *w, struct request *rq)
{
	struct sg_queue *q = w->priv;
	int fd = q->files[file_of(w, rq)].fd;
	struct sg_io_hdr h;

	if (fd < 0) {
		worker_failed(w, rq, ENODEV);
		return;
	}
	fill_header(&h, w, rq);
	if (write(fd, &h, sizeof(h)) < 0)
		worker_failed(w, rq, errno);
}

/* After a failed read(): the device is gone. Ends the commands of the file with @error. */
static void fail_file(struct worker *w, unsigned int file, int error)
{
	struct sg_queue *q = w->priv;
	unsigned int i;

	close(q->files[file].fd);
	q->files[file].fd = -1;
	for (i = 0; i < w->nr_requests; i++)
		if (w->requests[i].in_flight && file_of(w, &w->requests[i]) == file)
			worker_failed(w, &w->requests[i], error);
}

static unsigned int read_file(struct worker *w, unsigned int file)
{
	struct sg_queue *q = w->priv;
	unsigned int done = 0;
	struct sg_io_hdr h;
	struct request *rq;

	for (;;) {
		memset(&h, 0, sizeof(h));
		h.interface_id = 'S';
		if (read(q->files[file].fd, &h, sizeof(h)) < 0) {
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
	struct sg_queue *q = w->priv;
	__u64 now = wait_ns ? clock_ns() : 0, end = now + wait_ns;
	unsigned int i, done = 0;
	struct timespec ts;

	do {
		ts.tv_sec = (end - now) / NS_PER_S;
		ts.tv_nsec = (end - now) % NS_PER_S;
		if (ppoll(q->files, q->nr, &ts, NULL) > 0)
			for (i = 0; i < q->nr; i++)
				if (q->files[i].fd >= 0 && q->files[i].revents)
					done += read_file(w, i);
		now = wait_ns ? clock_ns() : 0;
	} while (done < min && w->in_flight && now < end);
}

const struct engine engine_sg_queue = {
	.name = "sg",
	.node = NODE_SG,
	.check = passthrough_check,
	.open = open_queue,
	.queue = queue_queue,
	.reap = reap_queue,
	.close = close_queue,
};
