// SPDX-License-Identifier: GPL-2.0
/*
 * Reads a command file, and for each of its commands a line "ERRNO STATUS HOST RESID HEX-SENSE
 * BYTE" from standard input: how it ended, and the byte that its data-in consists of. Prints the
 * verdict.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmdfile/cmdfile.h"
#include "workers/outcome.h"

int main(int argc, char **argv)
{
	struct cmdfile_options opt = { .memory = 1 << 20 };
	struct outcome_class what;
	struct cmdfile file;
	char sense[256], text[512];
	unsigned int status, host, byte, n, value;
	struct outcome out;
	size_t i;
	__u8 *in;

	if (argc != 2 || cmdfile_load(argv[1], &opt, &file))
		return 2;
	for (i = 0; i < file.nr; i++) {
		out = (struct outcome){};
		if (scanf("%d %u %u %d %255s %u", &out.error, &status, &host, &out.resid, sense,
			  &byte) != 6)
			return 3;
		out.status = status;
		out.host = host;
		for (n = 0; sscanf(sense + 2 * n, "%2x", &value) == 1; n++)
			out.sense[n] = value;
		out.sense_len = n;
		/* No more than the command's bytes: a sanitizer finds a compare beyond. */
		in = malloc(file.cmds[i].bytes + 1);
		memset(in, byte, file.cmds[i].bytes);
		if (outcome_judge(&file.cmds[i], &out, expect_of(&file, &file.cmds[i]), in, &what))
			strcpy(text, "met");
		else
			outcome_describe(&what, text, sizeof(text));
		puts(text);
		free(in);
	}
	cmdfile_free(&file);
	return 0;
}
