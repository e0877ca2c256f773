// SPDX-License-Identifier: GPL-2.0
/* Measures passthrough commands through io_uring, with slots or without, or through SG_IO. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <linux/bsg.h>
#include <scsi/sg.h>
#include <scsi/smq_sg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "devices.h"
#include "jobs.h"
#include "option.h"

#define BLOCK		512
#define MAX_BYTES	65536
#define MAX_DEPTH	1024
#define NR_BYTES	(512 * 1024)	/* how much of the disk is used */
#define TIMEOUT_MS	20000
#define SENSE_BYTES	32

#define OP_TUR		0x00
#define OP_READ_10	0x28
#define OP_WRITE_10	0x2a

enum path { RUN, RUN_LBA, BATCH, ADHOC, V4, TIMED };

static const char * const paths[] = { "run", "run-lba", "batch", "adhoc", "v4", "timed", NULL };

static struct {
	enum path path;
	bool tur, write, registered, poll;
	unsigned int bs, depth, batch;
	struct jobs_runs runs;
	struct devices devices;
	unsigned int jobs;
} opt = { .bs = BLOCK, .depth = 32, .batch = 16, .jobs = 1,
	  .runs = { .warmup = 1000, .seconds = 300, .counts = { 2000, 6000 }, .nr_counts = 2 } };

static struct io_uring ring;
static unsigned char *buffer;
static unsigned char cdbs[MAX_DEPTH][16];
static unsigned char sense[MAX_DEPTH][SENSE_BYTES];

/* The devices of this job, which take turns. */
static int fds[MAX_DEVICES];
static int nr_fds;

/* The number of slots of each device: enough that an idle one can always be found. */
static unsigned int nr_slots;

/* Where command @n reads or writes. */
static inline __attribute__((always_inline))
unsigned int lba_of(unsigned int n)
{
	return n % (NR_BYTES / opt.bs) * (opt.bs / BLOCK);
}

static void fill_cdb(unsigned char *cdb, unsigned int n)
{
	unsigned int lba = lba_of(n);

	memset(cdb, 0, 16);
	if (opt.tur)
		return;
	cdb[0] = opt.write ? OP_WRITE_10 : OP_READ_10;
	cdb[4] = lba >> 8;
	cdb[5] = lba;
	cdb[8] = opt.bs / BLOCK;
}

static unsigned int cdb_len(void)
{
	return opt.tur ? 6 : 10;
}

/*
 * The inline functions are compiled for each path, with chunks and without, so that the choice
 * costs nothing per command.
 */

static inline __attribute__((always_inline))
struct io_uring_sqe *get_sqe(unsigned int disk, unsigned int op)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);

	/* The other fields are 0 from the start, or the caller sets them in every SQE. */
	sqe->opcode = IORING_OP_URING_CMD;
	sqe->flags = IOSQE_FIXED_FILE;
	sqe->fd = disk;
	sqe->cmd_op = op;
	return sqe;
}

/*
 * Idle slots, or first slots of idle batches, as device << 16 | slot; the one that has been idle
 * longest comes first. The next idle slot is not always the next number: a command that waits for
 * room may end after later commands.
 */
static struct {
	unsigned int *all;
	unsigned int mask, first, end;
} idle;

static inline __attribute__((always_inline))
unsigned int idle_take(void)
{
	return idle.all[idle.first++ & idle.mask];
}

static inline __attribute__((always_inline))
void idle_put(unsigned int which)
{
	idle.all[idle.end++ & idle.mask] = which;
}

static int idle_init(unsigned int step)
{
	unsigned int slot, disk, size = 1;

	while (size < nr_slots * nr_fds)
		size *= 2;
	idle.all = calloc(size, sizeof(*idle.all));
	if (!idle.all)
		return -ENOMEM;
	idle.mask = size - 1;
	for (slot = 0; slot + step <= nr_slots; slot += step)
		for (disk = 0; disk < (unsigned int)nr_fds; disk++)
			idle_put(disk << 16 | slot);
	return 0;
}

