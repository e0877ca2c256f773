/* SPDX-License-Identifier: GPL-2.0 */
/* A task's own blocks: no other task writes them, so the task must read back what it wrote. */
#ifndef FUZZ_OWN_H
#define FUZZ_OWN_H

#include "task.h"
#include "random.h"

/* Chooses the blocks. A worker uses the same blocks again only after several hundred tasks. */
void own_choose(struct own *own, unsigned int worker, unsigned long task, unsigned int workers);

/* Opens a file and sets it up. If that fails, own.fd is -1. */
void own_open(struct task *task, struct rnd *r);

#endif /* FUZZ_OWN_H */
