/* SPDX-License-Identifier: GPL-2.0 */
/* smq_ram: a RAM disk as an LLD on smq. Declarations for all its files. */
#ifndef SMQ_RAM_H
#define SMQ_RAM_H

#include <linux/bits.h>
#include <linux/cacheflush.h>
#include <linux/hrtimer.h>
#include <linux/kref.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/sizes.h>
#include <linux/smp.h>
#include <linux/xarray.h>
#include <linux/types.h>
#include <smq/lld.h>

/* Storage is kept in pages. A leaf is one page of pointers to such pages. */
#define RAM_LEAF_SHIFT	(PAGE_SHIFT - const_ilog2(sizeof(void *)))
#define RAM_LEAF_PAGES	BIT(RAM_LEAF_SHIFT)

struct ram_leaf {
	void *page[RAM_LEAF_PAGES];
};

/**
 * struct ram_store - sparse storage of a LUN
 * @dir: leaves, NULL where nothing was ever written
 * @nr_leaves: number of leaves in @dir
 *
 * Readers take no lock: they read both levels inside an RCU read-side section. Writers set a
 * pointer by cmpxchg: if two of them fill the same hole, both use the page that the first cmpxchg
 * has set. A page that is removed is freed a grace period later; leaves stay until the store is
 * freed.
 */
struct ram_store {
	struct ram_leaf **dir;
	unsigned long nr_leaves;
};

/*
 * Allocation flags for the worker. GFP_NOIO, because reclaim may need this very disk.
 * __GFP_RETRY_MAYFAIL, because an order-0 allocation would never fail otherwise, and error
 * handling waits for the worker.
 */
#define RAM_GFP_WAIT	(GFP_NOIO | __GFP_RETRY_MAYFAIL)

int ram_store_init(struct ram_store *store, u64 bytes);
void ram_store_exit(struct ram_store *store);
void *ram_store_get(struct ram_store *store, u64 pgno, gfp_t gfp);
void ram_store_clear(struct ram_store *store, u64 pos, u64 len);

/* The page's memory, or NULL for a hole. Context: RCU read-side section. */
static __always_inline void *ram_store_find(const struct ram_store *store, u64 pgno)
{
	/* The address dependency orders reads of the leaf after the cmpxchg of its pointer. */
	struct ram_leaf *leaf = READ_ONCE(store->dir[pgno >> RAM_LEAF_SHIFT]);

	return leaf ? READ_ONCE(leaf->page[pgno & (RAM_LEAF_PAGES - 1)]) : NULL;
}

/* Conditions that a command must check before it uses the medium; bits of ram_lun.attn. */
enum ram_attn {
	RAM_UA_POWER_ON,	/* unit attentions (SAM-6, 5.14), reported in this order */
	RAM_UA_RESET,
	RAM_UA_LUNS_CHANGED,
	RAM_NR_UA,
	RAM_STOPPED = RAM_NR_UA,	/* START STOP UNIT: no medium access */
	RAM_MODEL,			/* the hardware model is on */
	RAM_FAULT,			/* a fault of the medium is armed */
	RAM_ABSENT,			/* the host has no LUN 0; scans ask this one for the LUNs */
};

/**
 * struct ram_lun - a logical unit
 * @attn: enum ram_attn bits, changed with atomic bit operations because any CPU
 *	may raise or report a condition; usually 0, so that a command needs only
 *	one test
 * @nr_blocks: capacity in blocks
 * @shift: log2 of the block size
 * @null: commands move no data
 * @caching: WCE and RCD, as in byte 2 of the caching page; any CPU may read or write it
 * @number: its LUN number
 * @ram: its host
 * @store: its data
 * @ref: the host's table has one reference, each scsi_device of the LUN another
 *
 * All fields except @attn, @caching and the store's pages are set before the LUN can be found, and
 * then only read. An absent LUN 0 is not in the host's table: only a scan's scsi_device refers to
 * it.
 */
struct ram_lun {
	unsigned long attn;
	u64 nr_blocks;
	unsigned int shift;
	bool null;
	u8 caching;
	unsigned int number;
	struct ram_host *ram;
	struct ram_store store;
	struct kref ref;
};

/**
 * struct ram_model - the modelled hardware behind a host; 0 in a field: no limit or no cost
 * @service_ns: time from doorbell to completion of a command, if neither @hwq_ns nor
 *	@bytes_per_sec adds to it
 * @hwq_ns: time that a hardware queue takes for a command before it begins the next one;
 *	@service_ns follows it
 * @hwq_depth: commands that a hardware queue takes; beyond it queue_cmd returns SMQ_HWQ_BUSY
 * @doorbell_ns: CPU time of one doorbell, in place of the uncached write to a real device
 * @bytes_per_sec: rate of the one link that all commands of the host share
 * @irq_affinity: which CPU gets the interrupt of a hardware queue. 1: the first online CPU of
 *	the queue; 0: the CPU that rang the doorbell
 * @link_free: when the link is free again, ktime in ns; atomic because all hardware queues
 *	reserve time on the link
 *
 * Read the fields with READ_ONCE(): they may change at any time. A new value applies to the next
 * command.
 */
