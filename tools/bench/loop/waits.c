// SPDX-License-Identifier: GPL-2.0
/*
 * For a while, sends prepared commands or reads a disk. Reports how each command or read ended, and
 * how long it took.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <scsi/smq_sg.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "devices.h"
#include "option.h"

#define BLOCK		512
#define NR_BLOCKS	1024		/* how many blocks of the disk are read */
#define MAX_SLOTS	200000
#define MAX_RING	4096
#define MAX_SAMPLES	2000000
#define MAX_BINS	600
#define BIN_MS		100
/* How long commands in flight may take to end after the last one was sent. */
#define DRAIN_MS	60000
#define MAX_ERRNO	133
#define OP_READ_10	0x28

#define NS_PER_MS	1000000UL

enum path { RUN, BATCH, IOCTL, READ };

static const char * const paths[] = { "run", "batch", "ioctl", "read", NULL };

static struct {
	enum path path;
	unsigned int depth, batch, ms, expire;
	unsigned long count;
	const char *device;
} opt = { .depth = 1, .batch = 1, .ms = 1000, .expire = 60000 };

static struct io_uring ring;
static int fd;
static unsigned char *buffer;
static unsigned char *status;
static unsigned int nr_slots, status_stride;

/* How the commands ended. */
static unsigned int samples[MAX_SAMPLES];
static unsigned long nr_samples;
static unsigned long sent, ended;
static unsigned long errors[MAX_ERRNO + 1], others;
static unsigned long bins[MAX_BINS];
static unsigned long begun, sent_at[MAX_RING];

static unsigned long now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000UL + ts.tv_nsec;
}

static void note(int result, unsigned long from, unsigned int commands)
{
	unsigned long at = now(), bin = at / NS_PER_MS / BIN_MS - begun / NS_PER_MS / BIN_MS;

	ended++;
	if (result > 0)
		others++;
	else
		errors[-result > MAX_ERRNO ? MAX_ERRNO : -result]++;
	if (result)
		return;
	if (bin < MAX_BINS)
		bins[bin] += commands;
	if (nr_samples < MAX_SAMPLES)
		samples[nr_samples++] = (at - from) / 1000;
}

static bool more(void)
{
	return opt.count ? sent < opt.count : now() < begun + opt.ms * NS_PER_MS;
}

static void queue(unsigned int n)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);

	io_uring_prep_rw(IORING_OP_URING_CMD, sqe, fd, NULL, 0, 0);
	sqe->user_data = n;
	if (opt.path == RUN) {
		sqe->cmd_op = SMQ_SG_URING_RUN;
		*(struct smq_sg_run *)sqe->cmd = (struct smq_sg_run) { .slot = n };
	} else {
		sqe->cmd_op = SMQ_SG_URING_BATCH;
		*(struct smq_sg_batch *)sqe->cmd = (struct smq_sg_batch) {
			.list = (unsigned long)n * opt.batch,
			.count = opt.batch,
			.flags = SMQ_SG_BATCH_RANGE,
		};
	}
	sent_at[n] = now();
	sent++;
}

/* Reaps the completions, and sends as many new commands. */
static int reap_and_queue(void)
{
	struct __kernel_timespec while_ms = { .tv_nsec = BIN_MS * NS_PER_MS };
	struct io_uring_cqe *cqe;
	unsigned int head, n = 0, again[MAX_RING], i;
	int err;

	err = io_uring_submit_and_wait_timeout(&ring, &cqe, 1, &while_ms, NULL);
	if (err < 0 && err != -ETIME && err != -EINTR)
		return err;
	io_uring_for_each_cqe(&ring, head, cqe) {
		note(cqe->res, sent_at[cqe->user_data], opt.path == RUN ? 1 : opt.batch);
		again[n++] = cqe->user_data;
	}
	io_uring_cq_advance(&ring, n);
	for (i = 0; i < n && more(); i++)
		queue(again[i]);
	return 0;
}

