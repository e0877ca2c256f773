/* SPDX-License-Identifier: GPL-2.0 */
/* Finds the mid-layer's tracepoints and functions to which programs are attached. */
#ifndef SMQTOP_TARGET_H
#define SMQTOP_TARGET_H

#include <stdbool.h>

/*
 * Programs in the sections "scsi_tp/" and "scsi_fn/", which are those of tracepoints and functions
 * of the mid-layer, can be opened and loaded from now on. libbpf 1.1 itself would look for each
 * target through all types of the kernel, and again for each module.
 *
 * Return: false if the kernel has no types of the mid-layer.
 */
bool target_begin(void);
/* Frees the types, after programs have been loaded. */
void target_end(void);

#endif
