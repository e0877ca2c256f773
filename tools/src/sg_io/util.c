// SPDX-License-Identifier: GPL-2.0
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util.h"

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

__u64 option_number(struct argp_state *state, const char *option, const char *arg,
		    __u64 min, __u64 max)
{
	__u64 n = min;

	if (num_parse_size(arg, min, max, &n))
		argp_error(state, "%s: '%s' is no number from %llu to %llu", option, arg, min, max);
	return n;
}

/* Parses a decimal fraction; @end receives the first character after it. */
static bool parse_real(const char *arg, char **end, double *v)
{
	*v = strtod(arg, end);
	return *end != arg && isfinite(*v);
}

double option_real(struct argp_state *state, const char *option, const char *arg,
		   double max, const char *more)
{
	double v;
	char *end;

	if (!parse_real(arg, &end, &v) || *end || v < OPTION_REAL_MIN || v > max)
		argp_error(state, "%s: '%s' is no number from %.6f to %.0f%s", option, arg,
			   OPTION_REAL_MIN, max, more);
	return v;
}

double option_seconds(struct argp_state *state, const char *option, const char *arg)
{
	static const double units[] = { 1, 60, 3600 };
	static const char letters[] = "smh";
	const double max = 86400 * 365.0;
	const char *letter;
	double v;
	char *end;

	if (parse_real(arg, &end, &v)) {
		letter = *end ? strchr(letters, *end) : NULL;
		if (letter) {
			v *= units[letter - letters];
			end++;
		}
		if (!*end && v >= OPTION_REAL_MIN && v <= max)
			return v;
	}
	argp_error(state, "%s: '%s' is no time from %.6f to %.0f seconds; it may end in s, m or h",
		   option, arg, OPTION_REAL_MIN, max);
	return max;
}

bool array_make_room(void *array, size_t size, size_t nr, size_t *room)
{
	size_t more = *room ? 2 * *room : 64;
	void *bigger;

	if (nr < *room)
		return true;
	memcpy(&bigger, array, sizeof(bigger));
	bigger = reallocarray(bigger, more, size);
	if (!bigger)
		return false;
	memcpy(array, &bigger, sizeof(bigger));
	*room = more;
	return true;
}

void *shared_alloc(size_t bytes)
{
	void *mem = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return mem == MAP_FAILED ? NULL : mem;
}

void shared_free(void *mem, size_t bytes)
{
	if (mem)
		munmap(mem, bytes);
}

int wait_for_process(pid_t pid)
{
	int status = 0;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return status;
}

void touch_memory(void *mem, size_t bytes)
{
	size_t page = sysconf(_SC_PAGESIZE), at;
	char *p = mem;

	for (at = 0; at < bytes; at += page)
		__atomic_fetch_or(&p[at], 0, __ATOMIC_RELAXED);
	__atomic_fetch_or(&p[bytes - 1], 0, __ATOMIC_RELAXED);
}
