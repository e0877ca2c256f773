// SPDX-License-Identifier: GPL-2.0
/*
 * sg_io_dump [--unchecked] [--map OLD=NEW,...] [--size NEW=BLOCKS:BLOCK-SIZE] [--from US] [--to US]
 * FILE: prints how sg_io parses a command file, and how the mappings of sg_io replay change it: one
 * line of fields per command.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "issue/cmdfile/cmdfile.h"
#include "issue/cmdfile/dataset.h"
#include "issue/cmdfile/map.h"

static struct maps maps = { .to_us = ~0ULL };
static struct cmdfile_options opt = { .memory = 16 << 20, .maps = &maps };
static const char *name;

static error_t parse(int key, char *arg, struct argp_state *state)
{
	unsigned int i;
	char *end;

	switch (key) {
	case 'u':
		opt.unchecked = true;
		return 0;
	case 'm':
		map_add(state, arg, &maps);
		return 0;
	case 's':
		for (i = 0; i < maps.nr_targets; i++) {
			if (strncmp(arg, maps.targets[i].name, strlen(maps.targets[i].name)))
				continue;
			maps.targets[i].blocks = strtoull(strchr(arg, '=') + 1, &end, 10);
			maps.targets[i].block_size = atoi(end + 1);
		}
		return 0;
	case 'f':
		maps.from_us = strtoull(arg, NULL, 10);
		return 0;
	case 't':
		maps.to_us = strtoull(arg, NULL, 10);
		return 0;
	case ARGP_KEY_ARG:
		name = arg;
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static void put_hex(const __u8 *p, size_t n)
{
	if (!n)
		putchar('-');
	while (n--)
		printf("%02x", *p++);
}

int main(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "unchecked", 'u' }, { "map", 'm', "MAP" }, { "size", 's', "SIZE" },
		{ "from", 'f', "US" }, { "to", 't', "US" }, { 0 }
	};
	static const struct argp argp = { .options = options, .parser = parse };
	const struct command *c;
	struct cmdfile file;
	size_t i;

	argp_err_exit_status = 2;
	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	if (cmdfile_load(name, &opt, &file))
		return 2;
	printf("%zu %u %u %u %llu\n", file.nr, file.max_in, file.max_bytes, file.max_timeout_ms,
	       dataset_bytes(file.data));
	for (i = 0; i < file.nr; i++) {
		c = &file.cmds[i];
		printf("%u ", c->line);
		put_hex(cdb_of(c), c->cdb_len);
		printf(" %s %u %u %llu %d ", cdb_dir_name(c->dir), c->bytes, c->timeout_ms,
		       c->at_us, c->cpu);
		put_hex(c->data, c->data ? c->bytes : 0);
		printf(" %d %zu %s\n", cdb_changes_medium(cdb_of(c), c->cdb_len, c->dir),
		       (size_t)c->data % (c->bytes >= 4096 ? 4096 : 512),
		       maps.nr ? maps.targets[c->dev].name : "-");
	}
	cmdfile_free(&file);
	return 0;
}
