/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Requests that a module keeps for its next commands: when its periodic scan has to look at all of
 * them. For smq_sg and smq_conv, which keep passthrough requests.
 */
#ifndef SMQ_KEPT_H
#define SMQ_KEPT_H

#include <linux/blk-mq.h>
#include <linux/hash.h>
#include <linux/jiffies.h>

/*
 * How often a scan looks for requests that no command uses. Not more often, because each look takes
 * cache lines away from the CPUs that use them.
 */
#define SMQ_KEPT_SCAN_ALL	max(HZ / 2, 1)

/**
 * struct smq_kept_scan - a scan that runs again and again
 * @due: when it next looks at all requests, in jiffies
 * @offline: which hctxs were inactive when it last did so
 *
 * Zeroed before the first scan. Used by one scan at a time.
 */
struct smq_kept_scan {
	unsigned long due;
	u64 offline;
};

/**
 * smq_kept_scan_due() - whether a scan has to look at all requests that are kept
 * @scan: the scan
 * @q: their queue, which the caller references
 *
 * An hctx is inactive as long as its CPUs are offline, but it only has idle requests when it
 * becomes inactive: so what counts is whether other hctxs are inactive, by the sum of their hashes.
 *
 * Return: true at intervals, while a task sleeps for a tag, and when CPUs go offline or come back.
 */
static inline bool smq_kept_scan_due(struct smq_kept_scan *scan, struct request_queue *q)
{
	bool changed, wanted = false;
	struct blk_mq_hw_ctx *hctx;
	u64 offline = 0;
	unsigned long i;

	queue_for_each_hw_ctx(q, hctx, i) {
		if (READ_ONCE(hctx->state) & BIT(BLK_MQ_S_INACTIVE))
			offline += hash_64(i + 1, 64);
		else if (hctx->tags && atomic_read(&hctx->tags->bitmap_tags.ws_active))
			wanted = true;
	}
	changed = offline != scan->offline;
	if (!wanted && !changed && time_before(jiffies, scan->due))
		return false;
	scan->offline = offline;
	/* A command that ended just before the change may keep its request just after this scan. */
	scan->due = jiffies + (changed ? 0 : SMQ_KEPT_SCAN_ALL);
	return true;
}

#endif /* SMQ_KEPT_H */
