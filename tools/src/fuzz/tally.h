/* SPDX-License-Identifier: GPL-2.0 */
/* Counts of operations and their results, for all processes together; and reports of faults. */
#ifndef FUZZ_TALLY_H
#define FUZZ_TALLY_H

#include <stdint.h>

enum op {
	OP_LIFE, OP_OPEN, OP_EXCL, OP_INFO, OP_SETUP, OP_MMAP, OP_LEND, OP_TAKE_BACK, OP_PREPARE,
	OP_CANCEL, OP_RUN, OP_BATCH, OP_RUN_IOCTL, OP_ADHOC, OP_SG_IO3, OP_SG_IO4, OP_WRITE,
	OP_READ, OP_POLL, OP_QUERY, OP_RING, OP_REGISTER, OP_ENTER, OP_PASS, OP_CLOSE_RACE, OP_FORK,
	OP_EXEC, OP_OWN_WRITE, OP_OWN_READ, OP_SIGNAL, OPS
};

/* Allocates the counts, which all processes share. Called before the first fork. */
void tally_begin(void);

/*
 * Counts an operation. @result: 0 it succeeded, above 0 the device reported a status, below 0 an
 * errno. An errno that the interface does not document for this operation is a fault.
 */
void tally(enum op op, int result);

/* Counts a call whose structure names the field at fault, and checks that name. */
void tally_field(enum op op, int result, uint32_t field);

/* The result of a system call: 0 or -errno. */
int result_of(long ret);

/* Reports a fault, with the process's seed. */
void fault(const char *format, ...) __attribute__((format(printf, 1, 2)));
unsigned long faults(void);

/* Adds to the report of the last fault. */
void fault_more(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Sets how fault() names this process. */
void fault_name(unsigned int worker, unsigned long life, uint64_t seed);

/* Print a line of counts, and a table of each operation's results. */
void tally_progress(unsigned int seconds, unsigned int running);
void tally_summary(void);

#endif /* FUZZ_TALLY_H */
