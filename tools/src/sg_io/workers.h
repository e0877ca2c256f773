/* SPDX-License-Identifier: GPL-2.0 */
/*
 * All workers of a run: threads, or processes for the lanes of a replay.
 *
 * Lanes share nothing that a system call would count or lock (the table of files, the memory map),
 * so that no lane waits for another when its command is due. Processes are even more necessary
 * under User Mode Linux, where only one thread of a process at a time runs in user space.
 */
#ifndef SG_IO_WORKERS_H
#define SG_IO_WORKERS_H

#include "worker.h"

/**
 * workers_start() - creates all workers of a run, and starts them together
 * @run: prepared; of a replay in shared memory, as its lanes are
 * @nr: how many workers; of a replay one for each lane
 *
 * Return: the workers, for workers_end(); NULL after one message, and no command was issued.
 */
struct worker *workers_start(struct run *run, unsigned int nr);

/*
 * Whether @w's process has ended before its work was done, for example because it was killed. The
 * first call that finds this prints a message and ends the run.
 */
bool worker_lost(struct worker *w);

/* Waits until all have ended. Call it only when each has finished or is lost. */
void workers_join(const struct run *run, struct worker *workers, unsigned int nr);
void workers_end(const struct run *run, struct worker *workers, unsigned int nr);

#endif