static int through_ring(void)
{
	unsigned int n;
	int err = io_uring_queue_init(opt.depth, &ring, 0);

	for (n = 0; !err && n < opt.depth && more(); n++)
		queue(n);
	while (!err && (more() || sent != ended)) {
		if (now() > begun + (opt.ms + DRAIN_MS) * NS_PER_MS)
			break;
		err = reap_and_queue();
	}
	return err;
}

static void alarm_rang(int number)
{
}

/* Calls ioctls one after the other, until an alarm interrupts the last one. */
static int through_ioctls(void)
{
	struct smq_sg_run_batch arg = {
		.batch = { .count = opt.batch, .flags = SMQ_SG_BATCH_RANGE },
	};
	struct itimerval alarm = {
		.it_value = { opt.ms / 1000, opt.ms % 1000 * 1000 },
		.it_interval = { .tv_usec = BIN_MS * 1000 },
	};
	struct sigaction action = { .sa_handler = alarm_rang };

	/*
	 * There is no SA_RESTART, so that the alarm ends an ioctl. The alarm repeats, because the
	 * first one may come between two ioctls.
	 */
	sigaction(SIGALRM, &action, NULL);
	if (!opt.count)
		setitimer(ITIMER_REAL, &alarm, NULL);
	while (more()) {
		unsigned long from = now();
		int ret;

		sent++;
		ret = ioctl(fd, SMQ_SG_RUN, &arg) ? -errno : 0;
		note(ret ? ret : (int)arg.failed, from, opt.batch);
		if (ret && ret != -EINTR)
			return ret == -ENODEV ? 0 : ret;
	}
	return 0;
}

static int through_reads(void)
{
	while (more()) {
		unsigned long from = now();
		ssize_t got;

		got = pread(fd, buffer, BLOCK, (off_t)(sent++ % NR_BLOCKS) * BLOCK);
		note(got < 0 ? -errno : got != BLOCK, from, 1);
	}
	return 0;
}

static int prepare(void)
{
	struct smq_sg_setup setup = {
		.slots = nr_slots,
	};
	struct smq_sg_buffer lend = { .address = (unsigned long)buffer, .length = BLOCK };
	struct smq_sg_prepare fill = { .count = nr_slots };
	struct smq_sg_slot *slots = calloc(nr_slots, sizeof(*slots));
	unsigned int i;
	int err = 0;

	if (!slots)
		return -ENOMEM;
	for (i = 0; i < nr_slots; i++)
		slots[i] = (struct smq_sg_slot) {
			.cdb = { OP_READ_10, [4] = i % NR_BLOCKS >> 8, [5] = i, [8] = 1 },
			.cdb_len = 10,
			.direction = SMQ_SG_IN,
			.length = BLOCK,
			.timeout_ms = opt.expire,
		};
	fill.slots = (unsigned long)slots;
	if (ioctl(fd, SMQ_SG_SETUP, &setup) || ioctl(fd, SMQ_SG_BUFFER, &lend) ||
	    ioctl(fd, SMQ_SG_PREPARE, &fill))
		err = -errno;
	free(slots);
	if (err)
		return err;
	status_stride = setup.status_stride;
	status = mmap(NULL, setup.status_size, PROT_READ, MAP_SHARED, fd, setup.status_offset);
	return status == MAP_FAILED ? -errno : 0;
}

/* How many commands the device has answered, by the counters of all slots. */
static unsigned long served(void)
{
	unsigned long sum = 0;
	unsigned int i;

	for (i = 0; i < nr_slots; i++)
		sum += ((struct smq_sg_status *)(status + (size_t)i * status_stride))->runs;
	return sum;
}

static int by_value(const void *a, const void *b)
{
	unsigned int x = *(const unsigned int *)a, y = *(const unsigned int *)b;

	return x < y ? -1 : x > y;
}

