// SPDX-License-Identifier: GPL-2.0
#include <fnmatch.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "symbols.h"

#define MAX_PATTERNS	64
#define KERNEL_HALF	(1ULL << 63)
/* The assumed size of a module's last function, because no symbol follows it. */
#define LONGEST_LAST	0x4000

struct symbol {
	uint64_t va;
	unsigned int role;
	bool own;
};

struct range {
	uint64_t start, end;
};

static const struct {
	const char *name;
	unsigned int role;
} options[] = {
	{ "own=", ROLE_OWN },	{ "leave=", ROLE_LEAVE },
	{ "irq=", ROLE_IRQ },	{ "reset=", ROLE_RESET },
	{ "watch=", ROLE_WATCH }, { "lock=", ROLE_LOCK },
	{ "slow=", ROLE_SLOW },
};

static struct {
	unsigned int role;
	char *glob;
} patterns[MAX_PATTERNS];
static unsigned int nr_patterns;
static char *prefix;
static unsigned int generation;

/*
 * Protects the arrays below: a vCPU may translate code, and look up roles, while another vCPU
 * starts a run, which replaces the arrays.
 */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct symbol *entries;
static size_t nr_entries;
static struct range *own;
static size_t nr_own;

bool symbols_option(const char *arg)
{
	size_t i, len;

	if (!strncmp(arg, "symbols=", 8)) {
		free(prefix);
		prefix = strdup(arg + 8);
		return true;
	}
	for (i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		len = strlen(options[i].name);
		if (strncmp(arg, options[i].name, len))
			continue;
		if (nr_patterns == MAX_PATTERNS) {
			fprintf(stderr, "%s: more than %d patterns\n", arg,
				MAX_PATTERNS);
			exit(1);
		}
		patterns[nr_patterns].role = options[i].role;
		patterns[nr_patterns++].glob = strdup(arg + len);
		return true;
	}
	return false;
}

static int by_va(const void *a, const void *b)
{
	const struct symbol *x = a, *y = b;

	return x->va < y->va ? -1 : x->va > y->va;
}

static void *grow(void *array, size_t used, size_t *room, size_t size)
{
	if (used < *room)
		return array;
	*room = *room ? *room * 2 : 1024;
	array = realloc(array, *room * size);
	if (!array) {
		perror("symbols");
		exit(1);
	}
	return array;
}

/* Returns the roles of a function. Functions of our modules can have roles, too. */
static unsigned int match(const char *name, const char *module, bool *is_own)
{
	unsigned int i, role = 0;

	*is_own = false;
	for (i = 0; i < nr_patterns; i++) {
		if (patterns[i].role == ROLE_OWN)
			*is_own |= !strcmp(patterns[i].glob, module);
		else if (!fnmatch(patterns[i].glob, name, 0))
			role |= patterns[i].role;
	}
	return role;
}

static size_t read_file(FILE *file, struct symbol **all)
{
	char line[1024], name[512], module[128], type;
	size_t n = 0, room = 0;
	unsigned long va;

	*all = NULL;
	while (fgets(line, sizeof(line), file)) {
		struct symbol *s;

		module[0] = 0;
		if (sscanf(line, "%lx %c %511s [%127[^]]", &va, &type, name,
			   module) < 3 || !(va & KERNEL_HALF))
			continue;
		*all = grow(*all, n, &room, sizeof(**all));
		s = &(*all)[n++];
		s->va = va;
		s->role = 0;
		s->own = false;
		if (strchr("tTwW", type))
			s->role = match(name, module, &s->own);
	}
	return n;
}

static void build(struct symbol *all, size_t n)
{
	size_t i, j, room_entries = 0, room_own = 0;

	free(entries);
	free(own);
	entries = NULL;
	own = NULL;
	nr_entries = 0;
	nr_own = 0;
	qsort(all, n, sizeof(*all), by_va);
	for (i = 0; i < n; i++) {
		if (all[i].role) {
			entries = grow(entries, nr_entries, &room_entries,
				       sizeof(*entries));
			entries[nr_entries++] = all[i];
		}
		if (!all[i].own)
			continue;
		for (j = i + 1; j < n && all[j].va == all[i].va; j++)
			;
		own = grow(own, nr_own, &room_own, sizeof(*own));
		own[nr_own].start = all[i].va;
		own[nr_own].end = all[i].va + LONGEST_LAST;
		if (j < n && all[j].va < own[nr_own].end)
			own[nr_own].end = all[j].va;
		nr_own++;
	}
}

bool symbols_refresh(void)
{
	char path[4096];
	FILE *file = NULL;
	struct symbol *all;
	size_t n;

	if (!prefix)
		return false;
	for (;;) {
		FILE *next;

		snprintf(path, sizeof(path), "%s.%u", prefix, generation + 1);
		next = fopen(path, "r");
		if (!next)
			break;
		if (file)
			fclose(file);
		file = next;
		generation++;
	}
	if (!file)
		return false;
	n = read_file(file, &all);
	fclose(file);
	pthread_mutex_lock(&lock);
	build(all, n);
	pthread_mutex_unlock(&lock);
	free(all);
	return true;
}

unsigned int symbols_generation(void)
{
	return generation;
}

static bool is_own(uint64_t va)
{
	size_t low = 0, high = nr_own;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (va < own[mid].start)
			high = mid;
		else if (va >= own[mid].end)
			low = mid + 1;
		else
			return true;
	}
	return false;
}

unsigned int symbols_role(uint64_t va)
{
	unsigned int role = 0;
	size_t low, high;

	if (!(va & KERNEL_HALF))
		return ROLE_USER;
	pthread_mutex_lock(&lock);
	low = 0;
	high = nr_entries;
	while (low < high) {
		size_t mid = (low + high) / 2;

		if (entries[mid].va < va)
			low = mid + 1;
		else
			high = mid;
	}
	for (; low < nr_entries && entries[low].va == va; low++)
		role |= entries[low].role;
	if (is_own(va))
		role |= ROLE_OWN;
	pthread_mutex_unlock(&lock);
	return role;
}
