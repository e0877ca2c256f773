/* SPDX-License-Identifier: GPL-2.0 */
/* What was done and how it ended, of all processes together; and what must not have happened. */
#ifndef FUZZ_TALLY_H
#define FUZZ_TALLY_H

#include <stdint.h>

enum op {
	OP_LIFE, OP_OPEN, OP_EXCL, OP_INFO, OP_SETUP, OP_MMAP, OP_LEND, OP_TAKE_BACK, OP_PREPARE,
	OP_CANCEL, OP_RUN, OP_BATCH, OP_RUN_IOCTL, OP_ADHOC, OP_SG_IO3, OP_SG_IO4, OP_WRITE,
	OP_READ, OP_POLL, OP_QUERY, OP_RING, OP_REGISTER, OP_ENTER, OP_PASS, OP_RACE, OP_FORK,
	OP_EXEC, OP_OWN_WRITE, OP_OWN_READ, OP_SIGNAL, OPS
};

/* Before the first fork; its memory is what all processes share. */
void tally_begin(void);

/*
 * Counts one. @result: 0 it went well, above 0 the device reported a status, below 0 an errno. An
 * errno that the interface does not document for this operation is a fault.
 */
void tally(enum op op, int result);

/* The result of a system call: 0 or -errno. */
int result_of(long ret);

/* Tells of what must not happen, with the process's seed. */
void fault(const char *format, ...) __attribute__((format(printf, 1, 2)));
unsigned long faults(void);

/* Tells more of the last fault. */
void fault_more(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Names this process in fault(). */
void fault_name(unsigned int worker, unsigned long life, uint64_t seed);

/* A line of counts; and a table of how many of each operation ended how. */
void tally_progress(unsigned int seconds, unsigned int running);
void tally_summary(void);

#endif /* FUZZ_TALLY_H */