struct ram_model {
	u64 service_ns;
	u64 hwq_ns;
	u32 hwq_depth;
	u32 doorbell_ns;
	u64 bytes_per_sec;
	u32 irq_affinity;
	atomic64_t link_free;
};

/**
 * struct ram_config - configuration of a host, from module parameters or configfs
 * @hw_queues: 0: one per CPU
 * @poll_queues: poll queues, in addition to @hw_queues
 * @depth: commands per hardware queue, and also per LUN
 * @host_tagset: tags are unique in the host; @depth then limits the host as a whole
 */
struct ram_config {
	unsigned int hw_queues;
	unsigned int poll_queues;
	unsigned int depth;
	bool host_tagset;
};

/* Configuration of a LUN, from module parameters or configfs. */
struct ram_lun_config {
	unsigned long size_mb;
	unsigned int sector_size;
	bool null;
};

/* The LUNs that peripheral device addressing reaches on one bus (SAM-6, 4.7.7.4). */
#define RAM_MAX_LUNS	256
/* Commands that a dispatch policy may hold for a hardware queue. */
#define RAM_MAX_EXTRA	256U
#define RAM_MAX_MB	(SZ_16M * 1UL)		/* 16 TiB */

/**
 * struct ram_host - the private area of a host
 * @list: entry in main.c's list of the hosts that module parameters create
 * @smq: the layer's host, whose private area this is
 * @index: identifies the host in this module; part of every serial number
 * @added: the mid-layer knows the host
 * @luns: its logical units by number; callers serialise changes, readers take the
 *	xarray's own lock
 * @model: the modelled hardware; the caller of ram_host_create() owns it
 */
struct ram_host {
	struct list_head list;
	struct smq_host *smq;
	int index;
	bool added;
	struct xarray luns;
	struct ram_model *model;
};

/**
 * struct ram_hwq - the private area of a hardware queue
 * @lock: protects all fields but the last two; taken, with interrupts off, by queueing, polling
 *	and the timer's interrupt
 * @ring: commands for which the doorbell has not been rung yet
 * @busy: commands that the device has, in the order in which they are due
 * @nr: commands in both lists and those being executed; hwq_depth limits it
 * @free: when the hardware queue can begin its next command, ktime in ns: see @hwq_ns of
 *	struct ram_model
 * @doorbells: how often the doorbell was rung
 * @timer: the device's interrupt; not used on poll queues
 * @irq_cpu: the CPU that completes commands that are due; -1: the timer's CPU. Read without
 *	@lock
 * @remote: a call to a CPU other than the timer's; that CPU then completes the commands that
 *	are due
 * @remotes: number of such calls that were sent and have not returned; atomic because the timer
 *	sends them and another CPU runs them
 */
struct ram_hwq {
	spinlock_t lock;	/* protects all below except remote and remotes */
	struct list_head ring;
	struct list_head busy;
	unsigned int nr;
	u64 free;
	u64 doorbells;
	struct hrtimer timer;
	int irq_cpu;
	call_single_data_t remote;
	atomic_t remotes;
};

/**
 * struct ram_cmd - the private area of a command
 * @due: when to complete it, ktime in ns
 * @fault: its fault of the medium, decided once; 0 if none
 * @reserved: counted in ram_hwq.nr
 * @listed: in ram_hwq.ring or ram_hwq.busy; the holder of ram_hwq.lock may take it off
 */
struct ram_cmd {
	u64 due;
	unsigned int fault;
	bool reserved;
	bool listed;
};

/* Call after the CPU has written to a data buffer that user space may have mapped. */
static inline void ram_flush_dcache(void *buf, unsigned int len)
{
	unsigned long at = (unsigned long)buf & PAGE_MASK;

	if (!ARCH_IMPLEMENTS_FLUSH_DCACHE_PAGE)
		return;
	for (; at < (unsigned long)buf + len; at += PAGE_SIZE)
		flush_dcache_page(virt_to_page((void *)at));
}

/* The LUN's private area is a pointer: a LUN outlives each scsi_device that is made for it. */
static inline struct ram_lun *ram_sdev_lun(const struct scsi_device *sdev)
{
	return *(struct ram_lun **)smq_lun_priv(sdev);
}

static inline struct ram_lun *ram_scmd_lun(const struct scsi_cmnd *scmd)
{
	return ram_sdev_lun(scmd->device);
}

/**
 * struct ram_op - a command that the device server supports
 * @opcode: byte 0 of the CDB
 * @action: service action, if @has_action
 * @has_action: bits 0 to 4 of byte 1 are the service action, which identifies the command together
 *	with @opcode
 * @medium: needs a started unit: refused while the unit is stopped
 * @ua_exempt: is executed although a unit attention is pending (SPC-5, 5.14)
 * @sleeps: runs in the worker
 * @usage: CDB usage data as REPORT SUPPORTED OPERATION CODES returns it (SPC-5, 6.38): the
 *	bits that may be set; its length is that of the CDB
 * @len: length of the CDB, in bytes
 * @fn: executes the command: sets the result, and the residual if it moves data; NULL for
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

/* CONTROL byte: only NACA is checked; NACA=1 is refused. */
#define RAM_CONTROL_NACA	0x04

