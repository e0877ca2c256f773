/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The images of a command file: an image is the data-out of a command. Commands with equal data
 * share one image.
 */
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
	__u32 line;		/* of the command; used only by patterns that depend on it */
};

/**
 * dataset_new() - create a set of images
 * @dir_of: data files with relative names are looked for in the directory of this file
 * @limit: limit of the memory for images, in bytes
 *
 * Return: the set; NULL if there is no memory.
 */
struct dataset *dataset_new(const char *dir_of, __u64 limit);
void dataset_free(struct dataset *ds);
__u64 dataset_bytes(const struct dataset *ds);

/*
 * Adds memory that the caller keeps until the set is freed: data-out may lie in it. Return: false
 * if there is no memory.
 */
bool dataset_add(struct dataset *ds, void *base, size_t bytes);

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
 * Return: an array in order of address, which the caller frees; NULL if there is no memory.
 */
struct data_region *dataset_regions(const struct dataset *ds, unsigned int *nr);

/**
 * dataset_get() - the image for one command
 * @ds: the set to which the image belongs
 * @spec: its data
 * @why: receives the reason for a failure
 * @size: of @why
 *
 * Return: the image, aligned to 512 bytes, or to 4096 if it is at least that long. Commands with
 * the same data get the same image. NULL on failure.
 */
const void *dataset_get(struct dataset *ds, const struct data_spec *spec,
			char *why, size_t size);

/* A copy of a pattern that lives as long as the set, one for equal ones; NULL without memory. */
const struct pattern *dataset_pattern(struct dataset *ds, const struct pattern *p);

#endif
