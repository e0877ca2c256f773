/* SPDX-License-Identifier: GPL-2.0 */
#ifndef FUZZ_FILE_H
#define FUZZ_FILE_H

#include "random.h"

/* Opens a random node. Return: the descriptor, or -1. */
int open_node(struct rnd *r, int flags);

#endif /* FUZZ_FILE_H */
