/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Memory that stays pinned, counted as its user's locked memory.
 */
#ifndef SMQSG_LOCKED_H
#define SMQSG_LOCKED_H

struct user_struct;

int smqsg_lock_pages(unsigned long pages, struct user_struct **user);
void smqsg_unlock_pages(unsigned long pages, struct user_struct *user);

#endif /* SMQSG_LOCKED_H */
