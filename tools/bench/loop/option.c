// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "option.h"

#define MAX_OPTIONS	32
/* What getopt_long() returns for the first option: more than any character. */
#define FIRST		256
#define HELP		(FIRST + MAX_OPTIONS)

static unsigned long to_number(const char *name, const char *text, unsigned long min,
			       unsigned long max)
{
	unsigned long value;
	char *end;

	errno = 0;
	value = strtoul(text, &end, 10);
	if (errno || end == text || *end || *text == '-' || value < min ||
	    value > max) {
		fprintf(stderr, "--%s: '%s' is not a number from %lu to %lu\n",
			name, text, min, max);
		exit(2);
	}
	return value;
}

static unsigned long to_bytes(const struct option_spec *spec, const char *text)
{
	unsigned long value = to_number(spec->name, text, spec->min, spec->max);

	if (value % spec->min) {
		fprintf(stderr, "--%s: %lu is no multiple of %lu\n", spec->name, value, spec->min);
		exit(2);
	}
	return value;
}

static unsigned int to_word(const struct option_spec *spec, const char *text)
{
	unsigned int i;

	for (i = 0; spec->words[i]; i++)
		if (!strcmp(text, spec->words[i]))
			return i;
	fprintf(stderr, "--%s: '%s' is none of", spec->name, text);
	for (i = 0; spec->words[i]; i++)
		fprintf(stderr, "%s %s", i ? "," : "", spec->words[i]);
	fputc('\n', stderr);
	exit(2);
}

/* Numbers separated by commas. */
static void to_counts(const struct option_spec *spec, const char *text)
{
	char *copy = strdup(text), *rest = copy, *one;
	struct jobs_runs *runs = spec->value;
	size_t n = 0;

	while (rest && (one = strsep(&rest, ","))) {
		if (n == MAX_COUNTS) {
			fprintf(stderr, "--%s: more than %d numbers\n", spec->name, MAX_COUNTS);
			exit(2);
		}
		runs->counts[n++] = to_number(spec->name, one, 1, OPTION_MAX_COUNT);
	}
	free(copy);
	if (!n) {
		fprintf(stderr, "--%s: no number given\n", spec->name);
		exit(2);
	}
	runs->nr_counts = n;
}

static void store(const struct option_spec *spec, unsigned long value)
{
	if (spec->size == sizeof(unsigned long))
		*(unsigned long *)spec->value = value;
	else
		*(unsigned int *)spec->value = value;
}

static void take(const struct option_spec *spec, const char *text)
{
	switch (spec->kind) {
	case OPTION_IS_FLAG:
		*(bool *)spec->value = true;
		break;
	case OPTION_IS_NUMBER:
		store(spec, to_number(spec->name, text, spec->min, spec->max));
		break;
	case OPTION_IS_BYTES:
		store(spec, to_bytes(spec, text));
		break;
	case OPTION_IS_WORD:
		store(spec, to_word(spec, text));
		break;
	default:
		to_counts(spec, text);
	}
}

void option_parse(int argc, char **argv, const struct option_spec *specs, const char *help)
{
	struct option options[MAX_OPTIONS + 2] = { };
	unsigned int n;
	int c;

	for (n = 0; n < MAX_OPTIONS && specs[n].kind != OPTION_END; n++)
		options[n] = (struct option) {
			.name = specs[n].name,
			.has_arg = specs[n].kind == OPTION_IS_FLAG ? no_argument :
				   required_argument,
			.val = FIRST + n,
		};
	options[n] = (struct option) { .name = "help", .has_arg = no_argument, .val = HELP };
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c < FIRST || c == HELP) {
			fputs(help, c == HELP ? stdout : stderr);
			exit(c == HELP ? 0 : 2);
		}
		take(&specs[c - FIRST], optarg);
	}
}

void option_check_chunks(const struct jobs_runs *runs)
{
	size_t i;

	for (i = 0; runs->chunk && i < runs->nr_counts; i++) {
		if (runs->counts[i] / runs->chunk <= MAX_CHUNKS)
			continue;
		fprintf(stderr, "--chunk: %u: --count %lu has more than %d such chunks\n",
			runs->chunk, runs->counts[i], MAX_CHUNKS);
		exit(2);
	}
}

void option_check_again(const struct jobs_runs *runs, unsigned int jobs)
{
	if (runs->again && jobs > 1) {
		fprintf(stderr, "--again: for one job, not %u\n", jobs);
		exit(2);
	}
	if (runs->cpu && !runs->again) {
		fputs("--cpu: only with --again\n", stderr);
		exit(2);
	}
}
