// SPDX-License-Identifier: GPL-2.0
/* The settings of faults as text, and hostN/smq_fault/ in sysfs. */
#define pr_fmt(fmt) "smq: " fmt

#include <linux/device.h>
#include <linux/export.h>
#include <linux/limits.h>
#include <linux/stddef.h>
#include <linux/string.h>
#include <linux/sysfs.h>
#include <linux/time64.h>

#include "core.h"
#include "smq.h"

static const char * const smq_fault_names[SMQ_FAULT_LLD] = {
	[SMQ_FAULT_NONE]	= "none",
	[SMQ_FAULT_STATUS]	= "status",
	[SMQ_FAULT_SENSE]	= "sense",
	[SMQ_FAULT_TASK_SET_FULL] = "task_set_full",
	[SMQ_FAULT_DROPPED]	= "dropped",
	[SMQ_FAULT_TIMEOUT]	= "timeout",
	[SMQ_FAULT_LOST]	= "lost",
	[SMQ_FAULT_SHORT]	= "short",
	[SMQ_FAULT_WRONG_STATUS] = "wrong_status",
};

/* Settings that are numbers; the code reads them with READ_ONCE(). */
static const struct {
	const char *name;
	size_t at;
	u64 max;
} smq_fault_numbers[] = {
	{ "every", offsetof(struct smq_fault, every), U32_MAX },
	{ "first_lba", offsetof(struct smq_fault, first_lba), U64_MAX },
	{ "last_lba", offsetof(struct smq_fault, last_lba), U64_MAX },
	{ "status", offsetof(struct smq_fault, status), U8_MAX },
	{ "sense", offsetof(struct smq_fault, sense), 0x0fffff },
	{ "delay_ms", offsetof(struct smq_fault, delay_ms), 3600 * MSEC_PER_SEC },
};

/* Settings that are counts: each fault decrements its count until it is 0; -1 means no limit. */
static const struct {
	const char *name;
	size_t at;
} smq_fault_counts[] = {
	{ "count", offsetof(struct smq_fault, count) },
	{ "fail_abort", offsetof(struct smq_fault, fail_abort) },
	{ "fail_lun_reset", offsetof(struct smq_fault, fail_lun_reset) },
	{ "fail_target_reset", offsetof(struct smq_fault, fail_target_reset) },
};

static const char *smq_fault_name(const struct smq_fault_kinds *own, unsigned int kind)
{
	return kind < SMQ_FAULT_LLD ? smq_fault_names[kind] : own->names[kind - SMQ_FAULT_LLD];
}

ssize_t smq_fault_show(const struct smq_fault *fault, const struct smq_fault_kinds *own,
		       const char *name, char *page)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(smq_fault_numbers); i++) {
		if (!strcmp(name, smq_fault_numbers[i].name))
			return sysfs_emit(page, "%llu\n",
				READ_ONCE(*(u64 *)((void *)fault + smq_fault_numbers[i].at)));
	}
	for (i = 0; i < ARRAY_SIZE(smq_fault_counts); i++) {
		if (!strcmp(name, smq_fault_counts[i].name))
			return sysfs_emit(page, "%d\n",
				atomic_read((void *)fault + smq_fault_counts[i].at));
	}
	if (!strcmp(name, "kind"))
		return sysfs_emit(page, "%s\n", smq_fault_name(own, READ_ONCE(fault->kind)));
	if (!strcmp(name, "injected"))
		return sysfs_emit(page, "%lld\n", (s64)atomic64_read(&fault->injected));
	return -ENOENT;
}
EXPORT_SYMBOL_GPL(smq_fault_show);

static int smq_fault_store_number(u64 *number, const char *name, u64 max, const char *page)
{
	u64 value;
	int err = kstrtou64(page, 0, &value);

	if (err) {
		pr_err("fault/%s is no number in 0..%llu\n", name, max);
		return err;
	}
	if (value > max) {
		pr_err("fault/%s=%llu is above %llu\n", name, value, max);
		return -EINVAL;
	}
	WRITE_ONCE(*number, value);
	return 0;
}

static int smq_fault_store_count(atomic_t *count, const char *name, const char *page)
{
	int value, err = kstrtoint(page, 0, &value);

	if (!err && value < -1)
		err = -EINVAL;
	if (err) {
		pr_err("fault/%s is no number in -1..%d\n", name, INT_MAX);
		return err;
	}
	atomic_set(count, value);
	return 0;
}

