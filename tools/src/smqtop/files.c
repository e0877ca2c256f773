// SPDX-License-Identifier: GPL-2.0
/* The view of smq_sg's nodes, through which programs send prepared commands, and of open files. */
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rows.h"

#define NODES	"/sys/class/smq_sg"

static long read_attribute(const char *node, const char *name)
{
	char path[PATH_MAX];
	long n = -1;
	FILE *f;

	snprintf(path, sizeof(path), NODES "/%s/%s", node, name);
	f = fopen(path, "re");
	if (f && fscanf(f, "%ld", &n) != 1)
		n = -1;
	if (f)
		fclose(f);
	return n;
}

/* The disk of a node, or the LUN's address. */
static void disk_of(const struct sys *sys, const char *node, char *disk, size_t size)
{
	char path[PATH_MAX], target[PATH_MAX];
	const struct sys_lun *lun;
	const char *name;
	ssize_t got;

	snprintf(path, sizeof(path), NODES "/%s/device", node);
	got = readlink(path, target, sizeof(target) - 1);
	target[got > 0 ? got : 0] = 0;
	name = strrchr(target, '/') ? strrchr(target, '/') + 1 : "-";
	lun = sys_find(sys, name);
	snprintf(disk, size, "%.31s", lun && lun->disk[0] ? lun->disk : name);
}

static void rows_of_opened(struct rows *rows, const struct sys *sys, const char *node)
{
	const struct opened *o = &sys->opened;
	char name[ROW_NAME], label[ROW_NAME];
	const struct open_file *file;
	struct row *row;

	for (file = o->file; file < o->file + o->nr; file++) {
		snprintf(name, sizeof(name), "smqsg%u", file->node);
		if (strcmp(name, node))
			continue;
		snprintf(label, sizeof(label), "%s/%u:%u", file->comm, file->pid, file->fd);
		row = rows_get(rows, node, label);
		row->inflight = file->inflight;
		snprintf(row->text, sizeof(row->text), "share=%u pool=%u waiting=%u slots=%u",
			 file->share, file->pool, file->waiting, file->slots);
	}
}

void rows_of_files(struct rows *rows, const struct sys *sys)
{
	struct dirent **names;
	int i, nr = scandir(NODES, &names, NULL, versionsort);

	for (i = 0; i < nr; i++) {
		const char *node = names[i]->d_name;
		char disk[ROW_NAME];
		struct row *row;

		if (node[0] != '.') {
			disk_of(sys, node, disk, sizeof(disk));
			row = rows_get(rows, node, disk);
			row->depth = read_attribute(node, "depth");
			row->inflight = read_attribute(node, "inflight");
			snprintf(row->text, sizeof(row->text),
				 "share=%ld pool=%ld waiting=%ld refused=%ld",
				 read_attribute(node, "share"), read_attribute(node, "pool"),
				 read_attribute(node, "waiting"), read_attribute(node, "refused"));
			rows_of_opened(rows, sys, node);
		}
		free(names[i]);
	}
	if (nr >= 0)
		free(names);
}
