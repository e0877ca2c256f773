// SPDX-License-Identifier: GPL-2.0
/*
 * Prints the data that sg_io verify expects on the medium: a line for each extent, its blocks in
 * hex.
 */
#include <stdio.h>
#include <stdlib.h>

#include "verify/written.h"

int main(int argc, char **argv)
{
	struct cmdfile_options opt = { .memory = 16 << 20 };
	const __u8 *block;
	struct written w = {};
	struct cmdfile file;
	__u32 size, k;
	size_t i;
	__u64 lba;

	if (argc != 4 || cmdfile_load(argv[1], &opt, &file))
		return 2;
	size = atoi(argv[2]);
	if (written_find(&file, size, strtoull(argv[3], NULL, 10) - 1, &w)) {
		cmdfile_free(&file);
		return 3;
	}
	printf("%llu %llu\n", w.blocks, w.unclear);
	for (i = 0; i < w.nr; i++) {
		printf("%llu %llu %u ", w.extents[i].lba, w.extents[i].blocks,
		       file.cmds[w.extents[i].cmd].line);
		for (lba = w.extents[i].lba; w.extents[i].known &&
		     lba < w.extents[i].lba + w.extents[i].blocks; lba++) {
			block = written_block(&w, &w.extents[i], lba);
			for (k = 0; k < size; k++)
				printf("%02x", block[k]);
		}
		puts(w.extents[i].known ? "" : "-");
	}
	written_free(&w);
	cmdfile_free(&file);
	return 0;
}
