/* SPDX-License-Identifier: GPL-2.0 */
/* What watching costs on this machine. */
#ifndef SMQTOP_COST_H
#define SMQTOP_COST_H

/**
 * cost_print() - read from a disk without programs, with empty ones and with smqtop's
 * @disk: its node; it is only read
 *
 * Return: 0, or -1 after a message.
 */
int cost_print(const char *disk);

#endif
