// SPDX-License-Identifier: GPL-2.0
/* The device: registers, memory of the rings, interrupts, messages. */
#define pr_fmt(fmt) "smq_pvscsi: " fmt

#include <linux/dma-mapping.h>
#include <linux/interrupt.h>
#include <linux/io.h>

#include "pvscsi.h"

/*
 * Makes the device read the request ring. A separate function, because tools/bench/convert counts
 * its calls.
 */
void pv_doorbell(struct pv_dev *pv)
{
	writel(0, pv->regs + PV_REG_KICK_RW);
}

/*
 * Runs a device command, and returns its status. Context: the caller holds cmd_lock, except in
 * probe and removal.
 */
u32 pv_command(struct pv_dev *pv, enum pv_command cmd, const void *data, size_t len)
{
	writel(cmd, pv->regs + PV_REG_COMMAND);
	iowrite32_rep(pv->regs + PV_REG_COMMAND_DATA, data, len / 4);
	return readl(pv->regs + PV_REG_COMMAND_STATUS);
}

static void pv_setup_msg_ring(struct pv_dev *pv)
{
	struct pv_cmd_setup_msg_ring setup = { .pages = cpu_to_le32(1) };

	if (pv->leaving)
		return;
	/* Send it without data first: a device without a message ring fails the command. */
	if (pv_command(pv, PV_CMD_SETUP_MSG_RING, NULL, 0) == PV_STATUS_FAILED)
		return;
	setup.ppn[0] = cpu_to_le64(pv->msg_dma >> PV_PAGE_SHIFT);
	WRITE_ONCE(pv->use_msg, pv_command(pv, PV_CMD_SETUP_MSG_RING, &setup, sizeof(setup)) !=
				PV_STATUS_FAILED);
}

/* Gives the empty rings to a device that was just reset, and enables its interrupts. */
void pv_device_start(struct pv_dev *pv)
{
	struct pv_cmd_setup_rings setup = {
		.req_pages = cpu_to_le32(PV_REQ_PAGES),
		.cmp_pages = cpu_to_le32(PV_CMP_PAGES),
		.state_ppn = cpu_to_le64(pv->state_dma >> PV_PAGE_SHIFT),
	};
	unsigned int i;

	memset(pv->state, 0, sizeof(*pv->state));
	pv->req_prod = 0;
	pv->cmp_cons = 0;
	for (i = 0; i < PV_REQ_PAGES; i++)
		setup.req_ppn[i] = cpu_to_le64((pv->req_dma >> PV_PAGE_SHIFT) + i);
	for (i = 0; i < PV_CMP_PAGES; i++)
		setup.cmp_ppn[i] = cpu_to_le64((pv->cmp_dma >> PV_PAGE_SHIFT) + i);
	pv_command(pv, PV_CMD_SETUP_RINGS, &setup, sizeof(setup));
	pv_setup_msg_ring(pv);
	writel(PV_INTR_CMPL | (pv->use_msg ? PV_INTR_MSG : 0), pv->regs + PV_REG_INTR_MASK);
}

/* Stops the device: after this it neither interrupts nor accesses memory. */
void pv_device_quiet(struct pv_dev *pv)
{
	writel(0, pv->regs + PV_REG_INTR_MASK);
	pv_command(pv, PV_CMD_ADAPTER_RESET, NULL, 0);
}

static void pv_msg(struct pv_dev *pv, const struct pv_msg *msg)
{
	struct scsi_lun lun;
	struct scsi_device *sdev;
	u32 target = le32_to_cpu(msg->target);
	u64 number;

	memcpy(&lun, msg->lun, sizeof(lun));
	number = scsilun_to_int(&lun);
	switch (le32_to_cpu(msg->type)) {
	case PV_MSG_DEV_ADDED:
		scsi_add_device(pv->shost, 0, target, number);
		break;
	case PV_MSG_DEV_REMOVED:
		sdev = scsi_device_lookup(pv->shost, 0, target, number);
		if (sdev) {
			scsi_remove_device(sdev);
			scsi_device_put(sdev);
		}
		break;
	}
}

static bool pv_msg_waiting(struct pv_dev *pv)
{
	return READ_ONCE(pv->use_msg) && READ_ONCE(pv->state->msg_prod) != pv->state->msg_cons;
}

static bool pv_msg_take(struct pv_dev *pv, struct pv_msg *msg)
{
	u32 mask = 4096 / sizeof(*pv->msg) - 1;
	bool found;

	/* Under the lock, because a reset empties the ring and sets its indices to 0. */
	mutex_lock(&pv->cmd_lock);
	found = pv_msg_waiting(pv);
	if (found) {
		u32 cons = le32_to_cpu(pv->state->msg_cons);

		/* Read the message after the index that announces it. */
		dma_rmb();
		*msg = pv->msg[cons & mask];
		/* Read the message before writing the index that lets the device overwrite it. */
		dma_mb();
		WRITE_ONCE(pv->state->msg_cons, cpu_to_le32(cons + 1));
	}
	mutex_unlock(&pv->cmd_lock);
	return found;
}

static void pv_msg_work(struct work_struct *work)
{
	struct pv_dev *pv = container_of(work, struct pv_dev, msg_work);
	struct pv_msg msg;

	while (pv_msg_take(pv, &msg))
		pv_msg(pv, &msg);
}

