/* SPDX-License-Identifier: GPL-2.0 */
/* Hands the commands of a file to the Python part of sg_io, one column after the other. */
#ifndef SG_IO_COLUMNS_H
#define SG_IO_COLUMNS_H

#include <stdio.h>

#include "issue/cmdfile/cmdfile.h"

/**
 * columns_write() - write a file's commands for judge/columns.py
 * @file: the commands
 * @names: of the devices
 * @nr: how many devices
 * @out: receives a line "COMMANDS TIMED DEVICES", the names, each with a NUL at its end, and for
 *	all commands: a hash of the CDB and at= in us (u64), took= as cmdfile_took() reads it (u32),
 *	cpu= (s16), the index of the device (u8), all in the byte order of this machine
 */
void columns_write(const struct cmdfile *file, const char * const *names, unsigned int nr,
		   FILE *out);

/**
 * judge_run() - run sg_io for a judgement
 * @argv: its arguments, NULL at the end
 * @in: its standard input, a file that it reads from the beginning
 * @out: receives what it prints, for free(), or NULL; NULL: it prints to standard output
 *
 * Return: its exit status; EXIT_DEVICE after a message if it could not be started.
 */
int judge_run(char *const *argv, int in, char **out);

#endif
