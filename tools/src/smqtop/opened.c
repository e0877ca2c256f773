// SPDX-License-Identifier: GPL-2.0
#include "opened.h"

#include <dirent.h>
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REFERENCES	"/sys/module/smq_sg/refcnt"
#define NODE		"/dev/smqsg"
#define PROC_PATH	64

static long references(void)
{
	FILE *f = fopen(REFERENCES, "re");
	long n = 0;

	if (!f)
		return 0;
	if (fscanf(f, "%ld", &n) != 1)
		n = 0;
	fclose(f);
	return n;
}

/* False if the descriptor is no longer one of a node. */
static bool read_figures(struct open_file *file)
{
	const struct {
		const char *name;
		unsigned int *value;
	} figures[] = {
		{ "slots", &file->slots }, { "inflight", &file->inflight },
		{ "waiting", &file->waiting }, { "share", &file->share }, { "pool", &file->pool },
	};
	char path[PROC_PATH], name[32];
	unsigned int i, found = 0, value;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%u/fdinfo/%u", file->pid, file->fd);
	f = fopen(path, "re");
	if (!f)
		return false;
	while (fscanf(f, " %31[^:]: %u%*[^\n]", name, &value) >= 1) {
		for (i = 0; i < sizeof(figures) / sizeof(*figures); i++) {
			if (!strcmp(name, figures[i].name)) {
				*figures[i].value = value;
				found++;
			}
		}
	}
	fclose(f);
	return found == sizeof(figures) / sizeof(*figures);
}

static void read_comm(struct open_file *file)
{
	char path[PROC_PATH];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%u/comm", file->pid);
	f = fopen(path, "re");
	if (!f || !fgets(file->comm, sizeof(file->comm), f))
		strcpy(file->comm, "-");
	file->comm[strcspn(file->comm, "\n")] = 0;
	if (f)
		fclose(f);
}

static void add(struct opened *o, struct open_file *file)
{
	if (!read_figures(file))
		return;
	read_comm(file);
	o->file = realloc(o->file, (o->nr + 1) * sizeof(*o->file));
	if (!o->file)
		err(3, "memory");
	o->file[o->nr++] = *file;
}

static void find_of(struct opened *o, unsigned int pid)
{
	char path[PROC_PATH], target[PROC_PATH];
	struct dirent *entry;
	ssize_t got;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%u/fd", pid);
	dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		struct open_file file = { .pid = pid, .fd = atoi(entry->d_name) };

		got = readlinkat(dirfd(dir), entry->d_name, target, sizeof(target) - 1);
		target[got > 0 ? got : 0] = 0;
		if (sscanf(target, NODE "%u", &file.node) == 1)
			add(o, &file);
	}
	if (dir)
		closedir(dir);
}

static void find_all(struct opened *o)
{
	struct dirent *entry;
	DIR *dir = opendir("/proc");

	while (dir && (entry = readdir(dir)))
		if (atoi(entry->d_name))
			find_of(o, atoi(entry->d_name));
	if (dir)
		closedir(dir);
}

void opened_refresh(struct opened *o)
{
	long now = references();
	bool same = now == o->references;
	unsigned int i;

	for (i = 0; same && i < o->nr; i++)
		same = read_figures(&o->file[i]);
	if (same)
		return;
	opened_free(o);
	o->references = now;
	if (now)
		find_all(o);
}

void opened_free(struct opened *o)
{
	free(o->file);
	*o = (struct opened){};
}
