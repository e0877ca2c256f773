// SPDX-License-Identifier: GPL-2.0
/* Prints how sg_io parses a command file: one line of fields per command. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmdfile/cmdfile.h"
#include "cmdfile/dataset.h"

static void put_hex(const __u8 *p, size_t n)
{
	if (!n)
		putchar('-');
	while (n--)
		printf("%02x", *p++);
}

int main(int argc, char **argv)
{
	struct cmdfile_options opt = { .memory = 16 << 20 };
	const struct command *c;
	struct cmdfile file;
	size_t i;

	opt.unchecked = argc > 2 && !strcmp(argv[2], "unchecked");
	if (argc < 2 || cmdfile_load(argv[1], &opt, &file))
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
		printf(" %d %zu\n", cdb_changes_medium(cdb_of(c), c->cdb_len, c->dir),
		       (size_t)c->data % (c->bytes >= 4096 ? 4096 : 512));
	}
	cmdfile_free(&file);
	return 0;
}
