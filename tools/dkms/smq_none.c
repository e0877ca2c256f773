// SPDX-License-Identifier: GPL-2.0
/*
 * smq_none: the module that dkms builds for a kernel for which smq has no modules. It does nothing.
 * If there were no module, dkms 3.0.10 would fail, and so would the installation of that kernel's
 * package.
 */
#include <linux/module.h>

MODULE_DESCRIPTION("Empty: smq is not built for kernels without SCSI, before 6.1, or 6.5 to 6.8");
MODULE_LICENSE("GPL");
