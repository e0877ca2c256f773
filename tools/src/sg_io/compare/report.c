// SPDX-License-Identifier: GPL-2.0
/* Prints the result of a comparison, as text or as JSON. */
#include <stdio.h>
#include <string.h>

#include "compare.h"

__u64 contestant_bad(const struct contestant *c)
{
	struct json_object *status, *good, *commands;
	__u64 bad = 0;
	unsigned int i;

	for (i = 0; i < c->nr; i++) {
		if (json_object_object_get_ex(c->rounds[i], "status", &status) &&
		    json_object_object_get_ex(status, "GOOD", &good) &&
		    json_object_object_get_ex(c->rounds[i], "commands", &commands))
			bad += json_object_get_uint64(commands) - json_object_get_uint64(good);
	}
	return bad;
}

/* The base of the ratios: the first path that ran; NULL if there is none. */
static const struct contestant *base(const struct contestant *c, unsigned int nr)
{
	unsigned int i;

	for (i = 0; i < nr; i++)
		if (c[i].nr)
			return &c[i];
	return NULL;
}

static double total(const struct contestant *c, const char *key)
{
	struct json_object *value;
	double sum = 0;
	unsigned int i;

	for (i = 0; i < c->nr; i++)
		if (json_object_object_get_ex(c->rounds[i], key, &value))
			sum += json_object_get_double(value);
	return sum;
}

/* Why a path does not run. Skips the node with which the text begins: the table shows the node. */
static const char *reason(const struct contestant *c)
{
	size_t len = strlen(c->node);

	if (len && !strncmp(c->why, c->node, len) && !strncmp(c->why + len, ": ", 2))
		return c->why + len + 2;
	return c->why;
}

void compare_text(const struct run_options *opt, const struct contestant *c, unsigned int nr)
{
	const struct contestant *first = base(c, nr);
	unsigned int i;
	char range[48];

	printf("%s: %llu rounds, depth %llu, batch %llu, jobs %llu\n", opt->devs[0], opt->rounds,
	       opt->depth, opt->batch, opt->jobs);
	printf("%-10s %-18s %9s %10s %21s %6s %8s\n", "path", "node", "commands", "ns/command",
	       "lowest..highest", "ratio", "not good");
	for (i = 0; i < nr; i++, c++) {
		if (c->nr) {
			snprintf(range, sizeof(range), "%.0f..%.0f", c->ns_least, c->ns_most);
			printf("%-10s %-18s %9.0f %10.0f %21s %6.2f %8llu\n", c->via, c->node,
			       total(c, "commands"), c->ns_median, range,
			       c->ns_median / first->ns_median, contestant_bad(c));
		}
		if (c->why[0])
			printf("%-10s %-18s %s: %s\n", c->via, *c->node ? c->node : "-",
			       c->nr ? "ended early" : "does not run", reason(c));
	}
}

static void add_real(struct json_object *o, const char *key, double v, const char *format)
{
	char text[64];

	/* More digits than the clock has would be meaningless. */
	snprintf(text, sizeof(text), format, v);
	json_object_object_add(o, key, json_object_new_double_s(v, text));
}

static void add_text(struct json_object *o, const char *key, const char *text)
{
	json_object_object_add(o, key, *text ? json_object_new_string(text) : NULL);
}

/* How many commands of all rounds ended with each status, by the name of the status. */
static struct json_object *sum_status(const struct contestant *c)
{
	struct json_object *sum = json_object_new_object(), *status, *old;
	unsigned int i;
	__u64 n;

	json_object_object_add(sum, "GOOD", json_object_new_uint64(0));
	for (i = 0; i < c->nr; i++) {
		if (!json_object_object_get_ex(c->rounds[i], "status", &status))
			continue;
		json_object_object_foreach(status, name, count) {
			n = json_object_get_uint64(count);
			if (json_object_object_get_ex(sum, name, &old))
				n += json_object_get_uint64(old);
			json_object_object_add(sum, name, json_object_new_uint64(n));
		}
	}
	return sum;
}

/* The error in @list that has the same text as @error, NULL if there is none. */
static struct json_object *find_error(struct json_object *list, struct json_object *error)
{
	struct json_object *a, *b, *found;
	size_t i;

	for (i = 0; i < json_object_array_length(list); i++) {
		found = json_object_array_get_idx(list, i);
		if (json_object_object_get_ex(found, "text", &a) &&
		    json_object_object_get_ex(error, "text", &b) && json_object_equal(a, b))
			return found;
	}
	return NULL;
}

static struct json_object *sum_errors(const struct contestant *c)
{
	struct json_object *sum = json_object_new_array(), *errors, *error, *old, *a, *b;
	unsigned int i;
	size_t j;

	for (i = 0; i < c->nr; i++) {
		if (!json_object_object_get_ex(c->rounds[i], "errors", &errors))
			continue;
		for (j = 0; j < json_object_array_length(errors); j++) {
			error = json_object_array_get_idx(errors, j);
			old = find_error(sum, error);
			if (!old) {
				old = NULL;
				json_object_deep_copy(error, &old, NULL);
				json_object_array_add(sum, old);
				continue;
			}
			if (json_object_object_get_ex(old, "count", &a) &&
			    json_object_object_get_ex(error, "count", &b))
				json_object_set_uint64(a, json_object_get_uint64(a) +
						       json_object_get_uint64(b));
		}
	}
	return sum;
}

/* The object that sg_io run prints, for all rounds; latencies are those of the median round. */
static struct json_object *contestant_json(const struct run_options *opt,
					   const struct contestant *c,
					   const struct contestant *first)
{
	struct json_object *o = json_object_new_object(), *latency = NULL;
	double commands = total(c, "commands"), seconds = total(c, "seconds");

	add_text(o, "path", c->via);
	add_text(o, "device", opt->devs[0]);
	add_text(o, "node", c->node);
	json_object_object_add(o, "rounds", json_object_new_int(c->nr));
	json_object_object_add(o, "commands", json_object_new_uint64(commands));
	add_real(o, "seconds", seconds, "%.6f");
	add_real(o, "iops", seconds > 0 ? commands / seconds : 0, "%.6f");
	if (c->nr)
		json_object_object_get_ex(c->rounds[c->median], "lat_ns", &latency);
	json_object_object_add(o, "lat_ns", json_object_get(latency));
	json_object_object_add(o, "status", sum_status(c));
	json_object_object_add(o, "errors", sum_errors(c));
	if (c->nr) {
		add_real(o, "ns_per_command", c->ns_median, "%.1f");
		add_real(o, "ns_lowest", c->ns_least, "%.1f");
		add_real(o, "ns_highest", c->ns_most, "%.1f");
		add_real(o, "ratio", c->ns_median / first->ns_median, "%.4f");
	} else {
		json_object_object_add(o, "ns_per_command", NULL);
		json_object_object_add(o, "ns_lowest", NULL);
		json_object_object_add(o, "ns_highest", NULL);
		json_object_object_add(o, "ratio", NULL);
	}
	add_text(o, "why", c->why);
	return o;
}

void compare_json(const struct run_options *opt, const struct contestant *c, unsigned int nr)
{
	struct json_object *list = json_object_new_array();
	const struct contestant *first = base(c, nr);
	unsigned int i;

	for (i = 0; i < nr; i++)
		json_object_array_add(list, contestant_json(opt, &c[i], first));
	puts(json_object_to_json_string_ext(list, JSON_C_TO_STRING_PRETTY |
					    JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(list);
}
