// SPDX-License-Identifier: GPL-2.0
/* smq_lio: module parameters, and the registration with LIO. */
#define pr_fmt(fmt) "smq_lio: " fmt

#include <linux/cpumask.h>
#include <linux/device.h>
#include <linux/minmax.h>
#include <linux/module.h>
#include <smq/version.h>

#include "lio.h"

/* The most commands that a dispatch policy may hold for each hardware queue. */
#define LIO_MAX_EXTRA	256U

static unsigned int hw_queues;
module_param(hw_queues, uint, 0444);
MODULE_PARM_DESC(hw_queues, "hardware queues per host, 0: one per CPU (default 0)");

static unsigned int depth = 128;
module_param(depth, uint, 0444);
MODULE_PARM_DESC(depth, "commands per hardware queue, and also per LUN, 1..4096 (default 128)");

static int __init lio_init(void)
{
	int err;

	if (depth < 1 || depth > SMQ_MAX_DEPTH) {
		pr_err("depth=%u is outside 1..%u\n", depth, SMQ_MAX_DEPTH);
		return -EINVAL;
	}
	lio_config.hw_queues = hw_queues ?: num_possible_cpus();
	lio_config.depth = depth;
	lio_config.extra = min(depth, LIO_MAX_EXTRA);

	lio_root = root_device_register("smq_lio");
	if (IS_ERR(lio_root))
		return PTR_ERR(lio_root);
	err = target_register_template(&lio_ops);
	if (err)
		root_device_unregister(lio_root);
	return err;
}
module_init(lio_init);

static void __exit lio_exit(void)
{
	/* The directory of each host references the module, so no host is left. */
	target_unregister_template(&lio_ops);
	root_device_unregister(lio_root);
}
module_exit(lio_exit);

MODULE_DESCRIPTION("LIO backstores as local disks with SCSI multiqueue");
MODULE_VERSION(SMQ_VERSION);
MODULE_AUTHOR("smq developers");
MODULE_LICENSE("GPL");
