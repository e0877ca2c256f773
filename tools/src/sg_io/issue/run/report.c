// SPDX-License-Identifier: GPL-2.0
/* Prints the result of a run, as text or as JSON. */
#include <json-c/json.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "run.h"
#include "util.h"

#define TEXT_BYTES	512

static const unsigned int permilles[] = { 500, 990, 999 };
static const char * const percentile_names[] = { "p50", "p99", "p999" };

static double rate(__u64 commands, double seconds)
{
	return seconds > 0 ? commands / seconds : 0;
}

static double iops(const struct result *r)
{
	return rate(r->tally.good + r->tally.bad, r->seconds);
}

/* A line for each device: its rate, and its errors. */
static void print_devices(const struct result *r)
{
	const struct device_result *d;
	unsigned int i, width = 6;

	for (i = 0; i < r->opt->nr_devs; i++)
		if (strlen(r->opt->devs[i]) > width)
			width = strlen(r->opt->devs[i]);
	printf("%-*s %10s %8s %9s %9s %11s %9s\n", width, "device", "commands", "IOPS", "p50 us",
	       "p99 us", "longest us", "not good");
	for (i = 0; i < r->opt->nr_devs; i++) {
		d = &r->devices[i];
		printf("%-*s %10llu %8.0f %9.1f %9.1f %11.1f %9llu\n", width, r->opt->devs[i],
		       d->latency.count, rate(d->latency.count, d->seconds),
		       hist_percentile(&d->latency, 500) / 1e3,
		       hist_percentile(&d->latency, 990) / 1e3, d->latency.max / 1e3, d->bad);
	}
}

void report_name(const struct command *cmd, char *buf, size_t size)
{
	const struct cdb_op *op = cdb_find(cdb_of(cmd), cmd->cdb_len);

	if (op)
		snprintf(buf, size, "%s", op->name);
	else
		snprintf(buf, size, "opcode %02Xh", cdb_of(cmd)[0]);
}

/* Seconds from the start of the run until the command was issued. */
static double issued(const struct result *r, const struct slow *slow)
{
	return ((double)slow->issued_ns - r->start_ns) / 1e9;
}

static void print_slowest(const struct result *r)
{
	char name[TEXT_BYTES];
	const struct slow *s;

	puts("slowest commands:");
	for (s = r->slowest.entries; s < r->slowest.entries + r->slowest.nr; s++) {
		report_name(s->cmd, name, sizeof(name));
		printf("  %.1f us: line %u on %s, %s, issued after %.6f s%s\n", s->ns / 1e3,
		       s->cmd->line, r->opt->devs[s->device], name, issued(r, s),
		       s->bad ? ", not good" : "");
	}
}

void report_latency(FILE *out, const struct hist *h, bool all)
{
	fprintf(out, "p50 %.1f us, p99 %.1f us, ", hist_percentile(h, 500) / 1e3,
		hist_percentile(h, 990) / 1e3);
	if (all)
		fprintf(out, "p99.9 %.1f us, ", hist_percentile(h, 999) / 1e3);
	fprintf(out, "longest %.1f us", h->max / 1e3);
}

void report_text(const struct result *r)
{
	const struct tally *t = &r->tally;
	bool several = r->opt->nr_devs > 1;
	char text[TEXT_BYTES];
	unsigned int i;

	for (i = 0; i < r->opt->nr_devs; i++)
		printf("%s%s", i ? ", " : "", r->opt->devs[i]);
	printf(" via %s: %llu commands in %.3f s, %.0f IOPS\n", r->path, t->good + t->bad,
	       r->seconds, iops(r));
	fputs("latency: ", stdout);
	report_latency(stdout, &r->latency, true);
	printf("\nstatus: %llu good, %llu not good\n", t->good, t->bad);
	if (r->opt->warm_up)
		printf("not counted: %llu commands that ended in the first %g s\n", r->uncounted,
		       r->opt->warm_up);
	for (i = 0; i < t->nr; i++) {
		outcome_describe(&t->entries[i].what, text, sizeof(text));
		printf("  %llu x %s; first at line %u%s%s\n", t->entries[i].count, text,
		       t->entries[i].line, several ? " on " : "",
		       several ? r->opt->devs[t->entries[i].what.device] : "");
	}
	if (t->is_short)
		puts("  (no memory to list all kinds)");
	if (several)
		print_devices(r);
	if (r->slowest.nr)
		print_slowest(r);
	if (r->signal)
		printf("interrupted by SIG%s\n", sigabbrev_np(r->signal));
}

void report_real(struct json_object *o, const char *key, double v)
{
	char text[64];

	/* More digits than the clock has would be meaningless. */
	snprintf(text, sizeof(text), "%.6f", v);
	json_object_object_add(o, key, json_object_new_double_s(v, text));
}

void report_number(struct json_object *o, const char *key, __u64 n)
{
	json_object_object_add(o, key, json_object_new_uint64(n));
}

void report_string(struct json_object *o, const char *key, const char *text)
{
	json_object_object_add(o, key, text ? json_object_new_string(text) : NULL);
}

