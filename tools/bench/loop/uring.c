// SPDX-License-Identifier: GPL-2.0
/* Random block reads or writes through io_uring, measured between markers. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "devices.h"
#include "disk.h"
#include "jobs.h"
#include "option.h"

#define FILL_BYTE	0xa5
#define FILL_CHUNK	(1 << 20)

static struct {
	unsigned int bs, depth, batch;
	bool write, registered, poll, data, idle, latencies;
	struct jobs_runs runs;
	struct devices devices;
	unsigned int jobs;
} opt = { .bs = 512, .depth = 32, .batch = 16, .runs = { .warmup = 1000,
	  .seconds = 300, .counts = { 2000, 6000 }, .nr_counts = 2 } };

static struct io_uring ring;
static unsigned char *buffer;
/*
 * With --latencies: for each I/O of a run, first the time when it was queued, and then how long it
 * took.
 */
static unsigned long *ticks;

/* The devices of this job, which take turns. */
static struct {
	const char *name;
	int fd;
	unsigned long blocks;
} disks[MAX_DEVICES];
static unsigned int nr_disks, next_disk;

/* The loop is compiled once for each of these, so that the choice costs nothing per I/O. */
enum kept { KEPT_NOTHING, KEPT_CHUNKS, KEPT_LATENCIES };

static inline __attribute__((always_inline))
void queue_io(enum kept kept, unsigned long n)
{
	unsigned int disk = next_disk;
	int fd = opt.registered ? (int)disk : disks[disk].fd;
	unsigned char *data = buffer + n % opt.depth * opt.bs;
	off_t offset = disk_random() % disks[disk].blocks * opt.bs;
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);

	if (++next_disk == nr_disks)
		next_disk = 0;
	if (opt.registered) {
		if (opt.write)
			io_uring_prep_write_fixed(sqe, fd, data, opt.bs, offset,
						  0);
		else
			io_uring_prep_read_fixed(sqe, fd, data, opt.bs, offset,
						 0);
		sqe->flags |= IOSQE_FIXED_FILE;
	} else if (opt.write) {
		io_uring_prep_write(sqe, fd, data, opt.bs, offset);
	} else {
		io_uring_prep_read(sqe, fd, data, opt.bs, offset);
	}
	if (kept == KEPT_LATENCIES) {
		sqe->user_data = n;
		ticks[n] = jobs_tick();
	}
}

/* Does no I/O: for each batch, makes a system call that does nothing. */
static int run_calls(unsigned long count)
{
	unsigned long done = 0;

	while (done < count) {
		int err = io_uring_enter(ring.ring_fd, 0, 0, 0, NULL);

		if (err < 0)
			return err;
		done += opt.batch;
		if (opt.runs.chunk)
			jobs_batch_done(done);
	}
	return 0;
}

/* Keeps up to opt.depth I/Os in flight; submits and reaps a batch at a time. */
static inline __attribute__((always_inline))
int run_ring(enum kept kept, unsigned long count)
{
	unsigned long queued = 0, done = 0;
	unsigned int inflight = 0;

	while (done < count) {
		unsigned int head, n;
		struct io_uring_cqe *cqe;
		int err;

		for (n = 0; n < opt.batch && queued < count &&
		     inflight < opt.depth; n++) {
			queue_io(kept, queued++);
			inflight++;
		}
		n = jobs_wait_for(inflight, opt.depth, opt.batch,
				  queued == count);
		err = io_uring_submit_and_wait(&ring, n);
		if (err < 0)
			return err;
		n = 0;
		io_uring_for_each_cqe(&ring, head, cqe) {
			if (cqe->res != (int)opt.bs)
				return cqe->res < 0 ? cqe->res : -EIO;
			if (kept == KEPT_LATENCIES)
				ticks[cqe->user_data] = jobs_tick() - ticks[cqe->user_data];
			n++;
		}
		io_uring_cq_advance(&ring, n);
		done += n;
		inflight -= n;
		if (kept == KEPT_CHUNKS)
			jobs_batch_done(done);
	}
	return 0;
}

