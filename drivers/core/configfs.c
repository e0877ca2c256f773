// SPDX-License-Identifier: GPL-2.0
/* /sys/kernel/config/smq: LLDs add groups here, in which users set up the LLDs' hosts. */
#include <linux/configfs.h>
#include <linux/export.h>
#include <linux/module.h>

#include "smq.h"

static const struct config_item_type smq_configfs_type = {
	.ct_owner = THIS_MODULE,
};

static struct configfs_subsystem smq_configfs = {
	.su_group = {
		.cg_item = {
			.ci_namebuf = "smq",
			.ci_type = &smq_configfs_type,
		},
	},
	.su_mutex = __MUTEX_INITIALIZER(smq_configfs.su_mutex),
};

int smq_configfs_register(struct config_group *group)
{
	return configfs_register_group(&smq_configfs.su_group, group);
}
EXPORT_SYMBOL_GPL(smq_configfs_register);

void smq_configfs_unregister(struct config_group *group)
{
	configfs_unregister_group(group);
}
EXPORT_SYMBOL_GPL(smq_configfs_unregister);

int smq_configfs_init(void)
{
	config_group_init(&smq_configfs.su_group);
	return configfs_register_subsystem(&smq_configfs);
}

void smq_configfs_exit(void)
{
	configfs_unregister_subsystem(&smq_configfs);
}
