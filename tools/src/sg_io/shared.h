/* SPDX-License-Identifier: GPL-2.0 */
/* Memory that this process shares with processes that it starts later. */
#ifndef SG_IO_SHARED_H
#define SG_IO_SHARED_H

#include <stddef.h>

/* Allocates zeroed memory; returns NULL without memory. */
void *shared_alloc(size_t bytes);
void shared_free(void *mem, size_t bytes);

#endif
