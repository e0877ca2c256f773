# SPDX-License-Identifier: GPL-2.0
# Which kernel interfaces the headers at hand have. compat.h turns the answers
# into one spelling; nothing else in the tree looks at them.
#
# $(call smq-probe,MACRO,header below include/,words that it has)
smq-probe = $(if $(shell grep -sFw '$(3)' $(srctree)/include/$(2)),-D$(1))

subdir-ccflags-y += \
	$(if $(wildcard $(srctree)/include/linux/unaligned.h),-DSMQ_HAVE_LINUX_UNALIGNED) \
	$(call smq-probe,SMQ_HAVE_HRTIMER_SETUP,linux/hrtimer.h,void hrtimer_setup) \
	$(call smq-probe,SMQ_HAVE_WQ_PERCPU,linux/workqueue.h,WQ_PERCPU) \
	$(call smq-probe,SMQ_HAVE_QC_STATUS,scsi/scsi_host.h,enum scsi_qc_status) \
	$(call smq-probe,SMQ_HAVE_TIMEOUT_ACTION,scsi/scsi_host.h,enum scsi_timeout_action) \
	$(call smq-probe,SMQ_HAVE_SDEV_INIT,scsi/scsi_host.h,sdev_init) \
	$(call smq-probe,SMQ_HAVE_END_IO_BATCH,linux/blk-mq.h,const struct io_comp_batch)
