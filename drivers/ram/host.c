// SPDX-License-Identifier: GPL-2.0
/* Hosts and LUNs of the RAM disk: creation, discovery, changes and removal. */
#define pr_fmt(fmt) "smq_ram: " fmt

#include <linux/cpumask.h>
#include <linux/device.h>
#include <linux/idr.h>
#include <linux/log2.h>

#include "ram.h"

static struct device *ram_root;
static DEFINE_IDA(ram_index);

const struct ram_config ram_default_host = {
	.depth = 128,
};

const struct ram_lun_config ram_default_lun = {
	.size_mb = 256,
	.sector_size = 512,
};

int ram_check_lun_config(const struct ram_lun_config *cfg)
{
	if (cfg->size_mb < 1 || cfg->size_mb > RAM_MAX_MB) {
		pr_err("size_mb=%lu is outside 1..%lu\n", cfg->size_mb, RAM_MAX_MB);
		return -EINVAL;
	}
	if (!is_power_of_2(cfg->sector_size) || cfg->sector_size < SZ_512 ||
	    cfg->sector_size > SZ_4K) {
		pr_err("sector_size=%u is none of 512, 1024, 2048, 4096\n", cfg->sector_size);
		return -EINVAL;
	}
	return 0;
}

/*
 * Sets in each LUN whether its commands must check the host's model and faults. Two callers may
 * run at once, so the settings are read under the lock.
 */
void ram_update_attn(struct ram_host *ram)
{
	const struct ram_model *model = ram->model;
	bool modelled, faulty;
	struct ram_lun *lun;
	unsigned long i;

	xa_lock(&ram->luns);
	modelled = READ_ONCE(model->service_ns) || READ_ONCE(model->hwq_ns) ||
		   READ_ONCE(model->hwq_depth) || READ_ONCE(model->doorbell_ns) ||
		   READ_ONCE(model->bytes_per_sec);
	faulty = READ_ONCE(smq_host_fault(ram->smq)->kind) >= SMQ_FAULT_LLD;
	xa_for_each(&ram->luns, i, lun) {
		assign_bit(RAM_MODEL, &lun->attn, modelled);
		assign_bit(RAM_FAULT, &lun->attn, faulty);
	}
	xa_unlock(&ram->luns);
}

static void ram_fault_changed(struct smq_host *host)
{
	ram_update_attn(smq_host_priv(host));
}

const struct smq_fault_kinds ram_fault_kinds = {
	.nr		= RAM_NR_FAULTS,
	.names		= ram_fault_names,
	.changed	= ram_fault_changed,
};

/* Makes all LUNs except @number report that the inventory has changed (SPC-5, 6.33). */
static void ram_luns_changed(struct ram_host *ram, unsigned int number)
{
	struct ram_lun *lun;
	unsigned long i;

	xa_lock(&ram->luns);
	xa_for_each(&ram->luns, i, lun) {
		if (i != number)
			set_bit(RAM_UA_LUNS_CHANGED, &lun->attn);
	}
	xa_unlock(&ram->luns);
}

/*
 * Creates a LUN that the next scan or ram_lun_attach() finds. The caller has checked @cfg.
 * Context: may sleep; the caller serialises changes of one host.
 */
int ram_lun_create(struct ram_host *ram, unsigned int number, const struct ram_lun_config *cfg)
{
	struct ram_lun *lun = ram_lun_alloc(ram, number, cfg);
	int err;

	if (!lun)
		return -ENOMEM;
	err = xa_insert(&ram->luns, number, lun, GFP_KERNEL);
	if (err) {
		ram_lun_put(lun);
		return err;
	}
	ram_update_attn(ram);
	return 0;
}

/*
 * Makes the mid-layer find a LUN of a running host. Context: as ram_lun_create().
 * Return: 0 or the mid-layer's error, which may be -ENODEV if there was no memory. After an error
 * the caller must destroy the LUN.
 */
int ram_lun_attach(struct ram_host *ram, unsigned int number)
{
	ram_luns_changed(ram, number);
	return scsi_add_device(ram->smq->shost, 0, 0, number);
}

/* Removes a LUN, even with commands in flight. Context: as ram_lun_create(). */
void ram_lun_destroy(struct ram_host *ram, unsigned int number)
{
	struct ram_lun *lun = xa_erase(&ram->luns, number);
	struct scsi_device *sdev;

	if (!lun)
		return;
	sdev = scsi_device_lookup(ram->smq->shost, 0, 0, number);
	if (sdev) {
		scsi_remove_device(sdev);
		scsi_device_put(sdev);
	}
	ram_luns_changed(ram, number);
	ram_lun_put(lun);
}

static void ram_free_luns(struct ram_host *ram)
{
	struct ram_lun *lun;
	unsigned long i;

	xa_for_each(&ram->luns, i, lun)
		ram_lun_put(lun);
	xa_destroy(&ram->luns);
}

/*
 * Creates a host without LUNs; the mid-layer does not know it yet. The caller owns @model and
 * @fault, which must outlive the host; with a @fault of NULL the host has settings of its own.
 * Context: may sleep. Return: the host or an ERR_PTR, after a message if a value of @cfg was
 * refused.
 */
struct ram_host *ram_host_create(const struct ram_config *cfg, struct ram_model *model,
				 struct smq_fault *fault)
{
	const struct smq_host_config smq_cfg = {
		.hw_queues = cfg->hw_queues ?: num_possible_cpus(),
		.poll_queues = cfg->poll_queues,
		.depth = cfg->depth,
		.extra = min(cfg->depth, RAM_MAX_EXTRA),
		.max_id = 1,
		.max_lun = RAM_MAX_LUNS,
	};
	struct smq_host *host = ram_host_alloc(&smq_cfg);
	struct ram_host *ram;
	int index;

	if (IS_ERR(host))
		return ERR_CAST(host);
	index = ida_alloc_max(&ram_index, U16_MAX, GFP_KERNEL);
	if (index < 0) {
		smq_host_free(host);
		return ERR_PTR(index);
	}
	ram = smq_host_priv(host);
	ram->smq = host;
	host->shost->host_tagset = cfg->host_tagset;
	ram->index = index;
	ram->model = model;
	if (fault)
		smq_fault_use(host, fault);
	xa_init(&ram->luns);
	return ram;
}

/* Adds a host to the mid-layer. The caller then scans it, to find its LUNs. */
int ram_host_add(struct ram_host *ram)
{
	int err = smq_host_add(ram->smq, ram_root);

	ram->added = !err;
	return err;
}

void ram_host_destroy(struct ram_host *ram)
{
	if (ram->added)
		smq_host_remove(ram->smq);
	ram_free_luns(ram);
	ida_free(&ram_index, ram->index);
	smq_host_free(ram->smq);
}

int ram_hosts_init(void)
{
	ram_root = root_device_register("smq_ram");
	return PTR_ERR_OR_ZERO(ram_root);
}

void ram_hosts_exit(void)
{
	root_device_unregister(ram_root);
	ida_destroy(&ram_index);
	/* Wait for RCU callbacks of this module that free pages. */
	rcu_barrier();
}
