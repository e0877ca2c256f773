/* SPDX-License-Identifier: GPL-2.0 */
/* Counters since smqtop began, for node_exporter's textfile collector. */
#ifndef SMQTOP_METRICS_H
#define SMQTOP_METRICS_H

#include "frame.h"

/* Replaces a file, which a reader finds whole at any time; false if it cannot be written. */
bool metrics_write(const struct frame *frame, const char *path);

#endif
