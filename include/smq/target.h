/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Hides the differences of LIO's fabric interface between Linux 6.1 and 7.3. An addition to
 * compat.h that only fabrics need.
 */
#ifndef SMQ_TARGET_H
#define SMQ_TARGET_H

#include <target/target_core_base.h>
#include <target/target_core_backend.h>
#include <target/target_core_fabric.h>

/*
 * smq_target_queue() gives a command to LIO's queue for its device and this CPU; a worker executes
 * it. Context: any. From 6.7 on target_submit() does so if the fabric or the backstore's
 * submit_type asks for it. Before 6.7 target_submit() executes the command at once and may sleep,
 * and target_queue_submission() gives it to the queue.
 */
#ifdef SMQ_HAVE_TARGET_SUBMIT_TYPE
#define SMQ_TARGET_DEFAULT_SUBMIT	.default_submit_type = TARGET_QUEUE_SUBMIT,

static inline bool smq_target_wants_queue(const struct se_dev_attrib *attrib)
{
	return READ_ONCE(attrib->submit_type) == TARGET_QUEUE_SUBMIT;
}

static inline void smq_target_queue(struct se_cmd *se)
{
	target_submit(se);
}
#else
#define SMQ_TARGET_DEFAULT_SUBMIT

static inline bool smq_target_wants_queue(const struct se_dev_attrib *attrib)
{
	return false;
}

static inline void smq_target_queue(struct se_cmd *se)
{
	target_queue_submission(se);
}
#endif

/*
 * From 7.0 on, if the fabric supports it, LIO completes a command that ends with GOOD in the
 * context in which the backstore completes it, which may be an interrupt. Before 7.0 a work item
 * always completes it. smq_target_complete_here() then takes that work item back and does its work,
 * if this context has queued it.
 *
 * @se: a command that the caller has executed, and whose memory is not used again meanwhile
 * @wwn: its WWN; if its cmd_completion_affinity names a CPU, LIO completes the command there
 *
 * Another context may execute the command: if the backstore has ORDERED commands in flight, from
 * another fabric, LIO puts the command into a list of delayed ones. Then LIO may be initialising
 * the work item at this moment, and it must not be touched. No code makes the command's list entry
 * empty again: list_del() poisons it.
 *
 * Context: process. With preemption enabled the worker may run first, which is dearer, but correct.
 */
#ifdef SMQ_HAVE_TARGET_COMPL_TYPE
#define SMQ_TARGET_DEFAULT_COMPL	\
	.default_compl_type = TARGET_DIRECT_COMPL, .direct_compl_supp = 1,

static inline void smq_target_complete_here(struct se_cmd *se, const struct se_wwn *wwn)
{
}
#else
#define SMQ_TARGET_DEFAULT_COMPL

static __always_inline void smq_target_complete_here(struct se_cmd *se, const struct se_wwn *wwn)
{
	if (likely(list_empty(&se->se_delayed_node)) &&
	    likely(READ_ONCE(wwn->cmd_compl_affinity) == SE_COMPL_AFFINITY_CPUID) &&
	    likely(cancel_work(&se->work)))
		se->work.func(&se->work);
}
#endif

#endif /* SMQ_TARGET_H */
