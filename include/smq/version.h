/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _SMQ_VERSION_H
#define _SMQ_VERSION_H

/* The release, as in dkms.conf. */
#define SMQ_VERSION	"0.1.0"

#endif
