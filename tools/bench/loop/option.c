// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "option.h"

#define MAX_COUNT	1000000000UL

unsigned long option_number(const char *name, const char *text,
			    unsigned long min, unsigned long max)
{
	unsigned long value;
	char *end;

	errno = 0;
	value = strtoul(text, &end, 10);
	if (errno || end == text || *end || *text == '-' || value < min ||
	    value > max) {
		fprintf(stderr, "%s: '%s' is not a number from %lu to %lu\n",
			name, text, min, max);
		exit(2);
	}
	return value;
}

unsigned long option_bytes(const char *name, const char *text,
			   unsigned long block, unsigned long max)
{
	unsigned long value = option_number(name, text, block, max);

	if (value % block) {
		fprintf(stderr, "%s: %lu is no multiple of %lu\n", name, value, block);
		exit(2);
	}
	return value;
}

unsigned int option_word(const char *name, const char *text, const char * const *words)
{
	unsigned int i;

	for (i = 0; words[i]; i++)
		if (!strcmp(text, words[i]))
			return i;
	fprintf(stderr, "%s: '%s' is none of", name, text);
	for (i = 0; words[i]; i++)
		fprintf(stderr, "%s %s", i ? "," : "", words[i]);
	fputc('\n', stderr);
	exit(2);
}

void option_help(int c, const char *help)
{
	fputs(help, c == 'h' ? stdout : stderr);
	exit(c == 'h' ? 0 : 2);
}

/* Numbers separated by commas; returns how many. */
static size_t option_counts(const char *name, const char *text,
			    unsigned long counts[MAX_COUNTS])
{
	char *copy = strdup(text), *rest = copy, *word;
	size_t n = 0;

	while (rest && (word = strsep(&rest, ","))) {
		if (n == MAX_COUNTS) {
			fprintf(stderr, "%s: more than %d numbers\n", name,
				MAX_COUNTS);
			exit(2);
		}
		counts[n++] = option_number(name, word, 1, MAX_COUNT);
	}
	free(copy);
	if (!n) {
		fprintf(stderr, "%s: no number given\n", name);
		exit(2);
	}
	return n;
}

void option_runs(int c, const char *text, const char *help, struct jobs_runs *runs)
{
	switch (c) {
	case 'c':
		runs->nr_counts = option_counts("--count", text, runs->counts);
		break;
	case 'w':
		runs->warmup = option_number("--warmup", text, 0, MAX_COUNT);
		break;
	case 'C':
		runs->chunk = option_number("--chunk", text, 1, MAX_COUNT);
		break;
	case 't':
		runs->seconds = option_number("--timeout", text, 1, 86400);
		break;
	default:
		option_help(c, help);
	}
}

void option_check_chunks(const struct jobs_runs *runs)
{
	size_t i;

	for (i = 0; runs->chunk && i < runs->nr_counts; i++) {
		if (runs->counts[i] / runs->chunk <= MAX_CHUNKS)
			continue;
		fprintf(stderr, "--chunk: %u of --count %lu are more than %d\n", runs->chunk,
			runs->counts[i], MAX_CHUNKS);
		exit(2);
	}
}
