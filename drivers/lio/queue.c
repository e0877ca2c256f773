// SPDX-License-Identifier: GPL-2.0
/*
 * The LLD: gives commands to LIO. LIO may sleep when it executes a command, but queue_cmd may
 * not. So queue_cmd executes only READs and WRITEs of a RAM disk, which just copy memory; workers
 * of LIO's own workqueues execute all other commands.
 */
#include <linux/preempt.h>
#include <linux/sizes.h>
#include <linux/string.h>
#include <scsi/scsi_eh.h>
#include <scsi/scsi_proto.h>
#include <smq/cdb_direction.h>

#include "lio.h"

/*
 * Whether queue_cmd may execute a RAM disk's READ or WRITE in LIO, in atomic context. LIO's code
 * for it sleeps only to map pages with HIGHMEM, but it calls might_sleep(). With DEBUG_ATOMIC_SLEEP
 * the kernel would report that call. With voluntary preemption might_sleep() reschedules unless
 * preemption is disabled, and preempt_disable() has an effect only with PREEMPT_COUNT. Without
 * PREEMPT_COUNT, a worker of LIO that completes a command of a batch could take the CPU after each
 * command, before the next one is submitted. On real-time kernels spin locks sleep.
 */
#define LIO_HERE	(!IS_ENABLED(CONFIG_HIGHMEM) && !IS_ENABLED(CONFIG_PREEMPT_RT) && \
			 !IS_ENABLED(CONFIG_DEBUG_ATOMIC_SLEEP) && \
			 (IS_ENABLED(CONFIG_PREEMPT_COUNT) || \
			  !IS_ENABLED(CONFIG_PREEMPT_VOLUNTARY)))

/* Whether queue_cmd may execute this command itself. */
static bool lio_may_run_here(const struct lio_lun *ll, struct scsi_cmnd *scmd)
{
	if (!LIO_HERE || !ll->copies)
		return false;
	switch (scmd->cmnd[0]) {
	case READ_6:
	case READ_10:
	case READ_12:
	case READ_16:
	case WRITE_6:
	case WRITE_10:
	case WRITE_12:
	case WRITE_16:
		break;
	default:
		return false;
	}
	/* For protection information LIO may have to allocate memory, and sleep. */
	return scsi_get_prot_op(scmd) == SCSI_PROT_NORMAL && !READ_ONCE(ll->attrib->pi_prot_type) &&
	       !smq_target_wants_queue(ll->attrib);
}

/*
 * Does what target_submit() does for a READ or WRITE, without its might_sleep().
 *
 * It leaves out core_alua_check_nonop_delay(), the delay of ALUA's Active/NonOptimized state,
 * because that sleeps. The delay has no effect anyway: target_alua_state_check() sets it in the
 * command only later, when LIO begins to execute the command. So nonop_delay_msecs delays no
 * command of any fabric, queued or not, on 6.1, 6.12 and 7.2.
 */
static __always_inline void lio_execute(struct se_cmd *se, const struct se_wwn *wwn)
{
	sense_reason_t reason;

	se->t_state = TRANSPORT_NEW_CMD;
	se->transport_state |= CMD_T_ACTIVE;
	if (IS_ENABLED(CONFIG_PREEMPT_VOLUNTARY))
		preempt_disable();
	reason = transport_generic_new_cmd(se);
	if (reason)
		transport_generic_request_failure(se, reason);
	else
		smq_target_complete_here(se, wwn);
	if (IS_ENABLED(CONFIG_PREEMPT_VOLUNTARY))
		preempt_enable();
}

/*
 * Gives a command to LIO. If @here, LIO executes it before this function returns; otherwise a
 * worker of LIO executes it. The task attribute is always SIMPLE: the mid-layer uses no other.
 * Return: SMQ_DONE if the command has ended and the caller must complete it; SMQ_QUEUED if LIO
 * completes it later or has already completed it.
 */
static __always_inline enum smq_status lio_submit(struct smq_cmd *cmd, bool here)
{
	struct scsi_cmnd *scmd = smq_cmd_to_scmd(cmd);
	const struct lio_lun *ll = smq_lun_priv(scmd->device);
	const struct lio_host *lio = smq_host_priv(cmd->hwq->host);
	struct lio_cmd *lc = smq_cmd_priv(cmd);
	unsigned int length = scsi_bufflen(scmd);

	memset(&lc->se, 0, sizeof(lc->se));
	lc->se.tag = blk_mq_unique_tag(scsi_cmd_to_rq(scmd));
	if (scsi_prot_sg_count(scmd))
		length = scsi_transfer_length(scmd);
	else
		lc->se.prot_pto = scsi_get_prot_op(scmd) != SCSI_PROT_NORMAL;

	/* The result if LIO drops the command without a response, as it does in a LUN reset. */
	scmd->result = DID_RESET << 16;
	if (here)
		smq_cmd_enter(cmd);
	if (target_init_cmd(&lc->se, ll->sess, scmd->sense_buffer, scmd->device->lun, length,
			    TCM_SIMPLE_TAG, scmd->sc_data_direction, 0)) {
		scmd->result = DID_NO_CONNECT << 16;
		return SMQ_DONE;
	}
	/* If target_submit_prep() fails, LIO has already responded. */
	if (!target_submit_prep(&lc->se, scmd->cmnd, scsi_sglist(scmd), scsi_sg_count(scmd), NULL,
				0, scsi_prot_sglist(scmd), scsi_prot_sg_count(scmd),
				GFP_ATOMIC)) {
		if (here)
			lio_execute(&lc->se, &lio->wwn);
		else
			smq_target_queue(&lc->se);
	}
	return here ? smq_cmd_leave(cmd) : SMQ_QUEUED;
}

