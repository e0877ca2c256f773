// SPDX-License-Identifier: GPL-2.0
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "evidence.h"
#include "file.h"
#include "own.h"
#include "slot.h"
#include "steps.h"
#include "tally.h"
#include "way.h"

/*
 * Values in own.written. OWN_UNKNOWN: the block's contents are not known until the next write.
 * OWN_LOST: a write may still be in flight, so the contents will never be known.
 */
#define OWN_UNKNOWN	0
#define OWN_LOST	(~0U)

/*
 * MOST: the most blocks of one command. own.memory consists of three chunks, one for each buffer:
 * WRITTEN and READ hold a command's data. A slot names OTHER if its run names the right buffer.
 */
#define MOST		8
#define CHUNK		(MOST * BLOCK)
#define CHUNKS		3
#define POISON		0xa5
/*
 * own.fd is at least this. SQEs may still name the low descriptor of a file that has been closed:
 * they must not reach the file of own.fd.
 */
#define FIRST_FD	512

enum { WRITTEN, READ, OTHER };
enum { SLOT_WRITE, SLOT_READ };

void own_choose(struct own *own, unsigned int worker, unsigned long task, unsigned int workers)
{
	unsigned long ranges = (DISK_BLOCKS - SHARED_BLOCKS) / OWN_BLOCKS / workers;

	own->fd = -1;
	own->lba = SHARED_BLOCKS + (task % ranges * workers + worker) * OWN_BLOCKS;
}

static int lend_chunks(struct own *own)
{
	unsigned int i;

	for (i = 0; i < CHUNKS; i++) {
		struct smq_sg_buffer arg = { .address = ADDRESS(own->memory + i * CHUNK),
					     .length = CHUNK, .index = i };

		if (ioctl(own->fd, SMQ_SG_BUFFER, &arg))
			return -1;
	}
	return 0;
}

/*
 * Closes the file. Its commands may still be in flight and write to its memory, so the memory is
 * unmapped and not used again. The next file may belong to another disk, so the contents of the
 * blocks become unknown.
 */
static void own_close(struct own *own)
{
	unsigned int i;

	if (own->status)
		munmap((void *)own->status, own->status_size);
	own->status = NULL;
	if (own->fd >= 0)
		close(own->fd);
	own->fd = -1;
	if (own->memory)
		munmap(own->memory, CHUNKS * CHUNK);
	own->memory = NULL;
	for (i = 0; i < OWN_BLOCKS; i++)
		if (own->written[i] != OWN_LOST)
			own->written[i] = OWN_UNKNOWN;
}

static int map_status(struct own *own, const struct smq_sg_setup *setup)
{
	void *map = mmap(NULL, setup->status_size, PROT_READ, MAP_SHARED, own->fd,
			 setup->status_offset);

	if (map == MAP_FAILED)
		return -1;
	own->status = map;
	own->status_size = setup->status_size;
	own->status_stride = setup->status_stride;
	return 0;
}

