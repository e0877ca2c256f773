// SPDX-License-Identifier: GPL-2.0
#include <blkid/blkid.h>
#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "inuse.h"
#include "take.h"

/* The value of a probe's result; "" if it has none of this name. */
static const char *value_of(blkid_probe probe, const char *name)
{
	const char *value;

	return blkid_probe_lookup_value(probe, name, &value, NULL) ? "" : value;
}

/* Whether libblkid knows what is on the disk. If the disk cannot be read, it does not. */
static bool has_signature(const char *node, int fd, char *why)
{
	blkid_probe probe = blkid_new_probe();
	bool found = false;

	if (!probe || blkid_probe_set_device(probe, fd, 0, 0))
		goto out;
	blkid_probe_enable_superblocks(probe, 1);
	blkid_probe_set_superblocks_flags(probe, BLKID_SUBLKS_TYPE | BLKID_SUBLKS_USAGE);
	blkid_probe_enable_partitions(probe, 1);
	if (blkid_do_probe(probe))
		goto out;
	found = true;
	if (value_of(probe, "TYPE")[0])
		snprintf(why, INUSE_REASON, "%s has the signature of %.64s (%.64s)", node,
			 value_of(probe, "TYPE"), value_of(probe, "USAGE"));
	else
		snprintf(why, INUSE_REASON, "%s has a partition table (%.64s)", node,
			 value_of(probe, "PTTYPE"));
out:
	blkid_free_probe(probe);
	/* The pages that were read would be stale after the run's writes. */
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	return found;
}

int take_disk(const struct device *dev, bool force, int *fd)
{
	char why[INUSE_REASON] = "";

	/* The search reads from the disk: --force avoids that. */
	if (inuse_try(dev, why, fd) &&
	    (force || *fd < 0 || !has_signature(dev->node[NODE_BLOCK], *fd, why)))
		return 0;
	if (force) {
		warnx("%s: %s; writing to it because of --force", dev->given, why);
		return 0;
	}
	warnx("%s: %s; data-out and destructive commands are refused without --force",
	      dev->given, why);
	return -1;
}
