// SPDX-License-Identifier: GPL-2.0
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "expect.h"
#include "util.h"

#define fail(...) (snprintf(why, size, __VA_ARGS__), -1)

/* Takes one or two hex digits, and then @end. */
static bool take_hex(const char **at, char end, __u8 max, __u8 *out)
{
	unsigned int value = 0, digits;
	char c;

	for (digits = 0; isxdigit((unsigned char)**at) && digits < 2; digits++, (*at)++) {
		c = tolower((unsigned char)**at);
		value = value * 16 + (c <= '9' ? c - '0' : c - 'a' + 10);
	}
	if (!digits || **at != end || value > max)
		return false;
	*at += end != '\0';
	*out = value;
	return true;
}

static int parse_number(const char *key, const char *value, __u64 min, __u64 max, __u64 *out,
			char *why, size_t size)
{
	if (!num_parse(value, min, max, out))
		return 1;
	return fail("%s='%.40s' is no number from %llu to %llu", key, value, min, max);
}

static int parse_status(struct expect *e, const char *value, char *why, size_t size)
{
	static const char * const names[] = {
		[EXPECT_GOOD] = "good", [EXPECT_CHECK] = "check", [EXPECT_ANY] = "any",
	};

	for (e->status = EXPECT_GOOD; e->status <= EXPECT_ANY; e->status++)
		if (!strcmp(value, names[e->status]))
			return 1;
	return fail("expect='%.40s' is not good, check or any", value);
}

int expect_parse(struct expect *e, const char *key, const char *value, char *why, size_t size)
{
	const char *at = value;
	__u64 n = 0;
	int ret;

	if (!strcmp(key, "expect")) {
		if (e->status)
			return fail("expect= given twice");
		return parse_status(e, value, why, size);
	}
	if (!strcmp(key, "sense")) {
		if (e->has_sense)
			return fail("sense= given twice");
		e->has_sense = true;
		if (take_hex(&at, '/', 0xf, &e->key) && take_hex(&at, '/', 0xff, &e->asc) &&
		    take_hex(&at, '\0', 0xff, &e->ascq))
			return 1;
		return fail("sense='%.40s' is not KEY/ASC/ASCQ in hex, as 5/24/00", value);
	}
	if (!strcmp(key, "resid")) {
		if (e->has_resid)
			return fail("resid= given twice");
		e->has_resid = true;
		ret = parse_number(key, value, 0, 0x7fffffff, &n, why, size);
		e->resid = n;
		return ret;
	}
	if (!strcmp(key, "repeat")) {
		if (e->tries)
			return fail("repeat= given twice");
		ret = parse_number(key, value, 1, REPEAT_MAX, &n, why, size);
		e->tries = n;
		return ret;
	}
	if (!strcmp(key, "until")) {
		if (strcmp(value, "good"))
			return fail("until='%.40s' is not good", value);
		e->until_good = true;
		return 1;
	}
	if (!strcmp(key, "wait")) {
		if (e->wait_us)
			return fail("wait= given twice");
		return parse_number(key, value, 1, WAIT_US_MAX, &e->wait_us, why, size);
	}
	return 0;
}

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
		ret = fail("resid=%u is over BYTES, %u", e->resid, bytes);
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
		n += snprintf(buf + n, size - n, ", residual %u", e->resid);
	if (e->tries)
		snprintf(buf + n, size - n, " within %u tries", e->tries);
}