void own_open(struct task *task, struct rnd *r)
{
	struct smq_sg_setup setup = { .slots = OWN_SLOTS, .sense_size = 32, .held_share = 50 };
	struct own *own = &task->own;
	int fd;

	own->seed = task->seed;
	fd = open_node(r, O_RDWR | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return;
	own->fd = fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FD);
	close(fd);
	if (own->fd < 0)
		err(2, "F_DUPFD");
	own->memory = mmap(NULL, CHUNKS * CHUNK, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (own->memory == MAP_FAILED)
		err(2, "memory");
	own->forks = 0;
	if (ioctl(own->fd, SMQ_SG_SETUP, &setup) || map_status(own, &setup) || lend_chunks(own))
		own_close(own);
}

/* Fills a block with its LBA, the seed of the task, the number of the write, and noise. */
static void fill(const struct own *own, unsigned char *block, uint32_t lba, uint32_t sequence)
{
	struct rnd noise = { own->seed ^ ((uint64_t)lba << 32 | sequence) };
	uint64_t words[BLOCK / sizeof(uint64_t)] = { lba, own->seed, sequence };
	unsigned int i;

	for (i = 3; i < BLOCK / sizeof(uint64_t); i++)
		words[i] = rnd64(&noise);
	memcpy(block, words, BLOCK);
}

static void compare(struct task *task, const struct transfer *transfer, const unsigned char *found,
		    unsigned int index)
{
	const struct own *own = &task->own;
	unsigned char expected[BLOCK];
	char link[32], node[64] = "";
	uint64_t words[3];

	if (own->written[index] == OWN_UNKNOWN || own->written[index] == OWN_LOST)
		return;
	fill(own, expected, own->lba + index, own->written[index]);
	if (!memcmp(found, expected, BLOCK))
		return;
	memcpy(words, found, sizeof(words));
	snprintf(link, sizeof(link), "/proc/self/fd/%d", own->fd);
	if (readlink(link, node, sizeof(node) - 1) < 0)
		node[0] = 0;
	report("%s by %s: expected LBA %u, write %u; read LBA %#llx, seed %#llx, write %#llx", node,
	       last_sending.way, own->lba + index, own->written[index],
	       (unsigned long long)words[0], (unsigned long long)words[1],
	       (unsigned long long)words[2]);
	own_evidence(task, transfer, own->lba + index, found, expected);
}

/*
 * A READ or WRITE of @count own blocks from @index on. The run may override the LBA or the buffer
 * of the slot; then the slot names a wrong one.
 */
static struct transfer transfer_random(struct own *own, bool out, unsigned int index,
				       unsigned int count, struct rnd *r)
{
	struct transfer transfer = {
		.op = out ? OP_OWN_WRITE : OP_OWN_READ,
		.run.slot = out ? SLOT_WRITE : SLOT_READ,
		.data = own->memory + (out ? WRITTEN : READ) * CHUNK,
	};
	uint32_t lba = own->lba + index;

	if (once_in(r, 3)) {
		transfer.run.flags |= SMQ_SG_RUN_LBA;
		transfer.run.lba = lba;
		lba = own->lba + rnd(r, OWN_BLOCKS - MOST);
	}
	transfer.slot.buffer = out ? WRITTEN : READ;
	if (once_in(r, 3)) {
		transfer.run.flags |= SMQ_SG_RUN_BUFFER;
		transfer.run.buffer = transfer.slot.buffer;
		transfer.slot.buffer = OTHER;
	}
	transfer.slot.flags = once_in(r, 2) ? SMQ_SG_SLOT_HELD : 0;
	media_command(&transfer.slot, rnd(r, MEDIA_KINDS) + (out ? MEDIA_KINDS : 0), lba, count);
	return transfer;
}

/*
 * Prepares and sends a command. If it fails, closes the file, except after -EOPNOTSUPP: then
 * nothing was sent, because a host without poll queues takes no commands from a polled ring.
 * Return: 0 success, above 0 the device reported a status, below 0 an errno.
 */
static int own_transfer(struct task *task, const struct transfer *transfer, struct rnd *r)
{
	unsigned int slot = transfer->run.slot;
	struct smq_sg_prepare arg = { .slots = ADDRESS(&transfer->slot), .count = 1,
				      .first = slot };
	int ret = result_of(ioctl(task->own.fd, SMQ_SG_PREPARE, &arg));

	tally(OP_PREPARE, ret);
	task->own.runs[slot] = own_status(&task->own, slot)->runs;
	if (!ret)
		ret = send_by_some_way(task, task->own.fd, transfer, r);
	if (ret && ret != -EOPNOTSUPP)
		own_close(&task->own);
	return ret;
}

static void own_write(struct task *task, unsigned int index, unsigned int count, struct rnd *r)
{
	struct own *own = &task->own;
	struct transfer transfer;
	unsigned int i;
	int ret;

	own->sequence++;
	for (i = 0; i < count; i++) {
		if (own->written[index + i] == OWN_LOST)
			return;
		fill(own, own->memory + WRITTEN * CHUNK + i * BLOCK, own->lba + index + i,
		     own->sequence);
	}
	transfer = transfer_random(own, true, index, count, r);
	ret = own_transfer(task, &transfer, r);
	if (ret == -EOPNOTSUPP)
		return;
	for (i = 0; i < count; i++)
		own->written[index + i] = ret ? OWN_LOST : own->sequence;
}

static void own_read(struct task *task, unsigned int index, unsigned int count, struct rnd *r)
{
	struct own *own = &task->own;
	const unsigned char *other = own->memory + OTHER * CHUNK;
	struct transfer transfer = transfer_random(own, false, index, count, r);
	unsigned int i;

	memset(own->memory + READ * CHUNK, POISON, 2 * CHUNK);
	if (own_transfer(task, &transfer, r))
		return;
	for (i = 0; i < count; i++)
		compare(task, &transfer, own->memory + READ * CHUNK + i * BLOCK, index + i);
	for (i = 0; i < CHUNK; i++)
		if (other[i] != POISON)
			break;
	if (i < CHUNK)
		report("a read wrote to byte %u of a buffer that the run did not name", i);
}

void step_own(struct task *task, struct rnd *r)
{
	unsigned int count = 1 + rnd(r, MOST), index = rnd(r, OWN_BLOCKS - MOST);
	struct rnd of_write = { rnd64(r) }, of_read = { rnd64(r) };

	if (task->child)
		return;
	if (task->own.fd < 0)
		own_open(task, r);
	if (task->own.fd >= 0 && once_in(r, 2))
		own_write(task, index, count, &of_write);
	if (task->own.fd >= 0)
		own_read(task, index, count, &of_read);
}
