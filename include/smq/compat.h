/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Hides the differences of kernel interfaces between Linux 6.1 and 7.3.
 *
 * The code is written for the newest kernel; this file supplies what an older one lacks. SMQ_HAVE_*
 * come from probe.mk, which looks in the headers that the build uses, so that a distribution's
 * backports are recognised.
 */
#ifndef SMQ_COMPAT_H
#define SMQ_COMPAT_H

#include <linux/blk-mq.h>
#include <linux/blkdev.h>
#include <linux/hrtimer.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <scsi/scsi.h>
#include <scsi/scsi_host.h>
#include <scsi/scsi_ioctl.h>

/* 6.12 moved unaligned.h. */
#ifdef SMQ_HAVE_LINUX_UNALIGNED
#include <linux/unaligned.h>
#else
#include <asm/unaligned.h>
#endif

/* 6.15 has one call in place of hrtimer_init() and the assignment of the timer's function. */
#ifndef SMQ_HAVE_HRTIMER_SETUP
#define hrtimer_setup(timer, fn, clock, mode)		\
do {							\
	struct hrtimer *__t = (timer);			\
							\
	hrtimer_init(__t, clock, mode);			\
	__t->function = (fn);				\
} while (0)
#endif

/* 6.17 wants WQ_PERCPU for a per-CPU workqueue; before, that was the default. */
#ifndef SMQ_HAVE_WQ_PERCPU
#define WQ_PERCPU	0
#endif

/* 7.0 gave the return values of queuecommand a type of their own. */
#ifdef SMQ_HAVE_QC_STATUS
#define smq_qc_t enum scsi_qc_status
#else
#define smq_qc_t int
#endif

/* 7.3 renamed the offset in the present bio_vec. */
#ifndef SMQ_HAVE_BVEC_OFFSET
#define bi_offset	bi_bvec_done
#endif

/*
 * 6.2 gave eh_timed_out its own return type. Before 6.2, BLK_EH_DONE meant "go on with error
 * handling", and the mid-layer itself skips that for a command that has completed meanwhile. So the
 * two older values cover the three newer ones.
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

/*
 * From 6.10 on the operation that sets a LUN's limits gets a copy of them to change; 6.14
 * renamed the operation. Before 6.10 an LLD changes the limits of the queue itself, which no
 * command uses yet.
 */
#if defined(SMQ_HAVE_SDEV_INIT) || defined(SMQ_HAVE_DEVICE_CONFIGURE)
#define SMQ_SDEV_CONFIGURE(name)	\
	int name(struct scsi_device *sdev, struct queue_limits *lim)
#define SMQ_SDEV_LIMITS(sdev)		lim
#else
#define SMQ_SDEV_CONFIGURE(name)	int name(struct scsi_device *sdev)
#define SMQ_SDEV_LIMITS(sdev)		(&(sdev)->request_queue->limits)
#endif
#ifndef SMQ_HAVE_SDEV_INIT
#ifdef SMQ_HAVE_DEVICE_CONFIGURE
#define sdev_configure	device_configure
#else
#define sdev_configure	slave_configure
#endif
#endif

/*
 * 7.1 passes another argument to a request's end_io: the batch in which the request completes.
 * smq_rq_end_io() ends a request outside a batch.
 */
#ifdef SMQ_HAVE_END_IO_BATCH
#define SMQ_END_IO(name, rq, status)						\
	enum rq_end_io_ret name(struct request *rq, blk_status_t status,	\
				const struct io_comp_batch *__iob)
#define smq_rq_end_io(rq, status)	((rq)->end_io(rq, status, NULL))
#else
#define SMQ_END_IO(name, rq, status)						\
	enum rq_end_io_ret name(struct request *rq, blk_status_t status)
#define smq_rq_end_io(rq, status)	((rq)->end_io(rq, status))
#endif

/* 6.4 removed the interface from the arguments of a class interface's callbacks. */
#ifdef SMQ_HAVE_INTERFACE_DEV
#define SMQ_INTERFACE_FN(name, dev)	name(struct device *dev)
#else
#define SMQ_INTERFACE_FN(name, dev)	\
	name(struct device *dev, struct class_interface *__interface)
#endif

