/* SPDX-License-Identifier: GPL-2.0 */
/* The images of data-out of a command file. Equal images are in memory only once. */
#ifndef SG_IO_DATASET_H
#define SG_IO_DATASET_H

#include "pattern.h"

struct dataset;

/* The source of a command's data. */
struct data_spec {
	const char *file;	/* NULL: the pattern */
	__u64 offset;		/* in the file */
	struct pattern pattern;
	__u32 bytes;
	__u64 lba;		/* used only by patterns that depend on it */
	__u32 block_size;
};

/* @dir_of: data files with relative names are looked for beside this file. */
/* @shared: processes started later share the images, instead of copying them at the first I/O. */
struct dataset *dataset_new(const char *dir_of, __u64 limit, bool shared);
void dataset_free(struct dataset *ds);
__u64 dataset_bytes(const struct dataset *ds);

/* A piece of memory with images in it. */
struct data_region {
	const void *base;
	size_t bytes;
};

/**
 * dataset_regions() - all memory that contains images
 * @ds: the images; images that are added later are not included
 * @nr: how many regions
 *
 * Return: an array in order of address, for free(); NULL without memory for it.
 */
struct data_region *dataset_regions(const struct dataset *ds, unsigned int *nr);

/**
 * dataset_get() - the image for one command
 * @ds: where it is kept
 * @spec: its data
 * @why: reason for failure
 * @size: of @why
 *
 * Return: the image, aligned to 512 bytes, or to a page if it has a page or more.
 * Commands that ask for the same data share one image. NULL on failure.
 */
const void *dataset_get(struct dataset *ds, const struct data_spec *spec,
			char *why, size_t size);

#endif
