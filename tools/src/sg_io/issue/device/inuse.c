// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "inuse.h"

#define MAX_OPENERS	4	/* named in a message */

/* Whether a device above, such as dm or md, holds the disk or partition. */
static bool has_holder(const char *sysfs, const char *name, char *why)
{
	glob_t holders;
	bool found = find_paths(&holders, "%s/holders/*", sysfs);

	if (found)
		snprintf(why, INUSE_REASON, "%s is held by %.64s", name,
			 strrchr(holders.gl_pathv[0], '/') + 1);
	globfree(&holders);
	return found;
}

/* Compares the source too, because a filesystem may have another number than its device. */
static bool is_mounted(dev_t number, const char *name, char *why)
{
	char line[4096], where[1024], source[1024];
	unsigned int ma, mi;
	struct stat st;
	bool found = false;
	char *dash;
	FILE *f = fopen("/proc/self/mountinfo", "re");

	while (f && !found && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%*d %*d %u:%u %*s %1023s", &ma, &mi, where) != 3)
			continue;
		found = makedev(ma, mi) == number;
		dash = strstr(line, " - ");
		if (!found && dash && sscanf(dash, " - %*s %1023s", source) == 1 &&
		    source[0] == '/' && !stat(source, &st) && S_ISBLK(st.st_mode))
			found = st.st_rdev == number;
		if (found)
			snprintf(why, INUSE_REASON, "%s is mounted on %.400s", name, where);
	}
	if (f)
		fclose(f);
	return found;
}

static bool is_swap(dev_t number, const char *name, char *why)
{
	char line[4096], file[1024];
	struct stat st;
	bool found = false;
	FILE *f = fopen("/proc/swaps", "re");

	while (f && !found && fgets(line, sizeof(line), f))
		found = sscanf(line, "%1023s", file) == 1 && file[0] == '/' &&
			!stat(file, &st) && S_ISBLK(st.st_mode) && st.st_rdev == number;
	if (found)
		snprintf(why, INUSE_REASON, "%s is swap space", name);
	if (f)
		fclose(f);
	return found;
}

/* Whether a backstore of LIO, with the attribute @info, is on the disk or partition @number. */
static bool backstore_has(const char *info, dev_t number)
{
	FILE *f = fopen(info, "re");
	unsigned int ma, mi;
	bool found = false;
	char line[1024];

	while (f && !found && fgets(line, sizeof(line), f))
		found = sscanf(line, " Major: %u Minor: %u", &ma, &mi) == 2 &&
			makedev(ma, mi) == number;
	if (f)
		fclose(f);
	return found;
}

/* LIO opens a disk inside the kernel: no process has it open, and it has no holder in sysfs. */
static bool is_backstore(dev_t number, const char *name, char *why)
{
	static const char core[] = "/sys/kernel/config/target/core/";
	bool found = false;
	glob_t paths;
	size_t i;

	find_paths(&paths, "%siblock_*/*/info", core);
	for (i = 0; i < paths.gl_pathc && !found; i++) {
		found = backstore_has(paths.gl_pathv[i], number);
		if (!found)
			continue;
		*strrchr(paths.gl_pathv[i], '/') = '\0';
		snprintf(why, INUSE_REASON, "%s is LIO's backstore %.200s", name,
			 paths.gl_pathv[i] + sizeof(core) - 1);
	}
	globfree(&paths);
	return found;
}

static bool block_in_use(const char *sysfs, const char *name, char *why)
{
	unsigned int ma, mi;
	char number[32];

	if (has_holder(sysfs, name, why))
		return true;
	if (!sysfs_read(sysfs, "dev", number, sizeof(number)) ||
	    sscanf(number, "%u:%u", &ma, &mi) != 2)
		return false;
	return is_mounted(makedev(ma, mi), name, why) || is_swap(makedev(ma, mi), name, why) ||
	       is_backstore(makedev(ma, mi), name, why);
}

