/* SPDX-License-Identifier: GPL-2.0 */
#ifndef FUZZ_TASK_RUN_H
#define FUZZ_TASK_RUN_H

#include "task.h"

/* Runs task @number of @worker, in this process. Ends the process. */
void task_run(const struct options *options, unsigned int worker, unsigned long number,
	      uint64_t seed) __attribute__((noreturn));

#endif /* FUZZ_TASK_RUN_H */
