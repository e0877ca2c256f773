/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How many commands are in flight over time, and how many --mode load allows.
 *
 * Only time with a command in flight counts, because --mode load leaves out all other time. It
 * counts in groups of commands, which all have the same weight: on another device a group may take
 * another share of the whole time. The last group ends when a command ends after the last was
 * issued.
 */
#ifndef SG_IO_LEVEL_H
#define SG_IO_LEVEL_H

#include "flight.h"

#define LEVEL_GROUP	64	/* commands of a group; the last group has up to twice as many */

/* Zeroed at first; the owner frees @flight.ends. */
struct level {
	struct flight flight;
	__u64 at;	/* ns: what follows is known up to here */
	double area;	/* commands in flight times ns */
	double busy;	/* ns with a command in flight */
};

/* Goes on to @ns, and removes what has ended until then. */
void level_until(struct level *l, __u64 ns);

/* The means of groups, made by level_means_add() and level_means_end(). */
struct level_means {
	struct level level;
	float *means;
	size_t nr;		/* of all commands */
	size_t next;
	double area;		/* of @level, when the last group began */
	double busy;
	unsigned int most;	/* commands in flight */
};

/* Return: false if there is no memory; level_means_end() is called nevertheless. */
bool level_means_begin(struct level_means *m, size_t nr);
/* Adds the next command, in the order of @issued. Return: false if there is no memory. */
bool level_means_add(struct level_means *m, __u64 issued, __u64 end);
/* All commands were added. Frees all but @m->means, which the caller frees. */
void level_means_end(struct level_means *m);

/* How many groups @nr commands are, and which one has a command. */
size_t level_groups(size_t nr);
size_t level_group(size_t nr, size_t cmd);

/*
 * The most that may be in flight, if the recording has at most @most: a quarter more and one, which
 * makes up for commands that ended before others could be issued.
 */
static inline unsigned int level_most(unsigned int most)
{
	return most + most / 4 + 1;
}

/* The whole number nearest to @wanted that is allowed. */
unsigned int level_limit(double wanted, unsigned int most);

#endif
