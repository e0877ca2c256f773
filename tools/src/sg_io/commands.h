/* SPDX-License-Identifier: GPL-2.0 */
/* The subcommands, and the meaning of their exit statuses. */
#ifndef SG_IO_COMMANDS_H
#define SG_IO_COMMANDS_H

#define EXIT_GOOD	0
#define EXIT_NOT_GOOD	1	/* some commands failed */
#define EXIT_USAGE	2	/* bad option or command file */
#define EXIT_DEVICE	3	/* the device cannot be used, or was lost */
#define EXIT_SIGNAL	128	/* plus the signal that ended the run */

int cmd_assemble(int argc, char **argv);
int cmd_columns(int argc, char **argv);
int cmd_compare_luns(int argc, char **argv);
int cmd_copy(int argc, char **argv);
int cmd_info(int argc, char **argv);
int cmd_judge(int argc, char **argv);
int cmd_nodes(int argc, char **argv);
int cmd_readback(int argc, char **argv);
int cmd_record(int argc, char **argv);
int cmd_replay(int argc, char **argv);
int cmd_run(int argc, char **argv);

/*
 * Flushes standard output. Returns @status; if flushing fails, for example on a full disk, prints a
 * message and returns EXIT_DEVICE in place of EXIT_GOOD.
 */
int finish_output(int status);

#endif
