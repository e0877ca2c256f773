// SPDX-License-Identifier: GPL-2.0
/*
 * Measures random block reads through libaio's system calls, between markers.
 * For kernels that are older than io_uring.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/aio_abi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "devices.h"
#include "disk.h"
#include "jobs.h"
#include "option.h"

#define MAX_DEPTH	1024

static struct {
	unsigned int bs, depth, batch;
	bool now;
	struct jobs_runs runs;
	struct devices devices;
	unsigned int jobs;
} opt = { .bs = 512, .depth = 32, .batch = 16, .jobs = 1, .runs = { .warmup = 1000,
	  .seconds = 300, .counts = { 2000, 6000 }, .nr_counts = 2 } };

static struct iocb iocbs[MAX_DEPTH];
static struct io_event events[MAX_DEPTH];
/* The free I/Os. A batch is built from the last elements, and these are submitted. */
static struct iocb *ready[MAX_DEPTH];
static unsigned char *buffer;
static aio_context_t context;

/* The disks of this job, which take turns. */
static struct {
	int fd;
	unsigned long blocks;
} disks[MAX_DEVICES];
static unsigned int nr_disks, next_disk;

static void queue_io(struct iocb *cb)
{
	size_t n = cb - iocbs;
	unsigned int disk = next_disk;

	if (++next_disk == nr_disks)
		next_disk = 0;
	memset(cb, 0, sizeof(*cb));
	cb->aio_lio_opcode = IOCB_CMD_PREAD;
	cb->aio_fildes = disks[disk].fd;
	cb->aio_buf = (uintptr_t)(buffer + n * opt.bs);
	cb->aio_nbytes = opt.bs;
	cb->aio_offset = disk_random() % disks[disk].blocks * opt.bs;
}

static int submit(struct iocb **list, long n)
{
	while (n) {
		long done = syscall(SYS_io_submit, context, n, list);

		if (done <= 0)
			return done ? -errno : -EAGAIN;
		list += done;
		n -= done;
	}
	return 0;
}

/* Does @count I/Os, up to opt.depth at a time. Submits and reaps a batch at a time. */
static int run_ios(unsigned long count)
{
	unsigned long queued = 0, done = 0;
	unsigned int nr_ready = opt.depth, n;

	for (n = 0; n < opt.depth; n++)
		ready[n] = &iocbs[n];
	while (done < count) {
		unsigned int first = nr_ready, inflight;
		long got;
		int err;

		for (n = 0; n < opt.batch && queued < count && first; n++) {
			queue_io(ready[--first]);
			queued++;
		}
		err = submit(ready + first, nr_ready - first);
		if (err)
			return err;
		nr_ready = first;
		inflight = opt.depth - nr_ready;
		n = jobs_wait_for(inflight, opt.depth, opt.batch,
				  queued == count);
		got = syscall(SYS_io_getevents, context, n, opt.depth, events,
			      NULL);
		if (got < (long)n)
			return got < 0 ? -errno : -EINTR;
		done += got;
		while (got--) {
			if (events[got].res != opt.bs)
				return events[got].res < 0 ?
					(int)events[got].res : -EIO;
			ready[nr_ready++] = (void *)(uintptr_t)events[got].obj;
		}
	}
	return 0;
}

static int set_up(void)
{
	size_t size = (size_t)opt.depth * opt.bs;

	buffer = mmap(NULL, size, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (buffer == MAP_FAILED)
		return -errno;
	return syscall(SYS_io_setup, opt.depth, &context) ? -errno : 0;
}

static void report(unsigned long count, unsigned long ns)
{
	printf("{\"loop\": \"aio\", ");
	devices_print(&opt.devices);
	printf(", \"jobs\": %u, \"bs\": %u, \"depth\": %u, \"batch\": %u, ", opt.jobs,
	       opt.bs, opt.depth, opt.batch);
	printf("\"warmup\": %u, \"count\": %lu, \"ns\": %lu}\n", opt.runs.warmup, count, ns);
}

/* Opens the disks of job @n: at least one, which it may share with other jobs. */
static int open_disks(unsigned int n)
{
	unsigned int i;

	for (i = n % opt.devices.nr; i < opt.devices.nr; i += opt.jobs) {
		int fd = disk_open(opt.devices.names[i], false, opt.bs, &disks[nr_disks].blocks);

		if (fd < 0)
			return fd;
		disks[nr_disks++].fd = fd;
	}
	return 0;
}

static int job(unsigned int n)
{
	int err;

	disk_seed(n);
	if (open_disks(n))
		return 1;
	err = set_up();
	/*
	 * Measurements of time need no wait for the next second: times vary by more than the
	 * eight instructions that the wait avoids.
	 */
	if (!opt.now)
		disk_next_second();
	jobs_meet();
	if (!err)
		err = jobs_measure(&opt.runs, run_ios, report);
	if (err)
		fprintf(stderr, "%s: %s\n", opt.devices.names[n % opt.devices.nr],
			strerror(-err));
	return err ? 1 : 0;
}

static const char help[] =
"usage: aio [options] DEVICE...\n"
"Random reads of block devices through io_submit and io_getevents, with markers\n"
"for a counting plugin around each run.\n"
"  --jobs N         jobs, pinned to CPU 0, 1, ...; the DEVICEs are distributed over\n"
"                   them, and a job without a DEVICE of its own shares one (1)\n"
"  --bs BYTES       size of an I/O (512)\n"
"  --depth N        I/Os in flight (32)\n"
"  --batch N        I/Os submitted and waited for at a time (16)\n"
"  --count N[,N]    I/Os of each measured run (2000,6000)\n"
"  --warmup N       I/Os before the first run (1000)\n"
"  --now            for measurements of time: do not wait for the next second of the\n"
"                   clock; that wait only makes instruction counts exact\n"
"  --timeout S      give up after S seconds (300)\n"
"Prints a line of JSON for each run.\n";

static const struct option_spec options[] = {
	OPTION_NUMBER("bs", opt.bs, 512, 1 << 20),
	OPTION_NUMBER("depth", opt.depth, 1, MAX_DEPTH),
	OPTION_NUMBER("batch", opt.batch, 1, MAX_DEPTH),
	OPTION_NUMBER("jobs", opt.jobs, 1, MAX_JOBS),
	OPTION_FLAG("now", opt.now),
	OPTION_COUNTS(opt.runs),
	OPTION_WARMUP(opt.runs),
	OPTION_TIMEOUT(opt.runs),
	{ }
};

static void parse(int argc, char **argv)
{
	option_parse(argc, argv, options, help);
	opt.devices = devices_parse(argc, argv);
}

int main(int argc, char **argv)
{
	parse(argc, argv);
	return jobs_run(opt.jobs, opt.runs.seconds, job);
}