static int smq_fault_store_kind(struct smq_fault *fault, const struct smq_fault_kinds *own,
				const char *page)
{
	unsigned int kind, nr = SMQ_FAULT_LLD + (own ? own->nr : 0);
	char names[160];
	int len = 0;

	for (kind = 0; kind < nr; kind++) {
		const char *name = smq_fault_name(own, kind);

		if (sysfs_streq(page, name)) {
			WRITE_ONCE(fault->kind, kind);
			/* A kind alone is for one command: a forgotten count hurts least. */
			if (kind == SMQ_FAULT_NONE)
				atomic_set(&fault->count, 0);
			else
				atomic_cmpxchg(&fault->count, 0, 1);
			return 0;
		}
		len += scnprintf(names + len, sizeof(names) - len, kind ? ", %s" : "%s", name);
	}
	pr_err("fault/kind is none of %s\n", names);
	return -EINVAL;
}

int smq_fault_store(struct smq_fault *fault, const struct smq_fault_kinds *own,
		    const char *name, const char *page)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(smq_fault_numbers); i++) {
		if (!strcmp(name, smq_fault_numbers[i].name))
			return smq_fault_store_number((void *)fault + smq_fault_numbers[i].at, name,
						      smq_fault_numbers[i].max, page);
	}
	for (i = 0; i < ARRAY_SIZE(smq_fault_counts); i++) {
		if (!strcmp(name, smq_fault_counts[i].name))
			return smq_fault_store_count((void *)fault + smq_fault_counts[i].at, name,
						     page);
	}
	return smq_fault_store_kind(fault, own, page);
}
EXPORT_SYMBOL_GPL(smq_fault_store);

static ssize_t smq_fault_attr_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct smq_host *host = smq_dev_to_host(dev);

	return smq_fault_show(host->core->faults.settings, host->lld->faults, attr->attr.name, buf);
}

/*
 * Whether the layer can inject a kind of fault in an attached host. It can neither withhold a
 * command that the LLD has completed, nor restore a shortened one that error handling has ended.
 */
static bool smq_fault_attached_may(const char *kind)
{
	static const enum smq_fault_kind refused[] = {
		SMQ_FAULT_TIMEOUT, SMQ_FAULT_LOST, SMQ_FAULT_SHORT,
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(refused); i++) {
		if (sysfs_streq(kind, smq_fault_name(NULL, refused[i]))) {
			pr_err("fault/kind: an attached host has no '%s'\n",
			       smq_fault_name(NULL, refused[i]));
			return false;
		}
	}
	return true;
}

static ssize_t smq_fault_attr_store(struct device *dev, struct device_attribute *attr,
				    const char *buf, size_t count)
{
	struct smq_host *host = smq_dev_to_host(dev);
	int err;

	if (host->attached && !strcmp(attr->attr.name, "kind") && !smq_fault_attached_may(buf))
		return -EOPNOTSUPP;
	err = smq_fault_store(host->core->faults.settings, host->lld->faults, attr->attr.name, buf);
	if (err)
		return err;
	smq_fault_changed(host);
	return count;
}

#define SMQ_FAULT_ATTR(_name)							\
static struct device_attribute smq_fault_attr_##_name =				\
	__ATTR(_name, 0644, smq_fault_attr_show, smq_fault_attr_store)

SMQ_FAULT_ATTR(kind);
SMQ_FAULT_ATTR(every);
SMQ_FAULT_ATTR(first_lba);
SMQ_FAULT_ATTR(last_lba);
SMQ_FAULT_ATTR(count);
SMQ_FAULT_ATTR(status);
SMQ_FAULT_ATTR(sense);
SMQ_FAULT_ATTR(delay_ms);
SMQ_FAULT_ATTR(fail_abort);
SMQ_FAULT_ATTR(fail_lun_reset);
SMQ_FAULT_ATTR(fail_target_reset);

static struct device_attribute smq_fault_attr_injected =
	__ATTR(injected, 0444, smq_fault_attr_show, NULL);

static struct attribute *smq_fault_attrs[] = {
	&smq_fault_attr_kind.attr,
	&smq_fault_attr_every.attr,
	&smq_fault_attr_first_lba.attr,
	&smq_fault_attr_last_lba.attr,
	&smq_fault_attr_count.attr,
	&smq_fault_attr_status.attr,
	&smq_fault_attr_sense.attr,
	&smq_fault_attr_delay_ms.attr,
	&smq_fault_attr_injected.attr,
	&smq_fault_attr_fail_abort.attr,
	&smq_fault_attr_fail_lun_reset.attr,
	&smq_fault_attr_fail_target_reset.attr,
	NULL
};

const struct attribute_group smq_fault_group = {
	.name = "smq_fault",
	.attrs = smq_fault_attrs,
};
