// SPDX-License-Identifier: GPL-2.0
/*
 * /sys/kernel/config/smq/ram/: creates, changes and removes hosts at run time.
 *
 * HOST/		hw_queues poll_queues depth host_tagset power
 * HOST/luns/N/		size_mb sector_size null power
 * HOST/model/, HOST/fault/	see knobs.c
 *
 * A LUN exists while its own power and its host's power are both 1. The settings that a host or
 * LUN is created with can be changed only while its own power is 0.
 */
#define pr_fmt(fmt) "smq_ram: " fmt

#include <linux/configfs.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/slab.h>

#include "ram.h"
#include "ram_configfs.h"

/* A LUN's directory, in the list of @dir. Freed with the last reference to @item. */
struct ram_lun_dir {
	struct config_item item;
	struct list_head list;
	struct ram_dir *dir;
	unsigned int number;
	struct ram_lun_config config;
	bool power;
};

static struct ram_lun_dir *to_lun_dir(struct config_item *item)
{
	return container_of(item, struct ram_lun_dir, item);
}

static struct ram_dir *to_dir(struct config_item *item)
{
	return container_of(to_config_group(item), struct ram_dir, group);
}

/* A setting that a host or LUN is created with. A refused value does not change the setting. */
#define RAM_CONFIG_ATTR(_pfx, _name, _to, _mutex, _power, _fmt, _parse, _check)	\
static ssize_t _pfx##_name##_show(struct config_item *item, char *page)		\
{										\
	return sysfs_emit(page, _fmt "\n", _to(item)->config._name);		\
}										\
										\
