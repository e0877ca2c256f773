/* SPDX-License-Identifier: GPL-2.0 */
/* Policy, settings and counters of an smq host, as its sysfs attributes have them. */
#ifndef SMQTOP_SETTINGS_H
#define SMQTOP_SETTINGS_H

#include <stdbool.h>

/**
 * struct setting - an attribute
 * @name: its folder and file, such as smq/policy
 * @value: what it has
 * @writable: whether it can be set
 */
struct setting {
	char name[96];
	char value[96];
	bool writable;
};

/**
 * settings_read() - read all of a host
 * @host: its number
 * @list: receives the policy, its settings, the host's counters, and the other policies' settings
 *
 * Return: how many; 0 for a host of another kind. The caller frees @list.
 */
unsigned int settings_read(unsigned int host, struct setting **list);

/* Sets an attribute. Returns 0 or an errno. */
int settings_write(unsigned int host, const char *name, const char *value);

#endif
