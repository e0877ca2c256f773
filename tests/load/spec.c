// SPDX-License-Identifier: GPL-2.0
/* Parses a spec, such as "op=read dev=/dev/sda qd=32 batch=16 cpus=0-1". */
#include <linux/blkdev.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <scsi/scsi_device.h>

#include "load.h"

static const char * const load_ops[] = {
	[LOAD_TUR] = "tur", [LOAD_READ_10] = "read10", [LOAD_READ] = "read",
	[LOAD_DELAY] = "delay", [LOAD_SPIN] = "spin",
};

static const struct load_number {
	const char *name;
	size_t offset;
	unsigned int def, min, max;
} load_numbers[] = {
#define NUMBER(_name, _def, _min, _max) \
	{ #_name, offsetof(struct load_spec, _name), _def, _min, _max }
	NUMBER(qd, 1, 1, 1024),
	NUMBER(batch, 1, 1, 1024),
	NUMBER(requests, 1, 1, 32),
	NUMBER(bs, 512, 512, PAGE_SIZE),
	NUMBER(count, 10000, LOAD_CHUNK, 10000000),
	NUMBER(warmup, 1000, 0, 10000000),
	NUMBER(delay_ns, 5000, 0, NSEC_PER_MSEC),
	NUMBER(seconds, 60, 1, 3600),
	NUMBER(spin, 0, 0, 1),
	NUMBER(marked, 0, 0, 1),
};

static unsigned int *load_number_in(struct load_spec *spec, const struct load_number *number)
{
	return (void *)spec + number->offset;
}

static int load_parse_op(struct load_spec *spec, const char *value, char error[LOAD_ERROR])
{
	int op = match_string(load_ops, ARRAY_SIZE(load_ops), value);

	if (op < 0) {
		snprintf(error, LOAD_ERROR, "op: '%s' is none of tur, read10, read, delay, spin",
			 value);
		return -EINVAL;
	}
	spec->op = op;
	return 0;
}

static int load_parse_cpus(struct load_spec *spec, const char *value, char error[LOAD_ERROR])
{
	if (!cpulist_parse(value, spec->cpus) && !cpumask_empty(spec->cpus) &&
	    cpumask_subset(spec->cpus, cpu_online_mask) &&
	    cpumask_weight(spec->cpus) <= LOAD_MAX_JOBS)
		return 0;
	snprintf(error, LOAD_ERROR, "cpus: '%s' is no list of 1 to %d CPUs that are online", value,
		 LOAD_MAX_JOBS);
	return -EINVAL;
}

static int load_parse_dev(struct load_spec *spec, const char *value, char error[LOAD_ERROR])
{
	struct load_dev *dev = &spec->devs[spec->nr_devs];
	struct file *file;

	if (spec->nr_devs == LOAD_MAX_DEVS) {
		snprintf(error, LOAD_ERROR, "dev: more than %d", LOAD_MAX_DEVS);
		return -EINVAL;
	}
	file = filp_open(value, O_RDONLY | O_LARGEFILE, 0);
	if (IS_ERR(file)) {
		snprintf(error, LOAD_ERROR, "dev: '%s' cannot be opened, error %ld", value,
			 PTR_ERR(file));
		return PTR_ERR(file);
	}
	if (!S_ISBLK(file_inode(file)->i_mode)) {
		snprintf(error, LOAD_ERROR, "dev: '%s' is no block device", value);
		fput(file);
		return -ENOTBLK;
	}
	dev->file = file;
	dev->bdev = I_BDEV(file->f_mapping->host);
	spec->nr_devs++;
	return 0;
}

static int load_parse_word(struct load_spec *spec, char *word, char error[LOAD_ERROR])
{
	char *value = strchr(word, '=');
	unsigned int i, got;

	if (!value) {
		snprintf(error, LOAD_ERROR, "'%s' is not of the form name=value", word);
		return -EINVAL;
	}
	*value++ = 0;
	if (!strcmp(word, "op"))
		return load_parse_op(spec, value, error);
	if (!strcmp(word, "cpus"))
		return load_parse_cpus(spec, value, error);
	if (!strcmp(word, "dev"))
		return load_parse_dev(spec, value, error);
	for (i = 0; i < ARRAY_SIZE(load_numbers); i++) {
		const struct load_number *number = &load_numbers[i];

		if (strcmp(word, number->name))
			continue;
		if (kstrtouint(value, 10, &got) || got < number->min || got > number->max) {
			snprintf(error, LOAD_ERROR, "%s: '%s' is not a number from %u to %u",
				 word, value, number->min, number->max);
			return -EINVAL;
		}
		*load_number_in(spec, number) = got;
		return 0;
	}
	snprintf(error, LOAD_ERROR, "there is no setting '%s'", word);
	return -EINVAL;
}

/* Checks a device against the other settings. */
static int load_check_dev(const struct load_spec *spec, struct load_dev *dev,
			  char error[LOAD_ERROR])
{
	struct device *parent = disk_to_dev(dev->bdev->bd_disk)->parent;

	if (load_is_passthrough(spec) && !(parent && scsi_is_sdev_device(parent))) {
		snprintf(error, LOAD_ERROR, "op: %s is for SCSI devices, which %pg is not",
			 load_ops[spec->op], dev->bdev);
		return -EINVAL;
	}
	if (spec->bs % bdev_logical_block_size(dev->bdev)) {
		snprintf(error, LOAD_ERROR, "bs: %u is no multiple of %pg's block, %u", spec->bs,
			 dev->bdev, bdev_logical_block_size(dev->bdev));
		return -EINVAL;
	}
	/* Each slot uses one CDB for all devices, so they need the same block size. */
	if (spec->op == LOAD_READ_10 && bdev_logical_block_size(dev->bdev) !=
	    bdev_logical_block_size(spec->devs[0].bdev)) {
		snprintf(error, LOAD_ERROR, "dev: %pg has blocks of %u bytes, %pg of %u", dev->bdev,
			 bdev_logical_block_size(dev->bdev), spec->devs[0].bdev,
			 bdev_logical_block_size(spec->devs[0].bdev));
		return -EINVAL;
	}
	dev->nr_blocks = min_t(u64, bdev_nr_bytes(dev->bdev) / spec->bs, U32_MAX);
	if (!dev->nr_blocks) {
		snprintf(error, LOAD_ERROR, "dev: %pg is smaller than %u bytes", dev->bdev,
			 spec->bs);
		return -EINVAL;
	}
	return 0;
}

static int load_check(struct load_spec *spec, char error[LOAD_ERROR])
{
	unsigned int i;
	int err;

	if (spec->batch > spec->qd) {
		snprintf(error, LOAD_ERROR, "batch: %u is more than qd, which is %u", spec->batch,
			 spec->qd);
		return -EINVAL;
	}
	if (spec->requests > spec->batch) {
		snprintf(error, LOAD_ERROR, "requests: %u is more than batch, which is %u",
			 spec->requests, spec->batch);
		return -EINVAL;
	}
	if ((load_is_passthrough(spec) || spec->op == LOAD_READ) && !spec->nr_devs) {
		snprintf(error, LOAD_ERROR, "dev: none given");
		return -EINVAL;
	}
	for (i = 0; i < spec->nr_devs; i++) {
		err = load_check_dev(spec, &spec->devs[i], error);
		if (err)
			return err;
	}
	return 0;
}

int load_spec_parse(struct load_spec *spec, char *text, char error[LOAD_ERROR])
{
	unsigned int i;
	char *word;
	int err = 0;

	memset(spec, 0, sizeof(*spec));
	for (i = 0; i < ARRAY_SIZE(load_numbers); i++)
		*load_number_in(spec, &load_numbers[i]) = load_numbers[i].def;
	if (!zalloc_cpumask_var(&spec->cpus, GFP_KERNEL)) {
		snprintf(error, LOAD_ERROR, "no memory");
		return -ENOMEM;
	}
	cpumask_set_cpu(cpumask_first(cpu_online_mask), spec->cpus);
	while (!err && (word = strsep(&text, " \t\n"))) {
		if (*word)
			err = load_parse_word(spec, word, error);
	}
	if (!err)
		err = load_check(spec, error);
	if (err)
		load_spec_release(spec);
	return err;
}

void load_spec_release(struct load_spec *spec)
{
	while (spec->nr_devs)
		fput(spec->devs[--spec->nr_devs].file);
	free_cpumask_var(spec->cpus);
}