/* 6.3 added functions that change the flags of a mapping. */
#ifndef SMQ_HAVE_VM_FLAGS_CLEAR
#define vm_flags_clear(vma, flags)	((vma)->vm_flags &= ~(flags))
#define vm_flags_set(vma, flags)	((vma)->vm_flags |= (flags))
#endif

/* scsi_proto.h has this opcode from 6.11 on. Its CDB has the length in bytes 12 and 13 (SBC-5). */
#define SMQ_WRITE_ATOMIC_16	0x9c

/* 6.5 passes a bool in place of a file mode to the filter of CDBs and to scsi_ioctl(). */
#ifdef SMQ_HAVE_CMD_ALLOWED_BOOL
#define __smq_cmd_allowed(cdb, write)	scsi_cmd_allowed(cdb, write)
#define smq_scsi_ioctl(sdev, write, cmd, arg)	scsi_ioctl(sdev, write, cmd, arg)
#else
#define __smq_cmd_allowed(cdb, write)	\
	scsi_cmd_allowed(cdb, (write) ? FMODE_READ | FMODE_WRITE : FMODE_READ)
#define smq_scsi_ioctl(sdev, write, cmd, arg)	\
	scsi_ioctl(sdev, (write) ? FMODE_READ | FMODE_WRITE : FMODE_READ, cmd, arg)
#endif

/*
 * The kernel's filter of CDBs. No kernel's filter knows WRITE ATOMIC(16) (up to 7.3), which does no
 * more than WRITE(16).
 */
static inline bool smq_cmd_allowed(u8 *cdb, bool write)
{
	return (write && cdb[0] == SMQ_WRITE_ATOMIC_16) || __smq_cmd_allowed(cdb, write);
}

/* 6.16 removed the queue from the arguments of blk_rq_map_kern(): the request has it. */
#ifdef SMQ_HAVE_MAP_KERN_RQ
#define smq_rq_map_kern(rq, data, len, gfp)	blk_rq_map_kern(rq, data, len, gfp)
#else
#define smq_rq_map_kern(rq, data, len, gfp)	blk_rq_map_kern((rq)->q, rq, data, len, gfp)
#endif

/* Clears the I/O priority of the tag's last use, on kernels where blk-mq leaves it in a request. */
static inline void smq_rq_no_priority(struct request *rq)
{
#ifdef SMQ_HAVE_RQ_IOPRIO
	rq->ioprio = 0;
#endif
}

/* Copies another request's I/O priority, on kernels that keep it in the request, not in the bio. */
static inline void smq_rq_copy_priority(struct request *rq, const struct request *from)
{
#ifdef SMQ_HAVE_RQ_IOPRIO
	rq->ioprio = from->ioprio;
#endif
}

/**
 * struct smq_rq_data - the data of a passthrough request, apart from the request
 * @bio: the first bio, NULL: no data
 * @biotail: the last one
 * @length: bytes
 * @segments: upper bound of the pieces of memory, by the queue's limits
 * @gap: as request.phys_gap_bit of later kernels
 */
struct smq_rq_data {
	struct bio *bio;
	struct bio *biotail;
	unsigned int length;
	unsigned short segments;
	unsigned char gap;
};

/**
 * smq_rq_data_of_bio() - data that is in one bio
 * @bio: the bio; the caller has done the checks and the count of blk_rq_append_bio()
 * @segments: see struct smq_rq_data
 *
 * Return: the data.
 */
static __always_inline struct smq_rq_data smq_rq_data_of_bio(struct bio *bio,
							     unsigned short segments)
{
	return (struct smq_rq_data) {
		.bio = bio,
		.biotail = bio,
		.length = bio->bi_iter.bi_size,
		.segments = segments,
		/* The caller did not look for gaps: assume that there may be one at any address. */
		.gap = 1,
	};
}

/**
 * smq_rq_data_of() - takes the data of a request to which the block layer has mapped it
 * @rq: a request without a tag, which is not sent
 *
 * Clears the pointers to the disk that the kernel may have set in the bios: the disk may be freed
 * before the data is used.
 *
 * Return: the data.
 */
