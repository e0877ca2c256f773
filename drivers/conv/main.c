// SPDX-License-Identifier: GPL-2.0
/*
 * smq_conv: the driver of claimed devices. It matches every SCSI device, as all SCSI drivers
 * do. Its probe accepts only devices for which claim.c offers a claim.
 */
#include <linux/device.h>
#include <linux/module.h>
#include <linux/percpu-refcount.h>
#include <linux/rcupdate.h>
#include <linux/workqueue.h>
#include <smq/version.h>

#include "attach.h"
#include "conv.h"

struct device *conv_root;	/* parent of all upper hosts */
struct workqueue_struct *conv_wq;

static int conv_probe(struct scsi_device *lower)
{
	struct conv_lun *cl = conv_claim_take(lower);

	if (!cl)
		return -ENODEV;
	/*
	 * Count the users of the queue per CPU. The block layer does this only for a queue that has
	 * a disk: without a disk all CPUs would write one atomic counter for each request.
	 */
	percpu_ref_switch_to_percpu(&lower->request_queue->q_usage_counter);
	dev_set_drvdata(&lower->sdev_gendev, cl);
	/*
	 * The former driver sends no more commands: sd sent its last one, SYNCHRONIZE CACHE, before
	 * its remove operation returned.
	 */
	cl->cmds_before_claim = atomic_read(&lower->iorequest_cnt);
	conv_handler_replace(cl);
	return 0;
}

/* Ends a claim: on release, when the device is removed, or after a write to the driver's unbind. */
static void conv_remove(struct scsi_device *lower)
{
	struct conv_lun *cl = dev_get_drvdata(&lower->sdev_gendev);

	dev_set_drvdata(&lower->sdev_gendev, NULL);
	conv_lun_end(cl);
}

SMQ_SCSI_DRIVER_FNS(conv_probe, conv_remove)

struct scsi_driver conv_driver = {
	.gendrv.name	= "smq_conv",
	.gendrv.groups	= conv_driver_groups,
	/* Our probe must run before sd's asynchronous one: see rule.c. */
	.gendrv.probe_type = PROBE_FORCE_SYNCHRONOUS,
	.gendrv.owner	= THIS_MODULE,
	SMQ_SCSI_DRIVER_OPS(conv_probe, conv_remove),
};

static int __init conv_init(void)
{
	int err = -ENOMEM;

	conv_wq = alloc_workqueue("smq_conv", WQ_UNBOUND, WQ_UNBOUND_MAX_ACTIVE);
	if (!conv_wq)
		return err;
	conv_root = root_device_register("smq_conv");
	if (IS_ERR(conv_root)) {
		err = PTR_ERR(conv_root);
		goto destroy_wq;
	}
	err = conv_attach_init();
	if (err)
		goto unregister;
	err = conv_rules_init();
	if (err)
		goto exit_attach;
	err = smq_scsi_register_driver(&conv_driver);
	if (err)
		goto exit_rules;
	return 0;

exit_rules:
	conv_rules_exit();
exit_attach:
	conv_attach_exit();
unregister:
	root_device_unregister(conv_root);
destroy_wq:
	destroy_workqueue(conv_wq);
	return err;
}
module_init(conv_init);

static void __exit conv_exit(void)
{
	conv_release_all();
	driver_unregister(&conv_driver.gendrv);
	conv_attach_exit();
	conv_rules_exit();
	root_device_unregister(conv_root);
	destroy_workqueue(conv_wq);
	/*
	 * A preempted reader of dh_state may still read our handler's name, which is in this
	 * module.
	 */
	synchronize_rcu_tasks();
}
module_exit(conv_exit);

MODULE_DESCRIPTION("Presents LUNs of any SCSI host on a multiqueue host of smq");
MODULE_VERSION(SMQ_VERSION);
MODULE_AUTHOR("smq developers");
MODULE_LICENSE("GPL");
