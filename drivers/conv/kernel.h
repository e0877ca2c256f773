/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Hides differences between Linux 6.1 and 7.3 in what only smq_conv uses of the kernel: a driver of
 * SCSI devices, the holder of a disk, and what it copies from a device. See <smq/compat.h>.
 */
#ifndef CONV_KERNEL_H
#define CONV_KERNEL_H

#include <linux/blkdev.h>
#include <linux/file.h>
#include <scsi/scsi_device.h>
#include <scsi/scsi_driver.h>
#include <smq/compat.h>

/*
 * Since 7.0 probe and remove are members of struct scsi_driver; before 7.0 they were members of its
 * gendrv. Put SMQ_SCSI_DRIVER_FNS() after the two functions, and SMQ_SCSI_DRIVER_OPS() into the
 * initializer of the struct.
 */
#ifdef SMQ_HAVE_SCSI_DRIVER_PROBE
#define SMQ_SCSI_DRIVER_FNS(add, del)
#define SMQ_SCSI_DRIVER_OPS(add, del)		.probe = (add), .remove = (del)
#define smq_scsi_register_driver(drv)		scsi_register_driver(drv)
#else
#define SMQ_SCSI_DRIVER_FNS(add, del)		\
static int add##_dev(struct device *dev)	\
{						\
	return add(to_scsi_device(dev));	\
}						\
						\
static int del##_dev(struct device *dev)	\
{						\
	del(to_scsi_device(dev));		\
	return 0;				\
}

#define SMQ_SCSI_DRIVER_OPS(add, del)		\
	.gendrv.probe = add##_dev, .gendrv.remove = del##_dev
#define smq_scsi_register_driver(drv)		scsi_register_driver(&(drv)->gendrv)
#endif

/*
 * A disk is opened only to become its holder: read-only, exclusive, without a check of the medium.
 * 6.5 gave the mode a type of its own, and closes by the holder; what an open returns became a
 * handle in 6.7 and a file in 6.9.
 */
#ifdef SMQ_HAVE_BLK_OPEN
#define SMQ_DISK_MODE		(BLK_OPEN_READ | BLK_OPEN_NDELAY)
#endif

#if defined(SMQ_HAVE_BDEV_FILE)
#define smq_disk_handle		file

static inline struct smq_disk_handle *smq_disk_open(dev_t dev, void *holder)
{
	return bdev_file_open_by_dev(dev, SMQ_DISK_MODE, holder, NULL);
}

static inline struct gendisk *smq_disk_of(struct smq_disk_handle *handle)
{
	return file_bdev(handle)->bd_disk;
}

static inline void smq_disk_close(struct smq_disk_handle *handle, void *holder)
{
	bdev_fput(handle);
}
#elif defined(SMQ_HAVE_BDEV_HANDLE)
#define smq_disk_handle		bdev_handle

static inline struct smq_disk_handle *smq_disk_open(dev_t dev, void *holder)
{
	return bdev_open_by_dev(dev, SMQ_DISK_MODE, holder, NULL);
}

static inline struct gendisk *smq_disk_of(struct smq_disk_handle *handle)
{
	return handle->bdev->bd_disk;
}

static inline void smq_disk_close(struct smq_disk_handle *handle, void *holder)
{
	bdev_release(handle);
}
#else
#define smq_disk_handle		block_device

static inline struct gendisk *smq_disk_of(struct smq_disk_handle *handle)
{
	return handle->bd_disk;
}

#ifdef SMQ_HAVE_BLK_OPEN
static inline struct smq_disk_handle *smq_disk_open(dev_t dev, void *holder)
{
	return blkdev_get_by_dev(dev, SMQ_DISK_MODE, holder, NULL);
}

static inline void smq_disk_close(struct smq_disk_handle *handle, void *holder)
{
	blkdev_put(handle, holder);
}
#else
#define SMQ_DISK_MODE		(FMODE_READ | FMODE_EXCL | FMODE_NDELAY)

static inline struct smq_disk_handle *smq_disk_open(dev_t dev, void *holder)
{
	return blkdev_get_by_dev(dev, SMQ_DISK_MODE, holder);
}

static inline void smq_disk_close(struct smq_disk_handle *handle, void *holder)
{
	blkdev_put(handle, SMQ_DISK_MODE);
}
#endif
#endif

/*
 * Copies to a queue that is being configured with @lim what the lower LLD asked for: that data must
 * not change while it is being written (iscsi_tcp with a data digest needs that), and that requests
 * are not merged (megaraid_sas and mpt3sas for NVMe). tests/host/test_conv_copies.py lists all
 * flags.
 */
static inline void smq_queue_copy_flags(struct request_queue *q, struct queue_limits *lim,
					const struct request_queue *from)
{
#ifdef BLK_FEAT_STABLE_WRITES
	lim->features |= from->limits.features & BLK_FEAT_STABLE_WRITES;
#else
	if (test_bit(QUEUE_FLAG_STABLE_WRITES, &from->queue_flags))
		blk_queue_flag_set(QUEUE_FLAG_STABLE_WRITES, q);
#endif
	if (test_bit(QUEUE_FLAG_NOMERGES, &from->queue_flags))
		blk_queue_flag_set(QUEUE_FLAG_NOMERGES, q);
}

/* A host of a newer kernel may have a device for reserved commands, which is no LUN. */
static inline bool smq_sdev_is_pseudo(struct scsi_device *sdev)
{
#ifdef SMQ_HAVE_PSEUDO_SDEV
	return scsi_device_is_pseudo_dev(sdev);
#else
	return false;
#endif
}

/* Copies the quirks of a device that not every kernel has. */
static inline void smq_sdev_copy_quirks(struct scsi_device *sdev, const struct scsi_device *from)
{
#ifdef SMQ_HAVE_MANAGE_SYSTEM
	sdev->manage_system_start_stop = from->manage_system_start_stop;
	sdev->manage_runtime_start_stop = from->manage_runtime_start_stop;
#else
	sdev->manage_start_stop = from->manage_start_stop;
#endif
#ifdef SMQ_HAVE_MANAGE_SHUTDOWN
	sdev->manage_shutdown = from->manage_shutdown;
#endif
#ifdef SMQ_HAVE_FORCE_START
	sdev->force_runtime_start_on_system_start = from->force_runtime_start_on_system_start;
#endif
#ifdef SMQ_HAVE_READ_BEFORE_MS
	sdev->read_before_ms = from->read_before_ms;
#endif
#ifdef SMQ_HAVE_USE_16_FOR_SYNC
	sdev->use_16_for_sync = from->use_16_for_sync;
#endif
#ifdef SMQ_HAVE_NO_START_ON_RESUME
	sdev->no_start_on_resume = from->no_start_on_resume;
#endif
#ifdef SMQ_HAVE_MANAGE_RESTART
	sdev->manage_restart = from->manage_restart;
#endif
#ifdef SMQ_HAVE_IS_ATA
	sdev->is_ata = from->is_ata;
#endif
}

/*
 * Whether a plug issues requests in the order in which they were added to it. Before 6.13 it issues
 * them in reverse order.
 */
#ifdef SMQ_HAVE_RQ_LIST
#define SMQ_PLUG_IN_ORDER	true
#else
#define SMQ_PLUG_IN_ORDER	false
#endif

#endif /* CONV_KERNEL_H */
