// SPDX-License-Identifier: GPL-2.0
/*
 * smq_sg: prepared SCSI commands for any scsi_device, within its queue depth.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>
#include <smq/version.h>

#include "io.h"
#include "module.h"
#include "sg.h"

static int __init smqsg_init(void)
{
	int ret;

	smqsg_check_kernel();
	ret = smqsg_io_start();
	if (ret)
		return ret;
	ret = smqsg_work_start();
	if (ret)
		goto out_io;
	ret = smqsg_class_register();
	if (ret)
		goto out_work;
	return 0;

out_work:
	smqsg_work_stop();
out_io:
	smqsg_io_stop();
	return ret;
}
module_init(smqsg_init);

static void __exit smqsg_exit(void)
{
	smqsg_class_unregister();
	smqsg_work_stop();
	smqsg_io_stop();
}
module_exit(smqsg_exit);

MODULE_DESCRIPTION("SCSI passthrough fast path");
MODULE_VERSION(SMQ_VERSION);
MODULE_AUTHOR("smq developers");
MODULE_LICENSE("GPL");
