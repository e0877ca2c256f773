/* SPDX-License-Identifier: GPL-2.0 */
/* Declarations that the files of the layer share and that LLDs do not see. */
#ifndef SMQ_CORE_H
#define SMQ_CORE_H

#include <smq/lld.h>

/* stats.c */
void smq_stats_init(void);
void smq_stats_exit(void);
void smq_stats_add_host(struct smq_host *host);
void smq_stats_remove_host(struct smq_host *host);

/* fault_set.c */
extern const struct attribute_group smq_fault_group;

/* configfs.c */
int smq_configfs_init(void);
void smq_configfs_exit(void);

/* host.c */
size_t smq_host_size(const struct smq_lld *lld);
int smq_host_set_up(struct smq_host *host, const struct smq_template *tmpl);
void smq_host_tear_down(struct smq_host *host);

/* attached_list.c */
void smq_attached_list(struct smq_attached *attached);
void smq_attached_unlist(struct smq_attached *attached);

/* eh.c */
void smq_cmd_forget(struct smq_cmd *cmd);
void smq_cmd_taken(struct smq_cmd *cmd);

/* policy_path.c */
bool smq_policy_refused(struct smq_cmd *cmd, enum smq_status st);
void smq_policy_taken(struct smq_cmd *cmd);

/* cmd.c */
bool smq_cmd_own(struct smq_cmd *cmd);
void smq_cmd_count_attached(struct smq_cmd *cmd);
void smq_cmd_end(struct smq_cmd *cmd);
void smq_cmd_work(struct work_struct *work);

#endif /* SMQ_CORE_H */
