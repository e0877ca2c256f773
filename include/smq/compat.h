/* SPDX-License-Identifier: GPL-2.0 */
/*
 * One spelling for interfaces that differ between Linux 6.1 and 7.2.
 *
 * The code is written for the newest kernel; what an older one lacks is
 * supplied here. SMQ_HAVE_* come from probe.mk, which looks in the headers that
 * the build uses, so that a distribution's backport is seen for what it is.
 */
#ifndef SMQ_COMPAT_H
#define SMQ_COMPAT_H

#include <linux/blk-mq.h>
#include <linux/hrtimer.h>
#include <scsi/scsi.h>
#include <scsi/scsi_host.h>

/* 6.12 moved it. */
#ifdef SMQ_HAVE_LINUX_UNALIGNED
#include <linux/unaligned.h>
#else
#include <asm/unaligned.h>
#endif

/* 6.15 made one call of hrtimer_init() and setting the function. */
#ifndef SMQ_HAVE_HRTIMER_SETUP
#define hrtimer_setup(timer, fn, clock, mode)		\
do {							\
	struct hrtimer *__t = (timer);			\
							\
	hrtimer_init(__t, clock, mode);			\
	__t->function = (fn);				\
} while (0)
#endif

/* 6.17 wants every workqueue to say that it is per CPU, which all were before. */
#ifndef SMQ_HAVE_WQ_PERCPU
#define WQ_PERCPU	0
#endif

/* 7.0 gave the return values of queuecommand a type of their own. */
#ifdef SMQ_HAVE_QC_STATUS
#define smq_qc_t enum scsi_qc_status
#else
#define smq_qc_t int
#endif

/*
 * 6.2 gave eh_timed_out its own return type. Before, BLK_EH_DONE meant "go on
 * with error handling", which the mid-layer itself skips for a command that has
 * completed meanwhile: the two older values cover the three newer ones.
 */
#ifdef SMQ_HAVE_TIMEOUT_ACTION
#define smq_timeout_t enum scsi_timeout_action
#else
#define smq_timeout_t enum blk_eh_timer_return
#define SCSI_EH_DONE		BLK_EH_DONE
#define SCSI_EH_NOT_HANDLED	BLK_EH_DONE
#define SCSI_EH_RESET_TIMER	BLK_EH_RESET_TIMER
#endif

/* 6.14 renamed slave_alloc and slave_destroy. */
#ifndef SMQ_HAVE_SDEV_INIT
#define sdev_init	slave_alloc
#define sdev_destroy	slave_destroy
#endif

/* 7.1 tells a request's end of the batch it is completed in. */
#ifdef SMQ_HAVE_END_IO_BATCH
#define SMQ_END_IO(name, rq, status)						\
	enum rq_end_io_ret name(struct request *rq, blk_status_t status,	\
				const struct io_comp_batch *__iob)
#else
#define SMQ_END_IO(name, rq, status)						\
	enum rq_end_io_ret name(struct request *rq, blk_status_t status)
#endif

#endif /* SMQ_COMPAT_H */
