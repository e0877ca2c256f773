// SPDX-License-Identifier: GPL-2.0
#include <json-c/json.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "copy.h"

#define TEXT_BYTES	512

static int by_lba(const void *a, const void *b)
{
	const struct copy_difference *x = a, *y = b;

	return (x->lba > y->lba) - (x->lba < y->lba);
}

/* Sorts the differences, and joins adjacent ones of two chunks. */
static void sort_differences(struct copy *c)
{
	struct copy_difference *d = c->differences;
	size_t i, kept = 0;

	if (!c->nr_differences)
		return;
	qsort(d, c->nr_differences, sizeof(*d), by_lba);
	for (i = 1; i < c->nr_differences; i++) {
		if (d[kept].lba + d[kept].blocks == d[i].lba)
			d[kept].blocks += d[i].blocks;
		else
			d[++kept] = d[i];
	}
	c->nr_differences = kept + 1;
}

static __u64 listed_failures(const struct copy *c)
{
	return c->nr_failures < c->opt->max_errors ? c->nr_failures : c->opt->max_errors;
}

static void sum_up(const struct copy *c, unsigned int side, struct hist *h)
{
	unsigned int i;

	memset(h, 0, sizeof(*h));
	for (i = 0; i < c->nr_jobs; i++)
		hist_merge(h, &c->sides[side].workers[i].shares->latency);
}

static void put_range(__u64 lba, __u64 blocks)
{
	if (blocks == 1)
		printf("LBA %llu", lba);
	else
		printf("LBA %llu to %llu", lba, lba + blocks - 1);
}

static void show_text(const struct copy *c, double seconds, int number)
{
	const struct copy_options *o = c->opt;
	double mib = (double)c->done * c->block_size / (1 << 20);
	const struct copy_difference *d;
	const struct copy_failure *f;
	char text[TEXT_BYTES];
	unsigned int i;
	struct hist h;

	printf("%s %s %s: %llu of %llu blocks of %u bytes %s in %.3f s, %.1f MiB/s", o->devs[FIRST],
	       o->compare ? "and" : "to", o->devs[SECOND], c->done, c->blocks, c->block_size,
	       o->compare ? "compared" : "copied", seconds, seconds > 0 ? mib / seconds : 0);
	if (o->compare)
		printf(", %llu differ", c->differ);
	putchar('\n');
	for (i = 0; i < SIDES; i++) {
		sum_up(c, i, &h);
		printf("%s via %s: %llu commands, ", o->devs[i], c->sides[i].run.engine->name,
		       h.count);
		report_latency(stdout, &h, false);
		putchar('\n');
	}
	for (d = c->differences; d < c->differences + c->nr_differences; d++) {
		fputs("  ", stdout);
		put_range(d->lba, d->blocks);
		if (o->skip != o->seek)
			printf(" (on %s from LBA %llu on)", o->devs[SECOND],
			       d->lba - o->skip + o->seek);
		puts(d->blocks == 1 ? " differs" : " differ");
	}
	if (c->short_list)
		puts("  (no memory to list all)");
	for (f = c->failures; f < c->failures + listed_failures(c); f++) {
		outcome_describe(&f->outcome, text, sizeof(text));
		printf("  %s: %s of ", o->devs[f->side], f->what);
		put_range(f->lba, f->blocks);
		printf(": %s\n", text);
	}
	if (number)
		printf("interrupted by SIG%s\n", sigabbrev_np(number));
}

static struct json_object *side_json(const struct copy *c, unsigned int side)
{
	struct json_object *o = json_object_new_object();
	struct hist h;

	sum_up(c, side, &h);
	report_string(o, "device", c->opt->devs[side]);
	report_string(o, "path", c->sides[side].run.engine->name);
	report_number(o, "first", c->sides[side].first);
	report_number(o, "commands", h.count);
	json_object_object_add(o, "lat_ns", report_percentiles(&h));
	return o;
}

static struct json_object *range_json(__u64 lba, __u64 blocks)
{
	struct json_object *o = json_object_new_object();

	report_number(o, "lba", lba);
	report_number(o, "blocks", blocks);
	return o;
}

static void show_json(const struct copy *c, double seconds, int number)
{
	struct json_object *o = json_object_new_object(), *list, *one;
	const struct copy_failure *f;
	char text[TEXT_BYTES];
	size_t i;

	list = json_object_new_array();
	for (i = 0; i < SIDES; i++)
		json_object_array_add(list, side_json(c, i));
	json_object_object_add(o, "devices", list);
	report_number(o, "block_size", c->block_size);
	report_number(o, "blocks", c->blocks);
	report_number(o, "done", c->done);
	report_real(o, "seconds", seconds);
	report_real(o, "bytes_per_second",
		    seconds > 0 ? (double)c->done * c->block_size / seconds : 0);
	if (c->opt->compare) {
		report_number(o, "differ", c->differ);
		list = json_object_new_array();
		for (i = 0; i < c->nr_differences; i++)
			json_object_array_add(list, range_json(c->differences[i].lba,
							       c->differences[i].blocks));
		json_object_object_add(o, "differences", list);
	}
	list = json_object_new_array();
	for (f = c->failures; f < c->failures + listed_failures(c); f++) {
		one = range_json(f->lba, f->blocks);
		report_string(one, "device", c->opt->devs[f->side]);
		report_string(one, "command", f->what);
		outcome_describe(&f->outcome, text, sizeof(text));
		report_string(one, "text", text);
		json_object_array_add(list, one);
	}
	json_object_object_add(o, "errors", list);
	json_object_object_add(o, "interrupted", json_object_new_boolean(number));
	report_print(o);
}

void copy_report(struct copy *c, double seconds, int signal)
{
	/* If the monitor has stopped waiting, commands may still end. */
	pthread_mutex_lock(&c->lock);
	sort_differences(c);
	if (c->opt->json)
		show_json(c, seconds, signal);
	else
		show_text(c, seconds, signal);
	pthread_mutex_unlock(&c->lock);
}
