// SPDX-License-Identifier: GPL-2.0
/* smq_ram: hosts, LUNs and module parameters of the RAM disk. */
#define pr_fmt(fmt) "smq_ram: " fmt

#include <linux/cpumask.h>
#include <linux/device.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>

#include "ram.h"

static unsigned int hosts = 1;
module_param(hosts, uint, 0444);
MODULE_PARM_DESC(hosts, "hosts to create, 0..64 (default 1)");

static unsigned int luns = 1;
module_param(luns, uint, 0444);
MODULE_PARM_DESC(luns, "LUNs per host, 1..256 (default 1)");

static unsigned long size_mb = 256;
module_param(size_mb, ulong, 0444);
MODULE_PARM_DESC(size_mb, "size of a LUN in MiB, 1..16777216; memory is used as it is written (default 256)");

static unsigned int sector_size = 512;
module_param(sector_size, uint, 0444);
MODULE_PARM_DESC(sector_size, "bytes per logical block: 512, 1024, 2048 or 4096 (default 512)");

static unsigned int hw_queues;
module_param(hw_queues, uint, 0444);
MODULE_PARM_DESC(hw_queues, "hardware queues, 0: one per CPU (default 0)");

static unsigned int poll_queues;
module_param(poll_queues, uint, 0444);
MODULE_PARM_DESC(poll_queues, "further hardware queues for polled I/O (default 0)");

static unsigned int depth = 128;
module_param(depth, uint, 0444);
MODULE_PARM_DESC(depth, "commands per hardware queue and LUN, 1..4096 (default 128)");

static bool null;
module_param(null, bool, 0444);
MODULE_PARM_DESC(null, "move no data: READ leaves the buffer as it was (default 0)");

#define RAM_MAX_HOSTS	64
/* SAM-6, 4.7.7.4: what peripheral device addressing reaches on one bus. */
#define RAM_MAX_LUNS	256
#define RAM_MAX_MB	(SZ_16M * 1UL)		/* 16 TiB */

static struct device *ram_root;
static LIST_HEAD(ram_hosts);

static void ram_free_luns(struct ram_host *ram)
{
	unsigned int i;

	for (i = 0; ram->luns && i < ram->nr_luns; i++)
		ram_store_exit(&ram->luns[i].store);
	kvfree(ram->luns);
}

static int ram_alloc_luns(struct ram_host *ram)
{
	unsigned int i;
	int err = 0;

	ram->nr_luns = luns;
	ram->luns = kvcalloc(luns, sizeof(*ram->luns), GFP_KERNEL);
	if (!ram->luns)
		return -ENOMEM;
	for (i = 0; i < luns && !err; i++) {
		struct ram_lun *lun = &ram->luns[i];

		lun->number = i;
		lun->ram = ram;
		lun->null = null;
		lun->shift = ilog2(sector_size);
		lun->nr_blocks = (u64)size_mb << (20 - lun->shift);
		set_bit(RAM_UA_POWER_ON, &lun->attn);
		err = ram_store_init(&lun->store, (u64)size_mb << 20);
	}
	return err;
}

static void ram_free_host(struct ram_host *ram)
{
	ram_free_luns(ram);
	smq_host_free(ram->smq);
}

static int __init ram_make_host(unsigned int index)
{
	const struct smq_host_config cfg = {
		.hw_queues = hw_queues ?: num_possible_cpus(),
		.poll_queues = poll_queues,
		.depth = depth,
		.max_id = 1,
		.max_lun = luns,
	};
	struct smq_host *host = ram_host_alloc(&cfg);
	struct ram_host *ram;
	int err;

	if (IS_ERR(host))
		return PTR_ERR(host);
	ram = smq_host_priv(host);
	ram->smq = host;
	ram->index = index;
	err = ram_alloc_luns(ram);
	if (err)
		ram_free_host(ram);
	else
		list_add_tail(&ram->list, &ram_hosts);
	return err;
}

static void ram_remove_hosts(void)
{
	struct ram_host *ram, *next;

	list_for_each_entry_safe(ram, next, &ram_hosts, list) {
		list_del(&ram->list);
		if (ram->added)
			smq_host_remove(ram->smq);
		ram_free_host(ram);
	}
}

/* A disk may be opened as soon as it is found: nothing may fail after that. */
static int __init ram_make_hosts(void)
{
	struct ram_host *ram;
	unsigned int i;
	int err = 0;

	for (i = 0; i < hosts && !err; i++)
		err = ram_make_host(i);
	if (err)
		return err;
	list_for_each_entry(ram, &ram_hosts, list) {
		err = smq_host_add(ram->smq, ram_root);
		if (err)
			return err;
		ram->added = true;
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
	if (size_mb < 1 || size_mb > RAM_MAX_MB) {
		pr_err("size_mb=%lu is outside 1..%lu\n", size_mb, RAM_MAX_MB);
		return -EINVAL;
	}
	if (!is_power_of_2(sector_size) || sector_size < SZ_512 || sector_size > SZ_4K) {
		pr_err("sector_size=%u is none of 512, 1024, 2048, 4096\n", sector_size);
		return -EINVAL;
	}
	return 0;
}

static int __init ram_init(void)
{
	int err = ram_check_params();

	if (err)
		return err;
	ram_root = root_device_register("smq_ram");
	if (IS_ERR(ram_root))
		return PTR_ERR(ram_root);
	err = ram_make_hosts();
	if (err) {
		ram_remove_hosts();
		root_device_unregister(ram_root);
	}
	return err;
}
module_init(ram_init);

static void __exit ram_exit(void)
{
	ram_remove_hosts();
	root_device_unregister(ram_root);
	/* Pages on their way out are freed by this module's code. */
	rcu_barrier();
}
module_exit(ram_exit);

MODULE_DESCRIPTION("RAM disk with SCSI multiqueue");
MODULE_LICENSE("GPL");
