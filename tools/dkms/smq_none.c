// SPDX-License-Identifier: GPL-2.0
/*
 * smq_none: the module that dkms builds for a kernel for which smq has no modules. It does nothing.
 * If there were no module, dkms 3.0.10 would fail, and so would the installation of that kernel's
 * package. For the same reason it stands in for each module that did not compile, and refuses to
 * load.
 */
#include <linux/module.h>

#ifdef SMQ_REFUSES
static int __init refuse_init(void)
{
	pr_err(KBUILD_MODNAME " did not compile for this kernel, see dkms' make.log\n");
	return -EOPNOTSUPP;
}
module_init(refuse_init);

MODULE_DESCRIPTION("Refuses to load: smq did not compile for this kernel");
#else
MODULE_DESCRIPTION("Empty: no smq for kernels without SCSI, before 6.1, from 7.4 on");
#endif
MODULE_AUTHOR("smq developers");
MODULE_LICENSE("GPL");
