/* SPDX-License-Identifier: GPL-2.0 */
/* Counts of operations and their results, for all processes together; and reports of failures. */
#ifndef FUZZ_TALLY_H
#define FUZZ_TALLY_H

#include <stdint.h>

enum op {
	OP_TASK, OP_OPEN, OP_EXCL, OP_INFO, OP_SETUP, OP_MMAP, OP_LEND, OP_TAKE_BACK, OP_PREPARE,
	OP_CANCEL, OP_RUN, OP_BATCH, OP_RUN_IOCTL, OP_ADHOC, OP_SG_IO3, OP_SG_IO4, OP_WRITE,
	OP_READ, OP_POLL, OP_QUERY, OP_RING, OP_REGISTER, OP_ENTER, OP_PASS, OP_CLOSE_RACE, OP_FORK,
	OP_EXEC, OP_OWN_WRITE, OP_OWN_READ, OP_SIGNAL, OPS
};

/* Allocates the counts, which all processes share. Call it before the first fork. */
void tally_begin(void);

/*
 * Counts an operation. @result: 0 success, above 0 the device reported a status, below 0 an errno.
 * Reports a failure if the interface does not document this errno for this operation.
 */
void tally(enum op op, int result);

/* As tally(), and checks @field: the field that the call reported as wrong, or 0. */
void tally_field(enum op op, int result, uint32_t field);

/* Return: -errno if @ret, the return value of a system call, is below 0; otherwise 0. */
int result_of(long ret);

/* Prints and counts a failure. The line names the task and its seed, see report_as(). */
void report(const char *format, ...) __attribute__((format(printf, 1, 2)));
unsigned long failures(void);

/* Prints a detail of the last failure. */
void report_more(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Sets the task that report() names. Reports of the supervisor name no task. */
void report_as(unsigned int worker, unsigned long task, uint64_t seed);

/* tally_progress() prints one line of counts, tally_summary() a table of all results. */
void tally_progress(unsigned int seconds, unsigned int running);
void tally_summary(void);

#endif /* FUZZ_TALLY_H */
