/* SPDX-License-Identifier: GPL-2.0 */
/* What programs that explore share: their threads, and options on the command line. */
#ifndef EXPLORE_WORDS_H
#define EXPLORE_WORDS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "explore.h"

#define IS_IN(at, object)	((const char *)(at) >= (const char *)&(object) &&	\
				 (const char *)(at) < (const char *)&(object) + sizeof(object))

/* The program's exploration. */
static struct explore what;

/**
 * struct explore_option - a word NAME=NUMBER of the command line
 * @name: its name
 * @value: gets its number
 */
struct explore_option {
	const char *name;
	int *value;
};

/* Whether one of the threads runs a function. */
static bool has_thread(void (*run)(int arg))
{
	int i;

	for (i = 0; i < what.nr; i++) {
		if (what.threads[i].run == run)
			return true;
	}
	return false;
}

/* Adds a thread. */
static struct explore_thread *thread(void (*run)(int arg), int arg)
{
	if (what.nr == EXPLORE_THREADS) {
		fprintf(stderr, "too many threads\n");
		exit(2);
	}
	what.threads[what.nr].run = run;
	what.threads[what.nr].arg = arg;
	return &what.threads[what.nr++];
}

/* Sets the option that a word names. Returns false if it names none of the @nr options. */
static bool set_option(const char *word, const struct explore_option *options, unsigned int nr)
{
	unsigned int i;

	for (i = 0; i < nr; i++) {
		size_t length = strlen(options[i].name);

		if (!strncmp(word, options[i].name, length) && word[length] == '=') {
			*options[i].value = atoi(word + length + 1);
			return true;
		}
	}
	return false;
}

/* Reads the words of the command line. Exits if one is unknown to @parse. */
static void read_words(int argc, char **argv, bool (*parse)(const char *word))
{
	int i;

	for (i = 1; i < argc; i++) {
		if (!parse(argv[i])) {
			fprintf(stderr, "%s is unknown\n", argv[i]);
			exit(2);
		}
	}
}

/* Explores all orders, and says how many there are. */
static int explore_all(void)
{
	explore(&what);
	printf("%lu states, %lu steps\n", what.states, what.steps);
	return 0;
}

#endif /* EXPLORE_WORDS_H */
