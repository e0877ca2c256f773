// SPDX-License-Identifier: GPL-2.0
/* The option --map, and the sizes of its targets. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "issue/device/device.h"
#include "map.h"
#include "util.h"

#define SCALE_MAX	(1000 * SCALE_1)

/* Returns the index of a target, a new one if needed. */
static unsigned int add_target(struct argp_state *state, const char *name, size_t len,
			       struct maps *m)
{
	unsigned int i;

	if (len >= MAP_NAME)
		argp_error(state, "--map: the name '%.*s' is too long", (int)len, name);
	for (i = 0; i < m->nr_targets; i++)
		if (strlen(m->targets[i].name) == len && !memcmp(m->targets[i].name, name, len))
			return i;
	memcpy(m->targets[i].name, name, len);
	return m->nr_targets++;
}

const char map_help[] =
	"Give the commands of OLD, a name in dev=, to NEW; LBAs and lengths are multiplied by "
	"scale=, then offset= is added to LBAs";

static void add_option(struct argp_state *state, const char *arg, const char *word, struct map *map)
{
	const char *value = strchr(word, '=');
	size_t len = value ? (size_t)(value - word) : 0;
	__u64 scale;

	if (len == 6 && !memcmp(word, "offset", 6)) {
		map->minus = value[1] == '-';
		if (!num_parse_size(value + 1 + map->minus, 0, ~0ULL, &map->offset))
			return;
		argp_error(state, "--map %s: '%s' is no number of blocks", arg, value + 1);
	}
	if (len == 5 && !memcmp(word, "scale", 5)) {
		if (!num_parse_decimal(value + 1, SCALE_1, &scale) && scale &&
		    scale <= SCALE_MAX) {
			map->scale = scale;
			return;
		}
		argp_error(state, "--map %s: '%s' is no factor from 0.000001 to 1000", arg,
			   value + 1);
	}
	argp_error(state, "--map %s: '%s' is not offset=BLOCKS or scale=X", arg, word);
}

void map_add(struct argp_state *state, const char *arg, struct maps *m)
{
	struct map *map = &m->maps[m->nr];
	const char *equals = strchr(arg, '='), *end;
	char *options, *word, *rest = NULL;
	unsigned int i;

	if (!equals || equals == arg || equals - arg > FILE_DEVICE_NAME || !equals[1] ||
	    equals[1] == ',')
		argp_error(state, "--map: '%s' is not OLD=NEW[,offset=BLOCKS][,scale=X]", arg);
	if (m->nr == FILE_DEVICES)
		argp_error(state, "more than %d --map", FILE_DEVICES);
	*map = (struct map){ .scale = SCALE_1 };
	memcpy(map->old, arg, equals - arg);
	for (i = 0; i < m->nr; i++)
		if (!strcmp(m->maps[i].old, map->old))
			argp_error(state, "--map: %s is mapped twice", map->old);
	end = equals + 1 + strcspn(equals + 1, ",");
	map->target = add_target(state, equals + 1, end - equals - 1, m);
	m->nr++;
	options = strdup(end);
	if (!options)
		argp_failure(state, EXIT_DEVICE, 0, "no memory");
	for (word = strtok_r(options, ",", &rest); word; word = strtok_r(NULL, ",", &rest))
		add_option(state, arg, word, map);
	free(options);
}

const char *map_take_args(struct argp_state *state, const char * const *args, unsigned int nr,
			  struct maps *m)
{
	bool by_name = m->nr || nr > 2;
	char arg[2 * MAP_NAME];
	unsigned int i;

	if (!nr)
		argp_error(state, m->nr ? "FILE is missing" : "DEV and FILE are missing");
	if (nr == 1 && !by_name)
		argp_error(state, "only '%s' given: DEV or FILE is missing", args[0]);
	for (i = 0; by_name && i + 1 < nr; i++) {
		snprintf(arg, sizeof(arg), "%.*s=%s", MAP_NAME - 1, args[i], args[i]);
		map_add(state, arg, m);
	}
	return args[nr - 1];
}

bool map_any(const struct maps *m)
{
	return m->nr || m->from_us || m->to_us != ~0ULL;
}

int map_find_targets(struct maps *m)
{
	struct map_target *t;
	struct device dev;

	for (t = m->targets; t < m->targets + m->nr_targets; t++) {
		if (device_find(t->name, &dev))
			return EXIT_DEVICE;
		t->block_size = dev.block_size;
		t->blocks = dev.blocks;
	}
	return 0;
}