static void report(void)
{
	unsigned int i, last = 0;

	qsort(samples, nr_samples, sizeof(samples[0]), by_value);
	printf("{\"loop\": \"waits\", \"path\": \"%s\", \"device\": \"%s\", \"depth\": %u, "
	       "\"batch\": %u, \"sent\": %lu, \"pending\": %lu, \"served\": %lu, \"results\": {",
	       paths[opt.path], opt.device, opt.depth, opt.batch, sent, sent - ended, served());
	printf("\"status\": %lu", others);
	for (i = 0; i <= MAX_ERRNO; i++)
		if (errors[i])
			printf(", \"%u\": %lu", i, errors[i]);
	printf("}, \"median_us\": %u, \"p99_us\": %u, \"worst_us\": %u, ",
	       nr_samples ? samples[nr_samples / 2] : 0,
	       nr_samples ? samples[nr_samples * 99 / 100] : 0,
	       nr_samples ? samples[nr_samples - 1] : 0);
	printf("\"bin_ms\": %d, \"first_bin\": %lu, \"bins\": [", BIN_MS,
	       begun / NS_PER_MS / BIN_MS);
	for (i = 0; i < MAX_BINS; i++)
		if (bins[i])
			last = i;
	for (i = 0; i <= last; i++)
		printf("%s%lu", i ? ", " : "", bins[i]);
	printf("]}\n");
}

static const char help[] =
"usage: waits [options] DEVICE\n"
"Sends READ(10) of one block each to /dev/smqsgN for a while, or with --path read reads a\n"
"disk, one block at a time. Reports how each command ended, how long it took, and how many\n"
"ended in each 100 ms.\n"
"  --path PATH      run: each SQE runs a slot; batch: each SQE runs a batch of slots;\n"
"                   ioctl: each SMQ_SG_RUN runs a batch, one at a time; read: pread() (run)\n"
"  --depth N        SQEs in flight (1)\n"
"  --batch N        commands of a batch (1)\n"
"  --ms N           send nothing more after N milliseconds; an ioctl is interrupted (1000)\n"
"  --count N        send N SQEs, ioctls or reads, instead of sending for --ms\n"
"  --expire MS      timeout of a command (60000)\n"
"At the end waits up to 60 s for commands in flight. Prints a line of JSON: results by errno,\n"
"with \"0\" for GOOD and \"status\" for all other statuses; served is the sum of the slots' own\n"
"counters; only GOOD commands are timed.\n";

static const struct option_spec options[] = {
	OPTION_WORD("path", opt.path, paths),
	OPTION_NUMBER("depth", opt.depth, 1, MAX_RING),
	OPTION_NUMBER("batch", opt.batch, 1, MAX_SLOTS),
	OPTION_NUMBER("ms", opt.ms, 1, MAX_BINS * BIN_MS),
	OPTION_NUMBER("count", opt.count, 1, MAX_SAMPLES),
	OPTION_NUMBER("expire", opt.expire, 1, 600000),
	{ }
};

static void parse(int argc, char **argv)
{
	option_parse(argc, argv, options, help);
	opt.device = devices_one(argc, argv);
	nr_slots = opt.path == READ ? 0 : opt.path == RUN ? opt.depth :
		   opt.path == IOCTL ? opt.batch : opt.depth * opt.batch;
	if (nr_slots > MAX_SLOTS) {
		fprintf(stderr, "--depth %u times --batch %u: at most %d slots\n", opt.depth,
			opt.batch, MAX_SLOTS);
		exit(2);
	}
}

int main(int argc, char **argv)
{
	int err = 0;

	parse(argc, argv);
	fd = open(opt.device, opt.path == READ ? O_RDONLY | O_DIRECT : O_RDWR);
	if (fd < 0) {
		perror(opt.device);
		return 1;
	}
	buffer = mmap(NULL, BLOCK, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (buffer == MAP_FAILED)
		err = -errno;
	if (!err && nr_slots)
		err = prepare();
	begun = now();
	if (!err)
		err = opt.path == READ ? through_reads() :
		      opt.path == IOCTL ? through_ioctls() : through_ring();
	if (err) {
		fprintf(stderr, "%s: %s\n", opt.device, strerror(-err));
		return 1;
	}
	report();
	return 0;
}