static inline __attribute__((always_inline))
void queue_run(enum path path, unsigned long n)
{
	unsigned int which = idle_take();
	struct io_uring_sqe *sqe = get_sqe(which >> 16, SMQ_SG_URING_RUN);
	struct smq_sg_run *run = (struct smq_sg_run *)sqe->cmd;

	*run = (struct smq_sg_run) { .slot = which & 0xffff };
	if (path == RUN_LBA) {
		run->flags = SMQ_SG_RUN_LBA;
		run->lba = lba_of(n);
	}
	sqe->user_data = which;
}

/* A batch goes to one device. */
static inline __attribute__((always_inline))
void queue_batch(unsigned int count)
{
	unsigned int which = idle_take();
	struct io_uring_sqe *sqe = get_sqe(which >> 16, SMQ_SG_URING_BATCH);
	struct smq_sg_batch *cmd = (struct smq_sg_batch *)sqe->cmd;

	*cmd = (struct smq_sg_batch) {
		.list = which & 0xffff,
		.count = count,
		.flags = SMQ_SG_BATCH_RANGE,
	};
	sqe->user_data = which | (unsigned long long)count << 32;
}

static inline __attribute__((always_inline))
void queue_adhoc(unsigned long n)
{
	struct io_uring_sqe *sqe = get_sqe(n % nr_fds, 0);
	struct smq_sg_uring_cmd *cmd = (struct smq_sg_uring_cmd *)sqe->cmd;
	unsigned int slot = n % opt.depth;
	unsigned char *data = buffer + (size_t)slot * opt.bs;

	memset(cmd, 0, sizeof(*cmd));
	fill_cdb(cdbs[slot], n);
	cmd->request = (uintptr_t)cdbs[slot];
	cmd->request_len = cdb_len();
	cmd->response = (uintptr_t)sense[slot];
	cmd->max_response_len = SENSE_BYTES;
	cmd->timeout_ms = TIMEOUT_MS;
	if (!opt.tur && opt.write) {
		cmd->dout_xferp = (uintptr_t)data;
		cmd->dout_xfer_len = opt.bs;
	} else if (!opt.tur) {
		cmd->din_xferp = (uintptr_t)data;
		cmd->din_xfer_len = opt.bs;
	}
	if (opt.registered && !opt.tur) {
		sqe->uring_cmd_flags = IORING_URING_CMD_FIXED;
		sqe->buf_index = slot;
	}
}

static inline __attribute__((always_inline))
int issue_v4(unsigned long n)
{
	struct sg_io_v4 hdr = {
		.guard = 'Q',
		.protocol = BSG_PROTOCOL_SCSI,
		.subprotocol = BSG_SUB_PROTOCOL_SCSI_CMD,
		.request_len = cdb_len(),
		.request = (uintptr_t)cdbs[0],
		.response = (uintptr_t)sense[0],
		.max_response_len = SENSE_BYTES,
		.timeout = TIMEOUT_MS,
	};

	fill_cdb(cdbs[0], n);
	if (!opt.tur && opt.write) {
		hdr.dout_xferp = (uintptr_t)buffer;
		hdr.dout_xfer_len = opt.bs;
	} else if (!opt.tur) {
		hdr.din_xferp = (uintptr_t)buffer;
		hdr.din_xfer_len = opt.bs;
	}
	if (ioctl(fds[n % nr_fds], SG_IO, &hdr) < 0)
		return -errno;
	return hdr.device_status || hdr.transport_status ? -EIO : 0;
}

static inline __attribute__((always_inline))
int run_v4(bool chunks, unsigned long count)
{
	unsigned long n;
	int err = 0;

	for (n = 0; !err && n < count; n++) {
		err = issue_v4(n);
		if (chunks)
			jobs_batch_done(n + 1);
	}
	return err;
}

