// SPDX-License-Identifier: GPL-2.0
#include "sysfs.h"

#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/netlink.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define HOSTS	"/sys/class/scsi_host"
#define LUNS	"/sys/class/scsi_device"
#define DIR_SIZE	96	/* of a LUN's folder */

/* Reads the first line of an open file; false if that is not possible. */
static bool read_line(int fd, char *text, size_t size)
{
	ssize_t got = fd < 0 ? -1 : pread(fd, text, size - 1, 0);

	if (got <= 0)
		return false;
	text[got] = 0;
	text[strcspn(text, "\n")] = 0;
	return true;
}

static int open_file(const char *dir, const char *file)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", dir, file);
	return open(path, O_RDONLY | O_CLOEXEC);
}

static bool read_text(const char *dir, const char *file, char *text, size_t size)
{
	int fd = open_file(dir, file);
	bool got = read_line(fd, text, size);

	if (fd >= 0)
		close(fd);
	return got;
}

/* A decimal number, or a hexadecimal one with 0x; -1 if it is none. */
static long number_in(const char *text)
{
	char *end;
	long n = strtol(text, &end, 0);

	return end == text ? -1 : n;
}

static long read_number(const char *dir, const char *file)
{
	char text[64];

	return read_text(dir, file, text, sizeof(text)) ? number_in(text) : -1;
}

