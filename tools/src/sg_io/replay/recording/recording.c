// SPDX-License-Identifier: GPL-2.0
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "recording.h"
#include "util.h"

#define UNMAP		0x42
/* Longer chains of commands in flight are cut: they have commands whose end event was lost. */
#define LONGEST_CHAIN	256

bool recording_take(const struct trace_event *event, void *recording)
{
	struct recording *r = recording;

	if (!array_make_room(&r->events, sizeof(*r->events), r->nr_events, &r->events_room)) {
		r->no_memory = true;
		return false;
	}
	r->events[r->nr_events++] = *event;
	return true;
}

static int by_time(const void *a, const void *b)
{
	const struct trace_event *x = a, *y = b;

	if (x->ns != y->ns)
		return x->ns < y->ns ? -1 : 1;
	return (x->order > y->order) - (x->order < y->order);
}

static bool add_start(struct recording *r, const struct trace_event *e)
{
	__u32 *chain = &r->in_flight[(__u32)e->tag % TAG_CHAINS];
	struct recorded *c;

	if (r->nr - r->refused == r->limit || r->nr == UINT_MAX - 1) {
		r->full = true;
		return false;
	}
	if (!array_make_room(&r->cmds, sizeof(*c), r->nr, &r->room)) {
		r->no_memory = true;
		return false;
	}
	c = &r->cmds[r->nr++];
	*c = (struct recorded){
		.ns = e->ns, .tag = e->tag, .before = *chain, .cpu = e->cpu,
		.cdb_len = e->cdb_len, .dev = e->dev, .has_data = e->has_data,
		.protected = e->protected,
	};
	memcpy(c->cdb, e->cdb, e->cdb_len);
	*chain = r->nr;
	if (++r->nr_in_flight > r->most_in_flight)
		r->most_in_flight = r->nr_in_flight;
	return true;
}

/*
 * Removes the latest command in flight that matches an event. Compares CDBs as well as tags,
 * because several hardware queues use the same tags.
 */
static struct recorded *take_match(struct recording *r, const struct trace_event *e)
{
	__u32 *link = &r->in_flight[(__u32)e->tag % TAG_CHAINS];
	unsigned int i;
	struct recorded *c;

	for (i = 0; *link && i < LONGEST_CHAIN; i++, link = &c->before) {
		c = &r->cmds[*link - 1];
		if (c->tag != e->tag || c->dev != e->dev || c->cdb_len != e->cdb_len ||
		    memcmp(c->cdb, e->cdb, e->cdb_len))
			continue;
		*link = c->before;
		r->nr_in_flight--;
		return c;
	}
	if (i == LONGEST_CHAIN)
		*link = 0;
	return NULL;
}

static bool add_event(struct recording *r, const struct trace_event *e)
{
	struct recorded *c;

	if (e->kind == TRACE_START)
		return add_start(r, e);
	c = take_match(r, e);
	/* If there is no match, the command was sent before the recording began. */
	if (!c)
		return true;
	if (e->kind == TRACE_REFUSED) {
		c->refused = true;
		r->refused++;
		return true;
	}
	c->took_ns = e->ns - c->ns;
	hist_add(&r->latency, c->took_ns);
	r->not_good += e->result != 0;
	return true;
}

void recording_sort(struct recording *r, __u64 before_ns)
{
	size_t i;

	if (!r->nr_events)
		return;
	qsort(r->events, r->nr_events, sizeof(*r->events), by_time);
	for (i = 0; i < r->nr_events && r->events[i].ns < before_ns; i++)
		if (!add_event(r, &r->events[i]))
			break;
	r->nr_events -= i;
	memmove(r->events, r->events + i, r->nr_events * sizeof(*r->events));
	/* Commands in flight may still be refused, and refused ones do not count for the limit. */
	if (r->nr - r->refused == r->limit && !r->nr_in_flight)
		r->full = true;
}

/* Return: NULL, or why a line of a command file cannot describe the command. */
static const char *describe(const struct recorded *c, const struct writing *w,
			    enum cdb_dir *dir, __u64 *bytes)
{
	const struct cdb_op *op = c->cdb_len ? cdb_find(c->cdb, c->cdb_len) : NULL;
	__u32 block_size = w->devs[c->dev].block_size;
	char why[256];

