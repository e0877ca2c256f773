// SPDX-License-Identifier: GPL-2.0
/*
 * smq_none: the module that dkms builds for a kernel for which smq has no modules. It does nothing.
 * If there were no module, dkms 3.0.10 would fail, and so would the installation of that kernel's
 * package.
 */
#include <linux/module.h>

MODULE_DESCRIPTION("Empty: no smq for kernels without SCSI, before 6.1, from 7.4 on");
MODULE_AUTHOR("smq developers");
MODULE_LICENSE("GPL");
