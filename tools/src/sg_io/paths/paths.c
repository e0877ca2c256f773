// SPDX-License-Identifier: GPL-2.0
/* Common code of the passthrough paths: opening nodes, limits. */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "paths.h"

bool passthrough_check(const struct target *target, const struct command *cmd,
		       char *why, size_t size)
{
	if (!target->max_transfer || cmd->bytes <= target->max_transfer)
		return true;
	snprintf(why, size, "BYTES %u is over the largest transfer of %s, %llu (max_hw_sectors_kb)",
		 cmd->bytes, target->dev->given, target->max_transfer);
	return false;
}

int engine_open_node(const struct worker *w, const struct target *target,
		     enum node_kind kind, int flags)
{
	const char *node = target->dev->node[kind];
	/*
	 * sg and bsg accept all commands only on a read-write file. A disk is opened for writing
	 * only if the commands write: when such a file is closed, udev probes the disk again.
	 */
	bool write = kind != NODE_BLOCK || w->run->writes;
	int fd = open(node, flags | O_CLOEXEC | (write ? O_RDWR : O_RDONLY));
	char state[DEVICE_STATE];

	if (fd < 0 && errno == EMFILE)
		warnx("%s: out of file descriptors (ulimit -n); lower --depth or --jobs", node);
	else if (fd < 0)
		warnx("%s: %s%s", node, device_strerror(errno), device_state(target->dev, state));
	return fd;
}
