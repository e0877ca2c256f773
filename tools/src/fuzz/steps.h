/* SPDX-License-Identifier: GPL-2.0 */
/* The steps of a life, each by its random choices. A file's subject is in its name. */
#ifndef FUZZ_STEPS_H
#define FUZZ_STEPS_H

#include "life.h"
#include "random.h"

void step_info(struct life *life, struct rnd *r);		/* file.c */
void step_setup(struct life *life, struct rnd *r);
void step_map(struct life *life, struct rnd *r);
void step_lend(struct life *life, struct rnd *r);
void step_take_back(struct life *life, struct rnd *r);
void step_unmap(struct life *life, struct rnd *r);
void step_excl(struct life *life, struct rnd *r);
void step_prepare(struct life *life, struct rnd *r);		/* slot.c */
void step_run(struct life *life, struct rnd *r);		/* run.c */
void step_batch(struct life *life, struct rnd *r);
void step_run_ioctl(struct life *life, struct rnd *r);
void step_cancel(struct life *life, struct rnd *r);
void step_adhoc(struct life *life, struct rnd *r);		/* adhoc.c */
void step_sg_io3(struct life *life, struct rnd *r);		/* sgio.c */
void step_sg_io4(struct life *life, struct rnd *r);
void step_write(struct life *life, struct rnd *r);
void step_read(struct life *life, struct rnd *r);
void step_poll(struct life *life, struct rnd *r);
void step_query(struct life *life, struct rnd *r);
void step_reap(struct life *life, struct rnd *r);		/* ring.c */
void step_ring(struct life *life, struct rnd *r);
void step_own(struct life *life, struct rnd *r);		/* own.c */
void step_pass(struct life *life, struct rnd *r);		/* fate.c */
void step_race(struct life *life, struct rnd *r);
void step_fork(struct life *life, struct rnd *r);
void step_fate(struct life *life, struct rnd *r);

#endif /* FUZZ_STEPS_H */
