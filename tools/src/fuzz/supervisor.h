/* SPDX-License-Identifier: GPL-2.0 */
/* The supervisor is the process that starts tasks, sends them signals, and checks that all end. */
#ifndef FUZZ_SUPERVISOR_H
#define FUZZ_SUPERVISOR_H

#include "task.h"

/*
 * Starts tasks for options->seconds, then waits until all processes have ended. Reports a failure
 * if one does not end in time.
 */
void supervise(const struct options *options);

/* Reports a failure if memory of the user NOBODY is still locked after all tasks have ended. */
void check_locked_memory(const struct options *options);

#endif /* FUZZ_SUPERVISOR_H */
