// SPDX-License-Identifier: GPL-2.0
/*
 * Sends INQUIRY as an ad hoc command to a node of smq_sg, with iovecs for its data, and prints
 * result and data. It does this twice: through a ring whose SQEs io_uring_enter() submits, and
 * through a ring whose SQEs a kernel thread submits (IORING_SETUP_SQPOLL). test_sg_who.py builds it
 * for 32 and for 64 bits, and compares what the two builds print.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <scsi/smq_sg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define SQE_BYTES	128
#define CQE_BYTES	32
#define LENGTH		96
#define FIRST		36	/* bytes of the first iovec */
#define TRIES		2000	/* one each 10 ms */

static unsigned char inquiry[6] = { 0x12, 0, 0, 0, LENGTH };
static unsigned char data[2][LENGTH] __attribute__((aligned(512)));
static struct iovec iovecs[2];

static void *map(int fd, size_t size, off_t offset)
{
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, offset);

	return at == MAP_FAILED ? NULL : at;
}

static void fill(unsigned char *sqe, int node)
{
	struct smq_sg_uring_cmd command = {
		.request = (uintptr_t)inquiry,
		.request_len = sizeof(inquiry),
		.din_xferp = (uintptr_t)iovecs,
		.din_xfer_len = LENGTH,
		.din_iovec_count = 2,
	};
	struct io_uring_sqe *head = (struct io_uring_sqe *)sqe;

	memset(sqe, 0, SQE_BYTES);
	head->opcode = IORING_OP_URING_CMD;
	head->fd = node;
	/* The command follows the 48 bytes that all SQEs have in common. */
	memcpy(sqe + 48, &command, sizeof(command));
}

/* Sends one command, and prints its result and data. */
static int one(const char *name, int node, unsigned int flags)
{
	struct io_uring_params params = {
		.flags = IORING_SETUP_SQE128 | IORING_SETUP_CQE32 | flags,
		.sq_thread_idle = 5000,
	};
	int ring = syscall(__NR_io_uring_setup, 1, &params), tries;
	unsigned int *sq_tail, *cq_tail;
	unsigned char *sq, *cq, *sqe;

	if (ring < 0) {
		perror("io_uring_setup");
		return 1;
	}
	sq = map(ring, params.sq_off.array + sizeof(__u32), IORING_OFF_SQ_RING);
	cq = map(ring, params.cq_off.cqes + 2 * CQE_BYTES, IORING_OFF_CQ_RING);
	sqe = map(ring, SQE_BYTES, IORING_OFF_SQES);
	if (!sq || !cq || !sqe) {
		perror("mmap");
		return 1;
	}
	memset(data, 0, sizeof(data));
	fill(sqe, node);
	*(__u32 *)(sq + params.sq_off.array) = 0;
	sq_tail = (unsigned int *)(sq + params.sq_off.tail);
	cq_tail = (unsigned int *)(cq + params.cq_off.tail);
	__atomic_store_n(sq_tail, 1, __ATOMIC_RELEASE);
	for (tries = 0; !__atomic_load_n(cq_tail, __ATOMIC_ACQUIRE); tries++) {
		if (tries == TRIES) {
			fprintf(stderr, "%s: no completion\n", name);
			return 1;
		}
		syscall(__NR_io_uring_enter, ring, 1, 0, IORING_ENTER_GETEVENTS |
			(flags & IORING_SETUP_SQPOLL ? IORING_ENTER_SQ_WAKEUP : 0), NULL, 0);
		usleep(10000);
	}
	printf("%s: %d '%.8s' '%.4s'\n", name,
	       ((struct io_uring_cqe *)(cq + params.cq_off.cqes))->res, data[0] + 8, data[1]);
	close(ring);
	return 0;
}

int main(int argc, char **argv)
{
	int node;

	if (argc != 2) {
		fprintf(stderr, "usage: adhoc32 NODE of smq_sg\n");
		return 2;
	}
	node = open(argv[1], O_RDWR);
	if (node < 0) {
		perror(argv[1]);
		return 1;
	}
	/* The first iovec takes bytes 0 to 35, up to the product revision; the second the rest. */
	iovecs[0] = (struct iovec){ data[0], FIRST };
	iovecs[1] = (struct iovec){ data[1], LENGTH - FIRST };
	return one("entered", node, 0) || one("by a thread", node, IORING_SETUP_SQPOLL);
}
