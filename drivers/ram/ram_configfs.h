/* SPDX-License-Identifier: GPL-2.0 */
/* Declarations for the two files behind /sys/kernel/config/smq/ram/. */
#ifndef SMQ_RAM_CONFIGFS_H
#define SMQ_RAM_CONFIGFS_H

#include <linux/configfs.h>
#include <linux/mutex.h>

#include "ram.h"

/**
 * struct ram_dir - a host's directory
 * @group: the directory; dropping its last reference, after the host is gone, frees this structure
 * @luns: HOST/luns
 * @model_group: HOST/model
 * @fault_group: HOST/fault
 * @lock: serialises power, LUNs and settings of this host
 * @lun_dirs: the directories in HOST/luns
 * @config: configuration of the host
 * @model: hardware model, which the running host uses
 * @fault: fault settings, which the running host uses
 * @ram: the running host, NULL while power is 0
 */
struct ram_dir {
	struct config_group group;
	struct config_group luns;
	struct config_group model_group;
	struct config_group fault_group;
	struct mutex lock;		/* protects what follows */
	struct list_head lun_dirs;
	struct ram_config config;
	struct ram_model model;
	struct smq_fault fault;
	struct ram_host *ram;
};

/* knobs.c: HOST/model and HOST/fault */
void ram_add_knobs(struct ram_dir *dir);

#endif /* SMQ_RAM_CONFIGFS_H */
