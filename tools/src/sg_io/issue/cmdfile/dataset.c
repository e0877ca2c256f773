// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <fcntl.h>
#include <search.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dataset.h"
#include "inputs.h"

#define ARENA_BYTES	(2u << 20)
#define MAX_FILES	256

struct data_file {
	char *name;
	int fd;
	__u64 size;
};

struct arena {
	struct arena *next;
	__u8 *base;
	size_t size;
	size_t used;
	bool lent;		/* the caller owns the memory */
};

struct image {
	struct data_spec spec;
	const void *data;
};

struct dataset {
	char *dir;
	__u64 limit;
	__u64 bytes;
	struct data_file files[MAX_FILES];
	unsigned int nr_files;
	struct arena *arenas;
	void *images;		/* a tree of struct image, by spec */
	void *patterns;		/* a tree of struct pattern */
};

struct dataset *dataset_new(const char *dir_of, __u64 limit)
{
	const char *slash = dir_of ? strrchr(dir_of, '/') : NULL;
	struct dataset *ds = calloc(1, sizeof(*ds));

	if (!ds)
		return NULL;
	ds->limit = limit;
	if (slash) {
		ds->dir = strndup(dir_of, slash - dir_of + 1);
		if (!ds->dir) {
			free(ds);
			return NULL;
		}
	}
	return ds;
}

void dataset_free(struct dataset *ds)
{
	struct arena *arena;
	unsigned int i;

	if (!ds)
		return;
	tdestroy(ds->images, free);
	tdestroy(ds->patterns, free);
	while ((arena = ds->arenas)) {
		ds->arenas = arena->next;
		if (!arena->lent)
			munmap(arena->base, arena->size);
		free(arena);
	}
	for (i = 0; i < ds->nr_files; i++) {
		close(ds->files[i].fd);
		free(ds->files[i].name);
	}
	free(ds->dir);
	free(ds);
}

__u64 dataset_bytes(const struct dataset *ds)
{
	return ds->bytes;
}

bool dataset_add(struct dataset *ds, void *base, size_t bytes)
{
	struct arena *arena = calloc(1, sizeof(*arena));

	if (!arena)
		return false;
	*arena = (struct arena){
		.next = ds->arenas, .base = base, .size = bytes, .used = bytes, .lent = true,
	};
	ds->arenas = arena;
	return true;
}

static int by_base(const void *a, const void *b)
{
	const struct data_region *x = a, *y = b;

	return (x->base > y->base) - (x->base < y->base);
}

struct data_region *dataset_regions(const struct dataset *ds, unsigned int *nr)
{
	const struct arena *arena;
	struct data_region *regions;
	unsigned int n = 0;

	for (arena = ds->arenas; arena; arena = arena->next)
		n++;
	regions = calloc(n + 1, sizeof(*regions));
	if (!regions)
		return NULL;
	*nr = 0;
	for (arena = ds->arenas; arena; arena = arena->next)
		if (arena->used)
			regions[(*nr)++] = (struct data_region){ arena->base, arena->used };
	qsort(regions, *nr, sizeof(*regions), by_base);
	return regions;
}

static int compare_u64(__u64 a, __u64 b)
{
	return (a > b) - (a < b);
}

static int compare_patterns(const void *a, const void *b)
{
	const struct pattern *x = a, *y = b;
	int r = compare_u64(x->kind, y->kind);

	if (!r)
		r = compare_u64(x->value, y->value);
	return r ? r : compare_u64(x->pass, y->pass);
}

const struct pattern *dataset_pattern(struct dataset *ds, const struct pattern *p)
{
	struct pattern **found = tfind(p, &ds->patterns, compare_patterns), *new;

	if (found)
		return *found;
	new = malloc(sizeof(*new));
	if (!new)
		return NULL;
	*new = *p;
	if (tsearch(new, &ds->patterns, compare_patterns))
		return new;
	free(new);
	return NULL;
}

static int compare_images(const void *a, const void *b)
{
	const struct data_spec *x = &((const struct image *)a)->spec;
	const struct data_spec *y = &((const struct image *)b)->spec;
	int r;

	/* File names are interned, so pointers can be compared. */
	r = compare_u64((uintptr_t)x->file, (uintptr_t)y->file);
	if (!r)
		r = compare_u64(x->bytes, y->bytes);
	if (!r && x->file)
		return compare_u64(x->offset, y->offset);
	if (!r)
		r = compare_patterns(&x->pattern, &y->pattern);
	if (!r)
		r = compare_u64(x->lba, y->lba);
	if (!r)
		r = compare_u64(x->line, y->line);
	return r ? r : compare_u64(x->block_size, y->block_size);
}

