/* SPDX-License-Identifier: GPL-2.0 */
/*
 * All workers of a run: threads, or processes for the lanes of a replay.
 *
 * Lanes are processes, because threads share objects that system calls lock (the table of files,
 * the memory map): a lane could wait for another one when its command is due. Under User Mode Linux
 * there is one more reason: only one thread of a process at a time runs in user space.
 */
#ifndef SG_IO_WORKERS_H
#define SG_IO_WORKERS_H

#include "worker.h"

/* The memory of workers that are not started. Return: for workers_end(); NULL after one message. */
struct worker *workers_new(const struct run *run, unsigned int nr);

/**
 * workers_start() - create all workers of a run, and start them together
 * @run: prepared; if it is a replay, the run and its lanes are in shared memory
 * @nr: how many workers; one for each lane if it is a replay
 *
 * Return: the workers, for workers_end(). NULL after one message: no command was issued.
 */
struct worker *workers_start(struct run *run, unsigned int nr);

/* Opens the nodes and the engine of a worker. Return: -1 after one message. */
int worker_open(struct worker *w);

/*
 * Returns true if the process of @w has ended before its work was done, for example because it was
 * killed. In this case the function also ends the run and, if a signal killed the process, prints a
 * message. Later calls return false: @w counts as finished.
 */
bool worker_lost(struct worker *w);

/* Waits until all workers have ended. Call it only when every worker has finished or is lost. */
void workers_join(const struct run *run, struct worker *workers, unsigned int nr);
/* Frees the workers; @workers may be NULL. */
void workers_end(const struct run *run, struct worker *workers, unsigned int nr);

#endif