/* Checks the disk and its partitions. */
static bool disk_in_use(const char *node, char *why)
{
	const char *disk = strrchr(node, '/') + 1;
	char sysfs[128], *part;
	glob_t parts;
	bool used;
	size_t i;

	snprintf(sysfs, sizeof(sysfs), "/sys/class/block/%.64s", disk);
	used = block_in_use(sysfs, disk, why);
	find_paths(&parts, "%s/*/partition", sysfs);
	for (i = 0; i < parts.gl_pathc && !used; i++) {
		part = parts.gl_pathv[i];
		*strrchr(part, '/') = '\0';
		used = block_in_use(part, strrchr(part, '/') + 1, why);
	}
	globfree(&parts);
	return used;
}

/*
 * Whether smq_conv has claimed the device: then sysfs has a link to the upper LUN, whose host the
 * message names.
 */
static bool is_claimed(const struct device *dev, char *why)
{
	char path[PATH_MAX], driver[PATH_MAX] = "";
	glob_t uppers;

	snprintf(path, sizeof(path), "%s/driver", dev->sysfs);
	if (readlink(path, driver, sizeof(driver) - 1) < 0 ||
	    strcmp(strrchr(driver, '/') + 1, "smq_conv"))
		return false;
	snprintf(why, INUSE_REASON, "%s is claimed by smq_conv", dev->hctl);
	if (find_paths(&uppers, "%s/consumer:scsi:*", dev->sysfs))
		snprintf(why, INUSE_REASON, "%s is claimed by smq_conv, for a LUN of %.32s",
			 dev->hctl, strrchr(uppers.gl_pathv[0], '/') + sizeof("consumer:scsi:"));
	globfree(&uppers);
	return true;
}

/* Whether @path is a link to @node or to one of its partitions. */
static bool leads_to(const char *path, const char *node)
{
	char target[PATH_MAX], partition[PATH_MAX + 64];
	ssize_t n = readlink(path, target, sizeof(target) - 1);

	if (n < 0)
		return false;
	target[n] = '\0';
	if (!strcmp(target, node))
		return true;
	/* The link of a socket, for example, has no path. */
	if (strncmp(target, "/dev/", 5))
		return false;
	snprintf(partition, sizeof(partition), "/sys/class/block/%s/%s/partition",
		 strrchr(node, '/') + 1, strrchr(target, '/') + 1);
	return !access(partition, F_OK);
}

/* Whether a file of the process with the folder @proc is the node or one of its partitions. */
static bool has_open(const char *proc, const char *node)
{
	bool found = false;
	glob_t files;
	size_t i;

	find_paths(&files, "%s/fd/*", proc);
	for (i = 0; i < files.gl_pathc && !found; i++)
		found = leads_to(files.gl_pathv[i], node);
	globfree(&files);
	return found;
}

void inuse_openers(const struct device *dev, char *names)
{
	const char *node = dev->node[NODE_BLOCK], *proc;
	unsigned int found = 0;
	size_t len = 0, i;
	glob_t processes;
	char name[32];

	*names = '\0';
	find_paths(&processes, "/proc/[0-9]*");
	for (i = 0; *node && i < processes.gl_pathc && found < MAX_OPENERS; i++) {
		proc = processes.gl_pathv[i];
		if (!has_open(proc, node) || !sysfs_read(proc, "comm", name, sizeof(name)))
			continue;
		len += snprintf(names + len, INUSE_OPENERS - len, "%s%.20s (process %.10s)",
				found++ ? ", " : "", name, strrchr(proc, '/') + 1);
	}
	globfree(&processes);
}

bool inuse_try(const struct device *dev, char *why, int *fd)
{
	const char *node = dev->node[NODE_BLOCK];
	char names[INUSE_OPENERS];

	if (fd)
		*fd = -1;
	if (is_claimed(dev, why))
		return false;
	if (!node[0])
		return true;
	if (disk_in_use(node, why))
		return false;
	if (!fd)
		return true;
	*fd = open(node, O_RDONLY | O_EXCL | O_NONBLOCK | O_CLOEXEC);
	if (*fd < 0 && errno == EBUSY) {
		inuse_openers(dev, names);
		snprintf(why, INUSE_REASON, "%s is open exclusively elsewhere%s%s", node,
			 names[0] ? "; open in " : "", names);
		return false;
	}
	return true;
}