static void *arena_alloc(struct dataset *ds, __u32 bytes, char *why, size_t size)
{
	/*
	 * O_DIRECT and zero-copy passthrough need buffers that are aligned to sectors, or to pages
	 * if they are large.
	 */
	size_t align = bytes >= 4096 ? 4096 : 512;
	struct arena *arena = ds->arenas;
	size_t at = arena ? (arena->used + align - 1) & ~(align - 1) : 0;

	if (!arena || at + bytes > arena->size) {
		arena = calloc(1, sizeof(*arena));
		if (!arena)
			goto nomem;
		arena->size = bytes > ARENA_BYTES ? (bytes + 4095u) & ~4095u : ARENA_BYTES;
		arena->base = mmap(NULL, arena->size, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (arena->base == MAP_FAILED) {
			free(arena);
			goto nomem;
		}
		arena->next = ds->arenas;
		ds->arenas = arena;
		at = 0;
	}
	if (ds->bytes + bytes > ds->limit) {
		snprintf(why, size,
			 "the data-out images of the file need more than %llu MiB (--memory)",
			 ds->limit >> 20);
		return NULL;
	}
	ds->bytes += bytes;
	arena->used = at + bytes;
	return arena->base + at;
nomem:
	snprintf(why, size, "no memory for the data-out images");
	return NULL;
}

static struct data_file *open_file(struct dataset *ds, const char *name,
				   char *why, size_t size)
{
	struct data_file *f;
	struct stat st;
	char *path;
	unsigned int i;

	for (i = 0; i < ds->nr_files; i++)
		if (!strcmp(ds->files[i].name, name))
			return &ds->files[i];
	if (ds->nr_files == MAX_FILES) {
		snprintf(why, size, "data=%s: more than %d data files", name, MAX_FILES);
		return NULL;
	}
	if (asprintf(&path, "%s%s", ds->dir && name[0] != '/' ? ds->dir : "", name) < 0) {
		snprintf(why, size, "data=%s: no memory", name);
		return NULL;
	}
	f = &ds->files[ds->nr_files];
	/* O_NONBLOCK: the open of a FIFO must not block. A FIFO is refused below. */
	f->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	free(path);
	if (f->fd < 0 || fstat(f->fd, &st)) {
		snprintf(why, size, "data=%s: %s", name, strerror(errno));
		goto fail;
	}
	if (!S_ISREG(st.st_mode)) {
		snprintf(why, size, "data=%s: not a regular file", name);
		goto fail;
	}
	input_note(&st);
	f->size = st.st_size;
	f->name = strdup(name);
	if (!f->name) {
		snprintf(why, size, "data=%s: no memory", name);
		goto fail;
	}
	ds->nr_files++;
	return f;
fail:
	if (f->fd >= 0)
		close(f->fd);
	return NULL;
}

static bool read_all(const struct data_file *f, __u8 *buf, __u32 bytes,
		     __u64 offset, char *why, size_t size)
{
	ssize_t n;

	while (bytes) {
		n = pread(f->fd, buf, bytes, offset);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			snprintf(why, size, "data=%s: %s", f->name,
				 n ? strerror(errno) : "the file shrank");
			return false;
		}
		buf += n;
		offset += n;
		bytes -= n;
	}
	return true;
}

const void *dataset_get(struct dataset *ds, const struct data_spec *spec,
			char *why, size_t size)
{
	const struct data_file *f = NULL;
	struct image key = { .spec = *spec }, **found, *image;
	void *buf;

	if (spec->file) {
		f = open_file(ds, spec->file, why, size);
		if (!f)
			return NULL;
		if (spec->offset > f->size || spec->bytes > f->size - spec->offset) {
			snprintf(why, size,
				 "data=%s: %u bytes at offset %llu reach past its end at %llu",
				 spec->file, spec->bytes, spec->offset, f->size);
			return NULL;
		}
		key.spec.file = f->name;
	} else if (!pattern_by_lba(&spec->pattern)) {
		key.spec.lba = 0;
		key.spec.block_size = 0;
	}
	if (!pattern_by_line(&spec->pattern))
		key.spec.line = 0;

	found = tfind(&key, &ds->images, compare_images);
	if (found)
		return (*found)->data;
	buf = arena_alloc(ds, spec->bytes, why, size);
	if (!buf || (f && !read_all(f, buf, spec->bytes, spec->offset, why, size)))
		return NULL;
	if (!f)
		pattern_fill(&spec->pattern, buf, spec->bytes, spec->lba, spec->block_size,
			     spec->line);
	image = malloc(sizeof(*image));
	if (image) {
		*image = key;
		image->data = buf;
		if (tsearch(image, &ds->images, compare_images))
			return buf;
	}
	free(image);
	snprintf(why, size, "no memory for the data-out images");
	return NULL;
}
