/* SPDX-License-Identifier: GPL-2.0 */
/* The commands in flight at a time, as a heap: the first is the one that ends next. */
#ifndef SG_IO_FLIGHT_H
#define SG_IO_FLIGHT_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

struct flight_end {
	__u64 ns;
	__u32 cmd;
};

/* Zeroed at first; the owner frees @ends. */
struct flight {
	struct flight_end *ends;
	size_t nr;
	size_t room;
};

/* Return: false if there is no memory. */
bool flight_add(struct flight *f, struct flight_end end);
/* Removes the command that ends next. */
void flight_remove(struct flight *f);

#endif
