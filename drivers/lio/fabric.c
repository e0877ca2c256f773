// SPDX-License-Identifier: GPL-2.0
/*
 * The fabric's operations, which LIO calls. Initiator and target are in one kernel, so nothing is
 * transported: LIO works on the command's own scatterlist and sense buffer, and the response is
 * stored in the command. The command completes when LIO drops its last reference: until then LIO
 * may access the memory of the command.
 */
#include <linux/minmax.h>
#include <linux/module.h>
#include <linux/rcupdate.h>
#include <scsi/scsi_proto.h>

#include "lio.h"

static char *lio_tpg_get_wwn(struct se_portal_group *se_tpg)
{
	return lio_se_to_tpg(se_tpg)->lio->name;
}

static u16 lio_tpg_get_tag(struct se_portal_group *se_tpg)
{
	return lio_se_to_tpg(se_tpg)->number;
}

static u32 lio_tpg_get_inst_index(struct se_portal_group *se_tpg)
{
	return lio_se_to_tpg(se_tpg)->number;
}

/* Demo mode: the initiator needs no ACL of its own, and may write. */
static int lio_tpg_yes(struct se_portal_group *se_tpg)
{
	return 1;
}

static int lio_tpg_no(struct se_portal_group *se_tpg)
{
	return 0;
}

static u32 lio_sess_get_index(struct se_session *sess)
{
	return 1;
}

static void lio_set_default_node_attributes(struct se_node_acl *acl)
{
}

static int lio_get_cmd_state(struct se_cmd *se)
{
	return 0;
}

/* The data is already here. */
static int lio_write_pending(struct se_cmd *se)
{
	target_execute_cmd(se);
	return 0;
}

static struct scsi_cmnd *lio_se_to_scmd(struct se_cmd *se)
{
	return smq_cmd_to_scmd(lio_to_smq_cmd(container_of(se, struct lio_cmd, se)));
}

/*
 * Stores LIO's response in the command. A READ that LIO itself refuses has returned no data: its
 * residual is the whole buffer. A READ that fails with the backstore's own sense data
 * (SCF_TRANSPORT_TASK_SENSE) may have returned data. With an overflow the buffer is full, so the
 * residual is 0.
 */
static int lio_queue_status(struct se_cmd *se)
{
	struct scsi_cmnd *scmd = lio_se_to_scmd(se);
	unsigned int resid = 0;

	if (se->scsi_status != SAM_STAT_GOOD && se->data_direction == DMA_FROM_DEVICE &&
	    !(se->se_cmd_flags & SCF_TRANSPORT_TASK_SENSE))
		resid = scsi_bufflen(scmd);
	else if (se->se_cmd_flags & SCF_UNDERFLOW_BIT)
		resid = min(se->residual_count, scsi_bufflen(scmd));
	scsi_set_resid(scmd, resid);
	scmd->result = se->scsi_status;
	return 0;
}

static void lio_queue_tm_rsp(struct se_cmd *se)
{
	lio_tmf_answered(se, se->se_tmr_req->response);
}

/*
 * LIO will not respond. A command keeps the result that lio_submit() set; the waiter of a task
 * management function gets an answer here.
 */
static void lio_aborted_task(struct se_cmd *se)
{
	if (se->se_cmd_flags & SCF_SCSI_TMR_CDB)
		lio_tmf_answered(se, TMR_FUNCTION_REJECTED);
}

static int lio_check_stop_free(struct se_cmd *se)
{
	return target_put_sess_cmd(se);
}

/* LIO has released the command, perhaps while queue_cmd is still submitting it. */
static void lio_release_cmd(struct se_cmd *se)
{
	struct lio_cmd *lc = container_of(se, struct lio_cmd, se);

	if (se->se_cmd_flags & SCF_SCSI_TMR_CDB) {
		lio_tmf_released(se);
		return;
	}
	smq_cmd_done(lio_to_smq_cmd(lc));
}

const struct target_core_fabric_ops lio_ops = {
	.module				= THIS_MODULE,
	.fabric_name			= "smq",
	.tpg_get_wwn			= lio_tpg_get_wwn,
	.tpg_get_tag			= lio_tpg_get_tag,
	.tpg_get_inst_index		= lio_tpg_get_inst_index,
	.tpg_check_demo_mode		= lio_tpg_yes,
	.tpg_check_demo_mode_cache	= lio_tpg_no,
	.tpg_check_demo_mode_write_protect = lio_tpg_no,
	.tpg_check_prod_mode_write_protect = lio_tpg_no,
	.sess_get_index			= lio_sess_get_index,
	.set_default_node_attributes	= lio_set_default_node_attributes,
	.get_cmd_state			= lio_get_cmd_state,
	.write_pending			= lio_write_pending,
	.queue_data_in			= lio_queue_status,
	.queue_status			= lio_queue_status,
	.queue_tm_rsp			= lio_queue_tm_rsp,
	.aborted_task			= lio_aborted_task,
	.check_stop_free		= lio_check_stop_free,
	.release_cmd			= lio_release_cmd,
	.fabric_make_wwn		= lio_make_wwn,
	.fabric_drop_wwn		= lio_drop_wwn,
	.fabric_make_tpg		= lio_make_tpg,
	.fabric_drop_tpg		= lio_drop_tpg,
	.fabric_post_link		= lio_post_link,
	.fabric_pre_unlink		= lio_pre_unlink,
	.tfc_tpg_base_attrs		= lio_tpg_attrs,
	SMQ_TARGET_DEFAULT_SUBMIT
	SMQ_TARGET_DEFAULT_COMPL
};
