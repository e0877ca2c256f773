// SPDX-License-Identifier: GPL-2.0
/*
 * smq_pvscsi: the PCI driver. The kernel has a driver for this device, vmw_pvscsi. So this driver
 * takes only devices that driver_override or new_id gives to it. With take_all=1 it takes every
 * pvscsi device that has no driver.
 */
#define pr_fmt(fmt) "smq_pvscsi: " fmt

#include <linux/module.h>
#include <linux/slab.h>
#include <smq/version.h>

#include "pvscsi.h"

static unsigned int stage = PV_QUEUES;
module_param(stage, uint, 0644);
MODULE_PARM_DESC(stage, "stage of the conversion, 0 (the old driver) to 5 (docs/converting-an-lld.md); a change applies to devices bound later");

static bool take_all;
module_param(take_all, bool, 0444);
MODULE_PARM_DESC(take_all, "take every pvscsi device that has no driver");

static void pv_free_slots(struct pv_dev *pv)
{
	pv_slots_free(pv);
	dma_pool_destroy(pv->sg_pool);
}

static void pv_free_host(struct pv_dev *pv)
{
	if (pv->host)
		smq_host_free(pv->host);
	else
		scsi_host_put(pv->shost);
}

static int pv_alloc_host(struct pv_dev *pv)
{
	int err = pv->stage < PV_PREALLOC ? pv_old_slots_alloc(pv) : pv_slots_alloc(pv);

	if (err)
		return err;
	if (pv->stage == PV_OLD) {
		pv->shost = pv_old_alloc(pv);
		err = pv->shost ? 0 : -ENOMEM;
	} else {
		struct smq_host *host = pv_queue_alloc(pv);

		err = PTR_ERR_OR_ZERO(host);
		if (!err) {
			pv->host = host;
			pv->shost = host->shost;
		}
	}
	if (err)
		pv_free_slots(pv);
	return err;
}

static int pv_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	unsigned int wanted = READ_ONCE(stage);
	struct pv_dev *pv;
	int err;

	if (pdev->vendor != PV_VENDOR || pdev->device != PV_DEVICE) {
		dev_err(&pdev->dev, "device %04x:%04x is no pvscsi, which is %04x:%04x\n",
			pdev->vendor, pdev->device, PV_VENDOR, PV_DEVICE);
		return -ENODEV;
	}
	if (wanted >= PV_STAGES) {
		dev_err(&pdev->dev, "stage=%u is outside 0..%u\n", wanted, PV_STAGES - 1);
		return -EINVAL;
	}
	pv = kzalloc(sizeof(*pv), GFP_KERNEL);
	if (!pv)
		return -ENOMEM;
	pv->pdev = pdev;
	pv->stage = wanted;
	spin_lock_init(&pv->req_lock);
	spin_lock_init(&pv->cmp_lock);
	mutex_init(&pv->cmd_lock);

	err = pci_enable_device(pdev);
	if (err)
		goto free;
	err = pv_device_init(pv);
	if (err)
		goto disable;
	err = pv_alloc_host(pv);
	if (err)
		goto exit;
	pci_set_drvdata(pdev, pv);
	pv_device_start(pv);
	err = pv->host ? smq_host_add(pv->host, &pdev->dev) : scsi_add_host(pv->shost, &pdev->dev);
	if (err)
		goto free_host;
	dev_info(&pdev->dev, "host%u, stage %u, %s\n", pv->shost->host_no, pv->stage,
		 pdev->msix_enabled ? "MSI-X" : pdev->msi_enabled ? "MSI" : "INTx");
	scsi_scan_host(pv->shost);
	return 0;

free_host:
	/* The interrupt handler can still run, until pv_device_exit(); it finds no commands. */
	pv_device_quiet(pv);
	pv_msg_end(pv);
	pv_free_host(pv);
	pv_free_slots(pv);
exit:
	pv_device_exit(pv);
disable:
	pci_disable_device(pdev);
free:
	kfree(pv);
	return err;
}

static void pv_remove(struct pci_dev *pdev)
{
	struct pv_dev *pv = pci_get_drvdata(pdev);

	pv_msg_end(pv);
	if (!pci_device_is_present(pdev))
		pv_reset_host(pv);

	if (pv->host)
		smq_host_remove(pv->host);
	else
		scsi_remove_host(pv->shost);
	pv_device_exit(pv);
	pv_free_host(pv);
	pv_free_slots(pv);
	pci_disable_device(pdev);
	kfree(pv);
}

/* Stops the device, so that it does not write to the memory of the next kernel. */
static void pv_shutdown(struct pci_dev *pdev)
{
	struct pv_dev *pv = pci_get_drvdata(pdev);

	mutex_lock(&pv->cmd_lock);
	/* Error handling, which can come later, must not start the device again. */
	pv->shut_down = true;
	pv_stop(pv);
	pv_device_quiet(pv);
	mutex_unlock(&pv->cmd_lock);
}

static const struct pci_device_id pv_ids[] = {
	{ PCI_DEVICE(PV_VENDOR, PV_DEVICE) },
	{ }
};

static struct pci_driver pv_driver = {
	.name		= "smq_pvscsi",
	.probe		= pv_probe,
	.remove		= pv_remove,
	.shutdown	= pv_shutdown,
};

static int __init pv_init(void)
{
	if (stage >= PV_STAGES) {
		pr_err("stage=%u is outside 0..%u\n", stage, PV_STAGES - 1);
		return -EINVAL;
	}
	/* There is no MODULE_DEVICE_TABLE(), so that udev does not load the module. */
	if (take_all)
		pv_driver.id_table = pv_ids;
	return pci_register_driver(&pv_driver);
}
module_init(pv_init);

static void __exit pv_exit(void)
{
	pci_unregister_driver(&pv_driver);
}
module_exit(pv_exit);

MODULE_DESCRIPTION("VMware PVSCSI, in every stage of its conversion to smq");
MODULE_VERSION(SMQ_VERSION);
MODULE_AUTHOR("smq developers");
MODULE_LICENSE("GPL");
