/* SPDX-License-Identifier: GPL-2.0 */
/* The data-out images of a command file: each distinct one once, in memory. */
#ifndef SG_IO_DATASET_H
#define SG_IO_DATASET_H

#include "pattern.h"

struct dataset;

/* What a command's data is made of. */
struct data_spec {
	const char *file;	/* NULL: the pattern */
	__u64 offset;		/* in the file */
	struct pattern pattern;
	__u32 bytes;
	__u64 lba;		/* only patterns that depend on it look at these */
	__u32 block_size;
};

/* @dir_of: data files with relative names are looked for beside this file. */
/* @shared: processes to come have the images in common, not copies that their I/O makes. */
struct dataset *dataset_new(const char *dir_of, __u64 limit, bool shared);
void dataset_free(struct dataset *ds);
__u64 dataset_bytes(const struct dataset *ds);

/* A piece of memory with images in it. */
struct data_region {
	const void *base;
	size_t bytes;
};

/**
 * dataset_regions() - all memory that images lie in
 * @ds: the images; later ones are not in what this gives
 * @nr: how many regions
 *
 * Return: an array in order of address, for free(); NULL without memory for it.
 */
struct data_region *dataset_regions(const struct dataset *ds, unsigned int *nr);

/**
 * dataset_get() - the image for one command
 * @ds: where it is kept
 * @spec: what it holds
 * @why: reason for failure
 * @size: of @why
 *
 * Return: the image, 512-byte aligned (page aligned from a page on), shared
 * with every command that asked for the same; NULL on failure.
 */
const void *dataset_get(struct dataset *ds, const struct data_spec *spec,
			char *why, size_t size);

#endif