static int run_latencies(unsigned long count)
{
	int err;

	ticks = calloc(count + 1, sizeof(*ticks));
	err = ticks ? run_ring(KEPT_LATENCIES, count) : -ENOMEM;
	if (!err && count)
		jobs_latencies(ticks, count);
	free(ticks);
	return err;
}

static int run_ios(unsigned long count)
{
	if (opt.idle)
		return run_calls(count);
	if (opt.latencies)
		return run_latencies(count);
	return opt.runs.chunk ? run_ring(KEPT_CHUNKS, count) : run_ring(KEPT_NOTHING, count);
}

/* Writes the whole device, so that reads move data. */
static int fill(const char *device, off_t size)
{
	unsigned char *chunk;
	off_t at;
	int out;

	chunk = mmap(NULL, FILL_CHUNK, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	out = open(device, O_WRONLY | O_DIRECT);
	if (chunk == MAP_FAILED || out < 0)
		return -errno;
	memset(chunk, FILL_BYTE, FILL_CHUNK);
	for (at = 0; at < size; at += FILL_CHUNK) {
		size_t n = size - at < FILL_CHUNK ? size - at : FILL_CHUNK;

		ssize_t done = pwrite(out, chunk, n, at);

		if (done != (ssize_t)n)
			return done < 0 ? -errno : -EIO;
	}
	close(out);
	munmap(chunk, FILL_CHUNK);
	return 0;
}

/* Checks that the READs have put the data that fill() wrote into every buffer. */
static int check(void)
{
	size_t i;

	for (i = 0; i < (size_t)opt.depth * opt.bs; i++) {
		if (buffer[i] != FILL_BYTE) {
			fprintf(stderr, "byte %zu of buffer %zu is %#x, %#x was written\n",
				i % opt.bs, i / opt.bs, buffer[i], FILL_BYTE);
			return -EIO;
		}
	}
	return 0;
}

static int set_up(void)
{
	unsigned int i, flags = opt.poll ? IORING_SETUP_IOPOLL : 0;
	int err, fds[MAX_DEVICES];
	struct iovec iov;

	iov.iov_len = (size_t)opt.depth * opt.bs;
	buffer = mmap(NULL, iov.iov_len, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (buffer == MAP_FAILED)
		return -errno;
	if (opt.write)
		memset(buffer, FILL_BYTE, iov.iov_len);
	iov.iov_base = buffer;
	err = io_uring_queue_init(opt.depth, &ring, flags);
	if (err || !opt.registered)
		return err;
	err = io_uring_register_buffers(&ring, &iov, 1);
	for (i = 0; i < nr_disks; i++)
		fds[i] = disks[i].fd;
	return err ? err : io_uring_register_files(&ring, fds, nr_disks);
}

static const char *json(bool value)
{
	return value ? "true" : "false";
}

static void report(unsigned long count, unsigned long ns)
{
	printf("{\"loop\": \"uring\", ");
	devices_print(&opt.devices);
	printf(", \"jobs\": %u, \"bs\": %u, \"depth\": %u, \"batch\": %u, ",
	       opt.jobs, opt.bs, opt.depth, opt.batch);
	printf("\"write\": %s, \"registered\": %s, \"poll\": %s, \"data\": %s, ",
	       json(opt.write), json(opt.registered), json(opt.poll),
	       json(opt.data));
	printf("\"idle\": %s, \"warmup\": %u, \"count\": %lu, \"ns\": %lu, ", json(opt.idle),
	       opt.runs.warmup, count, ns);
	if (opt.latencies)
		jobs_print_latencies();
	else
		jobs_print_chunks();
	printf("}\n");
}

/* Opens the devices of job @n, at least one. */
static int open_disks(unsigned int n)
{
	unsigned int i = n % opt.devices.nr;
	int err = 0;

	for (; !err && i < opt.devices.nr; i += opt.jobs) {
		const char *name = opt.devices.names[i];
		int fd = disk_open(name, opt.write, opt.bs,
				   &disks[nr_disks].blocks);

		if (fd < 0)
			return fd;
		disks[nr_disks].name = name;
		disks[nr_disks++].fd = fd;
		/* A device that several jobs share is filled by the first of them. */
		if (opt.data && n < opt.devices.nr)
			err = fill(name, lseek(fd, 0, SEEK_END));
		if (err)
			fprintf(stderr, "%s: %s\n", name, strerror(-err));
	}
	return err;
}

static int job(unsigned int n)
{
	int err;

	disk_seed(n);
	if (open_disks(n))
		return 1;
	err = set_up();
	/*
	 * With chunks or latencies no wait for the next second is needed: taking times costs more
	 * than the eight instructions that the wait avoids, and this cost varies by more.
	 */
	if (!opt.runs.chunk && !opt.latencies)
		disk_next_second();
	jobs_meet();
	if (!err)
		err = jobs_measure(&opt.runs, run_ios, report);
	if (!err && opt.data && !opt.idle)
		err = check();
	if (err)
		fprintf(stderr, "%s: %s\n", disks[0].name, strerror(-err));
	return err ? 1 : 0;
}

static const char help[] =
"usage: uring [options] DEVICE...\n"
"Random I/O on block devices through io_uring, by jobs pinned to CPU 0, 1, ... (more\n"
"jobs share CPUs), with markers for a counting plugin around each run.\n"
"  --jobs N         distributes the DEVICEs over N jobs; a job without a DEVICE of its own\n"
"                   shares one (default: a job for each DEVICE)\n"
"  --write          writes, which destroy the data of DEVICE, instead of reads\n"
"  --bs BYTES       size of an I/O (512)\n"
"  --depth N        I/Os in flight (32)\n"
"  --batch N        I/Os submitted and waited for at a time (16)\n"
"  --count N[,N]    I/Os of each measured run (2000,6000)\n"
"  --warmup N       I/Os before the first run (1000)\n"
"  --chunk N        I/Os that are timed together; a run has at most 1024 chunks\n"
"  --registered     registered buffer and file\n"
"  --poll           IOPOLL ring\n"
"  --latencies      report p50, p99 and p99.9 of the first job's latencies\n"
"  --idle           no I/O: for each batch, a call that does nothing\n"
"  --data           fill DEVICE first; at the end check the data that was read\n"
"  --timeout S      give up after S seconds (300)\n"
"Prints a line of JSON for each run.\n";

static const struct option_spec options[] = {
	OPTION_NUMBER("bs", opt.bs, 512, 1 << 20),
	OPTION_NUMBER("depth", opt.depth, 1, 1024),
	OPTION_NUMBER("jobs", opt.jobs, 1, MAX_JOBS),
	OPTION_NUMBER("batch", opt.batch, 1, 1024),
	OPTION_FLAG("write", opt.write),
	OPTION_FLAG("registered", opt.registered),
	OPTION_FLAG("poll", opt.poll),
	OPTION_FLAG("idle", opt.idle),
	OPTION_FLAG("latencies", opt.latencies),
	OPTION_FLAG("data", opt.data),
	OPTION_COUNTS(opt.runs),
	OPTION_WARMUP(opt.runs),
	OPTION_TIMEOUT(opt.runs),
	OPTION_CHUNK(opt.runs),
	{ }
};

static void parse(int argc, char **argv)
{
	option_parse(argc, argv, options, help);
	opt.devices = devices_parse(argc, argv);
	_Static_assert(MAX_DEVICES <= MAX_JOBS, "a job for each device");
	if (!opt.jobs)
		opt.jobs = opt.devices.nr;
	option_check_chunks(&opt.runs);
}

int main(int argc, char **argv)
{
	parse(argc, argv);
	return jobs_run(opt.jobs, opt.runs.seconds, job);
}
