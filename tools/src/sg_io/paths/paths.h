/* SPDX-License-Identifier: GPL-2.0 */
/* The paths to a device, and what they have in common. */
#ifndef SG_IO_PATHS_H
#define SG_IO_PATHS_H

#include "workers/engine.h"

extern const struct engine engine_sg_ioctl;
extern const struct engine engine_sd_ioctl;
extern const struct engine engine_sg_queue;
extern const struct engine engine_bsg;
extern const struct engine engine_bsg_uring;
extern const struct engine engine_smq_uring;
extern const struct engine engine_smq;
extern const struct engine engine_block;

/* @check of the passthrough paths: the transfer must not exceed the queue's max_hw_sectors_kb. */
bool passthrough_check(const struct target *target, const struct command *cmd,
		       char *why, size_t size);

struct smq_device;

/* Says why smq_prepare() refused a command with @error, and with @field. */
void smq_explain(const struct run *run, const struct smq_device *dev, const struct target *target,
		 const struct command *cmd, __u32 field, int error);

/*
 * Opens a node for a worker, for reading and writing. If the node is a disk and no command writes,
 * opens it only for reading. Prints the reason if it fails.
 */
int engine_open_node(const struct worker *w, const struct target *target,
		     enum node_kind kind, int flags);

#endif
