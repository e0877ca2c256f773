// SPDX-License-Identifier: GPL-2.0
#include <argp.h>
#include <err.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"
#include "issue/cmdfile/pattern.h"
#include "text.h"
#include "util.h"

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *what;	/* NULL: for sg_io's own use */
} commands[] = {
	{ "assemble", cmd_assemble, NULL },
	{ "columns", cmd_columns, NULL },
	{ "compare", cmd_judge, "issue the commands of a file through each path in turn" },
	{ "compare-luns", cmd_compare_luns, "compare the blocks of two devices" },
	{ "copy", cmd_copy, "copy the blocks of one device to another" },
	{ "fidelity", cmd_judge, "tell from two recordings how faithful a replay was" },
	{ "gen", cmd_judge, "write a command file to standard output" },
	{ "import", cmd_judge, "write a command file from what another tool recorded" },
	{ "info", cmd_info, "show a device, its host and its limits" },
	{ "nodes", cmd_nodes, NULL },
	{ "readback", cmd_readback, NULL },
	{ "record", cmd_record, "write the commands that a device gets as a command file" },
	{ "replay", cmd_replay, "issue the commands of a file at their times, on their CPUs" },
	{ "run", cmd_run, "issue the commands of a file" },
	{ "verify", cmd_judge, "compare a device with what the commands of a file wrote" },
};

static void usage(FILE *out)
{
	unsigned int i;

	fputs("Usage: sg_io COMMAND [OPTION...] ARG...\n"
	      "Issue prepared SCSI commands to a device.\n\n", out);
	for (i = 0; i < ARRAY_SIZE(commands); i++)
		if (commands[i].what)
			fprintf(out, "  %-12s %s\n", commands[i].name, commands[i].what);
	fputs("\n'sg_io COMMAND --help' lists the options of a command; 'sg_io --version'\n"
	      "prints the version.\n"
	      "\n"
	      "A DEVice is /dev/sgN, /dev/bsg/H:C:T:L, /dev/sdX, /dev/smqsgN, a link to one,\n"
	      "or H:C:T:L.\n"
	      "\n"
	      "Command file: one command a line, '#' starts a comment.\n"
	      "  HEX-CDB in|out|none BYTES [data=FILE@OFFSET|pattern=NAME] [timeout=MS] [at=USEC] [cpu=N]\n"
	      "      [dev=NAME] [took=USEC] [expect=good|check|any] [sense=K/ASC/ASCQ] [resid=N]\n"
	      "      [repeat=N until=good] [wait=USEC]\n"
	      "  HEX-CDB  6 to 32 bytes in hex, without spaces or with one after each byte; the\n"
	      "           opcode determines how many\n"
	      "  BYTES    how much data the command moves, as the CDB says\n"
	      "  data=    data-out from a file; a relative name: in the command file's directory\n"
	      "           (with in: data=, pattern= are the data-in that is expected)\n"
	      "  pattern= data-out, zero if not given:\n"
	      "           " PATTERN_FORMS "\n"
	      "  timeout= in milliseconds, 30000 if not given (--via block uses the disk's own)\n"
	      "  at=      when to replay the command, in microseconds; 'run' ignores it\n"
	      "  cpu=     the CPU that submits the command\n"
	      "  dev=     the device, in a recording of several\n"
	      "  took=    how long the command took when it was recorded\n"
	      "  expect=  how the command should end: if it does, it counts as good, else as\n"
	      "           failed, whatever its status\n"
	      "  sense=   the sense that it should have, in hex\n"
	      "  resid=   the residual that it should have, in bytes\n"
	      "  repeat=  'run' sends the command again until it ends GOOD, N times at most\n"
	      "  wait=    'run' waits as long before it sends the command\n"
	      "Numbers are decimal, or hex with 0x; counts and sizes may end in k, M, G or T\n"
	      "(times 1024). CDBs are checked as those of a disk (SBC); for other types of\n"
	      "devices only the opcodes that all types have (SPC).\n"
	      "  28000000000000000800 in 4096              # READ(10), 8 blocks from LBA 0\n"
	      "  2a000000001000000100 out 512 pattern=lba  # WRITE(10), 1 block at LBA 16\n"
	      "\n"
	      "Exit status: 0 no command failed; 1 commands failed, or blocks differ; 2 bad\n"
	      "option or command file; 3 the device cannot be used or is gone; 128+N ended by\n"
	      "signal N.\n",
	      out);
}

int finish_output(int status)
{
	if (ferror(stdout) || fflush(stdout)) {
		warn("standard output");
		return status == EXIT_GOOD ? EXIT_DEVICE : status;
	}
	return status;
}

int main(int argc, char **argv)
{
	char name[32];
	unsigned int i;

	/* All output goes through these but lines of progress, which have control characters. */
	stdout = text_stream(STDOUT_FILENO) ?: stdout;
	stderr = text_stream(STDERR_FILENO) ?: stderr;
	program_invocation_short_name = (char *)"sg_io";
	argp_err_exit_status = EXIT_USAGE;
	if (argc < 2) {
		usage(stderr);
		return EXIT_USAGE;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
		usage(stdout);
		return finish_output(EXIT_GOOD);
	}
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
		puts("sg_io " VERSION);
		return finish_output(EXIT_GOOD);
	}
	for (i = 0; i < ARRAY_SIZE(commands); i++) {
		if (strcmp(argv[1], commands[i].name))
			continue;
		/* argp prints argv[0] as the program's name in usage lines. */
		snprintf(name, sizeof(name), "sg_io %s", commands[i].name);
		argv[1] = name;
		return commands[i].run(argc - 1, argv + 1);
	}
	fprintf(stderr, "sg_io: '%s' is no command: ", argv[1]);
	for (i = 0; i < ARRAY_SIZE(commands); i++) {
		if (commands[i].what)
			fprintf(stderr, "%s%s", commands[i].name,
				i + 2 < ARRAY_SIZE(commands) ? ", " :
				i + 1 < ARRAY_SIZE(commands) ? " or " : "");
	}
	fputs("; 'sg_io --help' says more\n", stderr);
	return EXIT_USAGE;
}
