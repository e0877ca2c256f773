// SPDX-License-Identifier: GPL-2.0
#include <err.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "device.h"
#include "inputs.h"

/* Directories below the scsi_device. The subsystem of each kind of node has the same name. */
static const char * const class_of[NODE_KINDS] = {
	[NODE_SG] = "scsi_generic",
	[NODE_BSG] = "bsg",
	[NODE_BLOCK] = "block",
	[NODE_SMQ] = "smq_sg",
};

const char *device_strerror(int error)
{
	if (error == EACCES && geteuid())
		return "Permission denied; be root, or let a udev rule give you the node: see "
		       "sg_io(8)";
	return strerror(error);
}

const char *node_kind_name(enum node_kind kind)
{
	static const char * const names[NODE_KINDS] = {
		[NODE_SG] = "sg", [NODE_BSG] = "bsg", [NODE_BLOCK] = "block",
		[NODE_SMQ] = "smq",
	};

	return names[kind];
}

size_t find_paths(glob_t *found, const char *format, ...)
{
	char pattern[PATH_MAX];
	va_list args;

	va_start(args, format);
	vsnprintf(pattern, sizeof(pattern), format, args);
	va_end(args);
	*found = (glob_t){};
	glob(pattern, GLOB_NOSORT, NULL, found);
	return found->gl_pathc;
}

bool sysfs_read(const char *dir, const char *file, char *buf, size_t size)
{
	char path[PATH_MAX];
	FILE *f;
	char *got;

	snprintf(path, sizeof(path), "%s/%s", dir, file);
	f = fopen(path, "re");
	if (!f)
		return false;
	got = fgets(buf, size, f);
	fclose(f);
	if (!got)
		return false;
	buf[strcspn(buf, "\n")] = '\0';
	return true;
}

__s64 sysfs_number(const char *dir, const char *file)
{
	char buf[32];
	char *end;
	__s64 n;

	if (!sysfs_read(dir, file, buf, sizeof(buf)))
		return -1;
	n = strtoll(buf, &end, 10);
	return end == buf ? -1 : n;
}

const char *device_state(const struct device *dev, char *buf)
{
	char state[24];

	*buf = '\0';
	if (sysfs_read(dev->sysfs, "state", state, sizeof(state)) && strstr(state, "offline"))
		snprintf(buf, DEVICE_STATE, "; its state is %s", state);
	return buf;
}

/* Whether the last component of the link @dir/@link is @name. */
static bool link_is(const char *dir, const char *link, const char *name)
{
	char path[PATH_MAX], target[PATH_MAX];
	const char *slash;
	ssize_t n;

	snprintf(path, sizeof(path), "%s/%s", dir, link);
	n = readlink(path, target, sizeof(target) - 1);
	if (n < 0)
		return false;
	target[n] = '\0';
	slash = strrchr(target, '/');
	return !strcmp(slash ? slash + 1 : target, name);
}

/* A number of a disk's queue; 0: not known. */
static __u64 queue_number(const struct device *dev, const char *file)
{
	__s64 n = sysfs_number(dev->queue, file);

	return n > 0 ? n : 0;
}

static void find_sizes(struct device *dev)
{
	dev->block_size = queue_number(dev, "logical_block_size");
	/* In units of 512 bytes, whatever the blocks have. */
	dev->blocks = dev->block_size ? (queue_number(dev, "../size") << 9) / dev->block_size : 0;
	dev->max_transfer = queue_number(dev, "max_hw_sectors_kb") << 10;
}

/* Finds the node of one kind. The kernel's name for it is in uevent. */
static void find_node(struct device *dev, enum node_kind kind)
{
	const char *name;
	char line[256];
	struct stat st;
	glob_t found;
	FILE *f;

	if (find_paths(&found, "%s/%s/*/uevent", dev->sysfs, class_of[kind])) {
		f = fopen(found.gl_pathv[0], "re");
		while (f && fgets(line, sizeof(line), f)) {
			line[strcspn(line, "\n")] = '\0';
			if (!strncmp(line, "DEVNAME=", 8))
				snprintf(dev->node[kind], DEV_NAME, "/dev/%.50s", line + 8);
		}
		if (f)
			fclose(f);
		if (!stat(dev->node[kind], &st))
			input_note(&st);
		*strrchr(found.gl_pathv[0], '/') = '\0';
		name = strrchr(found.gl_pathv[0], '/') + 1;
		if (kind == NODE_BLOCK) {
			snprintf(dev->queue, sizeof(dev->queue), "/sys/class/block/%.60s/queue",
				 name);
			find_sizes(dev);
		}
		if (kind == NODE_SMQ)
			snprintf(dev->smq, sizeof(dev->smq), "/sys/class/smq_sg/%.60s", name);
	}
	globfree(&found);
}

