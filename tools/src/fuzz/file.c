// SPDX-License-Identifier: GPL-2.0
/* Steps that concern a whole file: open(), INFO, SETUP, mmap(), and its buffers. */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "file.h"
#include "steps.h"
#include "tally.h"

#define MOST_ERRNO	133

int open_node(struct rnd *r, int flags)
{
	unsigned int choice = rnd(r, 1 << 16);
	glob_t nodes;
	int fd = -1;

	/* Searched each time, because nodes appear and disappear with their LUNs. */
	if (!glob("/dev/smqsg[0-9]*", 0, NULL, &nodes)) {
		fd = open(nodes.gl_pathv[choice % nodes.gl_pathc], flags);
		tally(OP_OPEN, result_of(fd));
	}
	globfree(&nodes);
	return fd;
}

void step_info(struct task *task, struct rnd *r)
{
	struct smq_sg_info info = { 0 };
	int ret;

	ret = result_of(ioctl(task->fd, SMQ_SG_INFO, once_in(r, 20) ? NULL : &info));
	tally(OP_INFO, ret);
	if (!ret && info.alignment & (info.alignment - 1))
		report("INFO: alignment %u", info.alignment);
}

void step_setup(struct task *task, struct rnd *r)
{
	struct smq_sg_setup arg = { .slots = SLOTS };
	int ret;

	arg.sense_size = 8 * rnd(r, 13);
	arg.held_share = once_in(r, 3) ? 100 : rnd(r, 101);
	switch (rnd(r, 80)) {
	case 0:
		arg.slots = once_in(r, 2) ? 0 : ~0U;
		break;
	case 1:
		arg.sense_size = rnd64(r);
		break;
	case 2:
		arg.flags = rnd64(r);
		break;
	case 3:
		arg.held_share = rnd64(r);
		break;
	case 4:
		arg.reserved[2] = 1;
		break;
	}
	ret = result_of(ioctl(task->fd, SMQ_SG_SETUP, &arg));
	tally_field(OP_SETUP, ret, arg.field);
}

/*
 * Checks that the first slot has a result that the interface defines. Commands in flight may change
 * it at any time.
 */
static void check_status(const unsigned char *map, size_t size)
{
	const struct smq_sg_status *status = (const struct smq_sg_status *)map;

	if (size >= sizeof(*status) && (status->result < -MOST_ERRNO || status->result >> 18 > 0))
		report("status with result %#x", status->result);
}

void step_map(struct task *task, struct rnd *r)
{
	int protection = once_in(r, 10) ? PROT_READ | PROT_WRITE : PROT_READ;
	off_t offset = once_in(r, 10) ? 4096 * rnd(r, 1000) : 0;
	size_t size = 4096 * (1 + rnd(r, 3));
	unsigned char *map;

	map = mmap(NULL, size, protection, MAP_SHARED, task->fd, offset);
	tally(OP_MMAP, result_of(map == MAP_FAILED ? -1 : 0));
	if (map == MAP_FAILED)
		return;
	if (!offset)
		check_status(map, size);
	/* Half of the mappings stay until the process ends, even if the file is closed. */
	if (once_in(r, 2))
		munmap(map, size);
}

void step_lend(struct task *task, struct rnd *r)
{
	struct smq_sg_buffer arg = { .index = rnd(r, BUFFERS), .length = BUFFER_SIZE };
	int ret;

	arg.address = ADDRESS(task->area + (size_t)arg.index * BUFFER_SIZE);
	if (once_in(r, 4)) {
		arg.address += 256 * rnd(r, 16);
		arg.length = BUFFER_SIZE / 2;
	}
	if (arg.index == BUFFERS - 1)
		arg.flags = SMQ_SG_BUFFER_READONLY;
	switch (rnd(r, 40)) {
	case 0:
		arg.address = rnd64(r);
		break;
	case 1:
		arg.length = rnd64(r) >> rnd(r, 64);
		break;
	case 2:
		arg.index = rnd64(r);
		break;
	case 3:
		arg.flags = rnd64(r);
		break;
	case 4:
		arg.reserved = 1;
		break;
	}
	ret = result_of(ioctl(task->fd, SMQ_SG_BUFFER, &arg));
	/* A call with a length of 0 takes the buffer back. */
	tally_field(arg.length ? OP_LEND : OP_TAKE_BACK, ret, arg.field);
}

void step_take_back(struct task *task, struct rnd *r)
{
	struct smq_sg_buffer arg = { .index = rnd(r, BUFFERS) };
	int ret;

	if (once_in(r, 30))
		arg.address = ADDRESS(task->area);
	ret = result_of(ioctl(task->fd, SMQ_SG_BUFFER, &arg));
	tally_field(OP_TAKE_BACK, ret, arg.field);
}

/* Unmaps memory, or maps it again, while buffers pin it and commands use it. */
void step_unmap(struct task *task, struct rnd *r)
{
	unsigned char *at = task->area + (size_t)rnd(r, BUFFERS) * BUFFER_SIZE;
	bool gone = once_in(r, 2);

	/*
	 * Replaces the mapping instead of removing it: a ring could be mapped into the hole later,
	 * and the device would overwrite the ring.
	 */
	mmap(at, gone ? 4096 * (1 + rnd(r, 16)) : BUFFER_SIZE,
	     gone ? PROT_NONE : PROT_READ | PROT_WRITE,
	     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

/*
 * Opens a node exclusively, which fails if the node is open. Until it is closed, other opens fail
 * with O_NONBLOCK, and wait without it.
 */
void step_excl(struct task *task, struct rnd *r)
{
	unsigned int choice = rnd(r, 1 << 16);
	glob_t nodes;
	int fd;

	(void)task;
	if (!glob("/dev/smqsg[0-9]*", 0, NULL, &nodes)) {
		fd = open(nodes.gl_pathv[choice % nodes.gl_pathc], O_RDWR | O_EXCL | O_NONBLOCK);
		tally(OP_EXCL, result_of(fd));
		if (fd >= 0)
			close(fd);
	}
	globfree(&nodes);
}
