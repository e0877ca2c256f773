// SPDX-License-Identifier: GPL-2.0
/*
 * The tracepoints, and the functions that write their events for LLDs: an LLD's queuecommand
 * contains only the static branch and a call, so the event's code stays out of its hot path.
 */
#include <linux/export.h>
#include <smq/lld.h>
#include <smq/tracepoint.h>

#include "core.h"

#define CREATE_TRACE_POINTS
#include "trace.h"

EXPORT_TRACEPOINT_SYMBOL_GPL(smq_queue);
EXPORT_TRACEPOINT_SYMBOL_GPL(smq_done);

void smq_trace_queue(struct smq_cmd *cmd)
{
	trace_smq_queue(cmd);
}
EXPORT_SYMBOL_GPL(smq_trace_queue);

void smq_trace_done(struct smq_cmd *cmd)
{
	trace_smq_done(cmd);
}
EXPORT_SYMBOL_GPL(smq_trace_done);

/*
 * See smq_scsi_done_inline(). Each command reads it: nothing that is written may share its cache
 * line.
 */
const struct static_key *smq_done_key __ro_after_init;
EXPORT_SYMBOL_GPL(smq_done_key);

/* Called when the module is loaded. scsi_mod is loaded as long as this module is. */
void __init smq_trace_init(void)
{
	smq_done_key = smq_tracepoint_key("scsi_dispatch_cmd_done");
}
