/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Credentials: those of the owner of a file's slots, and of the user whose memory is locked.
 */
#ifndef SMQSG_OWNER_H
#define SMQSG_OWNER_H

#include <linux/capability.h>
#include <linux/cred.h>
#include <smq/cdb_direction.h>
#include <smq/compat.h>

#include "cdb.h"

/**
 * struct smqsg_fd_owner - owner of a file's slots
 * @cred: credentials of the caller of the first SMQ_SG_BUFFER that lent a buffer, or of the first
 *	SMQ_SG_PREPARE that filled a slot if that came before; NULL before these calls.
 *	Referenced. Written once, under smqsg_fd.setup (release; readers acquire)
 *
 * Part of struct smqsg_fd. smqsg_owner_put() drops the reference when the file is released.
 */
struct smqsg_fd_owner {
	const struct cred *cred;
};

bool smqsg_may_run_slow(const struct cred *owner);
void smqsg_own(struct smqsg_fd_owner *file);
void smqsg_owner_put(struct smqsg_fd_owner *file);
int smqsg_lock_pages(unsigned long pages, const struct cred **owner);
void smqsg_unlock_pages(unsigned long pages, const struct cred *owner);

/**
 * smqsg_cmd_allowed() - whether a file may send a command
 * @type: the device's type
 * @cdb: its CDB, of 6 bytes at least
 * @length: length of its data in bytes
 * @out: the data goes to the device
 * @writable: the file is open for writing
 *
 * The kernel's filter checks only the opcode. But some targets act on the direction of the data:
 * they execute a READ with data-out as a WRITE. So without CAP_SYS_RAWIO, data-out needs a file
 * that is open for writing, and the data must go in a direction that the opcode has; and opcode and
 * service action must be in the table of cdb.c. Process context.
 */
static __always_inline bool smqsg_cmd_allowed(u8 type, u8 *cdb, u32 length, bool out, bool writable)
{
	if (((length && ((out && !writable) ||
			 smq_cdb_misdirected(cdb[0], out ? DMA_TO_DEVICE : DMA_FROM_DEVICE))) ||
	     smqsg_needs_rawio(cdb, type, writable)) &&
	    !capable(CAP_SYS_RAWIO))
		return false;
	return smq_cmd_allowed(cdb, writable);
}

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

	return likely(owner == current_cred()) || smqsg_may_run_slow(owner);
}

#endif /* SMQSG_OWNER_H */