static inline struct smq_rq_data smq_rq_data_of(const struct request *rq)
{
	struct bio *bio;

	for (bio = rq->bio; bio; bio = bio->bi_next)
		bio->bi_bdev = NULL;
	return (struct smq_rq_data) {
		.bio = rq->bio,
		.biotail = rq->biotail,
		.length = rq->__data_len,
		.segments = rq->nr_phys_segments,
#ifdef SMQ_HAVE_PHYS_GAP
		.gap = rq->phys_gap_bit,
#endif
	};
}

/**
 * smq_rq_set_data() - gives a passthrough request its data
 * @rq: a request without data, of the queue by whose limits the segments were counted
 * @data: the data
 */
static __always_inline void smq_rq_set_data(struct request *rq, const struct smq_rq_data *data)
{
	rq->nr_phys_segments = data->segments;
	rq->__data_len = data->length;
	rq->bio = data->bio;
	rq->biotail = data->biotail;
	smq_rq_no_priority(rq);
#ifdef SMQ_HAVE_PHYS_GAP
	rq->phys_gap_bit = data->gap;
#endif
}

/*
 * The request flag that belongs to the tag and not to the present use of the request. 6.8 removed
 * it.
 */
#ifdef RQF_MQ_INFLIGHT
#define SMQ_RQF_OF_TAG	RQF_MQ_INFLIGHT
#else
#define SMQ_RQF_OF_TAG	((__force req_flags_t)0)
#endif

/**
 * smq_rq_has_tag() - does for a request's tag what the block layer does at the first dispatch
 * @rq: a request that is not counted yet, of a queue without an elevator
 *
 * If several queues share the tags, the request is counted for its queue. After the call a walk
 * over all tags finds the request. Since 6.8 the block layer counts a request when it allocates the
 * tag, and makes it visible to walks only when it starts the request, which smq_straight_start()
 * does not.
 */
static __always_inline void smq_rq_has_tag(struct request *rq)
{
	struct blk_mq_hw_ctx *hctx = rq->mq_hctx;

#ifdef RQF_MQ_INFLIGHT
	if ((hctx->flags & BLK_MQ_F_TAG_QUEUE_SHARED) && !(rq->rq_flags & RQF_MQ_INFLIGHT)) {
		rq->rq_flags |= RQF_MQ_INFLIGHT;
		atomic_inc(hctx->flags & BLK_MQ_F_TAG_HCTX_SHARED ?
			   &rq->q->nr_active_requests_shared_tags : &hctx->nr_active);
	}
#endif
	hctx->tags->rqs[rq->tag] = rq;
}

/* 6.10 moved the pad mask to the limits. */
static inline unsigned int smq_queue_pad_mask(const struct request_queue *q)
{
#ifdef SMQ_HAVE_LIMITS_PAD
	return q->limits.dma_pad_mask;
#else
	return q->dma_pad_mask;
#endif
}

/*
 * Waits until a queue has no request, and keeps new ones out until smq_queue_unfreeze(). Until then
 * the task allocates without I/O, which could wait for the queue.
 */
static inline unsigned int smq_queue_freeze(struct request_queue *q)
{
#ifdef SMQ_HAVE_FREEZE_FLAGS
	return blk_mq_freeze_queue(q);
#else
	unsigned int flags = memalloc_noio_save();

	blk_mq_freeze_queue(q);
	return flags;
#endif
}

/* @flags: what smq_queue_freeze() returned. */
static inline void smq_queue_unfreeze(struct request_queue *q, unsigned int flags)
{
#ifdef SMQ_HAVE_FREEZE_FLAGS
	blk_mq_unfreeze_queue(q, flags);
#else
	blk_mq_unfreeze_queue(q);
	memalloc_noio_restore(flags);
#endif
}

/* As smq_queue_freeze(), but the queue may still have requests. */
static inline unsigned int smq_queue_freeze_start(struct request_queue *q)
{
	unsigned int flags = memalloc_noio_save();

	blk_freeze_queue_start(q);
	return flags;
}

/* Waits for @timeout jiffies; returns whether the queue has no request. May sleep. */
static inline bool smq_queue_freeze_wait(struct request_queue *q, unsigned long timeout)
{
	return blk_mq_freeze_queue_wait_timeout(q, timeout) > 0;
}

