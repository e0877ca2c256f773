// SPDX-License-Identifier: GPL-2.0
#include <stdio.h>

#include "expect.h"

#define fail(...) (snprintf(why, size, __VA_ARGS__), -1)

bool expect_finish(struct expect *e, __u32 bytes, bool has_data, char *why, size_t size)
{
	int ret = 0;

	if (e->until_good && !e->tries)
		ret = fail("until=good needs repeat=, how often the command is sent at most");
	else if (e->tries && !e->until_good)
		ret = fail("repeat= needs until=good");
	else if (e->has_sense && e->status && e->status != EXPECT_CHECK)
		ret = fail("sense= needs expect=check");
	else if (e->until_good && (e->has_sense || e->status == EXPECT_CHECK))
		ret = fail("until=good contradicts %s", e->has_sense ? "sense=" : "expect=check");
	else if (has_data && (e->has_sense || e->status == EXPECT_CHECK))
		ret = fail("data-in cannot be expected with %s",
			   e->has_sense ? "sense=" : "expect=check");
	else if (e->has_resid && e->resid > bytes)
		ret = fail("resid=%llu is over BYTES, %u", e->resid, bytes);
	if (!e->status && e->has_sense)
		e->status = EXPECT_CHECK;
	else if (!e->status && (e->has_resid || e->until_good || has_data))
		e->status = EXPECT_GOOD;
	return !ret;
}

bool expect_is_used(const struct expect *e)
{
	return e->status || e->wait_us;
}

void expect_describe(const struct expect *e, char *buf, size_t size)
{
	static const char * const names[] = {
		[EXPECT_GOOD] = "GOOD", [EXPECT_CHECK] = "CHECK CONDITION",
		[EXPECT_ANY] = "any status",
	};
	int n = snprintf(buf, size, "%s", names[e->status]);

	if (e->has_sense)
		n += snprintf(buf + n, size - n, ", sense %x/%02x/%02x", e->key, e->asc, e->ascq);
	if (e->has_resid)
		n += snprintf(buf + n, size - n, ", residual %llu", e->resid);
	if (e->tries)
		snprintf(buf + n, size - n, " within %llu tries", e->tries);
}