static int find_nodes(struct device *dev)
{
	const char *slash = strrchr(dev->sysfs, '/');
	enum node_kind kind;

	snprintf(dev->hctl, DEV_NAME, "%.60s", slash ? slash + 1 : dev->sysfs);
	for (kind = 0; kind < NODE_KINDS; kind++)
		find_node(dev, kind);
	return 0;
}

#define fail(why, ...) (snprintf(why, DEVICE_REASON, __VA_ARGS__), -1)

static int find_by_hctl(const char *name, struct device *dev, char *why)
{
	unsigned int h, c, t;
	int end = 0;
	__u64 l;

	if (sscanf(name, "%u:%u:%u:%llu%n", &h, &c, &t, &l, &end) != 4 || name[end])
		return fail(why, "not of the form H:C:T:L");
	snprintf(dev->sysfs, sizeof(dev->sysfs), "/sys/bus/scsi/devices/%u:%u:%u:%llu",
		 h, c, t, l);
	if (access(dev->sysfs, F_OK))
		return fail(why, "there is no such SCSI device");
	dev->kind = NODE_SG;
	return find_nodes(dev);
}

static int find_by_node(const struct stat *st, struct device *dev, char *why)
{
	char dir[64], link[80], real[PATH_MAX];
	enum node_kind kind;

	snprintf(dir, sizeof(dir), "/sys/dev/%s/%u:%u", S_ISBLK(st->st_mode) ? "block" : "char",
		 major(st->st_rdev), minor(st->st_rdev));
	if (access(dir, F_OK))
		return fail(why, "no device has the number %u:%u", major(st->st_rdev),
			    minor(st->st_rdev));
	snprintf(link, sizeof(link), "%s/partition", dir);
	if (!access(link, F_OK))
		return fail(why, "is a partition; SCSI commands go to the whole disk");
	for (kind = 0; kind < NODE_KINDS; kind++)
		if (link_is(dir, "subsystem", class_of[kind]))
			break;
	snprintf(link, sizeof(link), "%s/device", dir);
	if (kind == NODE_KINDS || !link_is(link, "subsystem", "scsi") || !realpath(link, real))
		return fail(why, "not a node of a SCSI device (sg, bsg, sd or smqsg)");
	snprintf(link, sizeof(link), "%s/device/vendor", dir);
	/* bsg also has nodes of hosts and of transport objects. */
	if (access(link, F_OK))
		return fail(why, "not a node of a logical unit");
	dev->kind = kind;
	/* A short path, which is the same whether the user gave a node or an H:C:T:L. */
	snprintf(dev->sysfs, sizeof(dev->sysfs), "/sys/bus/scsi/devices/%.60s",
		 strrchr(real, '/') + 1);
	return find_nodes(dev);
}

bool device_comes_first(const char *name)
{
	struct stat st;

	if (stat(name, &st) || !S_ISREG(st.st_mode))
		return true;
	warnx("%s: is a file; DEV comes first, then FILE", name);
	return false;
}

int device_try(const char *name, struct device *dev, char *why)
{
	char unused[DEVICE_REASON], node[DEV_NAME + 8];
	struct stat st;

	why = why ?: unused;
	*dev = (struct device){ .given = name };
	if (!stat(name, &st)) {
		if (!S_ISBLK(st.st_mode) && !S_ISCHR(st.st_mode))
			return fail(why, "not a device node");
		return find_by_node(&st, dev, why);
	}
	if (errno == ENOENT && strchr(name, ':') && name[strspn(name, "0123456789:")] == '\0')
		return find_by_hctl(name, dev, why);
	if (errno == ENOENT && !strchr(name, '/')) {
		snprintf(node, sizeof(node), "/dev/%.60s", name);
		if (!access(node, F_OK))
			return fail(why, "there is no such file; the device is %s", node);
		errno = ENOENT;
	}
	return fail(why, "%s", device_strerror(errno));
}

int device_find(const char *name, struct device *dev)
{
	char why[DEVICE_REASON];

	if (!device_try(name, dev, why))
		return 0;
	warnx("%s: %s", name, why);
	return -1;
}

__u64 device_max_bytes(const struct device *dev)
{
	__u64 most = dev->max_transfer ?: ~0ULL, bytes;

	bytes = dev->queue[0] ? queue_number(dev, "max_segments") * sysconf(_SC_PAGESIZE) : 0;
	return bytes && bytes < most ? bytes : most;
}
