// SPDX-License-Identifier: GPL-2.0
/*
 * sg_io_map [--map OLD=NEW,...] [--size NEW=BLOCKS:BLOCK-SIZE] [--from US] [--to US] FILE: prints
 * how the mappings of sg_io replay change a command file: target, CDB, BYTES, time and the first 8
 * bytes of data-out.
 */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmdfile/cmdfile.h"
#include "cmdfile/map.h"

static struct maps maps = { .to_us = ~0ULL };
static const char *name;

static error_t parse(int key, char *arg, struct argp_state *state)
{
	unsigned int i;
	char *end;

	switch (key) {
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

int main(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "map", 'm', "MAP" }, { "size", 's', "SIZE" }, { "from", 'f', "US" },
		{ "to", 't', "US" }, { 0 }
	};
	static const struct argp argp = { .options = options, .parser = parse };
	struct cmdfile_options opt = { .memory = 16 << 20, .maps = &maps };
	const struct command *c;
	struct cmdfile file;
	size_t i;
	int k;

	argp_err_exit_status = 2;
	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	if (cmdfile_load(name, &opt, &file))
		return 2;
	for (i = 0; i < file.nr; i++) {
		c = &file.cmds[i];
		printf("%s ", maps.nr ? maps.targets[c->dev].name : "-");
		for (k = 0; k < c->cdb_len; k++)
			printf("%02x", cdb_of(c)[k]);
		printf(" %u %llu ", c->bytes, c->at_us);
		for (k = 0; c->data && k < 8; k++)
			printf("%02x", ((const __u8 *)c->data)[k]);
		puts(c->data ? "" : "-");
	}
	cmdfile_free(&file);
	return 0;
}
