// SPDX-License-Identifier: GPL-2.0
/*
 * Counts long-term pinned memory as locked memory of its user.
 */
#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/errno.h>
#include <linux/sched/signal.h>
#include <linux/sched/user.h>
#include <linux/user_namespace.h>

#include "locked.h"

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
