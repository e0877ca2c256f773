# SPDX-License-Identifier: GPL-2.0
# Looks in the kernel's headers for the interfaces that they have. compat.h, and the headers for
# one subsystem (uring.h, virtio.h, target.h), use the result to hide the differences.
#
# $(call smq-probe,MACRO,header below include/,words to look for in it)
smq-probe = $(if $(shell grep -sFw '$(3)' $(srctree)/include/$(2)),-D$(1))

# The series whose source was read for SMQ_CAN_OWN and SMQ_CAN_PREPARE, and on which these ways were
# tested: tools/kernel-check --help.
smq-checked := 6.1 6.6 6.12 7.2 7.3

# Not empty for the kernel of a distribution that puts parts of later kernels into its own, so that
# its block layer may be that of a later series than its number says:
# - SUSE's configuration says so;
# - kernels with a stable ABI for modules have a header with macros for it: RHEL's rh_kabi.h, Oracle
#   UEK's uek_kabi.h, Android's android_kabi.h, openEuler's kabi.h;
# - in version.h some define a number of their own: RHEL_RELEASE_CODE, OPENEULER_VERSION_CODE;
# - UEK and Amazon Linux have their name in the release; Amazon defines nothing else.
smq-backports = $(filter CONFIG_SUSE_%,$(.VARIABLES)) \
	$(wildcard $(srctree)/include/linux/*kabi*.h) \
	$(shell grep -svE 'define (LINUX|KERNEL)_VERSION' \
		$(objtree)/include/generated/uapi/linux/version.h) \
	$(shell grep -sE 'uek|amzn' $(objtree)/include/generated/utsrelease.h)

# For kernels whose mid-layer clears the LLD's part of a command when it prepares the command: one
# that smq prepares would keep what the last one left. 6.14, and stable kernels since early in 2025,
# clear it when they dispatch the command. No header shows that; the numbers are not too low.
smq-prepare-clears = $(shell sub=$(or $(SUBLEVEL),0); case $(VERSION).$(PATCHLEVEL) in \
	(6.1) [ $$sub -lt 130 ] ;; (6.6) [ $$sub -lt 90 ] ;; (6.12) [ $$sub -lt 30 ] ;; \
	(6.[2-9] | 6.1[013]) ;; (*) false ;; esac && echo -DSMQ_PREPARE_CLEARS)

subdir-ccflags-y += $(smq-prepare-clears) \
	$(if $(wildcard $(srctree)/include/linux/unaligned.h),-DSMQ_HAVE_LINUX_UNALIGNED) \
	$(call smq-probe,SMQ_HAVE_HRTIMER_SETUP,linux/hrtimer.h,void hrtimer_setup) \
	$(call smq-probe,SMQ_HAVE_WQ_PERCPU,linux/workqueue.h,WQ_PERCPU) \
	$(call smq-probe,SMQ_HAVE_QC_STATUS,scsi/scsi_host.h,enum scsi_qc_status) \
	$(call smq-probe,SMQ_HAVE_BVEC_OFFSET,linux/bvec.h,bi_offset) \
	$(call smq-probe,SMQ_HAVE_TIMEOUT_ACTION,scsi/scsi_host.h,enum scsi_timeout_action) \
	$(call smq-probe,SMQ_HAVE_SDEV_INIT,scsi/scsi_host.h,sdev_init) \
	$(call smq-probe,SMQ_HAVE_PSEUDO_SDEV,scsi/scsi_device.h,scsi_device_is_pseudo_dev) \
	$(call smq-probe,SMQ_HAVE_DEVICE_CONFIGURE,scsi/scsi_host.h,device_configure) \
	$(call smq-probe,SMQ_HAVE_END_IO_BATCH,linux/blk-mq.h,const struct io_comp_batch) \
	$(if $(wildcard $(srctree)/include/linux/io_uring/cmd.h),-DSMQ_HAVE_IO_URING_CMD_H) \
	$(call smq-probe,SMQ_HAVE_URING_SQE,linux/io_uring.h,const struct io_uring_sqe *sqe) \
	$(call smq-probe,SMQ_HAVE_URING_SQE,linux/io_uring/cmd.h,const struct io_uring_sqe *sqe) \
	$(call smq-probe,SMQ_HAVE_URING_DONE32,linux/io_uring/cmd.h,io_uring_cmd_done32) \
	$(call smq-probe,SMQ_HAVE_URING_GET_TASK,linux/io_uring/cmd.h,io_uring_cmd_get_task) \
	$(call smq-probe,SMQ_HAVE_URING_INT_FLAGS,linux/io_uring_types.h,IO_RING_F_COMPAT) \
	$(call smq-probe,SMQ_HAVE_URING_TW_REQ,linux/io_uring/cmd.h,struct io_tw_req) \
	$(call smq-probe,SMQ_HAVE_IMPORT_FIXED_FLAGS,linux/io_uring/cmd.h,io_uring_cmd_import_fixed_vec) \
	$(call smq-probe,SMQ_HAVE_INTERFACE_DEV,linux/device/class.h,const struct class	*class) \
	$(call smq-probe,SMQ_HAVE_VM_FLAGS_CLEAR,linux/mm.h,vm_flags_clear) \
	$(call smq-probe,SMQ_HAVE_CMD_ALLOWED_BOOL,scsi/scsi_ioctl.h,bool open_for_write) \
	$(call smq-probe,SMQ_HAVE_RQ_IOPRIO,linux/blk-mq.h,unsigned short ioprio) \
	$(call smq-probe,SMQ_HAVE_PHYS_GAP,linux/blk-mq.h,phys_gap_bit) \
	$(call smq-probe,SMQ_HAVE_MAP_KERN_RQ,linux/blk-mq.h,void *kbuf) \
	$(call smq-probe,SMQ_HAVE_SCSI_DRIVER_PROBE,scsi/scsi_driver.h,int (*probe)(struct scsi_device *)) \
	$(call smq-probe,SMQ_HAVE_MANAGE_SYSTEM,scsi/scsi_device.h,unsigned manage_system_start_stop:1) \
	$(call smq-probe,SMQ_HAVE_MANAGE_SHUTDOWN,scsi/scsi_device.h,unsigned manage_shutdown:1) \
	$(call smq-probe,SMQ_HAVE_FORCE_START,scsi/scsi_device.h,force_runtime_start_on_system_start:1) \
	$(call smq-probe,SMQ_HAVE_READ_BEFORE_MS,scsi/scsi_device.h,unsigned read_before_ms:1) \
	$(call smq-probe,SMQ_HAVE_USE_16_FOR_SYNC,scsi/scsi_device.h,unsigned use_16_for_sync:1) \
	$(call smq-probe,SMQ_HAVE_NO_START_ON_RESUME,scsi/scsi_device.h,unsigned no_start_on_resume:1) \
	$(call smq-probe,SMQ_HAVE_MANAGE_RESTART,scsi/scsi_device.h,unsigned manage_restart:1) \
	$(call smq-probe,SMQ_HAVE_IS_ATA,scsi/scsi_device.h,unsigned is_ata:1) \
	$(call smq-probe,SMQ_HAVE_BLK_OPEN,linux/blkdev.h,BLK_OPEN_READ) \
	$(call smq-probe,SMQ_HAVE_BDEV_HANDLE,linux/blkdev.h,bdev_open_by_dev) \
	$(call smq-probe,SMQ_HAVE_BDEV_FILE,linux/blkdev.h,bdev_file_open_by_dev) \
	$(call smq-probe,SMQ_HAVE_LIMITS_UPDATE,linux/blkdev.h,queue_limits_commit_update) \
	$(call smq-probe,SMQ_HAVE_LIMITS_PAD,linux/blkdev.h,lim->dma_pad_mask) \
	$(call smq-probe,SMQ_HAVE_ALLOC_QUEUE,linux/blk-mq.h,blk_mq_alloc_queue) \
	$(call smq-probe,SMQ_HAVE_FREEZE_FLAGS,linux/blk-mq.h,memflags) \
	$(call smq-probe,SMQ_HAVE_RQ_LIST,linux/blk-mq.h,struct rq_list *rl) \
	$(call smq-probe,SMQ_HAVE_VIRTQUEUE_INFO,linux/virtio_config.h,struct virtqueue_info) \
	$(call smq-probe,SMQ_HAVE_TARGET_SUBMIT_TYPE,target/target_core_fabric.h,default_submit_type) \
	$(call smq-probe,SMQ_HAVE_TARGET_COMPL_TYPE,target/target_core_fabric.h,default_compl_type) \
	$(if $(wildcard $(srctree)/include/linux/blk-mq-virtio.h),-DSMQ_HAVE_BLK_MQ_VIRTIO) \
	$(if $(filter 6.1,$(VERSION).$(PATCHLEVEL)),-DSMQ_HAVE_PASSTHROUGH_STATS) \
	$(if $(filter $(smq-checked),$(if $(strip $(smq-backports)),,$(VERSION).$(PATCHLEVEL))), \
		$(call smq-probe,SMQ_CAN_OWN=1,linux/blk-mq.h,struct sbitmap_queue bitmap_tags) \
		$(call smq-probe,SMQ_CAN_PREPARE=1,scsi/scsi_cmnd.h,struct delayed_work abort_work))