/*
 * As smq_queue_freeze(), but gives up if requests are still in flight after @timeout jiffies.
 * Returns whether the queue is frozen; smq_queue_unfreeze() then needs *@flags. May sleep.
 */
static inline bool smq_queue_try_freeze(struct request_queue *q, unsigned long timeout,
					unsigned int *flags)
{
	*flags = smq_queue_freeze_start(q);
	if (smq_queue_freeze_wait(q, timeout))
		return true;
	smq_queue_unfreeze(q, *flags);
	return false;
}

/*
 * Sets limits of a queue that is in use: @sectors of 512 bytes, @segments of @size bytes each, the
 * virtual boundary. From 6.9 on all limits change at once, on a frozen queue. Context: may sleep.
 */
static inline int smq_queue_set_limits(struct request_queue *q, unsigned int sectors,
				       unsigned short segments, unsigned int size,
				       unsigned long boundary)
{
#ifdef SMQ_HAVE_LIMITS_UPDATE
	struct queue_limits lim = queue_limits_start_update(q);
	unsigned int flags;
	int err;

	lim.max_hw_sectors = sectors;
	lim.max_segments = segments;
	lim.max_segment_size = size;
	lim.virt_boundary_mask = boundary;
	flags = smq_queue_freeze(q);
	err = queue_limits_commit_update(q, &lim);
	smq_queue_unfreeze(q, flags);
	return err;
#else
	q->limits.max_segments = segments;
	q->limits.max_segment_size = size;
	q->limits.virt_boundary_mask = boundary;
	blk_queue_max_hw_sectors(q, sectors);
	return 0;
#endif
}

/*
 * Allocates a queue of a tag set, with the default limits, without a disk. The name changed in 6.9,
 * when the limits became an argument. Context: may sleep.
 */
static inline struct request_queue *smq_queue_alloc(struct blk_mq_tag_set *set, void *queuedata)
{
#ifdef SMQ_HAVE_ALLOC_QUEUE
	return blk_mq_alloc_queue(set, NULL, queuedata);
#else
	struct request_queue *q = blk_mq_init_queue(set);

	if (!IS_ERR(q))
		q->queuedata = queuedata;
	return q;
#endif
}

/*
 * Gives a queue without a disk, which no request uses yet, the limits of another one. Its features
 * stay, but for I/O statistics, which would need a disk. 6.11 made these flags part of the limits.
 */
static inline void smq_queue_copy_limits(struct request_queue *q, const struct request_queue *from)
{
#ifdef QUEUE_FLAG_IO_STAT
	q->limits = from->limits;
	blk_queue_flag_clear(QUEUE_FLAG_IO_STAT, q);
#else
	blk_features_t features = q->limits.features & ~BLK_FEAT_IO_STAT;

	q->limits = from->limits;
	q->limits.features = features;
#endif
#ifndef SMQ_HAVE_LIMITS_PAD
	q->dma_pad_mask = from->dma_pad_mask;
#endif
}

/*
 * Whether smq_sg may create a queue of its own beside a device's queue, complete its commands, and
 * use a request several times without freeing it in between. It then does by itself what the block
 * layer and the mid-layer do, so it must know all state that they keep. probe.mk defines this for
 * kernels whose source was read and which were tested (tests/vm/test_sg_own.py). False without
 * chained scatterlists: there the command itself has no scatterlist entries.
 */
#if !defined(SMQ_CAN_OWN) || defined(CONFIG_ARCH_NO_SG_CHAIN)
#undef SMQ_CAN_OWN
#define SMQ_CAN_OWN	0
#endif

/*
 * Whether smq_prepare_cmd() sets all that the mid-layer's preparation sets: then a command needs no
 * bio if the scatterlist entries in the command are enough. As above, probe.mk defines this for
 * kernels whose source was read and which were tested (tests/vm/test_sg_bioless.py). False with
 * high memory: for some drivers the block layer replaces pages of high memory in the bio.
 */
#if !defined(SMQ_CAN_PREPARE) || defined(CONFIG_ARCH_NO_SG_CHAIN) || defined(CONFIG_HIGHMEM)
#undef SMQ_CAN_PREPARE
#define SMQ_CAN_PREPARE	0
#endif

#endif /* SMQ_COMPAT_H */
