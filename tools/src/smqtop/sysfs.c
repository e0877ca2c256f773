// SPDX-License-Identifier: GPL-2.0
#include "sysfs.h"

#include <dirent.h>
#include <err.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOSTS	"/sys/class/scsi_host"
#define LUNS	"/sys/class/scsi_device"
#define DIR_SIZE	96	/* of a LUN's folder */

static bool read_text(const char *dir, const char *file, char *text, size_t size)
{
	char path[PATH_MAX];
	FILE *f;
	bool got;

	snprintf(path, sizeof(path), "%s/%s", dir, file);
	f = fopen(path, "re");
	if (!f)
		return false;
	got = fgets(text, size, f);
	fclose(f);
	if (got)
		text[strcspn(text, "\n")] = 0;
	return got;
}

/* A decimal number, or a hexadecimal one with 0x; -1 if it cannot be read. */
static long read_number(const char *dir, const char *file)
{
	char text[64], *end;
	long n;

	if (!read_text(dir, file, text, sizeof(text)))
		return -1;
	n = strtol(text, &end, 0);
	return end == text ? -1 : n;
}

static __u64 read_count(const char *dir, const char *file)
{
	long n = read_number(dir, file);

	return n < 0 ? 0 : n;
}

/* The first name in a folder that begins with a prefix; empty if there is none. */
static void first_name(const char *dir, const char *sub, const char *prefix, char *name)
{
	char path[PATH_MAX];
	struct dirent *entry;
	DIR *d;

	*name = 0;
	snprintf(path, sizeof(path), "%s/%s", dir, sub);
	d = opendir(path);
	while (d && !*name && (entry = readdir(d)))
		if (!strncmp(entry->d_name, prefix, strlen(prefix)) && entry->d_name[0] != '.')
			snprintf(name, SYS_NAME, "%.31s", entry->d_name);
	if (d)
		closedir(d);
}

static void *grow(void *array, unsigned int nr, size_t size)
{
	/* Room for 16 more, whenever those are used up. */
	if (nr % 16)
		return array;
	array = realloc(array, (nr + 16) * size);
	if (!array)
		err(3, "memory");
	return array;
}

static void read_host(struct sys *s, unsigned int number)
{
	struct sys_host *host;
	char dir[64];

	s->hosts = grow(s->hosts, s->nr_hosts, sizeof(*host));
	host = &s->hosts[s->nr_hosts++];
	*host = (struct sys_host){ .number = number };
	snprintf(dir, sizeof(dir), HOSTS "/host%u", number);
	read_text(dir, "proc_name", host->driver, sizeof(host->driver));
	read_text(dir, "state", host->state, sizeof(host->state));
	host->depth = read_number(dir, "can_queue");
	host->inflight = read_number(dir, "host_busy");
}

/* "0, 2, 4" */
static void mark_cpus(short *queue_of, unsigned int nr_cpus, char *list, int queue)
{
	char *save, *word = strtok_r(list, ", ", &save);

	for (; word; word = strtok_r(NULL, ", ", &save)) {
		unsigned long cpu = strtoul(word, NULL, 10);

		/* With several kinds of queues a CPU has several: the default ones come first. */
		if (cpu < nr_cpus && queue_of[cpu] < 0)
			queue_of[cpu] = queue;
	}
}

static void read_queues(struct sys_host *host, const char *device, const char *disk,
			unsigned int nr_cpus)
{
	char dir[2 * DIR_SIZE], list[4096];
	unsigned int i;
	short *of;

	of = malloc(nr_cpus * sizeof(*of));
	if (!of)
		err(3, "memory");
	for (i = 0; i < nr_cpus; i++)
		of[i] = -1;
	for (i = 0; i < SHRT_MAX; i++) {
		snprintf(dir, sizeof(dir), "%.95s/block/%.31s/mq/%u", device, disk, i);
		if (!read_text(dir, "cpu_list", list, sizeof(list)))
			break;
		mark_cpus(of, nr_cpus, list, i);
	}
	if (i)
		host->queue_of = of;
	else
		free(of);
}

/* Read and written sectors of /sys/block/X/stat, in bytes. */
static __u64 read_bytes(const char *device, const char *disk)
{
	unsigned long long in = 0, out = 0;
	char dir[2 * DIR_SIZE], text[256];

	snprintf(dir, sizeof(dir), "%.95s/block/%.31s", device, disk);
	if (read_text(dir, "stat", text, sizeof(text)))
		sscanf(text, "%*u %*u %llu %*u %*u %*u %llu", &in, &out);
	return (in + out) * 512;
}

static void read_lun(struct sys *s, const char *name, unsigned int nr_cpus)
{
	unsigned int host, number;
	struct sys_lun *lun;
	char dir[DIR_SIZE];

	if (sscanf(name, "%u:", &number) != 1)
		return;
	for (host = 0; host < s->nr_hosts && s->hosts[host].number != number; host++)
		;
	if (host == s->nr_hosts)
		return;
	s->luns = grow(s->luns, s->nr_luns, sizeof(*lun));
	lun = &s->luns[s->nr_luns++];
	*lun = (struct sys_lun){ .host = host };
	snprintf(lun->name, sizeof(lun->name), "%.31s", name);
	snprintf(dir, sizeof(dir), LUNS "/%.31s/device", name);
	lun->depth = read_number(dir, "queue_depth");
	lun->inflight = read_number(dir, "device_busy");
	lun->done = read_count(dir, "iodone_cnt");
	lun->errors = read_count(dir, "ioerr_cnt");
	lun->timeouts = read_count(dir, "iotmo_cnt");
	first_name(dir, "block", "", lun->disk);
	if (lun->disk[0]) {
		lun->bytes = read_bytes(dir, lun->disk);
		if (!s->hosts[host].queue_of)
			read_queues(&s->hosts[host], dir, lun->disk, nr_cpus);
	} else {
		first_name(dir, "scsi_generic", "sg", lun->disk);
	}
}

static int not_dots(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

typedef void read_fn(struct sys *s, const char *name, unsigned int nr_cpus);

/* Calls back for each name of a folder, in the order of the numbers in them. */
static void each_name(const char *dir, read_fn *one, struct sys *s, unsigned int nr_cpus)
{
	struct dirent **names;
	int i, nr = scandir(dir, &names, not_dots, versionsort);

	for (i = 0; i < nr; i++) {
		one(s, names[i]->d_name, nr_cpus);
		free(names[i]);
	}
	if (nr >= 0)
		free(names);
}

static void host_named(struct sys *s, const char *name, unsigned int nr_cpus)
{
	unsigned int number;

	(void)nr_cpus;
	if (sscanf(name, "host%u", &number) == 1)
		read_host(s, number);
}

void sys_read(struct sys *s, unsigned int nr_cpus)
{
	*s = (struct sys){};
	each_name(HOSTS, host_named, s, nr_cpus);
	each_name(LUNS, read_lun, s, nr_cpus);
}

void sys_free(struct sys *s)
{
	unsigned int i;

	for (i = 0; i < s->nr_hosts; i++)
		free(s->hosts[i].queue_of);
	free(s->hosts);
	free(s->luns);
	*s = (struct sys){};
}

const struct sys_lun *sys_find(const struct sys *s, const char *name)
{
	unsigned int i;

	for (i = 0; i < s->nr_luns; i++)
		if (!strcmp(s->luns[i].name, name))
			return &s->luns[i];
	return NULL;
}
