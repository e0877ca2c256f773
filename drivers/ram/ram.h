/* SPDX-License-Identifier: GPL-2.0 */
/* smq_ram: a RAM disk as an LLD on smq. What its files share. */
#ifndef SMQ_RAM_H
#define SMQ_RAM_H

#include <linux/bits.h>
#include <linux/cacheflush.h>
#include <linux/mm.h>
#include <linux/sizes.h>
#include <linux/types.h>
#include <smq/lld.h>

/* Storage is kept in pages, found through leaves of page pointers. */
#define RAM_LEAF_SHIFT	(PAGE_SHIFT - 3)
#define RAM_LEAF_PAGES	BIT(RAM_LEAF_SHIFT)

struct ram_leaf {
	void *page[RAM_LEAF_PAGES];
};

/**
 * struct ram_store - sparse storage of a LUN
 * @dir: leaves, NULL where nothing was ever written
 * @nr_leaves: of @dir
 *
 * Readers hold no lock: both levels are read inside an RCU read-side section. A
 * pointer is set by cmpxchg, so of two writers to one hole one wins and both use
 * the winner's page. A page taken out is freed a grace period later; leaves stay
 * until the store goes.
 */
struct ram_store {
	struct ram_leaf **dir;
	unsigned long nr_leaves;
};

/*
 * For the worker: reclaim may need this very disk, so no I/O; an order-0 request
 * would else never fail, and error handling waits for the worker.
 */
#define RAM_GFP_WAIT	(GFP_NOIO | __GFP_RETRY_MAYFAIL)

int ram_store_init(struct ram_store *store, u64 bytes);
void ram_store_exit(struct ram_store *store);
void *ram_store_get(struct ram_store *store, u64 pgno, gfp_t gfp);
void ram_store_clear(struct ram_store *store, u64 pos, u64 len);

/* The page's memory, or NULL for a hole. Context: RCU read-side section. */
static __always_inline void *ram_store_find(const struct ram_store *store, u64 pgno)
{
	/* Ordered by the address dependency against the cmpxchg that set it. */
	struct ram_leaf *leaf = READ_ONCE(store->dir[pgno >> RAM_LEAF_SHIFT]);

	return leaf ? READ_ONCE(leaf->page[pgno & (RAM_LEAF_PAGES - 1)]) : NULL;
}

/* What must be looked at before a LUN's medium is used; bits of ram_lun.attn. */
enum ram_attn {
	RAM_UA_POWER_ON,	/* unit attentions (SAM-6, 5.14), reported in this order */
	RAM_UA_RESET,
	RAM_NR_UA,
	RAM_STOPPED = RAM_NR_UA,	/* START STOP UNIT: no medium access */
};

/**
 * struct ram_lun - a logical unit
 * @attn: enum ram_attn bits, changed with atomic bit operations because any CPU
 *	may raise or report a condition; 0 in the usual case, so a command pays
 *	for one test
 * @nr_blocks: capacity in blocks
 * @shift: log2 of the block size
 * @null: moves no data
 * @number: its LUN
 * @ram: its host
 * @store: its data
 *
 * All but @attn and the store's pages is set before the host is added and then
 * only read. Lifetime: that of its host.
 */
struct ram_lun {
	unsigned long attn;
	u64 nr_blocks;
	unsigned int shift;
	bool null;
	unsigned int number;
	struct ram_host *ram;
	struct ram_store store;
};

/**
 * struct ram_host - the private area of a host
 * @list: in the module's list of hosts
 * @smq: the layer's host that it is part of
 * @index: counts the module's hosts, part of every serial number
 * @added: known to the mid-layer
 * @nr_luns: LUNs 0 .. @nr_luns - 1
 * @luns: the logical units
 */
struct ram_host {
	struct list_head list;
	struct smq_host *smq;
	unsigned int index;
	bool added;
	unsigned int nr_luns;
	struct ram_lun *luns;
};

/**
 * struct ram_hwq - the private area of a hardware queue
 * @lock: protects @done: queueing and polling CPUs of this queue only; taken
 *	with interrupts on, since neither happens in an interrupt
 * @done: finished commands of a poll queue, waiting to be found
 */
struct ram_hwq {
	spinlock_t lock;	/* protects done */
	struct list_head done;
};

