/* SPDX-License-Identifier: GPL-2.0 */
/* How a command of a file should end, so that the file is a test. */
#ifndef SG_IO_EXPECT_H
#define SG_IO_EXPECT_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

#define REPEAT_MAX	1000000
#define WAIT_US_MAX	86400000000ULL	/* a day */

enum expect_status {
	EXPECT_GOOD = 1,
	EXPECT_CHECK,		/* CHECK CONDITION */
	EXPECT_ANY,
};

struct expect {
	__u8 status;		/* enum expect_status; 0: the line expects nothing */
	bool has_sense;
	__u8 key;
	__u8 asc;
	__u8 ascq;
	bool has_resid;
	bool until_good;
	__u64 resid;
	__u64 tries;		/* how often the command is sent at most; 0: once */
	__u64 wait_us;		/* before the command is sent */
	const void *data;	/* the expected data-in; NULL: any */
};

/**
 * expect_finish() - check that the parts of an expectation agree, and complete it
 * @e: the expectation
 * @bytes: of the command
 * @has_data: the line has data or a pattern for data-in
 * @why: receives the reason
 * @size: of @why
 *
 * Return: false with @why set.
 */
bool expect_finish(struct expect *e, __u32 bytes, bool has_data, char *why, size_t size);

/* Whether the line expects anything, has data to compare, or says wait=. */
bool expect_is_used(const struct expect *e);

/* "CHECK CONDITION, sense 5/24/00", "GOOD, residual 8 within 3 tries". */
void expect_describe(const struct expect *e, char *buf, size_t size);

#endif