static ssize_t _pfx##_name##_store(struct config_item *item, const char *page,	\
				   size_t count)				\
{										\
	typeof(_to(item)->config) config;					\
	int err;								\
										\
	mutex_lock(_mutex(item));						\
	config = _to(item)->config;						\
	err = _power(item) ? -EBUSY : _parse(page, &config._name);		\
	if (err && err != -EBUSY)						\
		pr_err(#_name " is no number\n");				\
	if (!err)								\
		err = _check(&config);						\
	if (!err)								\
		_to(item)->config = config;					\
	mutex_unlock(_mutex(item));						\
	return err ?: count;							\
}										\
CONFIGFS_ATTR(_pfx, _name)

#define ram_parse_uint(page, to)	kstrtouint(page, 0, to)
#define ram_parse_ulong(page, to)	kstrtoul(page, 0, to)
#define ram_parse_bool(page, to)	kstrtobool(page, to)

#define lun_mutex(item)		(&to_lun_dir(item)->dir->lock)
#define lun_power(item)		(to_lun_dir(item)->power)
#define RAM_LUN_ATTR(_name, _fmt, _parse)					\
	RAM_CONFIG_ATTR(ram_lun_, _name, to_lun_dir, lun_mutex, lun_power, _fmt, \
			_parse, ram_check_lun_config)

RAM_LUN_ATTR(size_mb, "%lu", ram_parse_ulong);
RAM_LUN_ATTR(sector_size, "%u", ram_parse_uint);
RAM_LUN_ATTR(null, "%d", ram_parse_bool);

static ssize_t ram_lun_power_show(struct config_item *item, char *page)
{
	return sysfs_emit(page, "%d\n", to_lun_dir(item)->power);
}

/* Creates or removes the LUN, if its host exists. If it cannot be created, its power stays 0. */
static int ram_set_lun_power(struct ram_lun_dir *lun, bool power)
{
	struct ram_host *ram = lun->dir->ram;
	int err = 0;

	lockdep_assert_held(&lun->dir->lock);
	if (power == lun->power)
		return 0;
	if (ram && power) {
		err = ram_lun_create(ram, lun->number, &lun->config);
		if (err)
			return err;
		err = ram_lun_attach(ram, lun->number);
		if (err)
			ram_lun_destroy(ram, lun->number);
	} else if (ram) {
		ram_lun_destroy(ram, lun->number);
	}
	if (!err)
		lun->power = power;
	return err;
}

static ssize_t ram_lun_power_store(struct config_item *item, const char *page, size_t count)
{
	struct ram_lun_dir *lun = to_lun_dir(item);
	bool power;
	int err = kstrtobool(page, &power);

	if (err)
		return err;
	mutex_lock(&lun->dir->lock);
	err = ram_set_lun_power(lun, power);
	mutex_unlock(&lun->dir->lock);
	return err ?: count;
}
CONFIGFS_ATTR(ram_lun_, power);

static struct configfs_attribute *ram_lun_attrs[] = {
	&ram_lun_attr_size_mb,
	&ram_lun_attr_sector_size,
	&ram_lun_attr_null,
	&ram_lun_attr_power,
	NULL
};

static void ram_lun_release(struct config_item *item)
{
	kfree(to_lun_dir(item));
}

static struct configfs_item_operations ram_lun_item_ops = {
	.release = ram_lun_release,
};

static const struct config_item_type ram_lun_type = {
	.ct_item_ops = &ram_lun_item_ops,
	.ct_attrs = ram_lun_attrs,
	.ct_owner = THIS_MODULE,
};

static struct config_item *ram_make_lun(struct config_group *group, const char *name)
{
	struct ram_dir *dir = container_of(group, struct ram_dir, luns);
	struct ram_lun_dir *lun;
	unsigned int number;

	if (kstrtouint(name, 10, &number) || number >= RAM_MAX_LUNS) {
		pr_err("luns/%s: a LUN is a number in 0..%u\n", name, RAM_MAX_LUNS - 1);
		return ERR_PTR(-EINVAL);
	}
	lun = kzalloc(sizeof(*lun), GFP_KERNEL);
	if (!lun)
		return ERR_PTR(-ENOMEM);
	lun->dir = dir;
	lun->number = number;
	lun->config = ram_default_lun;
	config_item_init_type_name(&lun->item, name, &ram_lun_type);
	mutex_lock(&dir->lock);
	list_add_tail(&lun->list, &dir->lun_dirs);
	mutex_unlock(&dir->lock);
	return &lun->item;
}

static void ram_drop_lun(struct config_group *group, struct config_item *item)
{
	struct ram_lun_dir *lun = to_lun_dir(item);

	mutex_lock(&lun->dir->lock);
	ram_set_lun_power(lun, false);
	list_del(&lun->list);
	mutex_unlock(&lun->dir->lock);
	config_item_put(item);
}

static struct configfs_group_operations ram_luns_ops = {
	.make_item = ram_make_lun,
	.drop_item = ram_drop_lun,
};

static const struct config_item_type ram_luns_type = {
	.ct_group_ops = &ram_luns_ops,
	.ct_owner = THIS_MODULE,
};

#define dir_mutex(item)		(&to_dir(item)->lock)
#define dir_power(item)		(to_dir(item)->ram)
#define dir_check(config)	0
#define RAM_HOST_ATTR(_name, _fmt, _parse)					\
	RAM_CONFIG_ATTR(ram_host_, _name, to_dir, dir_mutex, dir_power, _fmt,	\
			_parse, dir_check)

RAM_HOST_ATTR(hw_queues, "%u", ram_parse_uint);
RAM_HOST_ATTR(poll_queues, "%u", ram_parse_uint);
RAM_HOST_ATTR(depth, "%u", ram_parse_uint);
RAM_HOST_ATTR(host_tagset, "%d", ram_parse_bool);

static ssize_t ram_host_power_show(struct config_item *item, char *page)
{
	return sysfs_emit(page, "%d\n", !!to_dir(item)->ram);
}

/* Creates the host with all LUNs whose power is 1. If one LUN fails, creates nothing. */
static int ram_power_on(struct ram_dir *dir)
{
	struct ram_host *ram = ram_host_create(&dir->config, &dir->model, &dir->fault);
	struct ram_lun_dir *lun;
	int err = 0;

	lockdep_assert_held(&dir->lock);
	if (IS_ERR(ram))
		return PTR_ERR(ram);
	list_for_each_entry(lun, &dir->lun_dirs, list) {
		if (lun->power && !err)
			err = ram_lun_create(ram, lun->number, &lun->config);
	}
	if (!err)
		err = ram_host_add(ram);
	if (err) {
		ram_host_destroy(ram);
		return err;
	}
	dir->ram = ram;
	scsi_scan_host(ram->smq->shost);
	return 0;
}

static void ram_power_off(struct ram_dir *dir)
{
	ram_host_destroy(dir->ram);
	dir->ram = NULL;
}

static ssize_t ram_host_power_store(struct config_item *item, const char *page, size_t count)
{
	struct ram_dir *dir = to_dir(item);
	bool power;
	int err = kstrtobool(page, &power);

	if (err)
		return err;
	mutex_lock(&dir->lock);
	if (power && !dir->ram)
		err = ram_power_on(dir);
	else if (!power && dir->ram)
		ram_power_off(dir);
	mutex_unlock(&dir->lock);
	return err ?: count;
}
CONFIGFS_ATTR(ram_host_, power);

static struct configfs_attribute *ram_host_attrs[] = {
	&ram_host_attr_hw_queues,
	&ram_host_attr_poll_queues,
	&ram_host_attr_depth,
	&ram_host_attr_host_tagset,
	&ram_host_attr_power,
	NULL
};

static void ram_host_release(struct config_item *item)
{
	kfree(to_dir(item));
}

static struct configfs_item_operations ram_host_item_ops = {
	.release = ram_host_release,
};

static const struct config_item_type ram_host_type = {
	.ct_item_ops = &ram_host_item_ops,
	.ct_attrs = ram_host_attrs,
	.ct_owner = THIS_MODULE,
};

static struct config_group *ram_make_host(struct config_group *group, const char *name)
{
	struct ram_dir *dir = kzalloc(sizeof(*dir), GFP_KERNEL);

	if (!dir)
		return ERR_PTR(-ENOMEM);
	mutex_init(&dir->lock);
	INIT_LIST_HEAD(&dir->lun_dirs);
	dir->config = ram_default_host;
	smq_fault_init(&dir->fault);
	config_group_init_type_name(&dir->group, name, &ram_host_type);
	config_group_init_type_name(&dir->luns, "luns", &ram_luns_type);
	configfs_add_default_group(&dir->luns, &dir->group);
	ram_add_knobs(dir);
	return &dir->group;
}

static void ram_drop_host(struct config_group *group, struct config_item *item)
{
	struct ram_dir *dir = to_dir(item);

	mutex_lock(&dir->lock);
	if (dir->ram)
		ram_power_off(dir);
	mutex_unlock(&dir->lock);
	config_item_put(item);
}

static struct configfs_group_operations ram_group_ops = {
	.make_group = ram_make_host,
	.drop_item = ram_drop_host,
};

static const struct config_item_type ram_group_type = {
	.ct_group_ops = &ram_group_ops,
	.ct_owner = THIS_MODULE,
};

static struct config_group ram_group;

int ram_configfs_init(void)
{
	config_group_init_type_name(&ram_group, "ram", &ram_group_type);
	return smq_configfs_register(&ram_group);
}

void ram_configfs_exit(void)
{
	smq_configfs_unregister(&ram_group);
}