/* opcodes.c: the table of commands */
#define RAM_MAX_OPS	32

const struct ram_op *ram_find_op(u8 opcode, u8 action);
void ram_report_opcodes(struct ram_lun *lun, struct scsi_cmnd *scmd);

/* cdb.c: the device server */
enum smq_status ram_execute(struct smq_cmd *cmd, bool may_sleep);

/* reply.c: responses */
void ram_sense(struct scsi_cmnd *scmd, u8 key, u8 asc, u8 ascq);
void ram_invalid_cdb(struct scsi_cmnd *scmd, unsigned int byte, int bit);
void ram_invalid_param(struct scsi_cmnd *scmd, unsigned int byte, int bit);
bool ram_report_ua(struct ram_lun *lun, u8 *asc, u8 *ascq);
void ram_data_in(struct scsi_cmnd *scmd, const void *data, unsigned int len, unsigned int alloc);
bool ram_dir_ok(struct scsi_cmnd *scmd, enum dma_data_direction dir);

/* lun.c */
struct ram_lun *ram_lun_alloc(struct ram_host *ram, unsigned int number,
			      const struct ram_lun_config *cfg);
void ram_lun_put(struct ram_lun *lun);

/* queue.c: the LLD */
struct smq_host *ram_host_alloc(const struct smq_host_config *cfg);

/* device.c: the hardware model */
void ram_hwq_init(struct smq_hwq *hwq);
void ram_hwq_exit(struct smq_hwq *hwq);
bool ram_reserve(struct smq_hwq *hwq, struct smq_cmd *cmd);
void ram_release(struct smq_hwq *hwq, struct smq_cmd *cmd);
enum smq_status ram_submit(struct smq_hwq *hwq, struct smq_cmd *cmd);
enum smq_status ram_ready(struct smq_hwq *hwq, struct smq_cmd *cmd);
void ram_doorbell(struct smq_hwq *hwq);
int ram_poll(struct smq_hwq *hwq);
void ram_forget(struct smq_hwq *hwq, struct smq_cmd *cmd);
void ram_forget_lun(struct smq_hwq *hwq, const struct ram_lun *lun);

/* medium_fault.c: faults of the medium, beside those that the layer injects */
enum ram_fault_kind {
	RAM_FAULT_WRONG_BYTE = SMQ_FAULT_LLD,
	RAM_FAULT_NO_MEMORY,
};

extern const char * const ram_fault_names[];
#define RAM_NR_FAULTS	2

unsigned int ram_fault_hits(struct ram_host *ram, const struct scsi_cmnd *scmd);
void ram_fault_no_memory(struct ram_host *ram, const struct scsi_cmnd *scmd);
void ram_fault_wrong_byte(struct scsi_cmnd *scmd);

/* host.c: hosts and LUNs */
int ram_hosts_init(void);
void ram_hosts_exit(void);
extern const struct ram_config ram_default_host;
extern const struct ram_lun_config ram_default_lun;
extern const struct smq_fault_kinds ram_fault_kinds;

struct ram_host *ram_host_create(const struct ram_config *cfg, struct ram_model *model,
				 struct smq_fault *fault);
int ram_host_add(struct ram_host *ram);
void ram_host_destroy(struct ram_host *ram);
int ram_lun_create(struct ram_host *ram, unsigned int number, const struct ram_lun_config *cfg);
void ram_lun_destroy(struct ram_host *ram, unsigned int number);
int ram_lun_attach(struct ram_host *ram, unsigned int number);
int ram_check_lun_config(const struct ram_lun_config *cfg);
void ram_update_attn(struct ram_host *ram);

/* configfs.c */
int ram_configfs_init(void);
void ram_configfs_exit(void);

/* rw.c: READ and WRITE */
bool ram_rw(struct ram_lun *lun, struct scsi_cmnd *scmd, bool may_sleep);
bool ram_check_range(const struct ram_lun *lun, struct scsi_cmnd *scmd, u64 lba, u64 blocks);

/* spc.c, vpd.c, mode.c */
void ram_inquiry(struct ram_lun *lun, struct scsi_cmnd *scmd);
void ram_vpd(struct ram_lun *lun, struct scsi_cmnd *scmd, unsigned int alloc);
void ram_test_unit_ready(struct ram_lun *lun, struct scsi_cmnd *scmd);
void ram_request_sense(struct ram_lun *lun, struct scsi_cmnd *scmd);
void ram_report_luns(struct ram_lun *lun, struct scsi_cmnd *scmd);
void ram_mode_sense(struct ram_lun *lun, struct scsi_cmnd *scmd);
void ram_mode_select(struct ram_lun *lun, struct scsi_cmnd *scmd);

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
