// SPDX-License-Identifier: GPL-2.0
#include "collect.h"

#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define SAMPLE_ABOVE	40000	/* commands per second */

static __u64 clock_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

/*
 * Frees the entries of LUNs that are gone. A LUN that has just come may have had its first command
 * after sysfs was read: it is gone if the next look does not find it, either.
 */
static void forget_gone(struct collector *c)
{
	char name[SYS_NAME];
	unsigned int i;

	for (i = 0; c->watch && i < MAX_LUNS; i++) {
		const struct lun *lun = watch_lun(c->watch, i);

		if (!lun)
			continue;
		snprintf(name, sizeof(name), "%u:%u:%u:%llu", lun->host, lun->channel, lun->id,
			 lun->lun);
		if (sys_find(&c->sys, name)) {
			c->gone[i] = 0;
		} else if (c->gone[i]++) {
			watch_forget(c->watch, i);
			c->gone[i] = 0;
		}
	}
}

static void read_all(struct collector *c)
{
	unsigned int view;
	__u64 now;

	sys_refresh(&c->sys);
	forget_gone(c);
	now = clock_ns();
	c->seconds = (now - c->ns) / 1e9;
	c->ns = now;
	for (view = 0; view < VIEWS; view++)
		rows_read(&c->now[view], view, &c->sys, c->watch);
	c->nr_commands = commands_read(c->commands, &c->sys, c->watch);
}

/* Few commands are all timed, because that costs little and a LUN with few of them needs each. */
static void choose_sample(struct collector *c)
{
	const struct rows *hosts = &c->now[VIEW_HOSTS];
	double done = 0, most = c->every > 1 ? SAMPLE_ABOVE / 2 : SAMPLE_ABOVE;
	unsigned int i;

	for (i = 0; i < hosts->nr; i++)
		done += hosts->row[i].diff.done;
	c->every = c->sample ?: done > most * c->seconds ? SAMPLE_EVERY : 1;
	if (c->watch)
		watch_sample(c->watch, c->every);
}

void collect_begin(struct collector *c, struct watch *w, unsigned int sample)
{
	*c = (struct collector){ .watch = w, .sample = sample };
	/* The rows are read again and again: their memory stays with the process. */
	mallopt(M_MMAP_THRESHOLD, 64 << 20);
	mallopt(M_TRIM_THRESHOLD, 256 << 20);
	sys_open(&c->sys, w ? watch_cpus(w) : 0, w);
	read_all(c);
	choose_sample(c);
}

static void read_queues(struct collector *c)
{
	struct lun_queues *q = &c->queues;
	struct rows before = q->rows;

	rows_of_lun(&q->rows, &c->sys, c->watch, q->lun);
	rows_compare(&q->rows, &before);
	rows_free(&before);
	/* The user may have gone to the LUN in the middle of the interval. */
	q->seconds = (c->ns - q->begun) / 1e9 < c->seconds ? (c->ns - q->begun) / 1e9 : c->seconds;
}

void collect_queues(struct collector *c, const char *lun)
{
	struct lun_queues *q = &c->queues;

	if (!strcmp(q->lun, lun))
		return;
	rows_free(&q->rows);
	*q = (struct lun_queues){ .begun = clock_ns() };
	snprintf(q->lun, sizeof(q->lun), "%s", lun);
	rows_of_lun(&q->rows, &c->sys, c->watch, lun);
}

void collect(struct collector *c)
{
	struct rows before[VIEWS];
	unsigned int view;

	for (view = 0; view < VIEWS; view++)
		before[view] = c->now[view];
	read_all(c);
	for (view = 0; view < VIEWS; view++) {
		rows_compare(&c->now[view], &before[view]);
		rows_free(&before[view]);
	}
	read_queues(c);
	choose_sample(c);
}

void collect_end(struct collector *c)
{
	unsigned int view;

	for (view = 0; view < VIEWS; view++)
		rows_free(&c->now[view]);
	rows_free(&c->queues.rows);
	sys_close(&c->sys);
	if (c->watch)
		watch_close(c->watch);
}
