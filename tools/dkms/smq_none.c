// SPDX-License-Identifier: GPL-2.0
/*
 * smq_none: the module that dkms builds for a kernel that none of smq's modules is for. It does
 * nothing. Without a module dkms 3.0.10 fails, and the package of that kernel with it.
 */
#include <linux/module.h>

MODULE_DESCRIPTION("Empty: this kernel has no SCSI, or is older than 6.1, so smq is not built for it");
MODULE_LICENSE("GPL");
