// SPDX-License-Identifier: GPL-2.0
/* Allocation and reference counting of a LUN. */
#include <linux/kref.h>
#include <linux/log2.h>
#include <linux/slab.h>

#include "ram.h"

static void ram_lun_free(struct kref *ref)
{
	struct ram_lun *lun = container_of(ref, struct ram_lun, ref);

	ram_store_exit(&lun->store);
	kfree(lun);
}

/* Drops a reference. Context: may sleep. */
void ram_lun_put(struct ram_lun *lun)
{
	kref_put(&lun->ref, ram_lun_free);
}

/* Allocates a LUN with one reference; NULL if there is no memory. The caller has checked @cfg. */
struct ram_lun *ram_lun_alloc(struct ram_host *ram, unsigned int number,
			      const struct ram_lun_config *cfg)
{
	struct ram_lun *lun = kzalloc(sizeof(*lun), GFP_KERNEL);

	if (!lun)
		return NULL;
	kref_init(&lun->ref);
	lun->number = number;
	lun->ram = ram;
	lun->null = cfg->null;
	lun->shift = ilog2(cfg->sector_size);
	lun->nr_blocks = (u64)cfg->size_mb << (20 - lun->shift);
	set_bit(RAM_UA_POWER_ON, &lun->attn);
	if (ram_store_init(&lun->store, (u64)cfg->size_mb << 20)) {
		ram_lun_put(lun);
		return NULL;
	}
	return lun;
}
