/* SPDX-License-Identifier: GPL-2.0 */
/* Hides how io_uring's interface to drivers differs between Linux 6.1 and 7.3. */
#ifndef SMQ_URING_H
#define SMQ_URING_H

#ifdef SMQ_HAVE_IO_URING_CMD_H
#include <linux/io_uring/cmd.h>
#else
#include <linux/io_uring.h>
#include <linux/io_uring_types.h>
#endif

/* The flags that a program can set; the higher bits are io_uring's own. */
#ifdef IORING_URING_CMD_MASK
#define SMQ_URING_CMD_FLAGS	IORING_URING_CMD_MASK
#else
#define SMQ_URING_CMD_FLAGS	IORING_URING_CMD_FIXED
#endif

/* Since 6.5 struct io_uring_cmd points to the SQE; before, to the command data at the SQE's end. */
static inline const void *smq_uring_payload(const struct io_uring_cmd *ioucmd)
{
#ifdef SMQ_HAVE_URING_SQE
	return ioucmd->sqe->cmd;
#else
	return ioucmd->cmd;
#endif
}

/* Since 6.19 two functions can end a command: one for CQEs of 16 bytes, one for 32 bytes. */
static inline void smq_uring_done(struct io_uring_cmd *ioucmd, int result,
				  unsigned int issue_flags)
{
#ifdef SMQ_HAVE_URING_DONE32
	io_uring_cmd_done(ioucmd, result, issue_flags);
#else
	io_uring_cmd_done(ioucmd, result, 0, issue_flags);
#endif
}

static inline void smq_uring_done32(struct io_uring_cmd *ioucmd, int result, u64 result2,
				    unsigned int issue_flags)
{
#ifdef SMQ_HAVE_URING_DONE32
	io_uring_cmd_done32(ioucmd, result, result2, issue_flags);
#else
	io_uring_cmd_done(ioucmd, result, result2, issue_flags);
#endif
}

/* Identifies the ring on which an SQE was submitted. For comparison with other rings only. */
static inline const void *smq_uring_ring(struct io_uring_cmd *ioucmd)
{
	return cmd_to_io_kiocb(ioucmd)->ctx;
}

/*
 * Whether an SQE was submitted on a ring of a 32-bit program. Asks the ring, not the current task,
 * because a thread of io_uring may be issuing the SQE.
 */
static inline bool smq_uring_compat(struct io_uring_cmd *ioucmd)
{
	const struct io_ring_ctx *ctx = cmd_to_io_kiocb(ioucmd)->ctx;

#ifdef SMQ_HAVE_URING_INT_FLAGS
	return ctx->int_flags & IO_RING_F_COMPAT;
#else
	return ctx->compat;
#endif
}

/*
 * Whether an SQE was submitted on a ring with IORING_SETUP_IOPOLL. For files with uring_cmd_iopoll
 * only.
 */
static inline bool smq_uring_polled(struct io_uring_cmd *ioucmd)
{
	return cmd_to_io_kiocb(ioucmd)->ctx->flags & IORING_SETUP_IOPOLL;
}

/* The task that submitted an SQE. 6.11 has a helper; 6.13 requires it. */
static inline struct task_struct *smq_uring_task(struct io_uring_cmd *ioucmd)
{
#ifdef SMQ_HAVE_URING_GET_TASK
	return io_uring_cmd_get_task(ioucmd);
#else
	return cmd_to_io_kiocb(ioucmd)->task;
#endif
}

/*
 * @fn(ioucmd, issue_flags), declared above the macro, runs in the task that submitted the SQE;
 * @name is the callback for io_uring_cmd_complete_in_task() that calls it.
 */
#ifdef SMQ_HAVE_URING_TW_REQ
#define SMQ_URING_TASK_FN(name, fn)						\
static void name(struct io_tw_req tw_req, io_tw_token_t tw)			\
{										\
	fn(io_uring_cmd_from_tw(tw_req), IO_URING_CMD_TASK_WORK_ISSUE_FLAGS);	\
}
#else
#define SMQ_URING_TASK_FN(name, fn)						\
static void name(struct io_uring_cmd *ioucmd, unsigned int issue_flags)		\
{										\
	fn(ioucmd, issue_flags);						\
}
#endif

static inline int smq_uring_import_fixed(u64 address, unsigned long length, int rw,
					 struct iov_iter *iter, struct io_uring_cmd *ioucmd,
					 unsigned int issue_flags)
{
#ifdef SMQ_HAVE_IMPORT_FIXED_FLAGS
	return io_uring_cmd_import_fixed(address, length, rw, iter, ioucmd, issue_flags);
#else
	return io_uring_cmd_import_fixed(address, length, rw, iter, ioucmd);
#endif
}

#endif /* SMQ_URING_H */
