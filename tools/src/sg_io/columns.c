// SPDX-License-Identifier: GPL-2.0
/* sg_io columns: for sg_io's own use, so --help does not list it. */
#include <argp.h>
#include <err.h>
#include <string.h>
#include <unistd.h>

#include "columns.h"
#include "commands.h"
#include "issue/cmdfile/map.h"
#include "util.h"

struct columns_options {
	struct maps maps;
	const char *file;
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct columns_options *o = state->input;

	switch (key) {
	case 'm':
		map_add(state, arg, &o->maps);
		return 0;
	case ARGP_KEY_ARG:
		o->file = arg;
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

/* Equal commands have equal hashes; that others have, too, is as good as impossible. */
static __u64 hash_cdb(const struct command *cmd)
{
	__u64 words[CDB_MAX / sizeof(__u64)] = {}, hash = cmd->cdb_len;
	unsigned int i;

	memcpy(words, cdb_of(cmd), cmd->cdb_len);
	for (i = 0; i * sizeof(__u64) < cmd->cdb_len; i++)
		hash = prng_mix(prng_next(&hash) ^ words[i]);
	return hash;
}

void columns_write(const struct cmdfile *file, const char * const *names, unsigned int nr,
		   FILE *out)
{
	const struct command *cmd, *end = file->cmds + file->nr;
	const __u32 none = 0;
	__u64 hash;
	__u8 dev;
	unsigned int i;

	fprintf(out, "%zu %d %u\n", file->nr, file->timed, nr);
	for (i = 0; i < nr; i++)
		fwrite(names[i], 1, strlen(names[i]) + 1, out);
	for (cmd = file->cmds; cmd < end; cmd++) {
		hash = hash_cdb(cmd);
		fwrite_unlocked(&hash, sizeof(hash), 1, out);
	}
	for (cmd = file->cmds; cmd < end; cmd++)
		fwrite_unlocked(&cmd->at_us, sizeof(cmd->at_us), 1, out);
	for (cmd = file->cmds; cmd < end; cmd++)
		fwrite_unlocked(file->took ? &file->took[cmd - file->cmds] : &none,
				sizeof(none), 1, out);
	for (cmd = file->cmds; cmd < end; cmd++)
		fwrite_unlocked(&cmd->cpu, sizeof(cmd->cpu), 1, out);
	for (cmd = file->cmds; cmd < end; cmd++) {
		dev = cmd->dev;
		fwrite_unlocked(&dev, sizeof(dev), 1, out);
	}
}

/* Whose messages these are comes first: sg_io columns COMMAND [--map MAPPING]... FILE */
int cmd_columns(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "map", 'm', "MAPPING", 0, NULL, 0 },
		{ 0 }
	};
	static const struct argp argp = { .options = options, .parser = parse, .args_doc = "FILE" };
	struct columns_options o = { .maps.to_us = ~0ULL };
	struct cmdfile_options how = {
		.many_devices = true, .unchecked = true, .make_later = true, .memory = ~0ULL,
	};
	const char *names[FILE_DEVICES];
	struct cmdfile file;
	unsigned int i, nr;
	char name[32];
	FILE *out;

	if (argc < 3)
		return EXIT_USAGE;
	snprintf(name, sizeof(name), "sg_io %s", argv[1]);
	argv[1] = name;
	argp_parse(&argp, argc - 1, argv + 1, 0, NULL, &o);
	how.maps = o.maps.nr ? &o.maps : NULL;
	if (!o.file || cmdfile_load(o.file, &how, &file))
		return EXIT_USAGE;
	/* Read with --map, the file has the targets as devices. */
	nr = o.maps.nr ? o.maps.nr_targets : file.nr_devs;
	for (i = 0; i < nr; i++)
		names[i] = o.maps.nr ? o.maps.targets[i].name : file.devs[i];
	/* Standard output as it is: the stream stdout takes only text. */
	out = fdopen(STDOUT_FILENO, "w");
	if (out)
		columns_write(&file, names, nr, out);
	i = out && !ferror(out) && !fflush(out) ? EXIT_GOOD : EXIT_DEVICE;
	if (i)
		warn("standard output");
	cmdfile_free(&file);
	return i;
}