struct json_object *report_percentiles(const struct hist *h)
{
	struct json_object *o = json_object_new_object(), *ns;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(permilles); i++) {
		ns = json_object_new_uint64(hist_percentile(h, permilles[i]));
		json_object_object_add(o, percentile_names[i], ns);
	}
	return o;
}

/* Counts by short name, which is the same for all kinds of CHECK CONDITION. */
static struct json_object *status_json(const struct tally *t)
{
	struct json_object *o = json_object_new_object(), *old;
	char name[64];
	unsigned int i;
	__u64 n;

	report_number(o, "GOOD", t->good);
	for (i = 0; i < t->nr; i++) {
		outcome_name(&t->entries[i].what, name, sizeof(name));
		n = t->entries[i].count;
		if (json_object_object_get_ex(o, name, &old))
			n += json_object_get_uint64(old);
		report_number(o, name, n);
	}
	return o;
}

static struct json_object *error_json(const struct result *r, const struct tally_entry *e)
{
	struct json_object *o = json_object_new_object(), *sense = NULL;
	const struct outcome_class *what = &e->what;
	char text[TEXT_BYTES];

	outcome_name(what, text, sizeof(text));
	report_string(o, "name", text);
	report_number(o, "count", e->count);
	report_string(o, "device", r->opt->devs[what->device]);
	report_number(o, "line", e->line);
	report_string(o, "errno", what->error ? strerrorname_np(what->error) : NULL);
	report_number(o, "status", what->status);
	report_number(o, "host", what->host);
	report_number(o, "driver", what->driver);
	if (what->has_sense) {
		sense = json_object_new_object();
		report_number(sense, "key", what->key);
		report_number(sense, "asc", what->asc);
		report_number(sense, "ascq", what->ascq);
	}
	json_object_object_add(o, "sense", sense);
	outcome_describe(what, text, sizeof(text));
	report_string(o, "text", text);
	if (what->expect)
		expect_describe(what->expect, text, sizeof(text));
	report_string(o, "expected", what->expect ? text : NULL);
	return o;
}

static struct json_object *errors_json(const struct result *r)
{
	struct json_object *list = json_object_new_array();
	unsigned int i;

	for (i = 0; i < r->tally.nr; i++)
		json_object_array_add(list, error_json(r, &r->tally.entries[i]));
	return list;
}

static struct json_object *devices_json(const struct result *r)
{
	struct json_object *list = json_object_new_array(), *o;
	const struct device_result *d;
	unsigned int i;

	for (i = 0; i < r->opt->nr_devs; i++) {
		d = &r->devices[i];
		o = json_object_new_object();
		report_string(o, "device", r->opt->devs[i]);
		report_number(o, "commands", d->latency.count);
		report_number(o, "not_good", d->bad);
		report_real(o, "seconds", d->seconds);
		report_real(o, "iops", rate(d->latency.count, d->seconds));
		json_object_object_add(o, "lat_ns", report_percentiles(&d->latency));
		json_object_array_add(list, o);
	}
	return list;
}

static struct json_object *slowest_json(const struct result *r)
{
	struct json_object *list = json_object_new_array(), *o;
	char name[TEXT_BYTES];
	const struct slow *s;

	for (s = r->slowest.entries; s < r->slowest.entries + r->slowest.nr; s++) {
		o = json_object_new_object();
		report_number(o, "ns", s->ns);
		report_string(o, "device", r->opt->devs[s->device]);
		report_number(o, "line", s->cmd->line);
		report_name(s->cmd, name, sizeof(name));
		report_string(o, "command", name);
		report_real(o, "issued", issued(r, s));
		json_object_object_add(o, "good", json_object_new_boolean(!s->bad));
		json_object_array_add(list, o);
	}
	return list;
}

static void add_devices(struct json_object *o, const struct run_options *opt)
{
	char names[MAX_DEVICES * 72] = "";
	unsigned int i;
	size_t n = 0;

	for (i = 0; i < opt->nr_devs && n < sizeof(names); i++)
		n += snprintf(names + n, sizeof(names) - n, "%s%s", i ? "," : "", opt->devs[i]);
	report_string(o, "device", names);
}

struct json_object *report_object(const struct result *r)
{
	struct json_object *o = json_object_new_object();

	report_string(o, "path", r->path);
	add_devices(o, r->opt);
	report_number(o, "commands", r->tally.good + r->tally.bad);
	report_real(o, "seconds", r->seconds);
	report_real(o, "iops", iops(r));
	json_object_object_add(o, "lat_ns", report_percentiles(&r->latency));
	json_object_object_add(o, "status", status_json(&r->tally));
	json_object_object_add(o, "errors", errors_json(r));
	json_object_object_add(o, "devices", devices_json(r));
	if (r->opt->slowest)
		json_object_object_add(o, "slowest", slowest_json(r));
	if (r->opt->warm_up)
		report_number(o, "uncounted", r->uncounted);
	json_object_object_add(o, "interrupted", json_object_new_boolean(r->signal));
	return o;
}

void report_print(struct json_object *o)
{
	puts(json_object_to_json_string_ext(o, JSON_C_TO_STRING_PRETTY |
					    JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(o);
}

void report_json(const struct result *r)
{
	report_print(report_object(r));
}
