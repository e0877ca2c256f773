/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The owner of a file's slots: the credentials that prepared them.
 */
#ifndef SMQSG_OWNER_H
#define SMQSG_OWNER_H

#include <linux/cred.h>

/**
 * struct smqsg_fd_owner - owner of a file's slots
 * @cred: credentials of the first SMQ_SG_PREPARE, NULL before it. Referenced. Written once, under
 *	smqsg_fd.setup (release; readers acquire)
 *
 * Lives in the file, until smqsg_owner_put().
 */
struct smqsg_fd_owner {
	const struct cred *cred;
};

bool smqsg_may_run_slowly(const struct cred *owner);
int smqsg_own(struct smqsg_fd_owner *file);
void smqsg_owner_put(struct smqsg_fd_owner *file);

/**
 * smqsg_may_run() - whether the caller may run the file's slots
 * @file: their owner
 *
 * Return: true if the caller is the owner, or has the owner's credentials. Process context.
 */
static inline bool smqsg_may_run(struct smqsg_fd_owner *file)
{
	/* Pairs with smqsg_own(). */
	const struct cred *owner = smp_load_acquire(&file->cred);

	return likely(owner == current_cred()) || smqsg_may_run_slowly(owner);
}

#endif /* SMQSG_OWNER_H */
