/* SPDX-License-Identifier: GPL-2.0 */
/*
 * smq_pvscsi: the driver that docs/converting-an-lld.md converts. It contains all stages of the
 * conversion, which share the code of device, rings and error handling.
 */
#ifndef SMQ_PVSCSI_H
#define SMQ_PVSCSI_H

#include <linux/dmapool.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>
#include <scsi/scsi_cmnd.h>
#include <scsi/scsi_device.h>
#include <scsi/scsi_eh.h>
#include <scsi/scsi_host.h>
#include <smq/lld.h>

#include "device.h"

enum pv_stage {
	PV_OLD,		/* the old driver: its own template, DEF_SCSI_QCMD() */
	PV_LCK,		/* on the layer, by queuecommand_lck */
	PV_HWQ,		/* queue_cmd, without host_lock */
	PV_PREALLOC,	/* nothing is allocated per command, only its data is mapped */
	PV_COMMIT,	/* one doorbell per batch */
	PV_QUEUES,	/* a hardware queue per CPU on the one ring */
	PV_STAGES,
};

#define PV_REQ_PAGES	8
#define PV_CMP_PAGES	8
#define PV_REQ_ENTRIES	(PV_REQ_PAGES * 4096 / sizeof(struct pv_req))
#define PV_DEPTH	254
#define PV_SG		128
#define PV_MAX_ID	64
#define PV_SENSE	SCSI_SENSE_BUFFERSIZE

/*
 * The memory that the device needs for one command, in addition to its data. Up to PV_HWQ a slot
 * is allocated for each command; from PV_PREALLOC on there is one per tag, for the life of the
 * host. A slot is in pv_dev.slot[] from before the device can see the command until the driver
 * has read its completion.
 */
struct pv_slot {
	struct scsi_cmnd *scmd;		/* NULL if no command uses the slot */
	u8 *sense;
	struct pv_sge *sg;
	dma_addr_t sense_dma;
	dma_addr_t sg_dma;
};

/**
 * struct pv_dev - one device
 * @pdev: its PCI function; the function's drvdata is this structure
 * @shost: the SCSI host; from PV_LCK on the layer allocates it
 * @host: the layer's host, NULL for PV_OLD
 * @regs: its registers
 * @stage: how commands are queued
 * @state: indices of all rings; shared with the device, as are @req, @cmp and @msg
 * @req_lock: serialises the producers of @req; protects @req_prod, @stopped and the addition
 *	of a slot to @slot
 * @cmp_lock: serialises the consumers of @cmp: the interrupt, and error handling that waits
 *	for commands; protects the removal of a slot from @slot
 * @use_msg: the device puts messages into @msg, and interrupts for them
 * @leaving: the driver no longer gives @msg to the device
 * @shut_down: pv_shutdown() has stopped the device for good
 * @cmd_lock: serialises resets, and device commands, which take several register writes each;
 *	protects @use_msg, @leaving and @shut_down. The interrupt reads @use_msg without it
 * @stopped: no command may be put on the ring
 * @gone: the device no longer answers; commands fail at once
 * @slot: the slots of the commands that the device has, by tag
 * @slots: the slots that @slot points to from PV_PREALLOC on; the device accesses their
 *	part of @slot_mem
 * @sg_pool: memory for scatterlists, in the stages before PV_PREALLOC
 * @msg_work: adds and removes disks
 *
 * Lifetime: probe to remove.
 */
struct pv_dev {
	struct pci_dev *pdev;
	struct Scsi_Host *shost;
	struct smq_host *host;
	void __iomem *regs;
	enum pv_stage stage;

	struct pv_rings_state *state;
	struct pv_req *req;
	struct pv_cmp *cmp;
	struct pv_msg *msg;
	dma_addr_t state_dma, req_dma, cmp_dma, msg_dma;
	bool use_msg;
	bool leaving;
	bool shut_down;
	bool gone;

	spinlock_t req_lock ____cacheline_aligned;	/* see above */
	u32 req_prod;
	bool stopped;

	spinlock_t cmp_lock ____cacheline_aligned;	/* see above */
	u32 cmp_cons;

	struct mutex cmd_lock;				/* see above */
	struct pv_slot *slot[PV_DEPTH];
	struct pv_slot *slots;
	void *slot_mem;
	dma_addr_t slot_dma;
	struct dma_pool *sg_pool;
	struct work_struct msg_work;
};

/* device.c */
int pv_device_init(struct pv_dev *pv);
void pv_device_exit(struct pv_dev *pv);
void pv_device_quiet(struct pv_dev *pv);
void pv_device_start(struct pv_dev *pv);
void pv_msg_end(struct pv_dev *pv);
void pv_doorbell(struct pv_dev *pv);
u32 pv_command(struct pv_dev *pv, enum pv_command cmd, const void *data, size_t len);

/* slot.c */
int pv_old_slots_alloc(struct pv_dev *pv);
struct pv_slot *pv_old_slot_alloc(struct pv_dev *pv, struct scsi_cmnd *scmd);
void pv_old_slot_free(struct pv_dev *pv, struct pv_slot *slot);
int pv_slots_alloc(struct pv_dev *pv);
void pv_slots_free(struct pv_dev *pv);

/* ring.c */
int pv_ring_put(struct pv_dev *pv, struct pv_slot *slot, struct scsi_cmnd *scmd);
void pv_done(struct pv_dev *pv, struct scsi_cmnd *scmd);
void pv_ring_complete(struct pv_dev *pv);
void pv_ring_complete_locked(struct pv_dev *pv);
void pv_fail_all(struct pv_dev *pv, int result);

static inline unsigned int pv_tag(struct scsi_cmnd *scmd)
{
	return scsi_cmd_to_rq(scmd)->tag;
}

/* eh.c */
int pv_abort(struct pv_dev *pv, struct scsi_cmnd *scmd);
int pv_reset_lun(struct pv_dev *pv, struct scsi_device *sdev);
int pv_reset_target(struct pv_dev *pv, struct scsi_target *starget);
int pv_reset_bus(struct pv_dev *pv);
int pv_reset_host(struct pv_dev *pv);
void pv_stop(struct pv_dev *pv);

/* old.c: PV_OLD; PV_LCK uses pv_old_queue(), too */
struct Scsi_Host *pv_old_alloc(struct pv_dev *pv);
smq_qc_t pv_old_queue(struct pv_dev *pv, struct scsi_cmnd *scmd);

/* queue.c */
struct smq_host *pv_queue_alloc(struct pv_dev *pv);

#endif /* SMQ_PVSCSI_H */
