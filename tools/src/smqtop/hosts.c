// SPDX-License-Identifier: GPL-2.0
/* The views of hosts, LUNs and hardware queues, and of what smq says of its hosts. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "hist.h"
#include "rows.h"

/* Adds all counts of a struct to those of another one: @nr of 64 bits. */
static void add_counts(void *to, const void *from, size_t nr)
{
	const __u64 *more = from;
	__u64 *sum = to;

	while (nr--)
		sum[nr] += more[nr];
}

#define FIELDS(from, to) ((offsetof(struct counters, to) - offsetof(struct counters, from)) / 8)

static void add_counters(struct totals *t, const struct counters *c)
{
	if (!c->sdev)
		return;
	add_counts(&t->bytes, &c->bytes, FIELDS(bytes, device));
	hist_add(t->device, c->device);
}

static void add_host(struct totals *t, const struct of_host *host)
{
	struct timespec now;

	add_counts(&t->wakeups, host, sizeof(*host) / 8);
	if (!t->eh_began)
		return;
	/* What the last time in error handling lasts up to now. */
	clock_gettime(CLOCK_MONOTONIC, &now);
	t->eh_ns += now.tv_sec * 1000000000ULL + now.tv_nsec - t->eh_began;
}

static struct row *row_of_host(struct rows *rows, const struct sys_host *host)
{
	char name[ROW_NAME];
	struct row *row;

	snprintf(name, sizeof(name), "host%u", host->number);
	row = rows_get(rows, name, host->driver);
	row->depth = host->depth;
	row->inflight = host->inflight;
	snprintf(row->text, sizeof(row->text), "%s", host->state);
	return row;
}

static struct row *row_of_queue(struct rows *rows, const struct sys_host *host, unsigned int cpu)
{
	char name[ROW_NAME], label[ROW_NAME] = "-";

	snprintf(name, sizeof(name), "host%u", host->number);
	if (host->queue_of && host->queue_of[cpu] >= 0)
		snprintf(label, sizeof(label), "q%d", host->queue_of[cpu]);
	return rows_get(rows, name, label);
}

static struct row *row_of_lun(struct rows *rows, const struct sys_lun *lun)
{
	struct row *row = rows_get(rows, lun->name, lun->disk);

	row->depth = lun->depth;
	row->inflight = lun->inflight;
	return row;
}

static struct row *row_of(struct rows *rows, const struct sys *sys, const struct sys_lun *lun,
			  unsigned int cpu)
{
	switch (rows->view) {
	case VIEW_HOSTS:
		return row_of_host(rows, &sys->hosts[lun->host]);
	case VIEW_QUEUES:
		return row_of_queue(rows, &sys->hosts[lun->host], cpu);
	default:
		return row_of_lun(rows, lun);
	}
}

/* @only: this LUN; NULL: all. */
static void add_watched(struct rows *rows, const struct sys *sys, const struct watch *w,
			const char *only)
{
	unsigned int entry, cpu;
	char name[SYS_NAME];

	for (entry = 0; entry < MAX_LUNS; entry++) {
		const struct lun *lun = watch_lun(w, entry);
		const struct sys_lun *found;
		struct row *row = NULL;

		if (!lun)
			continue;
		snprintf(name, sizeof(name), "%u:%u:%u:%llu", lun->host, lun->channel, lun->id,
			 lun->lun);
		if (only && strcmp(name, only))
			continue;
		found = sys_find(sys, name);
		for (cpu = 0; found && cpu < watch_cpus(w); cpu++) {
			if (!cpu || rows->view == VIEW_QUEUES)
				row = row_of(rows, sys, found, cpu);
			add_counters(&row->total, watch_counters(w, cpu, entry));
		}
	}
}

static void add_queues(struct rows *rows, const struct sys_host *host, unsigned int nr_cpus)
{
	unsigned int cpu;

	for (cpu = 0; host->queue_of && cpu < nr_cpus; cpu++)
		if (host->queue_of[cpu] >= 0)
			row_of_queue(rows, host, cpu);
}

/* A row for all that there is, with or without commands. */
static void add_all(struct rows *rows, const struct sys *sys, unsigned int nr_cpus)
{
	unsigned int i;

	for (i = 0; rows->view == VIEW_HOSTS && i < sys->nr_hosts; i++)
		row_of_host(rows, &sys->hosts[i]);
	for (i = 0; rows->view == VIEW_LUNS && i < sys->nr_luns; i++)
		row_of_lun(rows, &sys->luns[i]);
	for (i = 0; rows->view == VIEW_QUEUES && i < sys->nr_hosts; i++)
		add_queues(rows, &sys->hosts[i], nr_cpus);
}

/* What the mid-layer and the block layer count themselves. */
static void add_sysfs(struct rows *rows, const struct sys *sys)
{
	unsigned int i;

	for (i = 0; i < sys->nr_luns; i++) {
		const struct sys_lun *lun = &sys->luns[i];
		struct totals *t = &row_of(rows, sys, lun, 0)->total;

		t->done += lun->done;
		t->bytes += lun->bytes;
		t->failed += lun->errors;
		t->timeouts += lun->timeouts;
	}
}

void rows_of_hosts(struct rows *rows, const struct sys *sys, const struct watch *w)
{
	unsigned int i;

	add_all(rows, sys, w ? watch_cpus(w) : 0);
	if (w)
		add_watched(rows, sys, w, NULL);
	else if (rows->view != VIEW_QUEUES)
		add_sysfs(rows, sys);
	for (i = 0; w && i < rows->nr; i++)
		totals_count(&rows->row[i].total);
	for (i = 0; w && rows->view == VIEW_HOSTS && i < sys->nr_hosts; i++)
		add_host(&row_of_host(rows, &sys->hosts[i])->total,
			 watch_host(w, sys->hosts[i].number));
}

void rows_of_lun(struct rows *rows, const struct sys *sys, const struct watch *w, const char *lun)
{
	const struct sys_lun *found = sys_find(sys, lun);
	unsigned int i;

	*rows = (struct rows){ .view = VIEW_QUEUES };
	if (!found || !w)
		return;
	add_queues(rows, &sys->hosts[found->host], watch_cpus(w));
	add_watched(rows, sys, w, lun);
	for (i = 0; i < rows->nr; i++)
		totals_count(&rows->row[i].total);
}

/* What smq says of its hosts: a row each. */
void rows_of_smq(struct rows *rows, const struct sys *sys)
{
	const struct sys_host *host;
	char name[ROW_NAME];
	unsigned int i;

	for (host = sys->hosts; host < sys->hosts + sys->nr_hosts; host++) {
		snprintf(name, sizeof(name), "host%u", host->number);
		for (i = 0; i < host->nr_pairs; i++) {
			struct row *row = rows_get(rows, name, host->pairs[i].name);

			snprintf(row->text, sizeof(row->text), "%s", host->pairs[i].value);
		}
	}
}