/* Timed batches whose entries are due at once, by ioctl; devices take turns. */
static int run_timed(unsigned long count)
{
	static struct smq_sg_timed_entry entries[MAX_DEPTH];
	unsigned long n, some;
	unsigned int i;

	for (i = 0; i < opt.batch; i++)
		entries[i].run.slot = i % nr_slots;
	for (n = 0; n < count; n += some) {
		struct smq_sg_timed timed = { .entries = (uintptr_t)entries };
		struct smq_sg_run_batch run = {
			.batch.list = (uintptr_t)&timed,
			.batch.flags = SMQ_SG_BATCH_TIMED,
		};

		some = count - n < opt.batch ? count - n : opt.batch;
		run.batch.count = some;
		if (ioctl(fds[n / opt.batch % nr_fds], SMQ_SG_RUN, &run))
			return -errno;
		if (run.failed && !jobs_may_fail())
			return -EIO;
		if (opt.runs.chunk)
			jobs_batch_done(n + some);
	}
	return 0;
}

/* Reaps the completions; returns how many commands have ended, or an error. */
static inline __attribute__((always_inline))
int reap(enum path path)
{
	struct io_uring_cqe *cqe;
	unsigned int head, n = 0, done = 0;

	io_uring_for_each_cqe(&ring, head, cqe) {
		if (cqe->res && !jobs_may_fail()) {
			fprintf(stderr, "%s: a CQE has result %d\n", paths[path], cqe->res);
			return cqe->res < 0 ? cqe->res : -EIO;
		}
		if (path == ADHOC && cqe->big_cqe[0] && !jobs_may_fail()) {
			fprintf(stderr, "adhoc: status %#llx\n", cqe->big_cqe[0]);
			return -EIO;
		}
		if (path != ADHOC)
			idle_put(cqe->user_data);
		done += path == BATCH ? cqe->user_data >> 32 : 1;
		n++;
	}
	io_uring_cq_advance(&ring, n);
	return done;
}

static inline __attribute__((always_inline))
unsigned int queue_some(enum path path, unsigned long n, unsigned long left)
{
	unsigned int count = left < opt.batch ? left : opt.batch;

	if (path == BATCH) {
		queue_batch(count);
		return count;
	}
	if (path == ADHOC)
		queue_adhoc(n);
	else
		queue_run(path, n);
	return 1;
}

/* Keeps up to @depth commands in flight; submits and reaps a batch at a time. */
static inline __attribute__((always_inline))
int run_ring(enum path path, bool chunks, unsigned long count)
{
	unsigned long queued = 0, done = 0;
	unsigned int inflight = 0;

	while (done < count) {
		unsigned int n, some;
		int err;

		for (n = 0; n < opt.batch && queued < count && inflight < opt.depth; n += some) {
			some = queue_some(path, queued, count - queued);
			queued += some;
			inflight += some;
		}
		n = jobs_wait_for(inflight, opt.depth, opt.batch, queued == count);
		/*
		 * A batch has one completion: do not wait for it while another batch fits into the
		 * depth.
		 */
		err = io_uring_submit_and_wait(&ring, path == BATCH ? !!n : n);
		if (err < 0)
			return err;
		err = reap(path);
		if (err < 0)
			return err;
		done += err;
		inflight -= err;
		if (chunks)
			jobs_batch_done(done);
	}
	return 0;
}

static inline __attribute__((always_inline))
int run_path(enum path path, unsigned long count)
{
	return opt.runs.chunk ? run_ring(path, true, count) : run_ring(path, false, count);
}

static int run_commands(unsigned long count)
{
	switch (opt.path) {
	case RUN:
		return run_path(RUN, count);
	case RUN_LBA:
		return run_path(RUN_LBA, count);
	case BATCH:
		return run_path(BATCH, count);
	case ADHOC:
		return run_path(ADHOC, count);
	case TIMED:
		return run_timed(count);
	default:
		return opt.runs.chunk ? run_v4(true, count) : run_v4(false, count);
	}
}

