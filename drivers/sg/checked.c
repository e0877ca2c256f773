// SPDX-License-Identifier: GPL-2.0
/*
 * A kernel whose block layer was not checked for smq_sg's own queue and for commands without a bio:
 * what it says.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>

#include "checked.h"

/* Does not change after smqsg_check_kernel(). */
bool smqsg_checked_kernel = true;
module_param_named(checked_kernel, smqsg_checked_kernel, bool, 0444);
MODULE_PARM_DESC(checked_kernel,
		 "0: run as on a kernel whose block layer was not checked; such a kernel shows N");

/* Called when the module is loaded, before there are nodes. */
void __init smqsg_check_kernel(void)
{
	if (!SMQ_CAN_OWN || !SMQ_CAN_PREPARE)
		smqsg_checked_kernel = false;
	if (!smqsg_checked_kernel)
		pr_info("the block layer of this kernel was not checked: commands go through the device's queue, a prepared one takes about twice the instructions (docs/fast-path.md, Kernels)\n");
}
