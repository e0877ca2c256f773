/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Text for terminals and for readers of JSON: names of devices and tasks, and what files have, may
 * be any bytes.
 */
#ifndef SG_IO_TEXT_H
#define SG_IO_TEXT_H

#include <stdio.h>

#define TEXT_STREAMS	3	/* that a process can have */

/**
 * text_stream() - a stream whose output is printable text in UTF-8
 * @fd: where the output goes; fclose() closes it
 *
 * A question mark replaces each control character but newline and tab, and each byte that is not
 * part of a UTF-8 character.
 *
 * Return: the stream, NULL if @fd is negative or there is no room.
 */
FILE *text_stream(int fd);

#endif