static int prepare(int fd)
{
	struct smq_sg_setup setup = {
		.slots = nr_slots,
		.sense_size = SENSE_BYTES,
	};
	struct smq_sg_buffer lend = {
		.address = (uintptr_t)buffer,
		.length = (size_t)opt.depth * opt.bs,
	};
	struct smq_sg_slot slots[MAX_DEPTH] = { };
	struct smq_sg_prepare fill = { .slots = (uintptr_t)slots, .count = nr_slots };
	unsigned int i;

	for (i = 0; i < nr_slots; i++) {
		fill_cdb(slots[i].cdb, i);
		slots[i].cdb_len = cdb_len();
		slots[i].timeout_ms = TIMEOUT_MS;
		if (opt.tur)
			continue;
		slots[i].direction = opt.write ? SMQ_SG_OUT : SMQ_SG_IN;
		slots[i].length = opt.bs;
		slots[i].offset = (size_t)i * opt.bs;
	}
	if (ioctl(fd, SMQ_SG_SETUP, &setup) || ioctl(fd, SMQ_SG_BUFFER, &lend) ||
	    ioctl(fd, SMQ_SG_PREPARE, &fill))
		return -errno;
	return 0;
}

static int register_buffers(void)
{
	struct iovec iov[MAX_DEPTH];
	unsigned int i;

	/*
	 * One buffer for each command: with a single large buffer Linux 6.1 would count all of its
	 * pages for each command.
	 */
	for (i = 0; i < opt.depth; i++)
		iov[i] = (struct iovec) { buffer + (size_t)i * opt.bs, opt.bs };
	return io_uring_register_buffers(&ring, iov, opt.depth);
}

