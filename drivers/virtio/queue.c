// SPDX-License-Identifier: GPL-2.0
/* The LLD: puts commands on the ring, and allocates the host. */
#include <scsi/scsi_devinfo.h>

#include "virtio.h"

static void vs_init_cmd(struct smq_cmd *cmd, size_t req_size)
{
	struct vs_cmd *vc = smq_cmd_priv(cmd);

	/* The device does not interpret the tag: its byte order does not matter. */
	vc->req.tag = (__force __virtio64)(u64)(uintptr_t)vc;
	sg_init_one(&vc->req_sg, &vc->req, req_size);
	sg_init_one(&vc->resp_sg, vs_resp(vc), sizeof(struct virtio_scsi_cmd_resp));
}

static int vs_init_hwq(struct smq_hwq *hwq)
{
	struct vs_queue *queue = smq_hwq_priv(hwq);

	spin_lock_init(&queue->lock);
	return 0;
}

/* The lengths of protection information: 8 bytes for each block of data. */
static void vs_prot(struct vs_dev *vs, struct vs_cmd *vc, struct scsi_cmnd *scmd)
{
	__virtio32 bytes = 0;

	if (scsi_prot_sg_count(scmd))
		bytes = cpu_to_virtio32(vs->vdev,
					scsi_bufflen(scmd) / scsi_prot_interval(scmd) * 8);
	vc->req_pi.pi_bytesout = scmd->sc_data_direction == DMA_TO_DEVICE ? bytes : 0;
	vc->req_pi.pi_bytesin = scmd->sc_data_direction == DMA_FROM_DEVICE ? bytes : 0;
}

static __always_inline int vs_add(struct vs_queue *queue, struct vs_cmd *vc,
				  struct scsi_cmnd *scmd, bool pi)
{
	unsigned int out = 0, in = 0, need = VS_ENDS + scsi_sg_count(scmd);
	struct scatterlist *sgs[6];
	int err;

	if (pi)
		need += scsi_prot_sg_count(scmd);
	sgs[out++] = &vc->req_sg;
	if (scmd->sc_data_direction == DMA_TO_DEVICE) {
		if (pi && scsi_prot_sg_count(scmd))
			sgs[out++] = scsi_prot_sglist(scmd);
		sgs[out++] = scsi_sglist(scmd);
	}
	sgs[out + in++] = &vc->resp_sg;
	if (scmd->sc_data_direction == DMA_FROM_DEVICE) {
		if (pi && scsi_prot_sg_count(scmd))
			sgs[out + in++] = scsi_prot_sglist(scmd);
		sgs[out + in++] = scsi_sglist(scmd);
	}

	spin_lock_irq(&queue->lock);
	if (unlikely(!queue->vq))
		err = -EIO;
	else if (unlikely(queue->vq->num_free < need))
		/* Check first: on a full ring virtqueue_add_sgs() rings the doorbell. */
		err = -ENOSPC;
	else
		err = virtqueue_add_sgs(queue->vq, sgs, out, in, vc, GFP_ATOMIC);
	if (likely(!err)) {
		vc->queue = queue;
		vc->in_ring = true;
		queue->added = true;
	}
	spin_unlock_irq(&queue->lock);
	return err;
}

/* Rings the doorbell, but not under the lock, because the write to the device is slow. */
static void vs_ring(struct vs_queue *queue)
{
	struct virtqueue *vq;
	bool ring = false;

	spin_lock_irq(&queue->lock);
	vq = queue->vq;
	if (vq && queue->added) {
		queue->added = false;
		ring = virtqueue_kick_prepare(vq);
	}
	spin_unlock_irq(&queue->lock);
	/* vs_rings_stop() waits for this RCU section before it frees the rings. */
	if (ring)
		virtqueue_notify(vq);
}