static long read_open_number(int fd)
{
	char text[64];

	return read_line(fd, text, sizeof(text)) ? number_in(text) : -1;
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

__attribute__((format(printf, 3, 4)))
static void add_pair(struct sys_host *host, const char *name, const char *format, ...)
{
	struct sys_pair *pair = &host->pairs[host->nr_pairs];
	va_list args;

	if (host->nr_pairs == SYS_PAIRS)
		return;
	host->nr_pairs++;
	snprintf(pair->name, sizeof(pair->name), "%s", name);
	va_start(args, format);
	vsnprintf(pair->value, sizeof(pair->value), format, args);
	va_end(args);
}

/* Sums of all hardware queues. */
struct smq_sums {
	__u64 done, commits, dispatches, dispatched, hwq, host, device, target, foreign;
};

static __u64 value_of(const char *line, const char *name)
{
	const char *at = strstr(line, name);

	return at ? strtoull(at + strlen(name), NULL, 10) : 0;
}

static void add_line(struct sys_host *host, struct smq_sums *sum, char *line)
{
	char name[SYS_NAME], *rest;
	unsigned int hwq;

	line[strcspn(line, "\n")] = 0;
	if (!strncmp(line, "hwq=", 4)) {
		sum->done += value_of(line, " done=");
		sum->commits += value_of(line, " commits=");
		sum->dispatches += value_of(line, " dispatches=");
		sum->dispatched += value_of(line, " dispatched=");
		sum->hwq += value_of(line, " busy_hwq=");
		sum->host += value_of(line, " busy_host=");
		sum->device += value_of(line, " busy_device=");
		sum->target += value_of(line, " busy_target=");
		sum->foreign += value_of(line, " foreign=");
	} else if (sscanf(line, "policy=%*s hwq=%u", &hwq) == 1) {
		rest = strchr(strstr(line, " hwq=") + 1, ' ');
		snprintf(name, sizeof(name), "policy q%u", hwq);
		if (rest)
			add_pair(host, name, "%s", rest + 1);
	}
}

/* What smq holds and why, and how commands go to the driver. */
static void read_smq(struct sys_host *host)
{
	char dir[64], text[64], line[1024];
	struct smq_sums sum = {};
	FILE *f;

	host->nr_pairs = 0;
	if (!host->smq)
		return;
	snprintf(dir, sizeof(dir), HOSTS "/host%u/smq", host->number);
	/* The chosen one of the list is in brackets. */
	if (read_text(dir, "policy", text, sizeof(text)) && strchr(text, '['))
		add_pair(host, "policy", "%.*s", (int)strcspn(strchr(text, '[') + 1, "]"),
			 strchr(text, '[') + 1);
	add_pair(host, "held", "%ld", read_number(dir, "held"));
	add_pair(host, "put off", "%ld", read_number(dir, "deferred"));
	snprintf(line, sizeof(line), "/sys/kernel/debug/smq/host%u/stats", host->number);
	f = fopen(line, "re");
	if (!f)
		return;
	while (fgets(line, sizeof(line), f))
		add_line(host, &sum, line);
	fclose(f);
	add_pair(host, "doorbells", "%llu", sum.commits);
	if (sum.commits)
		add_pair(host, "commands per doorbell", "%.1f", (double)sum.done / sum.commits);
	if (sum.dispatches)
		add_pair(host, "batch size", "%.1f", (double)sum.dispatched / sum.dispatches);
	add_pair(host, "busy", "queue %llu, host %llu, device %llu, target %llu", sum.hwq, sum.host,
		 sum.device, sum.target);
	add_pair(host, "on another queue", "%llu", sum.foreign);
}

static void refresh_host(struct sys_host *host)
{
	read_line(host->fd[0], host->state, sizeof(host->state));
	host->inflight = read_open_number(host->fd[1]);
	read_smq(host);
}

static void find_host(struct sys *s, unsigned int number)
{
	struct sys_host *host;
	char dir[64];

	s->hosts = grow(s->hosts, s->nr_hosts, sizeof(*host));
	host = &s->hosts[s->nr_hosts++];
	*host = (struct sys_host){ .number = number };
	snprintf(dir, sizeof(dir), HOSTS "/host%u", number);
	read_text(dir, "proc_name", host->driver, sizeof(host->driver));
	host->depth = read_number(dir, "can_queue");
	host->fd[0] = open_file(dir, "state");
	host->fd[1] = open_file(dir, "host_busy");
	strcat(dir, "/smq");
	host->smq = !access(dir, F_OK);
	refresh_host(host);
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

static void refresh_lun(struct sys_lun *lun, bool watched)
{
	char dir[DIR_SIZE];

	lun->depth = read_open_number(lun->fd[0]);
	lun->inflight = read_open_number(lun->fd[1]);
	if (watched)
		return;
	snprintf(dir, sizeof(dir), LUNS "/%.31s/device", lun->name);
	lun->done = read_count(dir, "iodone_cnt");
	lun->errors = read_count(dir, "ioerr_cnt");
	lun->timeouts = read_count(dir, "iotmo_cnt");
	lun->bytes = read_bytes(dir, lun->disk);
}

static void find_lun(struct sys *s, const char *name)
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
	lun->fd[0] = open_file(dir, "queue_depth");
	lun->fd[1] = open_file(dir, "device_busy");
	first_name(dir, "block", "", lun->disk);
	if (!lun->disk[0])
		first_name(dir, "scsi_generic", "sg", lun->disk);
	else if (!s->hosts[host].queue_of)
		read_queues(&s->hosts[host], dir, lun->disk, s->nr_cpus);
	refresh_lun(lun, s->watched);
}

static int not_dots(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

typedef void find_fn(struct sys *s, const char *name);

/* Calls back for each name of a folder, in the order of the numbers in them. */
static void each_name(const char *dir, find_fn *one, struct sys *s)
{
	struct dirent **names;
	int i, nr = scandir(dir, &names, not_dots, versionsort);

	for (i = 0; i < nr; i++) {
		one(s, names[i]->d_name);
		free(names[i]);
	}
	if (nr >= 0)
		free(names);
}

static void host_named(struct sys *s, const char *name)
{
	unsigned int number;

	if (sscanf(name, "host%u", &number) == 1)
		find_host(s, number);
}

static void find_all(struct sys *s)
{
	each_name(HOSTS, host_named, s);
	each_name(LUNS, find_lun, s);
}

static void forget_all(struct sys *s)
{
	unsigned int i;

	for (i = 0; i < s->nr_hosts; i++) {
		free(s->hosts[i].queue_of);
		close(s->hosts[i].fd[0]);
		close(s->hosts[i].fd[1]);
	}
	for (i = 0; i < s->nr_luns; i++) {
		close(s->luns[i].fd[0]);
		close(s->luns[i].fd[1]);
	}
	free(s->hosts);
	free(s->luns);
	s->hosts = NULL;
	s->luns = NULL;
	s->nr_hosts = 0;
	s->nr_luns = 0;
}

/* The kernel's own messages, so that no udev is needed; -1 if it lets nobody listen. */
static int open_uevents(void)
{
	const struct sockaddr_nl all = { .nl_family = AF_NETLINK, .nl_groups = 1 };
	int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
			NETLINK_KOBJECT_UEVENT);

	if (fd >= 0 && bind(fd, (const struct sockaddr *)&all, sizeof(all))) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* Whether a host, a LUN or its disk came or went since the last call. */
static bool has_changed(const struct sys *s)
{
	char message[4096];
	bool changed = s->uevents < 0;
	ssize_t got;

	do {
		got = recv(s->uevents, message, sizeof(message) - 1, 0);
		if (got > 0) {
			message[got] = 0;	/* begins with "add@/devices/.../host0/..." */
			changed |= !!strstr(message, "/host");
		} else {
			changed |= errno == ENOBUFS;
		}
	} while (got > 0 || (s->uevents >= 0 && errno == ENOBUFS));
	return changed;
}

void sys_open(struct sys *s, unsigned int nr_cpus, bool watched)
{
	struct rlimit files;

	*s = (struct sys){ .nr_cpus = nr_cpus, .watched = watched, .uevents = open_uevents() };
	if (!getrlimit(RLIMIT_NOFILE, &files)) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	opened_refresh(&s->opened);
	find_all(s);
}

void sys_refresh(struct sys *s)
{
	unsigned int i;

	opened_refresh(&s->opened);
	if (has_changed(s)) {
		forget_all(s);
		find_all(s);
		return;
	}
	for (i = 0; i < s->nr_hosts; i++)
		refresh_host(&s->hosts[i]);
	for (i = 0; i < s->nr_luns; i++)
		refresh_lun(&s->luns[i], s->watched);
}

void sys_close(struct sys *s)
{
	forget_all(s);
	opened_free(&s->opened);
	if (s->uevents >= 0)
		close(s->uevents);
}

const struct sys_lun *sys_find(const struct sys *s, const char *name)
{
	unsigned int i;

	for (i = 0; i < s->nr_luns; i++)
		if (!strcmp(s->luns[i].name, name))
			return &s->luns[i];
	return NULL;
}
