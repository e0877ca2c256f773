/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The policies that are part of smq.ko, and those of their operations that the layer calls
 * directly.
 */
#ifndef SMQ_POLICY_BUILTIN_H
#define SMQ_POLICY_BUILTIN_H

#include <smq/policy.h>

/* batch.c */
extern const struct smq_policy_ops smq_batch_ops;
struct smq_hwq *smq_batch_queue(struct smq_policy *policy, struct smq_hwq *hwq,
				struct smq_cmd *cmd, bool last);
void smq_batch_done(struct smq_policy *policy, struct smq_cmd *cmd);

/* prio.c */
extern const struct smq_policy_ops smq_prio_ops;
struct smq_hwq *smq_prio_queue(struct smq_policy *policy, struct smq_hwq *hwq,
			       struct smq_cmd *cmd, bool last);

/* bucket.c */
extern const struct smq_policy_ops smq_bucket_ops;
void smq_bucket_has_command(struct smq_policy *policy, struct smq_hwq *hwq);

/* steer.c */
extern const struct smq_policy_ops smq_steer_ops;
struct smq_hwq *smq_steer_queue(struct smq_policy *policy, struct smq_hwq *hwq,
				struct smq_cmd *cmd, bool last);
void smq_steer_done(struct smq_policy *policy, struct smq_cmd *cmd);

#endif /* SMQ_POLICY_BUILTIN_H */
