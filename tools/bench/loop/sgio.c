// SPDX-License-Identifier: GPL-2.0
/* TEST UNIT READY or READ(10) through SG_IO or write() and read(), measured between markers. */
#include <errno.h>
#include <fcntl.h>
#include <scsi/sg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "devices.h"
#include "jobs.h"
#include "option.h"

#define BLOCK		512
#define MAX_BYTES	65536
#define NR_BYTES	(512 * 1024)	/* how much of the disk is read */
#define TIMEOUT_MS	20000

#define OP_TUR		0x00
#define OP_READ_10	0x28

static struct {
	bool read, write_read;
	unsigned int bs;
	struct jobs_runs runs;
	struct devices devices;
	unsigned int jobs;
} opt = { .bs = BLOCK, .jobs = 1, .runs = { .warmup = 300, .seconds = 300,
	  .counts = { 2000, 6000 }, .nr_counts = 2 } };

static unsigned char data[MAX_BYTES] __attribute__((aligned(4096)));
static unsigned char sense[64];

/* The devices of this job, which take turns. */
static int fds[MAX_DEVICES];
static int nr_fds, next_fd;

static inline __attribute__((always_inline))
int send_one(int fd, struct sg_io_hdr *hdr, bool write_read)
{
	if (!write_read)
		return ioctl(fd, SG_IO, hdr);
	return write(fd, hdr, sizeof(*hdr)) < 0 || read(fd, hdr, sizeof(*hdr)) < 0 ? -1 : 0;
}

static inline __attribute__((always_inline)) int issue(unsigned long n, bool write_read)
{
	unsigned char cdb[10] = { OP_TUR };
	struct sg_io_hdr hdr = {
		.interface_id = 'S',
		.cmdp = cdb,
		.cmd_len = 6,
		.dxfer_direction = SG_DXFER_NONE,
		.sbp = sense,
		.mx_sb_len = sizeof(sense),
		.timeout = TIMEOUT_MS,
	};

	if (opt.read) {
		unsigned int blocks = opt.bs / BLOCK;
		unsigned int lba = n % (NR_BYTES / opt.bs) * blocks;

		cdb[0] = OP_READ_10;
		cdb[4] = lba >> 8;
		cdb[5] = lba;
		cdb[8] = blocks;
		hdr.cmd_len = 10;
		hdr.dxfer_direction = SG_DXFER_FROM_DEV;
		hdr.dxferp = data;
		hdr.dxfer_len = opt.bs;
	}
	if (send_one(fds[next_fd], &hdr, write_read) < 0)
		return jobs_may_fail() ? 0 : -errno;
	if (++next_fd == nr_fds)
		next_fd = 0;
	if ((hdr.status || hdr.host_status || hdr.driver_status || hdr.resid) &&
	    !jobs_may_fail()) {
		fprintf(stderr, "status %#x host %#x driver %#x residual %d\n",
			hdr.status, hdr.host_status, hdr.driver_status,
			hdr.resid);
		return -EIO;
	}
	return 0;
}

/* Not inlined: otherwise the cost of this code would depend on the code around it. */
static __attribute__((noinline)) int issue_ioctl(unsigned long n)
{
	return issue(n, false);
}

static __attribute__((noinline)) int issue_write_read(unsigned long n)
{
	return issue(n, true);
}

static int issue_all(unsigned long count)
{
	unsigned long n;
	int err = 0;

	if (opt.write_read) {
		for (n = 0; !err && n < count; n++)
			err = issue_write_read(n);
		return err;
	}
	for (n = 0; !err && n < count; n++)
		err = issue_ioctl(n);
	return err;
}

static void report(unsigned long count, unsigned long ns)
{
	printf("{\"loop\": \"sgio\", ");
	devices_print(&opt.devices);
	printf(", \"jobs\": %u, \"command\": \"%s\", \"bs\": %u, ",
	       opt.jobs, opt.read ? "READ(10)" : "TUR", opt.read ? opt.bs : 0);
	printf("\"warmup\": %u, \"count\": %lu, \"ns\": %lu}\n", opt.runs.warmup,
	       count, ns);
}

static int job(unsigned int n)
{
	int err;

	nr_fds = devices_open(&opt.devices, n, opt.jobs, O_RDWR, fds);
	if (nr_fds < 0)
		return 1;
	err = jobs_measure(&opt.runs, issue_all, report);
	if (err)
		fprintf(stderr, "%s: %s\n", opt.devices.names[n % opt.devices.nr],
			strerror(-err));
	return err ? 1 : 0;
}

static const char help[] =
"usage: sgio [options] DEVICE...\n"
"Sends commands to /dev/sgN, /dev/smqsgN or block devices through SG_IO, one at a\n"
"time, with markers for a counting plugin around each run.\n"
"  --read           READ(10) instead of TEST UNIT READY\n"
"  --write-read     write() and read() instead of SG_IO; not for block devices\n"
"  --bs BYTES       size of a READ(10) (512)\n"
"  --jobs N         jobs, pinned to CPU 0, 1, ...; the DEVICEs are distributed over\n"
"                   them, and a job without a DEVICE of its own shares one (1)\n"
"  --count N[,N]    commands of each measured run (2000,6000)\n"
"  --warmup N       commands before the first run (300)\n"
"  --timeout S      give up after S seconds (300)\n"
"  --again          reads orders: \"measure\" does the warm-up and the runs, \"use N\" sends\n"
"                   N commands, which may fail\n"
"  --cpu N          the job's CPU, with --again (0)\n"
"Prints a line of JSON for each run.\n";

static const struct option_spec options[] = {
	OPTION_FLAG("read", opt.read),
	OPTION_FLAG("write-read", opt.write_read),
	OPTION_BYTES("bs", opt.bs, BLOCK, MAX_BYTES),
	OPTION_NUMBER("jobs", opt.jobs, 1, MAX_JOBS),
	OPTION_COUNTS(opt.runs),
	OPTION_WARMUP(opt.runs),
	OPTION_TIMEOUT(opt.runs),
	OPTION_AGAIN(opt.runs),
	OPTION_CPU(opt.runs),
	{ }
};

static void parse(int argc, char **argv)
{
	option_parse(argc, argv, options, help);
	option_check_again(&opt.runs, opt.jobs);
	opt.devices = devices_parse(argc, argv);
}

int main(int argc, char **argv)
{
	parse(argc, argv);
	return jobs_run(opt.jobs, opt.runs.seconds, job);
}
