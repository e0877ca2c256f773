/* SPDX-License-Identifier: GPL-2.0 */
/* Runs a task, in its own process. */
#ifndef FUZZ_TASK_RUN_H
#define FUZZ_TASK_RUN_H

#include "task.h"

/* @worker, @number: the task is the one with this number of this worker. Ends the process. */
void task_run(const struct options *options, unsigned int worker, unsigned long number,
	      uint64_t seed) __attribute__((noreturn));

#endif /* FUZZ_LIVE_H */