static __always_inline enum smq_status vs_put(struct smq_hwq *hwq, struct smq_cmd *cmd, bool pi)
{
	struct scsi_cmnd *scmd = smq_cmd_to_scmd(cmd);
	struct vs_queue *queue = smq_hwq_priv(hwq);
	struct vs_cmd *vc = smq_cmd_priv(cmd);
	const struct vs_lun *lun = smq_lun_priv(scmd->device);
	/* The error handler does not poll for its own commands: use a queue with an interrupt. */
	bool detour = unlikely(hwq->type == HCTX_TYPE_POLL &&
			       scmd->submitter != SUBMITTED_BY_BLOCK_LAYER);
	int err;

	memcpy(vc->req.lun, lun->address, sizeof(vc->req.lun));
	if (pi) {
		vs_prot(vs_of(hwq->host), vc, scmd);
		memcpy(vc->req_pi.cdb, scmd->cmnd, sizeof(vc->req_pi.cdb));
	} else {
		memcpy(vc->req.cdb, scmd->cmnd, sizeof(vc->req.cdb));
	}
	if (detour)
		queue = smq_hwq_priv(hwq->host->hwq[0]);

	err = vs_add(queue, vc, scmd, pi);
	if (unlikely(err)) {
		/* Unless err is -EIO the ring is full: the layer holds the command. */
		if (err != -EIO)
			return SMQ_HWQ_BUSY;
		scmd->result = DID_NO_CONNECT << 16;
		return SMQ_DONE;
	}
	if (detour)
		vs_ring(queue);
	return SMQ_QUEUED;
}

static void vs_commit(struct smq_hwq *hwq)
{
	vs_ring(smq_hwq_priv(hwq));
}

static int vs_poll(struct smq_hwq *hwq)
{
	return vs_reap(smq_hwq_priv(hwq), false);
}

/*
 * The device has up to 256 targets of 16384 LUNs, addressed in the flat space format. The
 * mid-layer takes its LUN numbers from REPORT LUNS: from 256 on they include the bits of the
 * address format.
 */
static int vs_lun_init(struct smq_host *host, struct scsi_device *sdev)
{
	struct vs_lun *lun = smq_lun_priv(sdev);

	if (sdev->id > 0xff || sdev->lun > 0x7fff)
		return -ENXIO;
	lun->address[0] = 1;
	lun->address[1] = sdev->id;
	lun->address[2] = 0x40 | sdev->lun >> 8;
	lun->address[3] = sdev->lun & 0xff;
	/*
	 * A disk that the hypervisor passes through has its limits in VPD pages. The flag makes the
	 * mid-layer read them even if the disk claims an old version of SPC.
	 */
	sdev->sdev_bflags = BLIST_TRY_VPD_PAGES;
	return 0;
}

/* Maps queues to CPUs by interrupt affinity; poll queues have no interrupt. */
static void vs_map_queues(struct smq_host *host, struct blk_mq_queue_map *map,
			  enum hctx_type type)
{
	if (type == HCTX_TYPE_POLL)
		blk_mq_map_queues(map);
	else
		smq_virtio_map_queues(map, vs_of(host)->vdev, VS_FIRST);
}

#define VS_LLD								\
	.name		= "smq_virtio",					\
	.cmd_size	= sizeof(struct vs_cmd),			\
	.hwq_size	= sizeof(struct vs_queue),			\
	.host_size	= sizeof(struct vs_dev *),			\
	.lun_size	= sizeof(struct vs_lun),			\
	.max_cmd_len	= VIRTIO_SCSI_CDB_SIZE,				\
	.sg_tablesize	= SG_MAX_SEGMENTS,				\
	.max_sectors	= 0xffff,					\
	.any_hwq	= true,						\
	.init_hwq	= vs_init_hwq,					\
	.commit		= vs_commit,					\
	.poll		= vs_poll,					\
	.abort		= vs_abort,					\
	.lun_reset	= vs_lun_reset,					\
	.target_reset	= vs_target_reset,				\
	.host_reset	= vs_host_reset,				\
	.lun_init	= vs_lun_init,					\
	.map_queues	= vs_map_queues

