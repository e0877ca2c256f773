/* SPDX-License-Identifier: GPL-2.0 */
/* What legacy.c, the model of scsi_request_fn, shares with the policies' switch. */
#ifndef SMQ_LEGACY_H
#define SMQ_LEGACY_H

#include <linux/mempool.h>
#include <linux/sizes.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <smq/lld.h>

/* The kernels whose path is modelled. */
enum smq_legacy_era {
	SMQ_LEGACY_2013,	/* 3.10: busy counters under host_lock */
	SMQ_LEGACY_419,		/* 4.19, the last kernel but one that had it */
};

#define SMQ_LEGACY_HASH_BITS	6
#define SMQ_LEGACY_BATCH	16

/**
 * struct smq_legacy - the model's part of a host
 * @free_list_lock: era 2013: protects the host's list of spare commands
 * @spares: that list, empty: it is only looked at
 * @starved: LUNs that wait for the host; under host_lock
 * @host_busy: commands with the host: under host_lock in era 2013; atomic because
 *	no lock protects it in era 4.19
 * @target_busy: likewise for its one target
 * @serial: era 2013: number of the last command, under host_lock
 * @tags: in use, shared by all LUNs; a bit is taken by atomic test-and-set
 * @nr_tags: of them
 * @requests: where request and command come from
 *
 * Lifetime: from the policy's choice to a grace period after the last command
 * that it saw.
 */
struct smq_legacy {
	spinlock_t free_list_lock;	/* protects spares */
	struct list_head spares;
	struct list_head starved;
	atomic_t host_busy;
	atomic_t target_busy;
	unsigned long serial;
	unsigned long *tags;
	unsigned int nr_tags;
	mempool_t requests;
};

/**
 * struct smq_legacy_queue - the model's part of a LUN, its request queue
 * @queue_lock: protects all but @device_busy, as the one lock of a queue did
 * @hash: requests by the sector they end at, for merging
 * @fifo: the elevator's list
 * @dispatch: what it has dispatched
 * @timeouts: started requests
 * @count: requests allocated, by direction
 * @in_flight: started
 * @plugged: since the last flush of the plug
 * @last_merge: the elevator's first guess
 * @list_lock: era 2013: protects @cmds
 * @cmds: era 2013: all commands of the LUN
 * @device_busy: under queue_lock in era 2013; atomic because completion takes
 *	no lock for it in era 4.19
 *
 * Lifetime: that of its smq_lun, from the first choice of the policy on.
 */
struct smq_legacy_queue {
	spinlock_t queue_lock;		/* protects what follows */
	struct hlist_head hash[1 << SMQ_LEGACY_HASH_BITS];
	struct list_head fifo;
	struct list_head dispatch;
	struct list_head timeouts;
	unsigned int count[2];
	unsigned int in_flight;
	unsigned int plugged;
	struct smq_legacy_rq *last_merge;
	spinlock_t list_lock;		/* protects cmds */
	struct list_head cmds;
	atomic_t device_busy;
};

int smq_legacy_init(void);
void smq_legacy_exit(void);
int smq_legacy_start(struct smq_host *host);
void smq_legacy_stop(struct smq_host *host);
int smq_legacy_add_lun(struct smq_lun *lun);
void smq_legacy_queue(struct smq_hwq *hwq, struct smq_cmd *cmd, bool last);
void smq_legacy_done(struct smq_cmd *cmd);

extern const struct attribute_group smq_legacy_group;

#endif /* SMQ_LEGACY_H */
