/* SPDX-License-Identifier: GPL-2.0 */
/* Policies for core_world.c: simple ones that use the layer as those of drivers/policy do. */
#ifndef CORE_POLICIES_H
#define CORE_POLICIES_H

#include "core_model.h"

/*
 * A policy like "prio": the LUN's commands wait in the policy's own list.
 */
static void listed_wait(struct smq_policy_lun *lun, struct smq_cmd *cmd)
{
	unsigned long flags;

	spin_lock_irqsave(&world.own.lock, flags);
	smq_hold_add(&world.own, cmd, false);
	spin_unlock_irqrestore(&world.own.lock, flags);
}

static struct smq_cmd *listed_next(struct smq_policy_lun *lun, bool drain)
{
	struct smq_cmd *cmd = NULL;
	unsigned long flags;
	LIST_HEAD(list);

	spin_lock_irqsave(&world.own.lock, flags);
	if (smq_hold_take(&world.own, &list, 1)) {
		cmd = list_first_entry(&list, struct smq_cmd, node);
		list_del_init(&cmd->node);
	}
	spin_unlock_irqrestore(&world.own.lock, flags);
	return cmd;
}

/* Only whether a policy has this operation matters: smq_depth_completed() is a model. */
static bool learned(struct smq_policy *policy, unsigned int *least, unsigned int *most)
{
	return true;
}

static void listed_dispatch(struct smq_hold *hold)
{
	smq_policy_room(&world.policy_lun);
}

static struct smq_hwq *pass_queue(struct smq_policy *policy, struct smq_hwq *hwq,
				  struct smq_cmd *cmd, bool last)
{
	return hwq;
}

/* A policy that moves each command to hardware queue 1. */
static struct smq_hwq *away_queue(struct smq_policy *policy, struct smq_hwq *hwq,
				  struct smq_cmd *cmd, bool last)
{
	return &world.hwq[1];
}

/*
 * A policy like "batch": it holds each command, and a work item dispatches them.
 */
static struct smq_hwq *hold_queue(struct smq_policy *policy, struct smq_hwq *hwq,
				  struct smq_cmd *cmd, bool last)
{
	unsigned long flags;

	spin_lock_irqsave(&world.own.lock, flags);
	smq_hold_add(&world.own, cmd, false);
	spin_unlock_irqrestore(&world.own.lock, flags);
	smq_hold_kick(&world.own);
	return NULL;
}

static void hold_dispatch(struct smq_hold *hold)
{
	unsigned long flags;
	LIST_HEAD(list);

	spin_lock_irqsave(&hold->lock, flags);
	smq_hold_take(hold, &list, UINT_MAX);
	spin_unlock_irqrestore(&hold->lock, flags);
	if (!list_empty(&list))
		smq_policy_issue(&world.hwq[0], &list, true);
}

#endif /* CORE_POLICIES_H */
