// SPDX-License-Identifier: GPL-2.0
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "num.h"

/* @suffixes: how many of k, M, G and T the number may end in. */
static int parse(const char *s, unsigned int suffixes, __u64 min, __u64 max, __u64 *out)
{
	static const char letters[] = "kmgt";
	unsigned int shift = 0;
	const char *letter;
	int base = 10;
	char *end;
	__u64 v;

	/* strtoull() accepts signs, spaces and octal numbers, which are errors here. */
	if (s[0] == '0' && (s[1] == 'x' || s[1] == 'X')) {
		if (!isxdigit((unsigned char)s[2]))
			return -EINVAL;
		base = 16;
	} else if (!isdigit((unsigned char)s[0])) {
		return -EINVAL;
	}
	errno = 0;
	v = strtoull(s, &end, base);
	letter = *end ? memchr(letters, tolower((unsigned char)*end), suffixes) : NULL;
	if (letter) {
		shift = 10 * (letter - letters + 1);
		end++;
	}
	if (*end)
		return -EINVAL;
	if (errno == ERANGE || v > ~0ULL >> shift || v << shift < min || v << shift > max)
		return -ERANGE;
	*out = v << shift;
	return 0;
}

int num_parse(const char *s, __u64 min, __u64 max, __u64 *out)
{
	return parse(s, 0, min, max, out);
}

int num_parse_size(const char *s, __u64 min, __u64 max, __u64 *out)
{
	return parse(s, 4, min, max, out);
}

int num_parse_decimal(const char *s, __u64 unit, __u64 *out)
{
	__u64 v = 0;

	if (!isdigit((unsigned char)*s))
		return -EINVAL;
	for (; isdigit((unsigned char)*s); s++)
		if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *s - '0', &v))
			return -ERANGE;
	if (__builtin_mul_overflow(v, unit, &v))
		return -ERANGE;
	if (*s == '.') {
		if (!isdigit((unsigned char)s[1]))
			return -EINVAL;
		for (s++; isdigit((unsigned char)*s); s++) {
			unit /= 10;
			if (__builtin_add_overflow(v, (*s - '0') * unit, &v))
				return -ERANGE;
		}
	}
	if (*s)
		return -EINVAL;
	*out = v;
	return 0;
}