static void vs_plain_init_cmd(struct smq_cmd *cmd)
{
	vs_init_cmd(cmd, sizeof(struct virtio_scsi_cmd_req));
}

static enum smq_status vs_plain_queue_cmd(struct smq_hwq *hwq, struct smq_cmd *cmd)
{
	return vs_put(hwq, cmd, false);
}

static const struct smq_lld vs_plain_lld = {
	VS_LLD,
	.init_cmd	= vs_plain_init_cmd,
	.queue_cmd	= vs_plain_queue_cmd,
};

SMQ_LLD_TEMPLATE(vs_plain_template, vs_plain_lld);

/* With T10-PI every request has a longer header. */

static void vs_pi_init_cmd(struct smq_cmd *cmd)
{
	vs_init_cmd(cmd, sizeof(struct virtio_scsi_cmd_req_pi));
}

static enum smq_status vs_pi_queue_cmd(struct smq_hwq *hwq, struct smq_cmd *cmd)
{
	return vs_put(hwq, cmd, true);
}

static const struct smq_lld vs_pi_lld = {
	VS_LLD,
	.init_cmd	= vs_pi_init_cmd,
	.queue_cmd	= vs_pi_queue_cmd,
};

SMQ_LLD_TEMPLATE(vs_pi_template, vs_pi_lld);

static void vs_offer_pi(struct vs_dev *vs, struct Scsi_Host *shost)
{
	shost->sg_prot_tablesize = vs->max_sg;
	scsi_host_set_prot(shost, SHOST_DIF_TYPE1_PROTECTION | SHOST_DIF_TYPE2_PROTECTION |
				  SHOST_DIF_TYPE3_PROTECTION | SHOST_DIX_TYPE1_PROTECTION |
				  SHOST_DIX_TYPE2_PROTECTION | SHOST_DIX_TYPE3_PROTECTION);
	scsi_host_set_guard(shost, SHOST_DIX_GUARD_CRC);
}

/* Allocates the host, with the limits of the device and its rings. Return: as smq_host_alloc(). */
struct smq_host *vs_host_alloc(struct vs_dev *vs)
{
	struct virtio_device *vdev = vs->vdev;
	u32 sectors, per_lun;
	struct smq_host_config cfg = {
		.hw_queues = vs->nr_queues - vs->nr_poll,
		.poll_queues = vs->nr_poll,
		.depth = vs->depth,
		.extra = vs->depth,
	};
	struct smq_host *host;
	u16 max_target;
	u32 max_lun;

	virtio_cread(vdev, struct virtio_scsi_config, max_sectors, &sectors);
	virtio_cread(vdev, struct virtio_scsi_config, cmd_per_lun, &per_lun);
	virtio_cread(vdev, struct virtio_scsi_config, max_target, &max_target);
	virtio_cread(vdev, struct virtio_scsi_config, max_lun, &max_lun);
	cfg.max_id = min_t(u16, max_target, 0xff) + 1;
	/* Numbers from 256 on include the bits of the address format: see vs_lun_init(). */
	cfg.max_lun = max_lun < 256 ? max_lun + 1 : min(max_lun, 0x3fffU) + 1 + 0x4000;

	host = smq_host_alloc(vs->pi ? &vs_pi_lld : &vs_plain_lld,
			      vs->pi ? &vs_pi_template : &vs_plain_template, &cfg);
	if (IS_ERR(host))
		return host;
	*(struct vs_dev **)smq_host_priv(host) = vs;
	host->shost->sg_tablesize = vs->max_sg;
	host->shost->max_sectors = sectors ?: 0xffff;
	host->shost->cmd_per_lun = clamp(per_lun, 1U, vs->depth);
	/* One descriptor covers one piece of memory, up to the largest DMA transfer. */
	host->shost->max_segment_size = min_t(size_t, virtio_max_dma_size(vdev), UINT_MAX);
	if (vs->pi)
		vs_offer_pi(vs, host->shost);
	return host;
}
