/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A replay by timed batches of smq_sg: the kernel sends each command when it is due and what it
 * waits for has ended.
 */
#ifndef SG_IO_TIMED_H
#define SG_IO_TIMED_H

#include "issue/workers/engine.h"

extern const struct engine engine_timed;

/* The memory for data that a replay of @file needs, in bytes. */
__u64 timed_bytes(const struct cmdfile *file);
/* The work function of the worker, for all lanes. */
void timed_work(struct worker *w);

#endif