static __always_inline enum smq_status lio_queue_cmd(struct smq_hwq *hwq, struct smq_cmd *cmd)
{
	struct scsi_cmnd *scmd = smq_cmd_to_scmd(cmd);
	const struct lio_lun *ll = smq_lun_priv(scmd->device);

	/* LIO would execute a READ with data-out as a WRITE. */
	if (scsi_bufflen(scmd) && smq_cdb_misdirected(scmd->cmnd[0], scmd->sc_data_direction)) {
		scmd->result = DID_ERROR << 16;
		return SMQ_DONE;
	}
	if (lio_may_run_here(ll, scmd))
		return lio_submit(cmd, true);

	/* LIO executes REPORT LUNS at LUN 0 even if LUN 0 is not linked. */
	if (!ll->attrib && scmd->cmnd[0] != REPORT_LUNS) {
		smq_lun_absent(scmd);
		return SMQ_DONE;
	}
	/* LIO would copy as many bytes as the CDB's length field says, even beyond the CDB. */
	if (scmd->cmnd[0] == VARIABLE_LENGTH_CMD && scsi_command_size(scmd->cmnd) > scmd->cmd_len) {
		scsi_build_sense(scmd, 0, ILLEGAL_REQUEST, 0x24, 0);
		scsi_set_resid(scmd, scsi_bufflen(scmd));
		return SMQ_DONE;
	}
	return lio_submit(cmd, false);
}

static int lio_lun_init(struct smq_host *host, struct scsi_device *sdev)
{
	struct lio_host *lio = smq_host_priv(host);
	struct lio_lun *ll = smq_lun_priv(sdev);
	struct se_lun *se_lun = NULL;
	struct se_device *dev;
	struct lio_tpg *tpg;
	int err = -ENXIO;

	mutex_lock(&lio->lock);
	tpg = sdev->id < LIO_MAX_TPGS ? lio->tpg[sdev->id] : NULL;
	if (tpg && tpg->sess && !xa_get_mark(&tpg->luns, sdev->lun, LIO_GOING))
		se_lun = xa_load(&tpg->luns, sdev->lun);
	if (se_lun) {
		dev = rcu_dereference_protected(se_lun->lun_se_dev, lockdep_is_held(&lio->lock));
		ll->sess = tpg->sess;
		ll->attrib = &dev->dev_attrib;
		ll->copies = !strcmp(dev->transport->name, "rd_mcp");
		err = 0;
	} else if (tpg && tpg->sess && !sdev->lun) {
		ll->sess = tpg->sess;
		err = 0;
	}
	mutex_unlock(&lio->lock);
	return err;
}

static const struct smq_lld lio_lld = {
	.name		= "smq_lio",
	.cmd_size	= sizeof(struct lio_cmd),
	.host_size	= sizeof(struct lio_host),
	.lun_size	= sizeof(struct lio_lun),
	.max_cmd_len	= 32,
	.sg_tablesize	= SZ_4M / PAGE_SIZE,
	.max_sectors	= SZ_4M >> SECTOR_SHIFT,
	.any_hwq	= true,
	.queue_cmd	= lio_queue_cmd,
	.abort		= lio_abort,
	.lun_reset	= lio_lun_reset,
	.target_reset	= lio_target_reset,
	.host_reset	= lio_host_reset,
	.lun_init	= lio_lun_init,
};

SMQ_LLD_TEMPLATE(lio_template, lio_lld);

struct smq_host *lio_host_alloc(const struct smq_host_config *cfg)
{
	struct smq_host *host = smq_host_alloc(&lio_lld, &lio_template, cfg);
	struct Scsi_Host *shost;

	if (IS_ERR(host))
		return host;
	shost = host->shost;
	/*
	 * For commands other than READ and WRITE, LIO maps the data into one virtual range, page
	 * by page. So no scatterlist entry may be longer than a page, only the first may begin
	 * inside a page, and only the last may end inside one.
	 */
	shost->dma_boundary = PAGE_SIZE - 1;
	shost->virt_boundary_mask = PAGE_SIZE - 1;
	shost->max_segment_size = UINT_MAX;
	scsi_host_set_prot(shost, SHOST_DIF_TYPE1_PROTECTION | SHOST_DIF_TYPE2_PROTECTION |
				  SHOST_DIF_TYPE3_PROTECTION | SHOST_DIX_TYPE1_PROTECTION |
				  SHOST_DIX_TYPE2_PROTECTION | SHOST_DIX_TYPE3_PROTECTION);
	scsi_host_set_guard(shost, SHOST_DIX_GUARD_CRC);
	return host;
}
