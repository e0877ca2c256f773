/* SPDX-License-Identifier: GPL-2.0 */
/* Blocks that only one life (a process, see life.h) writes: it must read there what it wrote. */
#ifndef FUZZ_OWN_H
#define FUZZ_OWN_H

#include "life.h"
#include "random.h"

/* Chooses the blocks. Only after some hundred lives does a worker use the same blocks again. */
void own_choose(struct own *own, unsigned int worker, unsigned long life, unsigned int workers);

/* Opens a file and sets it up; own.fd is -1 if that fails. */
void own_open(struct life *life, struct rnd *r);

#endif /* FUZZ_OWN_H */