/* The CPU wrote to a data buffer that user space may have mapped. */
static inline void ram_flush_dcache(void *buf, unsigned int len)
{
	unsigned long at = (unsigned long)buf & PAGE_MASK;

	if (!ARCH_IMPLEMENTS_FLUSH_DCACHE_PAGE)
		return;
	for (; at < (unsigned long)buf + len; at += PAGE_SIZE)
		flush_dcache_page(virt_to_page((void *)at));
}

static inline struct ram_lun *ram_scmd_lun(const struct scsi_cmnd *scmd)
{
	return scmd->device->hostdata;
}

/**
 * struct ram_op - a command that the device server knows
 * @opcode: byte 0 of the CDB
 * @action: service action, if @has_action
 * @has_action: byte 1, bits 0 to 4, tell commands of this opcode apart
 * @medium: needs a started unit
 * @ua_exempt: is carried out with a unit attention pending (SPC-5, 5.14)
 * @sleeps: runs in the worker
 * @usage: CDB usage data as REPORT SUPPORTED OPERATION CODES gives it (SPC-5,
 *	6.38): the bits that may be set; its length is that of the CDB
 * @len: length of the CDB
 * @fn: carries it out: sets result, and residual where data was moved; NULL for
 *	READ and WRITE
 */
struct ram_op {
	u8 opcode;
	u8 action;
	bool has_action:1;
	bool medium:1;
	bool ua_exempt:1;
	bool sleeps:1;
	u8 len;
	u8 usage[16];
	void (*fn)(struct ram_lun *lun, struct scsi_cmnd *scmd);
};

/* cdb.c: the table of commands and what all of them share */
#define RAM_MAX_OPS	32
extern const struct ram_op ram_ops[];
extern const unsigned int ram_nr_ops;

const struct ram_op *ram_find_op(u8 opcode, u8 action);
enum smq_status ram_execute(struct smq_cmd *cmd, bool may_sleep);
void ram_sense(struct scsi_cmnd *scmd, u8 key, u8 asc, u8 ascq);
void ram_invalid_cdb(struct scsi_cmnd *scmd, unsigned int byte, int bit);
void ram_invalid_param(struct scsi_cmnd *scmd, unsigned int byte);
bool ram_report_ua(struct ram_lun *lun, u8 *asc, u8 *ascq);
void ram_data_in(struct scsi_cmnd *scmd, const void *data, unsigned int len, unsigned int alloc);
bool ram_dir_ok(struct scsi_cmnd *scmd, enum dma_data_direction dir);

/* queue.c: the LLD */
struct smq_host *ram_host_alloc(const struct smq_host_config *cfg);

/* rw.c: READ and WRITE */
void ram_decode_rw(const u8 *cdb, u64 *lba, u32 *blocks);
bool ram_rw(struct ram_lun *lun, struct scsi_cmnd *scmd, bool may_sleep);
bool ram_check_range(const struct ram_lun *lun, struct scsi_cmnd *scmd, u64 lba, u64 blocks);

/* spc.c, vpd.c, mode.c */
void ram_inquiry(struct ram_lun *lun, struct scsi_cmnd *scmd);
void ram_vpd(struct ram_lun *lun, struct scsi_cmnd *scmd, unsigned int alloc);
void ram_test_unit_ready(struct ram_lun *lun, struct scsi_cmnd *scmd);
void ram_request_sense(struct ram_lun *lun, struct scsi_cmnd *scmd);
void ram_report_luns(struct ram_lun *lun, struct scsi_cmnd *scmd);
void ram_report_opcodes(struct ram_lun *lun, struct scsi_cmnd *scmd);
void ram_mode_sense(struct ram_lun *lun, struct scsi_cmnd *scmd);

/* sbc.c */
#define RAM_MAX_WRITE_SAME_BYTES	SZ_256M
#define RAM_MAX_UNMAP_DESCRIPTORS	256
void ram_start_stop(struct ram_lun *lun, struct scsi_cmnd *scmd);
void ram_read_capacity10(struct ram_lun *lun, struct scsi_cmnd *scmd);
void ram_read_capacity16(struct ram_lun *lun, struct scsi_cmnd *scmd);
void ram_verify(struct ram_lun *lun, struct scsi_cmnd *scmd);
void ram_sync_cache(struct ram_lun *lun, struct scsi_cmnd *scmd);
void ram_write_same(struct ram_lun *lun, struct scsi_cmnd *scmd);
void ram_unmap(struct ram_lun *lun, struct scsi_cmnd *scmd);

#endif /* SMQ_RAM_H */
