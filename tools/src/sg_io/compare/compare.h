/* SPDX-License-Identifier: GPL-2.0 */
/* sg_io compare: the result of each path, and its output. */
#ifndef SG_IO_COMPARE_H
#define SG_IO_COMPARE_H

#include <json-c/json.h>

#include "run/run.h"

/* bsg-uring can be used with two kinds of nodes. */
#define MAX_CONTESTANTS	(MAX_VIAS + 1)

/**
 * struct contestant - a path and its node
 * @via: the path
 * @node: the node, empty if the device has none of this kind
 * @why: why it does not run, or no longer runs; empty while it runs
 * @status: the exit status of sg_io run in the last turn
 * @rounds: the results of its turns, as run --json prints them
 * @ns: the time per command of each turn, in the order of the turns
 * @nr: how many of its turns have a result
 * @ns_median: median of @ns; @ns_least, @ns_most: its extremes
 * @median: index of the turn that has @ns_median
 */
struct contestant {
	const char *via;
	const char *node;
	char why[512];
	int status;
	struct json_object **rounds;
	double *ns;
	unsigned int nr;
	double ns_median;
	double ns_least;
	double ns_most;
	unsigned int median;
};

void compare_text(const struct run_options *opt, const struct contestant *c, unsigned int nr);
void compare_json(const struct run_options *opt, const struct contestant *c, unsigned int nr);

/* The number of commands that failed, in all turns. */
__u64 contestant_bad(const struct contestant *c);

#endif
