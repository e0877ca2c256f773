/* SPDX-License-Identifier: GPL-2.0 */
/* sg_io compare: what is kept of each path, and how it is shown. */
#ifndef SG_IO_COMPARE_H
#define SG_IO_COMPARE_H

#include <json-c/json.h>

#include "run.h"

/* bsg-uring can go two ways. */
#define MAX_CONTESTANTS	(MAX_VIAS + 1)

/**
 * struct contestant - a path with the node it goes by
 * @via: the path
 * @node: the node, empty when the device has none of its kind
 * @why: why it does not run, or not any more; empty while it does
 * @status: what sg_io run ended with the last time
 * @rounds: the results of its turns, as run --json gives them
 * @ns: their times per command, in the order of the turns
 * @nr: how many
 * @ns_median: median of @ns; @ns_least, @ns_most: its ends
 * @median: the turn that has @ns_median
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

/* Commands of all turns that did not end well. */
__u64 contestant_bad(const struct contestant *c);

#endif
