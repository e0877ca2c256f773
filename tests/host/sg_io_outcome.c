// SPDX-License-Identifier: GPL-2.0
/*
 * sg_io_outcome FILE: reads a command file, and for each of its commands a line "ERRNO STATUS HOST
 * DRIVER RESID HEX-SENSE BYTE" from standard input: how it ended, and the byte that its data-in
 * consists of. Counts the outcomes in two tallies in turn, merges these and prints the entries.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "issue/cmdfile/cmdfile.h"
#include "issue/workers/outcome.h"

#define KINDS	200

int main(int argc, char **argv)
{
	static struct tally_entry entries[2][KINDS];
	struct tally tally[2] = {
		{ .entries = entries[0], .room = KINDS }, { .entries = entries[1], .room = KINDS },
	};
	struct cmdfile_options opt = { .memory = 1 << 20 };
	unsigned int status, host, driver, byte, n, value, i;
	struct outcome_class what;
	struct cmdfile file;
	char sense[256], text[512];
	struct outcome out;
	bool good;
	__u8 *in;

	if (argc != 2 || cmdfile_load(argv[1], &opt, &file))
		return 2;
	for (i = 0; i < file.nr; i++) {
		out = (struct outcome){};
		if (scanf("%d %u %u %u %d %255s %u", &out.error, &status, &host, &driver,
			  &out.resid, sense, &byte) != 7)
			return 3;
		out.status = status;
		out.host = host;
		out.driver = driver;
		for (n = 0; sscanf(sense + 2 * n, "%2x", &value) == 1; n++)
			out.sense[n] = value;
		out.sense_len = n;
		/* No more than the command's bytes: a sanitizer finds a compare beyond. */
		in = malloc(file.cmds[i].bytes + 1);
		memset(in, byte, file.cmds[i].bytes);
		good = outcome_judge(&file.cmds[i], &out, expect_of(&file, &file.cmds[i]), in,
				     &what);
		tally_add(&tally[i % 2], &file.cmds[i], good, &what, i);
		free(in);
	}
	tally_merge(&tally[0], &tally[1]);
	tally_sort(&tally[0]);
	printf("%llu %llu\n", tally[0].good, tally[0].bad);
	for (i = 0; i < tally[0].nr; i++) {
		outcome_name(&tally[0].entries[i].what, text, sizeof(text));
		printf("%llu|%u|%s|", tally[0].entries[i].count, tally[0].entries[i].line, text);
		outcome_describe(&tally[0].entries[i].what, text, sizeof(text));
		puts(text);
	}
	cmdfile_free(&file);
	return 0;
}
