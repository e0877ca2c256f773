// SPDX-License-Identifier: GPL-2.0
/*
 * HOST/model/ and HOST/fault/: settings that can be changed while the host runs; they apply to
 * the next command.
 */
#define pr_fmt(fmt) "smq_ram: " fmt

#include <linux/module.h>
#include <linux/string.h>

#include "ram_configfs.h"

/* Limits the cost of a doorbell, because the CPU waits for that time in a busy loop. */
#define RAM_MAX_DOORBELL_NS	NSEC_PER_MSEC

static struct ram_dir *model_dir(struct config_item *item)
{
	return container_of(to_config_group(item), struct ram_dir, model_group);
}

static struct ram_dir *fault_dir(struct config_item *item)
{
	return container_of(to_config_group(item), struct ram_dir, fault_group);
}

/* A setting of the model: a number, which the hot path reads with READ_ONCE(). */
#define RAM_KNOB(_name, _max)							\
static ssize_t ram_model_##_name##_show(struct config_item *item, char *page)	\
{										\
	return sysfs_emit(page, "%llu\n", (u64)READ_ONCE(model_dir(item)->model._name)); \
}										\
										\
static ssize_t ram_model_##_name##_store(struct config_item *item,		\
					 const char *page, size_t count)	\
{										\
	struct ram_dir *dir = model_dir(item);					\
	u64 value;								\
	int err = kstrtou64(page, 0, &value);					\
										\
	if (err) {								\
		pr_err("model/" #_name " is no number in 0..%llu\n", (u64)(_max)); \
		return err;							\
	}									\
	if (value > (_max)) {							\
		pr_err("model/" #_name "=%llu is above %llu\n", value,		\
		       (u64)(_max));						\
		return -EINVAL;							\
	}									\
	mutex_lock(&dir->lock);							\
	WRITE_ONCE(dir->model._name, value);					\
	if (dir->ram)								\
		ram_update_attn(dir->ram);					\
	mutex_unlock(&dir->lock);						\
	return count;								\
}										\
CONFIGFS_ATTR(ram_model_, _name)

RAM_KNOB(service_ns, 1000 * (u64)NSEC_PER_SEC);
RAM_KNOB(hwq_ns, (u64)NSEC_PER_SEC);
RAM_KNOB(hwq_depth, SMQ_MAX_DEPTH);
RAM_KNOB(doorbell_ns, RAM_MAX_DOORBELL_NS);
RAM_KNOB(bytes_per_sec, U64_MAX);
RAM_KNOB(irq_affinity, 1);

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
	&ram_model_attr_hwq_ns,
	&ram_model_attr_hwq_depth,
	&ram_model_attr_doorbell_ns,
	&ram_model_attr_bytes_per_sec,
	&ram_model_attr_irq_affinity,
	&ram_model_attr_doorbells,
	NULL
};

static const struct config_item_type ram_model_type = {
	.ct_attrs = ram_model_attrs,
	.ct_owner = THIS_MODULE,
};

/* The layer's fault settings, under their own names; "injected" is read-only. */
#define RAM_FAULT_SHOW(_name)							\
static ssize_t ram_fault_##_name##_show(struct config_item *item, char *page)	\
{										\
	return smq_fault_show(&fault_dir(item)->fault, &ram_fault_kinds, #_name, page); \
}

#define RAM_FAULT_ATTR(_name)							\
RAM_FAULT_SHOW(_name)								\
										\
static ssize_t ram_fault_##_name##_store(struct config_item *item,		\
					 const char *page, size_t count)	\
{										\
	return ram_fault_store(fault_dir(item), #_name, page) ?: count;		\
}										\
CONFIGFS_ATTR(ram_fault_, _name)

static ssize_t ram_fault_store(struct ram_dir *dir, const char *name, const char *page)
{
	int err;

	mutex_lock(&dir->lock);
	err = smq_fault_store(&dir->fault, &ram_fault_kinds, name, page);
	if (!err && dir->ram)
		smq_fault_changed(dir->ram->smq);
	mutex_unlock(&dir->lock);
	return err;
}

RAM_FAULT_ATTR(kind);
RAM_FAULT_ATTR(every);
RAM_FAULT_ATTR(first_lba);
RAM_FAULT_ATTR(last_lba);
RAM_FAULT_ATTR(count);
RAM_FAULT_ATTR(status);
RAM_FAULT_ATTR(sense);
RAM_FAULT_ATTR(delay_ms);
RAM_FAULT_ATTR(fail_abort);
RAM_FAULT_ATTR(fail_lun_reset);
RAM_FAULT_ATTR(fail_target_reset);
RAM_FAULT_SHOW(injected)
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