/*
 * Ends the handling of messages that add and remove disks. A later host reset sets the rings
 * up without the message ring. Context: may sleep.
 */
void pv_msg_end(struct pv_dev *pv)
{
	mutex_lock(&pv->cmd_lock);
	pv->leaving = true;
	WRITE_ONCE(pv->use_msg, false);
	mutex_unlock(&pv->cmd_lock);
	/* The interrupt may have queued the work before use_msg was cleared. */
	synchronize_irq(pci_irq_vector(pv->pdev, 0));
	cancel_work_sync(&pv->msg_work);
}

static irqreturn_t pv_irq(int irq, void *data)
{
	struct pv_dev *pv = data;

	pv_ring_complete(pv);
	if (unlikely(pv_msg_waiting(pv)))
		queue_work(system_long_wq, &pv->msg_work);
	return IRQ_HANDLED;
}

/* INTx is shared, and stays asserted until it is acknowledged. */
static irqreturn_t pv_irq_shared(int irq, void *data)
{
	struct pv_dev *pv = data;
	u32 status = readl(pv->regs + PV_REG_INTR_STATUS);

	if (!(status & (PV_INTR_CMPL | PV_INTR_MSG)) || status == PV_STATUS_FAILED)
		return IRQ_NONE;
	writel(status, pv->regs + PV_REG_INTR_STATUS);
	return pv_irq(irq, data);
}

static void *pv_pages(struct pv_dev *pv, unsigned int pages, dma_addr_t *dma)
{
	return dma_alloc_coherent(&pv->pdev->dev, pages * 4096, dma, GFP_KERNEL);
}

static void pv_free_pages(struct pv_dev *pv, unsigned int pages, void *mem, dma_addr_t dma)
{
	if (mem)
		dma_free_coherent(&pv->pdev->dev, pages * 4096, mem, dma);
}

static void pv_free_rings(struct pv_dev *pv)
{
	pv_free_pages(pv, 1, pv->state, pv->state_dma);
	pv_free_pages(pv, PV_REQ_PAGES, pv->req, pv->req_dma);
	pv_free_pages(pv, PV_CMP_PAGES, pv->cmp, pv->cmp_dma);
	pv_free_pages(pv, 1, pv->msg, pv->msg_dma);
}

static int pv_alloc_irq(struct pv_dev *pv)
{
	struct pci_dev *pdev = pv->pdev;
	bool intx;
	int err;

	err = pci_alloc_irq_vectors(pdev, 1, 1, PCI_IRQ_ALL_TYPES);
	if (err < 0)
		return err;
	intx = !pdev->msi_enabled && !pdev->msix_enabled;
	err = request_irq(pci_irq_vector(pdev, 0), intx ? pv_irq_shared : pv_irq,
			  intx ? IRQF_SHARED : 0, "smq_pvscsi", pv);
	if (err)
		pci_free_irq_vectors(pdev);
	return err;
}

/*
 * Sets up memory, registers and interrupt of an enabled PCI function. The device is
 * reset, and neither interrupts nor accesses memory until pv_device_start().
 */
int pv_device_init(struct pv_dev *pv)
{
	struct pci_dev *pdev = pv->pdev;
	int err;

	BUILD_BUG_ON(sizeof(struct pv_req) != 128);
	BUILD_BUG_ON(sizeof(struct pv_cmp) != 32);
	BUILD_BUG_ON(sizeof(struct pv_msg) != 128);

	INIT_WORK(&pv->msg_work, pv_msg_work);
	pci_set_master(pdev);
	err = dma_set_mask_and_coherent(&pdev->dev, DMA_BIT_MASK(64));
	if (err)
		err = dma_set_mask_and_coherent(&pdev->dev, DMA_BIT_MASK(32));
	if (err)
		return err;
	err = pci_request_regions(pdev, "smq_pvscsi");
	if (err)
		return err;
	if (!(pci_resource_flags(pdev, 0) & IORESOURCE_MEM) ||
	    pci_resource_len(pdev, 0) < PV_REG_BYTES) {
		dev_err(&pdev->dev, "BAR 0 has %llu bytes of memory, %u are needed\n",
			(unsigned long long)pci_resource_len(pdev, 0), PV_REG_BYTES);
		err = -ENODEV;
		goto release;
	}
	err = -ENOMEM;
	pv->regs = pci_iomap(pdev, 0, 0);
	if (!pv->regs)
		goto release;
	pv_device_quiet(pv);

	pv->state = pv_pages(pv, 1, &pv->state_dma);
	pv->req = pv_pages(pv, PV_REQ_PAGES, &pv->req_dma);
	pv->cmp = pv_pages(pv, PV_CMP_PAGES, &pv->cmp_dma);
	pv->msg = pv_pages(pv, 1, &pv->msg_dma);
	if (!pv->state || !pv->req || !pv->cmp || !pv->msg)
		goto free;
	err = pv_alloc_irq(pv);
	if (!err)
		return 0;
free:
	pv_free_rings(pv);
	pci_iounmap(pdev, pv->regs);
release:
	pci_release_regions(pdev);
	return err;
}

void pv_device_exit(struct pv_dev *pv)
{
	pv_device_quiet(pv);
	free_irq(pci_irq_vector(pv->pdev, 0), pv);
	pci_free_irq_vectors(pv->pdev);
	pv_free_rings(pv);
	pci_iounmap(pv->pdev, pv->regs);
	pci_release_regions(pv->pdev);
}
