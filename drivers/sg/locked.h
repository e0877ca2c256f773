/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Counts long-term pinned memory as locked memory of its user.
 */
#ifndef SMQSG_LOCKED_H
#define SMQSG_LOCKED_H

struct cred;

int smqsg_lock_pages(unsigned long pages, const struct cred **owner);
void smqsg_unlock_pages(unsigned long pages, const struct cred *owner);

#endif /* SMQSG_LOCKED_H */
