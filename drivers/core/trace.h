/* SPDX-License-Identifier: GPL-2.0 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM smq

#if !defined(SMQ_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define SMQ_TRACE_H

#include <linux/tracepoint.h>
#include <scsi/scsi_cmnd.h>
#include <smq/lld.h>

DECLARE_EVENT_CLASS(smq_cmd_class,
	TP_PROTO(struct smq_cmd *cmd),
	TP_ARGS(cmd),
	TP_STRUCT__entry(
		__field(unsigned int, host)
		__field(unsigned int, hwq)
		__field(int, tag)
		__field(unsigned int, on)
		__field(unsigned int, id)
		__field(u64, lun)
		__field(u8, opcode)
		__field(unsigned int, bytes)
		__field(int, result)
		__field(unsigned int, resid)
	),
	TP_fast_assign(
		struct scsi_cmnd *scmd = smq_cmd_to_scmd(cmd);

		__entry->host = scmd->device->host->host_no;
		__entry->hwq = scsi_cmd_to_rq(scmd)->mq_hctx->queue_num;
		__entry->tag = scsi_cmd_to_rq(scmd)->tag;
		__entry->on = cmd->hwq->index;
		__entry->id = scmd->device->id;
		__entry->lun = scmd->device->lun;
		__entry->opcode = scmd->cmnd[0];
		__entry->bytes = scsi_bufflen(scmd);
		__entry->result = scmd->result;
		__entry->resid = scsi_get_resid(scmd);
	),
	TP_printk("host=%u hwq=%u tag=%d on=%u id=%u lun=%llu op=%#04x bytes=%u result=%#x resid=%u",
		  __entry->host, __entry->hwq, __entry->tag, __entry->on, __entry->id,
		  __entry->lun, __entry->opcode, __entry->bytes,
		  __entry->result, __entry->resid)
);

/*
 * A command is on its way to the LLD. "result" and "resid" are left over from the tag's last use.
 * "hwq" is the block layer's hardware queue, to which the tag belongs. "on" is the hardware queue
 * that the command is on: a policy may give the command to another one after smq_queue.
 */
DEFINE_EVENT(smq_cmd_class, smq_queue,
	TP_PROTO(struct smq_cmd *cmd),
	TP_ARGS(cmd)
);

/* A command is completed. Exactly one of smq_done, smq_busy and smq_taken follows a smq_queue. */
DEFINE_EVENT(smq_cmd_class, smq_done,
	TP_PROTO(struct smq_cmd *cmd),
	TP_ARGS(cmd)
);

/* The LLD refused a command, and the layer returned it: the mid-layer queues it again. */
DEFINE_EVENT(smq_cmd_class, smq_busy,
	TP_PROTO(struct smq_cmd *cmd),
	TP_ARGS(cmd)
);

/* Error handling took a command back: the command ends here, without smq_done. */
DEFINE_EVENT(smq_cmd_class, smq_taken,
	TP_PROTO(struct smq_cmd *cmd),
	TP_ARGS(cmd)
);

TRACE_EVENT(smq_eh,
	TP_PROTO(struct scsi_cmnd *scmd, const char *step, int ret),
	TP_ARGS(scmd, step, ret),
	TP_STRUCT__entry(
		__field(unsigned int, host)
		__field(unsigned int, id)
		__field(u64, lun)
		__field(int, tag)
		__field(int, ret)
		__array(char, step, 16)
	),
	TP_fast_assign(
		__entry->host = scmd->device->host->host_no;
		__entry->id = scmd->device->id;
		__entry->lun = scmd->device->lun;
		__entry->tag = scsi_cmd_to_rq(scmd)->tag;
		__entry->ret = ret;
		strscpy(__entry->step, step, sizeof(__entry->step));
	),
	TP_printk("host=%u id=%u lun=%llu tag=%d step=%s ret=%d",
		  __entry->host, __entry->id, __entry->lun, __entry->tag,
		  __entry->step, __entry->ret)
);

#endif /* SMQ_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
