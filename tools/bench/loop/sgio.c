// SPDX-License-Identifier: GPL-2.0
/* TEST UNIT READY or READ(10) through SG_IO, measured between markers. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <scsi/sg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "jobs.h"
#include "option.h"

#define BLOCK		512
#define NR_LBAS		1024
#define TIMEOUT_MS	20000

#define OP_TUR		0x00
#define OP_READ_10	0x28

static struct {
	bool read;
	unsigned int warmup, seconds;
	unsigned long counts[MAX_COUNTS];
	size_t nr_counts;
	const char *device;
} opt = { .warmup = 300, .seconds = 300, .counts = { 2000, 6000 },
	  .nr_counts = 2 };

static unsigned char data[BLOCK] __attribute__((aligned(BLOCK)));
static unsigned char sense[64];
static int fd;

static int issue(unsigned long n)
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
		unsigned int lba = n % NR_LBAS;

		cdb[0] = OP_READ_10;
		cdb[4] = lba >> 8;
		cdb[5] = lba;
		cdb[8] = 1;
		hdr.cmd_len = 10;
		hdr.dxfer_direction = SG_DXFER_FROM_DEV;
		hdr.dxferp = data;
		hdr.dxfer_len = BLOCK;
	}
	if (ioctl(fd, SG_IO, &hdr) < 0)
		return -errno;
	if (hdr.status || hdr.host_status || hdr.driver_status || hdr.resid) {
		fprintf(stderr, "status %#x host %#x driver %#x residual %d\n",
			hdr.status, hdr.host_status, hdr.driver_status,
			hdr.resid);
		return -EIO;
	}
	return 0;
}

static int issue_all(unsigned long count)
{
	unsigned long n;
	int err = 0;

	for (n = 0; !err && n < count; n++)
		err = issue(n);
	return err;
}

static void report(unsigned long count, unsigned long ns)
{
	printf("{\"loop\": \"sgio\", \"devices\": [\"%s\"], ", opt.device);
	printf("\"command\": \"%s\", \"count\": %lu, \"ns\": %lu}\n",
	       opt.read ? "READ(10)" : "TUR", count, ns);
}

static int job(unsigned int n)
{
	unsigned long ns;
	size_t i;
	int err;

	fd = open(opt.device, O_RDWR);
	err = fd < 0 ? -errno : issue_all(opt.warmup);
	for (i = 0; !err && i < opt.nr_counts; i++) {
		jobs_start();
		err = issue_all(opt.counts[i]);
		ns = jobs_stop();
		if (!err)
			report(opt.counts[i], ns);
	}
	if (err)
		fprintf(stderr, "%s: %s\n", opt.device, strerror(-err));
	return err ? 1 : 0;
}

static const char help[] =
"usage: sgio [options] DEVICE\n"
"Commands to /dev/sgN or a block device through SG_IO, one at a time, with\n"
"markers for a counting plugin around each run.\n"
"  --read           READ(10) of one block; else TEST UNIT READY\n"
"  --count N[,N]    commands of each measured run (2000,6000)\n"
"  --warmup N       commands before (300)\n"
"  --timeout S      give up after (300)\n"
"Prints a line of JSON for each run.\n";

static const struct option options[] = {
	{ "read", no_argument, NULL, 'r' },
	{ "count", required_argument, NULL, 'c' },
	{ "warmup", required_argument, NULL, 'w' },
	{ "timeout", required_argument, NULL, 't' },
	{ "help", no_argument, NULL, 'h' },
	{ }
};

static void parse(int argc, char **argv)
{
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 'r':
			opt.read = true;
			break;
		case 'c':
			opt.nr_counts = option_counts("--count", optarg,
						      opt.counts);
			break;
		case 'w':
			opt.warmup = option_number("--warmup", optarg, 0,
						   1000000000);
			break;
		case 't':
			opt.seconds = option_number("--timeout", optarg, 1,
						    86400);
			break;
		case 'h':
			fputs(help, stdout);
			exit(0);
		default:
			fputs(help, stderr);
			exit(2);
		}
	}
	if (argc - optind != 1) {
		fputs("DEVICE: give one\n", stderr);
		exit(2);
	}
	opt.device = argv[optind];
}

int main(int argc, char **argv)
{
	parse(argc, argv);
	return jobs_run(1, opt.seconds, job);
}
