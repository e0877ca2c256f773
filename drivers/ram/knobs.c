// SPDX-License-Identifier: GPL-2.0
/*
 * HOST/model/ and HOST/fault/: settings that take effect at once, on commands that
 * follow, whether the host runs or not.
 */
#define pr_fmt(fmt) "smq_ram: " fmt

#include <linux/module.h>
#include <linux/string.h>

#include "ram_configfs.h"

/* The most a doorbell may cost: that long the CPU is busy with it. */
#define RAM_MAX_DOORBELL_NS	NSEC_PER_MSEC

static struct ram_dir *model_dir(struct config_item *item)
{
	return container_of(to_config_group(item), struct ram_dir, model_group);
}

static struct ram_dir *fault_dir(struct config_item *item)
{
	return container_of(to_config_group(item), struct ram_dir, fault_group);
}

static struct ram_model *model_of(struct config_item *item)
{
	return &model_dir(item)->model;
}

static struct ram_fault *fault_of(struct config_item *item)
{
	return &fault_dir(item)->fault;
}

/* One number of a struct that the hot path reads with READ_ONCE. */
#define RAM_KNOB(_kind, _name, _max)						\
static ssize_t ram_##_kind##_##_name##_show(struct config_item *item, char *page) \
{										\
	return sysfs_emit(page, "%llu\n", (u64)READ_ONCE(_kind##_of(item)->_name)); \
}										\
										\
static ssize_t ram_##_kind##_##_name##_store(struct config_item *item,		\
					     const char *page, size_t count)	\
{										\
	struct ram_dir *dir = _kind##_dir(item);				\
	u64 value;								\
	int err = kstrtou64(page, 0, &value);					\
										\
	if (err) {								\
		pr_err(#_kind "/" #_name " is no number in 0..%llu\n", (u64)(_max)); \
		return err;							\
	}									\
	if (value > (_max)) {							\
		pr_err(#_kind "/" #_name "=%llu is above %llu\n", value,	\
		       (u64)(_max));						\
		return -EINVAL;							\
	}									\
	mutex_lock(&dir->lock);							\
	WRITE_ONCE(_kind##_of(item)->_name, value);				\
	if (dir->ram)								\
		ram_update_attn(dir->ram);					\
	mutex_unlock(&dir->lock);						\
	return count;								\
}										\
CONFIGFS_ATTR(ram_##_kind##_, _name)

RAM_KNOB(model, service_ns, 1000 * (u64)NSEC_PER_SEC);
RAM_KNOB(model, hwq_depth, SMQ_MAX_DEPTH);
RAM_KNOB(model, doorbell_ns, RAM_MAX_DOORBELL_NS);
RAM_KNOB(model, bytes_per_sec, U64_MAX);

static ssize_t ram_model_doorbells_show(struct config_item *item, char *page)
{
	struct ram_dir *dir = model_dir(item);
	u64 sum = 0;
	unsigned int i;

	mutex_lock(&dir->lock);
	for (i = 0; dir->ram && i < dir->ram->smq->nr_hwqs; i++) {
		const struct ram_hwq *rq = smq_hwq_priv(dir->ram->smq->hwq[i]);

		sum += READ_ONCE(rq->doorbells);
	}
	mutex_unlock(&dir->lock);
	return sysfs_emit(page, "%llu\n", sum);
}
CONFIGFS_ATTR_RO(ram_model_, doorbells);

static struct configfs_attribute *ram_model_attrs[] = {
	&ram_model_attr_service_ns,
	&ram_model_attr_hwq_depth,
	&ram_model_attr_doorbell_ns,
	&ram_model_attr_bytes_per_sec,
	&ram_model_attr_doorbells,
	NULL
};

static const struct config_item_type ram_model_type = {
	.ct_attrs = ram_model_attrs,
	.ct_owner = THIS_MODULE,
};

RAM_KNOB(fault, every, U32_MAX);
RAM_KNOB(fault, first_lba, U64_MAX);
RAM_KNOB(fault, last_lba, U64_MAX);
RAM_KNOB(fault, status, U8_MAX);
RAM_KNOB(fault, sense, 0x0fffff);
RAM_KNOB(fault, delay_ms, 3600 * MSEC_PER_SEC);

static const char * const ram_fault_names[RAM_NR_FAULTS] = {
	[RAM_FAULT_NONE]	= "none",
	[RAM_FAULT_STATUS]	= "status",
	[RAM_FAULT_SENSE]	= "sense",
	[RAM_FAULT_TASK_SET_FULL] = "task_set_full",
	[RAM_FAULT_TIMEOUT]	= "timeout",
	[RAM_FAULT_LOST]	= "lost",
	[RAM_FAULT_SHORT]	= "short",
	[RAM_FAULT_WRONG_BYTE]	= "wrong_byte",
	[RAM_FAULT_NO_MEMORY]	= "no_memory",
};

static ssize_t ram_fault_kind_show(struct config_item *item, char *page)
{
	return sysfs_emit(page, "%s\n", ram_fault_names[READ_ONCE(fault_of(item)->kind)]);
}

static ssize_t ram_fault_kind_store(struct config_item *item, const char *page, size_t count)
{
	struct ram_dir *dir = fault_dir(item);
	int kind = __sysfs_match_string(ram_fault_names, RAM_NR_FAULTS, page);

	if (kind < 0) {
		pr_err("fault/kind is none of none, status, sense, task_set_full, timeout, lost, short, wrong_byte, no_memory\n");
		return kind;
	}
	mutex_lock(&dir->lock);
	WRITE_ONCE(dir->fault.kind, kind);
	if (dir->ram)
		ram_update_attn(dir->ram);
	mutex_unlock(&dir->lock);
	return count;
}
CONFIGFS_ATTR(ram_fault_, kind);

/* How many more: counts down to 0 as it happens; -1 is for ever. */
#define RAM_COUNT(_name)							\
static ssize_t ram_fault_##_name##_show(struct config_item *item, char *page)	\
{										\
	return sysfs_emit(page, "%d\n", atomic_read(&fault_of(item)->_name));	\
}										\
										\
static ssize_t ram_fault_##_name##_store(struct config_item *item,		\
					 const char *page, size_t count)	\
{										\
	int value, err = kstrtoint(page, 0, &value);				\
										\
	if (!err && value < -1)							\
		err = -EINVAL;							\
	if (err) {								\
		pr_err("fault/" #_name " is no number in -1..%d\n", INT_MAX);	\
		return err;							\
	}									\
	atomic_set(&fault_of(item)->_name, value);				\
	return count;								\
}										\
CONFIGFS_ATTR(ram_fault_, _name)

RAM_COUNT(count);
RAM_COUNT(fail_abort);
RAM_COUNT(fail_lun_reset);
RAM_COUNT(fail_target_reset);

static ssize_t ram_fault_injected_show(struct config_item *item, char *page)
{
	return sysfs_emit(page, "%lld\n", (s64)atomic64_read(&fault_of(item)->injected));
}
CONFIGFS_ATTR_RO(ram_fault_, injected);

static struct configfs_attribute *ram_fault_attrs[] = {
	&ram_fault_attr_kind,
	&ram_fault_attr_every,
	&ram_fault_attr_first_lba,
	&ram_fault_attr_last_lba,
	&ram_fault_attr_count,
	&ram_fault_attr_status,
	&ram_fault_attr_sense,
	&ram_fault_attr_delay_ms,
	&ram_fault_attr_injected,
	&ram_fault_attr_fail_abort,
	&ram_fault_attr_fail_lun_reset,
	&ram_fault_attr_fail_target_reset,
	NULL
};

static const struct config_item_type ram_fault_type = {
	.ct_attrs = ram_fault_attrs,
	.ct_owner = THIS_MODULE,
};

void ram_add_knobs(struct ram_dir *dir)
{
	config_group_init_type_name(&dir->model_group, "model", &ram_model_type);
	configfs_add_default_group(&dir->model_group, &dir->group);
	config_group_init_type_name(&dir->fault_group, "fault", &ram_fault_type);
	configfs_add_default_group(&dir->fault_group, &dir->group);
}
