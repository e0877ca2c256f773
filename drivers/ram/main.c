// SPDX-License-Identifier: GPL-2.0
/* smq_ram: module parameters, and the hosts that they create. */
#define pr_fmt(fmt) "smq_ram: " fmt

#include <linux/module.h>
#include <smq/version.h>

#include "ram.h"

#define RAM_MAX_HOSTS	64

static unsigned int hosts = 1;
module_param(hosts, uint, 0444);
MODULE_PARM_DESC(hosts, "hosts to create, 0..64 (default 1)");

static unsigned int luns = 1;
module_param(luns, uint, 0444);
MODULE_PARM_DESC(luns, "LUNs per host, 1..256 (default 1)");

static struct ram_lun_config lun_config = {
	.size_mb = 256,
	.sector_size = 512,
};
module_param_named(size_mb, lun_config.size_mb, ulong, 0444);
MODULE_PARM_DESC(size_mb, "size of a LUN in MiB, 1..16777216; memory is allocated when a block is first written (default 256)");
module_param_named(sector_size, lun_config.sector_size, uint, 0444);
MODULE_PARM_DESC(sector_size, "bytes per logical block: 512, 1024, 2048 or 4096 (default 512)");
module_param_named(null, lun_config.null, bool, 0444);
MODULE_PARM_DESC(null, "move no data: READ leaves the buffer unchanged (default 0)");

static struct ram_config config = {
	.depth = 128,
};
module_param_named(hw_queues, config.hw_queues, uint, 0444);
MODULE_PARM_DESC(hw_queues, "hardware queues, 0: one per CPU (default 0)");
module_param_named(poll_queues, config.poll_queues, uint, 0444);
MODULE_PARM_DESC(poll_queues, "additional hardware queues for polled I/O (default 0)");
module_param_named(depth, config.depth, uint, 0444);
MODULE_PARM_DESC(depth, "commands per hardware queue, and also per LUN, 1..4096 (default 128)");

static LIST_HEAD(ram_hosts);

/* Hosts that module parameters create have no hardware model: all fields are 0. */
static struct ram_model no_model;

static void ram_remove_hosts(void)
{
	struct ram_host *ram, *next;

	list_for_each_entry_safe(ram, next, &ram_hosts, list) {
		list_del(&ram->list);
		ram_host_destroy(ram);
	}
}

static int __init ram_make_host(void)
{
	struct ram_host *ram = ram_host_create(&config, &no_model, NULL);
	unsigned int i;
	int err = 0;

	if (IS_ERR(ram))
		return PTR_ERR(ram);
	list_add_tail(&ram->list, &ram_hosts);
	for (i = 0; i < luns && !err; i++)
		err = ram_lun_create(ram, i, &lun_config);
	return err;
}

/* Scans last: a disk may be opened as soon as a scan finds it, so nothing may fail after that. */
static int __init ram_make_hosts(void)
{
	struct ram_host *ram;
	unsigned int i;
	int err = 0;

	for (i = 0; i < hosts && !err; i++)
		err = ram_make_host();
	if (err)
		return err;
	list_for_each_entry(ram, &ram_hosts, list) {
		err = ram_host_add(ram);
		if (err)
			return err;
	}
	list_for_each_entry(ram, &ram_hosts, list)
		scsi_scan_host(ram->smq->shost);
	return 0;
}

static int __init ram_check_params(void)
{
	if (hosts > RAM_MAX_HOSTS) {
		pr_err("hosts=%u is outside 0..%u\n", hosts, RAM_MAX_HOSTS);
		return -EINVAL;
	}
	if (luns < 1 || luns > RAM_MAX_LUNS) {
		pr_err("luns=%u is outside 1..%u\n", luns, RAM_MAX_LUNS);
		return -EINVAL;
	}
	return ram_check_lun_config(&lun_config);
}

static int __init ram_init(void)
{
	int err = ram_check_params();

	if (err)
		return err;
	err = ram_hosts_init();
	if (err)
		return err;
	err = ram_configfs_init();
	if (err)
		goto exit_hosts;
	err = ram_make_hosts();
	if (err)
		goto remove_hosts;
	return 0;

remove_hosts:
	ram_remove_hosts();
	ram_configfs_exit();
exit_hosts:
	ram_hosts_exit();
	return err;
}
module_init(ram_init);

static void __exit ram_exit(void)
{
	ram_configfs_exit();
	ram_remove_hosts();
	ram_hosts_exit();
}
module_exit(ram_exit);

MODULE_DESCRIPTION("RAM disk with SCSI multiqueue");
MODULE_VERSION(SMQ_VERSION);
MODULE_AUTHOR("smq developers");
MODULE_LICENSE("GPL");
