// SPDX-License-Identifier: GPL-2.0
/*
 * The owner of a file's slots: the credentials that prepared them or lent the first buffer.
 */
#include "owner.h"

/*
 * Whether @cred may run the slots of @owner: it must belong to the same user. If the owner has
 * CAP_SYS_RAWIO, @cred must have it too, because the filter of CDBs may have allowed a slot's CDB
 * only for that capability.
 */
static bool smqsg_same_cred(const struct cred *cred, const struct cred *owner)
{
	return uid_eq(cred->euid, owner->euid) && uid_eq(cred->fsuid, owner->fsuid) &&
	       cred->user_ns == owner->user_ns &&
	       cap_raised(cred->cap_effective, CAP_SYS_RAWIO) >=
	       cap_raised(owner->cap_effective, CAP_SYS_RAWIO);
}

/* smqsg_may_run() for a caller whose struct cred is another object than the owner's. */
bool smqsg_may_run_slow(const struct cred *owner)
{
	return owner && smqsg_same_cred(current_cred(), owner);
}

/**
 * smqsg_own() - makes the caller the owner, if the slots have none
 * @file: gets the owner; smqsg_fd.setup is held. The caller may be the owner already
 *
 * Process context.
 */
void smqsg_own(struct smqsg_fd_owner *file)
{
	if (file->cred)
		return;
	/* Publishes the credentials to smqsg_may_run(). */
	smp_store_release(&file->cred, get_current_cred());
}

/* Drops the reference to the credentials, when the file is released. */
void smqsg_owner_put(struct smqsg_fd_owner *file)
{
	if (file->cred)
		put_cred(file->cred);
}
