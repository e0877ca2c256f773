// SPDX-License-Identifier: GPL-2.0
/*
 * Prints what sg_io verify hears of a command file: a line with the number of extents and that of
 * commands that may have written unknown data, the extents, and the data of their blocks.
 */
#include <stdio.h>
#include <stdlib.h>

#include "judge/written.h"

int main(int argc, char **argv)
{
	struct cmdfile_options opt = { .memory = 16 << 20, .make_later = true };
	struct written w = {};
	struct cmdfile file;
	struct extent e;
	size_t i, nr;
	__u64 lba;
	FILE *in;

	if (argc != 5 || cmdfile_load(argv[1], &opt, &file))
		return 2;
	w.file = &file;
	w.disks[0].block_size = atoi(argv[2]);
	w.disks[0].last_lba = strtoull(argv[3], NULL, 10) - 1;
	w.made = malloc(file.max_bytes + 1);
	if (!written_find(&w)) {
		free(w.made);
		cmdfile_free(&file);
		return 3;
	}
	nr = w.nr;
	printf("%zu %llu\n", w.nr, w.disks[0].unclear);
	w.out = fopen(argv[4], "w+");
	written_find(&w);
	rewind(w.out);
	in = w.out;
	w.out = NULL;
	for (i = 0; i < nr && fread(&e, sizeof(e), 1, in) == 1; i++)
		for (lba = e.lba; e.flags & EXTENT_KNOWN && lba < e.end; lba++)
			fwrite(written_block(&w, &file.cmds[e.cmd], lba), w.disks[0].block_size, 1,
			       stdout);
	fclose(in);
	free(w.made);
	cmdfile_free(&file);
	return 0;
}
