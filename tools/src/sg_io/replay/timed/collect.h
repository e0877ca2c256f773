/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SG_IO_COLLECT_H
#define SG_IO_COLLECT_H

#include "chunk.h"

/* Takes the results that are there. @t->lock is not held. */
void timed_collect(struct timed *t);

#endif