static int set_up(void)
{
	unsigned int flags = (opt.path == ADHOC ? IORING_SETUP_SQE128 | IORING_SETUP_CQE32 : 0) |
			     (opt.poll ? IORING_SETUP_IOPOLL : 0);
	int i, err = 0;

	buffer = mmap(NULL, (size_t)opt.depth * opt.bs, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (buffer == MAP_FAILED)
		return -errno;
	if (opt.path == V4)
		return 0;
	nr_slots = opt.depth;
	while (nr_slots % (2 * opt.batch) == 0 && nr_slots / 2 * nr_fds >= opt.depth)
		nr_slots /= 2;
	for (i = 0; !err && opt.path != ADHOC && i < nr_fds; i++)
		err = prepare(fds[i]);
	if (!err)
		err = idle_init(opt.path == BATCH ? opt.batch : 1);
	if (!err)
		err = io_uring_queue_init(opt.depth, &ring, flags);
	if (!err)
		err = io_uring_register_files(&ring, fds, nr_fds);
	if (!err && opt.registered)
		err = register_buffers();
	return err;
}

static void report(unsigned long count, unsigned long ns)
{
	printf("{\"loop\": \"passthrough\", \"path\": \"%s\", ", paths[opt.path]);
	devices_print(&opt.devices);
	printf(", \"jobs\": %u, \"command\": \"%s\", \"bs\": %u, \"depth\": %u, \"batch\": %u, ",
	       opt.jobs, opt.tur ? "TUR" : opt.write ? "WRITE(10)" : "READ(10)",
	       opt.tur ? 0 : opt.bs, opt.depth, opt.batch);
	printf("\"registered\": %s, \"poll\": %s, ", opt.registered ? "true" : "false",
	       opt.poll ? "true" : "false");
	printf("\"warmup\": %u, \"count\": %lu, \"ns\": %lu, ", opt.runs.warmup, count, ns);
	jobs_print_chunks();
	printf("}\n");
}

static int job(unsigned int n)
{
	int err;

	nr_fds = devices_open(&opt.devices, n, opt.jobs, O_RDWR, fds);
	if (nr_fds < 0)
		return 1;
	err = set_up();
	if (!err)
		err = jobs_measure(&opt.runs, run_commands, report);
	if (err)
		fprintf(stderr, "%s: %s\n", opt.devices.names[n % opt.devices.nr], strerror(-err));
	return err ? 1 : 0;
}

static const char help[] =
"usage: passthrough [options] DEVICE...\n"
"Sends SCSI commands to /dev/smqsgN, or with --path adhoc and v4 to /dev/bsg/H:C:T:L, from\n"
"jobs pinned to CPU 0, 1, .... Puts markers for a counting plugin around each run.\n"
"  --path PATH      run: each SQE runs a prepared slot; run-lba: likewise, with another LBA\n"
"                   than the slot's; batch: each SQE runs a batch of slots; adhoc: each SQE has a command without a slot; v4: SG_IO with\n"
"                   struct sg_io_v4, one command at a time (run)\n"
"  --tur, --write   TEST UNIT READY, or WRITE(10), which destroys the data of DEVICE,\n"
"                   instead of READ(10)\n"
"  --bs BYTES       size of a command's data (512)\n"
"  --depth N        commands in flight (32)\n"
"  --batch N        commands submitted and waited for at a time (16)\n"
"  --registered     adhoc: registered buffers, one for each command in flight\n"
"  --poll           an IOPOLL ring; not with v4\n"
"  --jobs N         distributes the DEVICEs over N jobs; a job without a DEVICE of its own\n"
"                   shares one (1)\n"
"  --count N[,N]    commands of each measured run (2000,6000)\n"
"  --warmup N       commands before the first run (1000)\n"
"  --chunk N        commands that are timed together; a run has at most 1024 chunks\n"
"  --timeout S      give up after S seconds (300)\n"
"  --again          reads orders: \"measure\" does the warm-up and the runs, \"use N\" sends\n"
"                   N commands, which may fail\n"
"  --cpu N          the job's CPU, with --again (0)\n"
"Prints a line of JSON for each run.\n";

static const struct option_spec options[] = {
	OPTION_WORD("path", opt.path, paths),
	OPTION_FLAG("tur", opt.tur),
	OPTION_FLAG("write", opt.write),
	OPTION_BYTES("bs", opt.bs, BLOCK, MAX_BYTES),
	OPTION_NUMBER("depth", opt.depth, 1, MAX_DEPTH),
	OPTION_NUMBER("batch", opt.batch, 1, MAX_DEPTH),
	OPTION_FLAG("registered", opt.registered),
	OPTION_FLAG("poll", opt.poll),
	OPTION_NUMBER("jobs", opt.jobs, 1, MAX_JOBS),
	OPTION_COUNTS(opt.runs),
	OPTION_WARMUP(opt.runs),
	OPTION_TIMEOUT(opt.runs),
	OPTION_CHUNK(opt.runs),
	OPTION_AGAIN(opt.runs),
	OPTION_CPU(opt.runs),
	{ }
};

static void parse(int argc, char **argv)
{
	option_parse(argc, argv, options, help);
	if (opt.batch > opt.depth || (opt.path == BATCH && opt.depth % opt.batch)) {
		fprintf(stderr, "--batch: %u does not divide --depth %u\n", opt.batch, opt.depth);
		exit(2);
	}
	if (opt.tur && opt.path == RUN_LBA) {
		fputs("--tur: has no LBA for --path run-lba\n", stderr);
		exit(2);
	}
	if (opt.poll && opt.path == V4) {
		fputs("--poll: --path v4 has no ring\n", stderr);
		exit(2);
	}
	if (opt.registered && opt.path != ADHOC) {
		fprintf(stderr, "--registered: needs --path adhoc, not %s\n",
			paths[opt.path]);
		exit(2);
	}
	opt.devices = devices_parse(argc, argv);
	option_check_chunks(&opt.runs);
	option_check_again(&opt.runs, opt.jobs);
}

int main(int argc, char **argv)
{
	parse(argc, argv);
	return jobs_run(opt.jobs, opt.runs.seconds, job);
}
