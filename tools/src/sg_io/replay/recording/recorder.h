/* SPDX-License-Identifier: GPL-2.0 */
/* A process that records devices while another one works. */
#ifndef SG_IO_RECORDER_H
#define SG_IO_RECORDER_H

#include <sys/types.h>

#include "issue/device/device.h"

/* Zeroed before the start. */
struct recorder {
	pid_t pid;	/* 0: there is none, or it has ended */
	int stop;	/* a pipe whose end is that of the recording */
};

/**
 * recorder_start() - start a process that records devices
 * @r: the recorder
 * @devs: the devices
 * @names: their names in the recording
 * @nr: how many
 * @path: the file to write
 *
 * Return: whether it records; otherwise one message was printed.
 */
bool recorder_start(struct recorder *r, const struct device *devs, const char * const *names,
		    unsigned int nr, const char *path);
/* Ends the recording, and waits until it is written. Return: an exit status, as of sg_io record. */
int recorder_end(struct recorder *r);

#endif
