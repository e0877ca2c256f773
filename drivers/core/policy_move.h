/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Commands that a policy gives to another hardware queue than the block layer's: foreign
 * commands of that queue.
 */
#ifndef SMQ_CORE_POLICY_MOVE_H
#define SMQ_CORE_POLICY_MOVE_H

#include <linux/atomic.h>
#include <linux/list.h>
#include <linux/types.h>

struct smq_cmd;
struct smq_host;
struct smq_hwq;

/**
 * struct smq_host_move - CPU hotplug, for policies that move commands
 * @cpus: the host's instance in the layer's CPU hotplug state. It is added when the host first
 *	chooses such a policy; until then @hwq_of is NULL. Changes under the host's policy lock
 * @hwq_of: the default hardware queue of each CPU: a copy, because the tag set's map is freed while
 *	the host is being removed
 *
 * Lifetime: until the last policy of the host is freed.
 */
struct smq_host_move {
	struct hlist_node cpus;
	unsigned int *hwq_of;
};

/**
 * struct smq_hwq_move - a hardware queue as the target of moved commands
 * @foreign: number of commands that it has from other hardware queues; atomic because any CPU
 *	moves and completes them
 * @open: at least one of its CPUs is online. Written by CPU hotplug, read inside the RCU
 *	read-side section in which a command is moved
 */
struct smq_hwq_move {
	atomic_t foreign;
	bool open;
};

int smq_moves_init(void);
void smq_moves_exit(void);
int smq_move_begin_host(struct smq_host *host);
void smq_move_end_host(struct smq_host *host);
void smq_move(struct smq_cmd *cmd, struct smq_hwq *to);
void smq_move_home(struct smq_cmd *cmd);
void smq_move_end(struct smq_cmd *cmd);

#endif /* SMQ_CORE_POLICY_MOVE_H */
