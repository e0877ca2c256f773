/* SPDX-License-Identifier: GPL-2.0 */
/* The steps of a task. @r is the source of a step's random choices. */
#ifndef FUZZ_STEPS_H
#define FUZZ_STEPS_H

#include "task.h"
#include "random.h"

void step_info(struct task *task, struct rnd *r);		/* file.c */
void step_setup(struct task *task, struct rnd *r);
void step_map(struct task *task, struct rnd *r);
void step_lend(struct task *task, struct rnd *r);
void step_take_back(struct task *task, struct rnd *r);
void step_unmap(struct task *task, struct rnd *r);
void step_excl(struct task *task, struct rnd *r);
void step_prepare(struct task *task, struct rnd *r);		/* slot.c */
void step_run(struct task *task, struct rnd *r);		/* run.c */
void step_batch(struct task *task, struct rnd *r);
void step_run_ioctl(struct task *task, struct rnd *r);
void step_cancel(struct task *task, struct rnd *r);
void step_adhoc(struct task *task, struct rnd *r);		/* adhoc.c */
void step_sg_io3(struct task *task, struct rnd *r);		/* sgio.c */
void step_sg_io4(struct task *task, struct rnd *r);
void step_write(struct task *task, struct rnd *r);
void step_read(struct task *task, struct rnd *r);
void step_poll(struct task *task, struct rnd *r);
void step_query(struct task *task, struct rnd *r);
void step_reap(struct task *task, struct rnd *r);		/* ring.c */
void step_ring(struct task *task, struct rnd *r);
void step_own(struct task *task, struct rnd *r);		/* own.c */
void step_pass(struct task *task, struct rnd *r);		/* lifetime.c */
void step_race(struct task *task, struct rnd *r);
void step_fork(struct task *task, struct rnd *r);
void step_exit(struct task *task, struct rnd *r);

#endif /* FUZZ_STEPS_H */
