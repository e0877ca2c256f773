/* SPDX-License-Identifier: GPL-2.0 */
/* The process that begins lives, sends them signals, and sees that all of them end. */
#ifndef FUZZ_CREW_H
#define FUZZ_CREW_H

#include "life.h"

/* Runs for options->seconds; returns when no process is left, or when one does not go. */
void crew_run(const struct options *options);

/* Memory that lives of NOBODY had locked is theirs to lock again; a fault if not. */
void crew_look_at_locked(const struct options *options);

#endif /* FUZZ_CREW_H */