	if (!c->cdb_len)
		return "a CDB of more than 32 bytes";
	/* Programs can send CDBs that a command file cannot have. */
	if (!cdb_check_length(c->cdb, c->cdb_len, why, sizeof(why)))
		return "its CDB does not have the length of its opcode";
	if (c->protected)
		return "with protection information";
	if (!c->has_data) {
		*dir = DIR_NONE;
		*bytes = 0;
		/* sg_io would refuse a known opcode without its data: that is checked below. */
		if (!op)
			return NULL;
	} else if (!op) {
		return "the opcode is not known, so neither are direction and size of its data";
	}
	if (c->has_data && op->lba_len && !block_size)
		return "the device has no disk, so the size of its blocks is not known";
	if (!cdb_transfer(c->cdb, c->cdb_len, block_size, dir, bytes) ||
	    c->has_data != (*dir != DIR_NONE))
		return "its data is not what its CDB says";
	if (*bytes > DATA_MAX)
		return "more data than a command of a file may have";
	/*
	 * A replay would send zeroes in place of parameters. An UNMAP then unmaps nothing. For
	 * other commands zeroes would be wrong, for example as a mode page or as firmware.
	 */
	if (*dir == DIR_OUT && !op->lba_len && op->opcode != UNMAP)
		return "the parameters it sent are not known";
	if (!cdb_check_data(c->cdb, c->cdb_len, *dir, *bytes, why, sizeof(why)))
		return "its data is not what its CDB says";
	return NULL;
}

/* The pattern of data-out: zero for WRITE SAME, which writes zeroes or unmaps blocks. */
static const char *pattern_of(const struct recorded *c, const struct cdb_op *op,
			      const struct writing *w)
{
	if (!op->lba_len || (!w->pattern && cdb_repeats_block(op, c->cdb)))
		return "zero";
	return w->pattern ?: "lba";
}

static void write_line(const struct recorded *c, __u64 first_ns, struct writing *w)
{
	enum cdb_dir dir = DIR_NONE;
	__u64 bytes = 0;
	const char *why = describe(c, w, &dir, &bytes);
	const struct cdb_op *op = c->cdb_len ? cdb_find(c->cdb, c->cdb_len) : NULL;
	unsigned int i;

	if (why)
		fputs("# ", w->out);
	for (i = 0; i < c->cdb_len; i++)
		fprintf(w->out, "%02x", c->cdb[i]);
	if (why)
		fputs(c->cdb_len ? " ?" : "?", w->out);
	else
		fprintf(w->out, " %s %llu", cdb_dir_name(dir), bytes);
	if (!why && dir == DIR_OUT)
		fprintf(w->out, " pattern=%s", pattern_of(c, op, w));
	fprintf(w->out, " at=%llu", (c->ns - first_ns) / 1000);
	/* A command file cannot name other CPUs: leave out cpu= for them. */
	if (c->cpu < CPU_SETSIZE)
		fprintf(w->out, " cpu=%u", c->cpu);
	if (w->nr_devs > 1)
		fprintf(w->out, " dev=%s", w->devs[c->dev].name);
	if (c->took_ns)
		fprintf(w->out, " took=%llu.%03llu", c->took_ns / 1000, c->took_ns % 1000);
	if (why)
		fprintf(w->out, " # left out: %s", why);
	fputc('\n', w->out);
	opcodes_add(why ? &w->left_out : &w->written, c->cdb, c->cdb_len, 1);
	if (why)
		w->nr_left_out++;
	else
		w->nr_written++;
}

void recording_write(const struct recording *r, struct writing *w)
{
	__u64 first_ns = ~0ULL;
	size_t i;

	/* The first command need not have the least time: an event of another CPU may come late. */
	for (i = 0; i < r->nr; i++)
		if (!r->cmds[i].refused && r->cmds[i].ns < first_ns)
			first_ns = r->cmds[i].ns;
	for (i = 0; i < r->nr && !ferror(w->out); i++)
		if (!r->cmds[i].refused)
			write_line(&r->cmds[i], first_ns, w);
}

double recording_seconds(const struct recording *r)
{
	__u64 first = ~0ULL, last = 0;
	size_t i;

	for (i = 0; i < r->nr; i++) {
		first = r->cmds[i].ns < first ? r->cmds[i].ns : first;
		last = r->cmds[i].ns > last ? r->cmds[i].ns : last;
	}
	return r->nr ? (last - first) / 1e9 : 0;
}

__u64 recording_count(const struct recording *r, unsigned int dev)
{
	__u64 n = 0;
	size_t i;

	for (i = 0; i < r->nr; i++)
		n += r->cmds[i].dev == dev && !r->cmds[i].refused;
	return n;
}

unsigned int recording_cpus(const struct recording *r)
{
	cpu_set_t cpus;
	size_t i;

	CPU_ZERO(&cpus);
	for (i = 0; i < r->nr; i++)
		if (r->cmds[i].cpu < CPU_SETSIZE)
			CPU_SET(r->cmds[i].cpu, &cpus);
	return CPU_COUNT(&cpus);
}

void recording_free(struct recording *r)
{
	free(r->cmds);
	free(r->events);
}
