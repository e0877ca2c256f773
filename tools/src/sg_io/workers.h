/* SPDX-License-Identifier: GPL-2.0 */
/*
 * All workers of a run: threads, or processes for the lanes of a replay.
 *
 * Lanes share nothing that a system call would count or lock (the table of files, the memory
 * map), so that none waits for what another does when its command is due. User Mode Linux
 * goes further: of the threads of a process it lets one at a time be in user space.
 */
#ifndef SG_IO_WORKERS_H
#define SG_IO_WORKERS_H

#include "worker.h"

/**
 * workers_start() - make all workers of a run, and start them at once
 * @run: prepared; of a replay in shared memory, as its lanes are
 * @nr: how many workers; of a replay one for each lane
 *
 * Return: the workers, for workers_end(); NULL after one message, and no command was issued.
 */
struct worker *workers_start(struct run *run, unsigned int nr);

/*
 * Is @w no more, without having finished? Says so, and ends the run, when it is seen first:
 * a process may be killed.
 */
bool worker_lost(struct worker *w);

/* Wait until all have ended; only when each has finished or is lost. */
void workers_join(const struct run *run, struct worker *workers, unsigned int nr);
void workers_end(const struct run *run, struct worker *workers, unsigned int nr);

#endif
