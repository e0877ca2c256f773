// SPDX-License-Identifier: GPL-2.0
#include "settings.h"

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HOST	"/sys/class/scsi_host/host%u/"

static void read_value(const char *path, char *value, size_t size)
{
	FILE *f = fopen(path, "re");

	if (!f || !fgets(value, size, f))
		snprintf(value, size, "-");
	value[strcspn(value, "\n")] = 0;
	if (f)
		fclose(f);
}

/* The policy, its settings, what the host counts, the rest. */
static int rank(const struct setting *s, const char *own)
{
	if (!strcmp(s->name, "smq/policy"))
		return 0;
	if (*own && !strncmp(s->name, own, strlen(own)))
		return 1;
	return strncmp(s->name, "smq/", 4) ? 3 : 2;
}

static int compare(const void *a, const void *b, void *own)
{
	const struct setting *one = a, *two = b;

	return rank(one, own) - rank(two, own) ?: strcmp(one->name, two->name);
}

unsigned int settings_read(unsigned int host, struct setting **list)
{
	char pattern[64], policy[96], own[112] = "", *begin;
	unsigned int nr = 0;
	struct stat st;
	glob_t files;
	size_t i;

	snprintf(pattern, sizeof(pattern), HOST "smq*/*", host);
	*list = NULL;
	if (glob(pattern, 0, NULL, &files))
		return 0;
	*list = calloc(files.gl_pathc, sizeof(**list));
	if (!*list)
		err(3, "memory");
	for (i = 0; i < files.gl_pathc; i++) {
		const char *path = files.gl_pathv[i];
		struct setting *s = &(*list)[nr];

		if (stat(path, &st) || !S_ISREG(st.st_mode) || !(st.st_mode & 0444))
			continue;
		s->writable = st.st_mode & 0222;
		snprintf(s->name, sizeof(s->name), "%s", path + strlen(pattern) - strlen("smq*/*"));
		read_value(path, s->value, sizeof(s->value));
		nr++;
	}
	globfree(&files);
	/* The policy that is chosen stands in brackets. */
	snprintf(pattern, sizeof(pattern), HOST "smq/policy", host);
	read_value(pattern, policy, sizeof(policy));
	begin = strchr(policy, '[');
	if (begin) {
		begin[strcspn(begin, "]")] = 0;
		snprintf(own, sizeof(own), "smq_%s/", begin + 1);
	}
	qsort_r(*list, nr, sizeof(**list), compare, own);
	return nr;
}

int settings_write(unsigned int host, const char *name, const char *value)
{
	char path[PATH_MAX];
	int fd, error = 0;

	snprintf(path, sizeof(path), HOST "%s", host, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return errno;
	if (write(fd, value, strlen(value)) < 0)
		error = errno;
	close(fd);
	return error;
}
