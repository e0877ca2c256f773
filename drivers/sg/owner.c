// SPDX-License-Identifier: GPL-2.0
/*
 * Credentials: those of the owner of a file's slots, who prepared them or lent the first buffer;
 * and those of the user whose locked memory includes long-term pinned memory.
 */
#include <linux/errno.h>
#include <linux/sched/signal.h>
#include <linux/sched/user.h>
#include <linux/user_namespace.h>

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

/**
 * smqsg_lock_pages() - counts pages as locked memory of the calling task's user
 * @pages: how many
 * @owner: gets a reference to the task's credentials, which keep its user_struct alive; NULL if
 *	nothing is counted, because the task has CAP_IPC_LOCK or @pages is 0
 *
 * Like io_uring, counts for the user rather than for the process, because the memory stays pinned
 * when the process has exited, or has become another program. (A reference to the user alone would
 * be enough, but 6.1.176 of Debian 12 does not export free_uid() to modules.)
 *
 * Return: 0: the caller later calls smqsg_unlock_pages(); -ENOMEM: over RLIMIT_MEMLOCK. Process
 * context, in the task whose memory is locked or on its behalf.
 */
int smqsg_lock_pages(unsigned long pages, const struct cred **owner)
{
	unsigned long limit = rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT;
	struct user_struct *self = current_user();
	long locked;

	*owner = NULL;
	/* Most tasks have no such capability: this is not a denial that should be audited. */
	if (!pages || ns_capable_noaudit(&init_user_ns, CAP_IPC_LOCK))
		return 0;
	locked = atomic_long_read(&self->locked_vm);
	do {
		if (locked + pages > limit)
			return -ENOMEM;
	} while (!atomic_long_try_cmpxchg(&self->locked_vm, &locked, locked + pages));
	*owner = get_current_cred();
	return 0;
}

/**
 * smqsg_unlock_pages() - undoes smqsg_lock_pages()
 * @pages: as given to smqsg_lock_pages()
 * @owner: as smqsg_lock_pages() has set it; the reference is dropped
 *
 * Process context.
 */
void smqsg_unlock_pages(unsigned long pages, const struct cred *owner)
{
	if (!owner)
		return;
	atomic_long_sub(pages, &owner->user->locked_vm);
	put_cred(owner);
}
