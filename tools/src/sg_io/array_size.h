/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SG_IO_ARRAY_SIZE_H
#define SG_IO_ARRAY_SIZE_H

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

#endif
