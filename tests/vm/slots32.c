// SPDX-License-Identifier: GPL-2.0
/*
 * Runs prepared commands on a node of smq_sg without io_uring, and prints the results. The output
 * has no addresses, so a 32-bit and a 64-bit build print the same.
 */
#include <errno.h>
#include <fcntl.h>
#include <scsi/smq_sg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#define SLOTS	8

static unsigned char data[8192] __attribute__((aligned(4096)));
static const unsigned char *status;
static unsigned int stride;

/* Issues an ioctl and prints its result. */
static int call(const char *name, int fd, unsigned long request, void *arg)
{
	int ret = ioctl(fd, request, arg);

	printf("%s: %d errno %d\n", name, ret, ret < 0 ? errno : 0);
	return ret;
}

static int set_up(int fd)
{
	struct smq_sg_setup setup = { .slots = SLOTS, .sense_size = 32 };
	struct smq_sg_info info = { };
	int ret;

	ret = call("info", fd, SMQ_SG_INFO, &info);
	printf("features %#llx depth %u transfer %u segments %u alignment %u waiting %u\n",
	       (unsigned long long)info.features, info.depth, info.max_transfer,
	       info.max_segments, info.alignment, info.max_waiting);
	if (ret < 0 || call("setup", fd, SMQ_SG_SETUP, &setup) < 0)
		return -1;
	printf("stride %u size %llu offset %llu\n", setup.status_stride,
	       (unsigned long long)setup.status_size, (unsigned long long)setup.status_offset);
	stride = setup.status_stride;
	status = mmap(NULL, setup.status_size, PROT_READ, MAP_SHARED, fd, setup.status_offset);
	printf("mapped %d\n", status != MAP_FAILED);
	return status == MAP_FAILED ? -1 : 0;
}

static void lend(int fd, const char *name, unsigned int index, uint64_t address, uint64_t length)
{
	struct smq_sg_buffer buffer = { .address = address, .length = length, .index = index };

	call(name, fd, SMQ_SG_BUFFER, &buffer);
	printf("field %u\n", buffer.field);
}

static void cancel(int fd, const char *name, unsigned int slot, unsigned int flags)
{
	struct smq_sg_cancel arg = { .slot = slot, .flags = flags, .cancelled = 77 };

	call(name, fd, SMQ_SG_CANCEL, &arg);
	printf("field %u\n", arg.field);
}

static void prepare(int fd, const char *name, uint64_t slots, unsigned int first,
		    unsigned int count)
{
	struct smq_sg_prepare arg = { .slots = slots, .first = first, .count = count, .done = 77 };

	call(name, fd, SMQ_SG_PREPARE, &arg);
	printf("done %u field %u\n", arg.done, arg.field);
}

static void print_slots(void)
{
	unsigned int i, at;

	for (i = 0; i < SLOTS; i++) {
		const struct smq_sg_status *s = (const void *)(status + i * stride);

		printf("slot %u: %d resid %u runs %u %x %x %x sense", i, s->result, s->resid,
		       s->runs, s->sense_key, s->asc, s->ascq);
		for (at = 0; at < s->sense_len; at++)
			printf(" %02x", s->sense[at]);
		printf("\n");
	}
}

/* Issues SMQ_SG_RUN; prints its result, a checksum of the buffer, and every slot's status. */
static void run(int fd, const char *name, uint64_t list, unsigned int count, unsigned int flags)
{
	struct smq_sg_run_batch arg = {
		.batch = { .list = list, .count = count, .flags = flags },
		.failed = 77,
	};
	unsigned int i, sum = 0;

	memset(data + 4096, 0xa5, 4096);
	call(name, fd, SMQ_SG_RUN, &arg);
	for (i = 0; i < sizeof(data); i++)
		sum = sum * 31 + data[i];
	printf("failed %u field %u, data %#x\n", arg.failed, arg.field, sum);
	print_slots();
}

int main(int argc, char **argv)
{
	/* WRITE, READ of the same block, READ beyond the end, TEST UNIT READY. */
	struct smq_sg_slot slots[] = {
		{ .cdb = { 0x2a, [8] = 1 }, .cdb_len = 10, .direction = SMQ_SG_OUT,
		  .length = 512 },
		{ .cdb = { 0x28, [8] = 1 }, .cdb_len = 10, .direction = SMQ_SG_IN,
		  .length = 512, .offset = 4096 },
		{ .cdb = { 0x28, 0, 0x7f, [8] = 1 }, .cdb_len = 10, .direction = SMQ_SG_IN,
		  .length = 512, .offset = 4096 + 512 },
		{ .cdb_len = 6, .timeout_ms = 5000 },
	};
	struct smq_sg_run runs[] = {
		{ .slot = 0, .flags = SMQ_SG_RUN_LBA, .lba = 5 },
		{ .slot = 1, .flags = SMQ_SG_RUN_LBA, .lba = 5 },
		{ .slot = 0, .flags = SMQ_SG_RUN_LBA, .lba = 1ULL << 32 },
		{ .slot = 1, .flags = SMQ_SG_RUN_BUFFER, .buffer = 9 },
	};
	__u32 list[] = { 3, 1, 4, 99 };
	unsigned int i;
	int fd;

	fd = argc > 1 ? open(argv[1], O_RDWR) : -1;
	if (fd < 0) {
		fprintf(stderr, "usage: slots32 NODE of smq_sg\n");
		return 2;
	}
	for (i = 0; i < 4096; i++)
		data[i] = i * 7 + 1;
	if (set_up(fd))
		return 1;
	lend(fd, "buffer", 0, (uintptr_t)data, sizeof(data));
	lend(fd, "buffer taken", 0, (uintptr_t)data, sizeof(data));
	/* Neither a 32-bit nor a 64-bit program has memory at these addresses. */
	lend(fd, "buffer nowhere", 1, UINT64_MAX - 8191, 4096);
	lend(fd, "buffer beyond", 1, UINT64_MAX - 4095, 8192);
	prepare(fd, "prepare", (uintptr_t)slots, 0, 4);
	prepare(fd, "prepare too many", (uintptr_t)slots, 6, 4);
	prepare(fd, "prepare nothing", 8, 4, 1);
	/* The commands of a batch may run in any order, so the WRITE gets a batch of its own. */
	run(fd, "write", 0, 1, SMQ_SG_BATCH_RANGE);
	run(fd, "range", 1, 4, SMQ_SG_BATCH_RANGE);
	run(fd, "list", (uintptr_t)list, 4, 0);
	run(fd, "write elsewhere", (uintptr_t)runs, 1, SMQ_SG_BATCH_RUNS);
	run(fd, "runs", (uintptr_t)(runs + 1), 3, SMQ_SG_BATCH_RUNS);
	run(fd, "nowhere", 8, 4, SMQ_SG_BATCH_RUNS);
	run(fd, "beyond", UINT64_MAX - 4095, 4, 0);
	lend(fd, "buffer in use", 0, 0, 0);
	cancel(fd, "cancel all", 0, 0);
	cancel(fd, "cancel idle", 1, SMQ_SG_CANCEL_SLOT);
	cancel(fd, "cancel nowhere", SLOTS, SMQ_SG_CANCEL_SLOT);
	return 0;
}
