/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The guest's symbols that a plugin needs while it counts: which code is ours, and which function
 * entries have a role.
 */
#ifndef SMQ_BENCH_SYMBOLS_H
#define SMQ_BENCH_SYMBOLS_H

#include <stdbool.h>
#include <stdint.h>

/* The roles that a block of guest code may have. */
enum role {
	ROLE_OWN	= 1 << 0, /* text of a module named with own= */
	ROLE_LEAVE	= 1 << 1, /* entry of a function to which our modules hand a command */
	ROLE_IRQ	= 1 << 2, /* entry of an interrupt or exception */
	ROLE_RESET	= 1 << 3, /* entry of a context switch */
	ROLE_WATCH	= 1 << 4, /* entry of a function whose callers are counted */
	ROLE_USER	= 1 << 5, /* user space */
	ROLE_LOCK	= 1 << 6, /* entry of a function that takes a lock */
	ROLE_SLOW	= 1 << 7, /* entry of a function that runs if the lock is not free */
};

/* Takes an argument that gives functions a role, for example lock=GLOB, or symbols=PREFIX. */
bool symbols_option(const char *arg);

/*
 * Reads the newest of the files PREFIX.1, PREFIX.2, ... (symbols=PREFIX; each is a copy of the
 * guest's /proc/kallsyms). Returns false, and keeps all roles, if there is no new file.
 */
bool symbols_refresh(void);

/* The number of the file in use, 0 for none. */
unsigned int symbols_generation(void);

unsigned int symbols_role(uint64_t va);

#endif /* SMQ_BENCH_SYMBOLS_H */
