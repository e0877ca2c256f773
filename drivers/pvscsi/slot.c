// SPDX-License-Identifier: GPL-2.0
/*
 * Slots: the memory that the device needs for a command in addition to its data. Up to PV_HWQ it
 * is allocated and mapped for every command, from PV_PREALLOC on once per tag.
 */
#include <linux/dma-mapping.h>
#include <linux/slab.h>

#include "pvscsi.h"

int pv_old_slots_alloc(struct pv_dev *pv)
{
	size_t bytes = PV_SG * sizeof(struct pv_sge);

	pv->sg_pool = dma_pool_create("smq_pvscsi", &pv->pdev->dev, bytes, bytes, 0);
	return pv->sg_pool ? 0 : -ENOMEM;
}

struct pv_slot *pv_old_slot_alloc(struct pv_dev *pv, struct scsi_cmnd *scmd)
{
	struct device *dev = &pv->pdev->dev;
	struct pv_slot *slot = kzalloc(sizeof(*slot), GFP_ATOMIC);

	if (!slot)
		return NULL;
	slot->sense = scmd->sense_buffer;
	slot->sense_dma = dma_map_single(dev, slot->sense, PV_SENSE, DMA_FROM_DEVICE);
	if (dma_mapping_error(dev, slot->sense_dma))
		goto free;
	if (scsi_sg_count(scmd) > 1) {
		slot->sg = dma_pool_alloc(pv->sg_pool, GFP_ATOMIC, &slot->sg_dma);
		if (!slot->sg)
			goto unmap;
	}
	return slot;
unmap:
	dma_unmap_single(dev, slot->sense_dma, PV_SENSE, DMA_FROM_DEVICE);
free:
	kfree(slot);
	return NULL;
}

void pv_old_slot_free(struct pv_dev *pv, struct pv_slot *slot)
{
	dma_unmap_single(&pv->pdev->dev, slot->sense_dma, PV_SENSE, DMA_FROM_DEVICE);
	if (slot->sg)
		dma_pool_free(pv->sg_pool, slot->sg, slot->sg_dma);
	kfree(slot);
}

/* From PV_PREALLOC on each tag has a scatterlist and a sense buffer, which stay mapped. */

#define PV_SLOT_BYTES	(PV_SG * sizeof(struct pv_sge))
#define PV_SENSE_BYTES	128

int pv_slots_alloc(struct pv_dev *pv)
{
	unsigned int tag;

	BUILD_BUG_ON(4096 % PV_SLOT_BYTES);	/* a list may not cross a page */
	pv->slots = kcalloc(PV_DEPTH, sizeof(*pv->slots), GFP_KERNEL);
	pv->slot_mem = dma_alloc_coherent(&pv->pdev->dev,
					  PV_DEPTH * (PV_SLOT_BYTES + PV_SENSE_BYTES),
					  &pv->slot_dma, GFP_KERNEL);
	if (!pv->slots || !pv->slot_mem) {
		pv_slots_free(pv);
		return -ENOMEM;
	}
	for (tag = 0; tag < PV_DEPTH; tag++) {
		struct pv_slot *slot = &pv->slots[tag];
		size_t sg = tag * PV_SLOT_BYTES;
		size_t sense = PV_DEPTH * PV_SLOT_BYTES + tag * PV_SENSE_BYTES;

		slot->sg = pv->slot_mem + sg;
		slot->sg_dma = pv->slot_dma + sg;
		slot->sense = pv->slot_mem + sense;
		slot->sense_dma = pv->slot_dma + sense;
	}
	return 0;
}

void pv_slots_free(struct pv_dev *pv)
{
	if (pv->slot_mem)
		dma_free_coherent(&pv->pdev->dev, PV_DEPTH * (PV_SLOT_BYTES + PV_SENSE_BYTES),
				  pv->slot_mem, pv->slot_dma);
	kfree(pv->slots);
	pv->slot_mem = NULL;
	pv->slots = NULL;
}
