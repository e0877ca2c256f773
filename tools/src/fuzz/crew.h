/* SPDX-License-Identifier: GPL-2.0 */
/* The process that starts lives, sends them signals, and checks that all of them end. */
#ifndef FUZZ_CREW_H
#define FUZZ_CREW_H

#include "life.h"

/* Runs for options->seconds; returns when no process is left, or when one does not end. */
void crew_run(const struct options *options);

/* Checks that no memory of the user NOBODY is locked any more; reports a fault otherwise. */
void crew_look_at_locked(const struct options *options);

#endif /* FUZZ_CREW_H */
