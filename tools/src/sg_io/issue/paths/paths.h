/* SPDX-License-Identifier: GPL-2.0 */
/* The paths to a device. */
#ifndef SG_IO_PATHS_H
#define SG_IO_PATHS_H

#include "issue/workers/engine.h"

extern const struct engine engine_sg_ioctl;
extern const struct engine engine_sd_ioctl;
extern const struct engine engine_sg_queue;
extern const struct engine engine_bsg;
extern const struct engine engine_bsg_uring;
extern const struct engine engine_smq_uring;
extern const struct engine engine_smq;
extern const struct engine engine_block;

struct smq_device;

/* Says why smq_prepare() refused a command with @error, and with @field. */
void smq_explain(const struct run *run, const struct smq_device *dev, const struct target *target,
		 const struct command *cmd, __u32 field, int error);

#endif
