/* SPDX-License-Identifier: GPL-2.0 */
/* What a command reads: none of its outputs may replace that. */
#ifndef SG_IO_INPUTS_H
#define SG_IO_INPUTS_H

#include <stdbool.h>
#include <sys/stat.h>

/* Notes what the command reads or sends to. Only regular files and disks can be replaced. */
void input_note(const struct stat *st);
void input_note_fd(int fd);

/**
 * output_check() - whether an output may be written
 * @option: the option that names it
 * @path: its name; NULL: the option is not given
 *
 * Called for each output when all inputs are open, and before any output is.
 *
 * Return: false, after one message, if it is one of the inputs, or an output that was checked.
 */
bool output_check(const char *option, const char *path);

#endif
