/* SPDX-License-Identifier: GPL-2.0 */
/* The programs in the kernel, and what they have counted. */
#ifndef SMQTOP_WATCH_H
#define SMQTOP_WATCH_H

#include <stdbool.h>
#include <stddef.h>

#include "counters.h"

struct watch;

#define SAMPLE_EVERY	32	/* of so many commands one is timed, where there are many */
#define SLOW_MS		100	/* which commands are slow, if nothing else is said */

/**
 * watch_open() - load the programs, and begin to count
 * @why: receives the reason if that is not possible
 * @size: of @why
 * @counts: take no times, which costs less
 *
 * They go when the process ends, however it ends.
 *
 * Return: NULL on failure.
 */
struct watch *watch_open(char *why, size_t size, bool counts);
void watch_close(struct watch *w);

unsigned int watch_cpus(const struct watch *w);
/* The entry of a LUN, NULL if it is free; @entry is below MAX_LUNS. */
const struct lun *watch_lun(const struct watch *w, unsigned int entry);
const struct counters *watch_counters(const struct watch *w, unsigned int cpu, unsigned int entry);
const struct opcode *watch_opcode(const struct watch *w, unsigned int cpu, unsigned int opcode);
const struct of_host *watch_host(const struct watch *w, unsigned int host);
const struct lost *watch_lost(const struct watch *w);
/* Times one in @every commands: 1, or a power of two. The others are only counted. */
void watch_sample(struct watch *w, unsigned int every);
/* What takes longer than @ns is one of the events. */
void watch_slow(struct watch *w, __u64 ns);
/* The last commands that were slow, failed or timed out, newest first; returns how many. */
unsigned int watch_events(const struct watch *w, struct event *events);
/* Frees the entry of a LUN that the machine no longer has. */
void watch_forget(struct watch *w, unsigned int entry);

/**
 * watch_failure() - the next kind of failure
 * @w: the programs
 * @key: the one before; all bytes 0 for the first
 * @next: receives it; may be @key
 * @count: receives how many there were
 *
 * Return: false if there is no other one.
 */
bool watch_failure(const struct watch *w, const struct failure *key, struct failure *next,
		   __u64 *count);

/* How many events the kernel left out, because they interrupted a program of their own kind. */
__u64 watch_missed(const struct watch *w);

#endif
