// SPDX-License-Identifier: GPL-2.0
/*
 * Stages 1 to 5: the same driver on the layer. All stages share the error handling; they differ
 * in how a command gets to the ring.
 */
#include "pvscsi.h"

static struct pv_dev *pv_of(struct smq_host *host)
{
	return *(struct pv_dev **)smq_host_priv(host);
}

static int pv_lld_abort(struct smq_hwq *hwq, struct smq_cmd *cmd)
{
	return pv_abort(pv_of(hwq->host), smq_cmd_to_scmd(cmd));
}

static int pv_lld_lun_reset(struct smq_host *host, struct scsi_device *sdev)
{
	return pv_reset_lun(pv_of(host), sdev);
}

static int pv_lld_target_reset(struct smq_host *host, struct scsi_target *starget)
{
	return pv_reset_target(pv_of(host), starget);
}

static int pv_lld_host_reset(struct smq_host *host)
{
	return pv_reset_host(pv_of(host));
}

#define PV_LLD							\
	.name		= "smq_pvscsi",				\
	.host_size	= sizeof(struct pv_dev *),		\
	.max_cmd_len	= 16,					\
	.sg_tablesize	= PV_SG,				\
	.max_sectors	= 0xffff,				\
	.abort		= pv_lld_abort,				\
	.lun_reset	= pv_lld_lun_reset,			\
	.target_reset	= pv_lld_target_reset,			\
	.host_reset	= pv_lld_host_reset

static enum smq_status pv_not_queued(struct scsi_cmnd *scmd, int err)
{
	/* All hardware queues share the ring: completions of the others make room, too. */
	if (err == -EBUSY)
		return SMQ_HWQ_BUSY;
	scmd->result = DID_NO_CONNECT << 16;
	return SMQ_DONE;
}

/* Stage 1: queuecommand_lck() of the old driver. */

static smq_qc_t pv_queuecommand_lck(struct scsi_cmnd *scmd)
{
	return pv_old_queue(pv_of(smq_sdev_to_host(scmd->device)), scmd);
}

static const struct smq_lld pv_lck_lld = {
	PV_LLD,
	.queuecommand_lck = pv_queuecommand_lck,
};

SMQ_LLD_TEMPLATE(pv_lck_template, pv_lck_lld);

/* Stage 2: queue_cmd. All CPUs may call it at the same time; the ring's own lock is enough. */

static enum smq_status pv_hwq_queue(struct smq_hwq *hwq, struct smq_cmd *cmd)
{
	struct scsi_cmnd *scmd = smq_cmd_to_scmd(cmd);
	struct pv_dev *pv = pv_of(hwq->host);
	struct pv_slot *slot = pv_old_slot_alloc(pv, scmd);
	int err;

	if (!slot)
		return SMQ_HWQ_BUSY;
	err = pv_ring_put(pv, slot, scmd);
	if (err) {
		pv_old_slot_free(pv, slot);
		return pv_not_queued(scmd, err);
	}
	pv_doorbell(pv);
	return SMQ_QUEUED;
}

static const struct smq_lld pv_hwq_lld = {
	PV_LLD,
	.queue_cmd	= pv_hwq_queue,
};

SMQ_LLD_TEMPLATE(pv_hwq_template, pv_hwq_lld);

/* Stage 3: the slot is allocated in advance. */

static enum smq_status pv_put(struct smq_hwq *hwq, struct smq_cmd *cmd)
{
	struct scsi_cmnd *scmd = smq_cmd_to_scmd(cmd);
	struct pv_dev *pv = pv_of(hwq->host);
	int err = pv_ring_put(pv, &pv->slots[pv_tag(scmd)], scmd);

	return err ? pv_not_queued(scmd, err) : SMQ_QUEUED;
}

static enum smq_status pv_prealloc_queue(struct smq_hwq *hwq, struct smq_cmd *cmd)
{
	enum smq_status st = pv_put(hwq, cmd);

	if (st == SMQ_QUEUED)
		pv_doorbell(pv_of(hwq->host));
	return st;
}

static const struct smq_lld pv_prealloc_lld = {
	PV_LLD,
	.queue_cmd	= pv_prealloc_queue,
};

SMQ_LLD_TEMPLATE(pv_prealloc_template, pv_prealloc_lld);

/* Stages 4 and 5: commit rings the doorbell after the last command of a batch. */

static void pv_commit(struct smq_hwq *hwq)
{
	struct pv_dev *pv = pv_of(hwq->host);

	/* Also called without a new command, and long after queue_cmd: see pv_stop(). */
	if (likely(!READ_ONCE(pv->stopped)))
		pv_doorbell(pv);
}

static const struct smq_lld pv_commit_lld = {
	PV_LLD,
	.queue_cmd	= pv_put,
	.commit		= pv_commit,
};

SMQ_LLD_TEMPLATE(pv_commit_template, pv_commit_lld);

static const struct {
	const struct smq_lld *lld;
	struct smq_template *tmpl;
} pv_llds[PV_STAGES] = {
	[PV_LCK]	= { &pv_lck_lld, &pv_lck_template },
	[PV_HWQ]	= { &pv_hwq_lld, &pv_hwq_template },
	[PV_PREALLOC]	= { &pv_prealloc_lld, &pv_prealloc_template },
	[PV_COMMIT]	= { &pv_commit_lld, &pv_commit_template },
	[PV_QUEUES]	= { &pv_commit_lld, &pv_commit_template },
};

struct smq_host *pv_queue_alloc(struct pv_dev *pv)
{
	const struct smq_host_config cfg = {
		.hw_queues = pv->stage == PV_QUEUES ? num_online_cpus() : 1,
		.depth = PV_DEPTH,
		.max_id = PV_MAX_ID,
		.max_lun = 1,
	};
	struct smq_host *host = smq_host_alloc(pv_llds[pv->stage].lld, pv_llds[pv->stage].tmpl,
					       &cfg);

	if (IS_ERR(host))
		return host;
	*(struct pv_dev **)smq_host_priv(host) = pv;
	/* Stage 5: all queues share the ring, so they share its depth, and tags are unique. */
	host->shost->host_tagset = pv->stage == PV_QUEUES;
	return host;
}
