/* SPDX-License-Identifier: GPL-2.0 */
/* Which processes have nodes of smq_sg open, and what /proc/PID/fdinfo says of these files. */
#ifndef SMQTOP_OPENED_H
#define SMQTOP_OPENED_H

#include <stdbool.h>

/**
 * struct open_file - a descriptor of a node
 * @node: N of smqsgN
 * @pid: of the process
 * @fd: the descriptor
 * @comm: the process's name
 * @slots: that it has set up
 * @inflight: commands in flight
 * @waiting: commands that wait for a place
 * @share: how many places it gets while several files want some
 * @pool: idle requests kept for its next commands
 */
struct open_file {
	unsigned int node;
	unsigned int pid;
	unsigned int fd;
	char comm[16];
	unsigned int slots, inflight, waiting, share, pool;
};

/**
 * struct opened - all of them
 * @file: by process
 * @nr: how many
 * @references: to the module: each open file has one
 */
struct opened {
	struct open_file *file;
	unsigned int nr;
	long references;
};

/*
 * Reads the figures. Looks through all processes only if a file was opened or closed, which the
 * number of references tells. Of other users' processes only root sees files.
 */
void opened_refresh(struct opened *o);
void opened_free(struct opened *o);

#endif
