/* SPDX-License-Identifier: GPL-2.0 */
/* Small things that several subjects need: numbers, option values, random numbers, memory. */
#ifndef SG_IO_UTIL_H
#define SG_IO_UTIL_H

#include <argp.h>
#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

/**
 * num_parse() - read a decimal or 0x number that fills the whole string
 * @s: the text; no sign, no space, no suffix
 * @min: smallest value allowed
 * @max: largest value allowed
 * @out: the value, written on success only
 *
 * Return: 0; -EINVAL: @s is not a number; -ERANGE: it is not within the limits.
 */
int num_parse(const char *s, __u64 min, __u64 max, __u64 *out);

/* The same for counts and sizes, which may end in k, M, G or T, in either case: times 1024. */
int num_parse_size(const char *s, __u64 min, __u64 max, __u64 *out);

/**
 * num_parse_decimal() - read a decimal fraction exactly, without rounding by floating point
 * @s: digits, which may have a point and more digits after it
 * @unit: what 1 stands for, for example 1000 for microseconds in nanoseconds
 * @out: @s times @unit; digits below 1 of it are cut off. Written on success only
 *
 * Return: 0; -EINVAL: @s is not such a number; -ERANGE: it does not fit.
 */
int num_parse_decimal(const char *s, __u64 unit, __u64 *out);

/*
 * For argp parsers: parses a number within limits, see num_parse_size(). Anything else is a usage
 * error that names @option.
 */
__u64 option_number(struct argp_state *state, const char *option, const char *arg,
		    __u64 min, __u64 max);

/* The lowest value of a time in seconds or a rate. A shorter time could become 0 ns. */
#define OPTION_REAL_MIN	0.000001

/*
 * Parses a decimal fraction from OPTION_REAL_MIN to @max, for rates. @more: the end of the message
 * about another value.
 */
double option_real(struct argp_state *state, const char *option, const char *arg,
		   double max, const char *more);
/* Parses a time from OPTION_REAL_MIN seconds to a year; it may end in s, m or h. */
double option_seconds(struct argp_state *state, const char *option, const char *arg);

/* Random numbers, by splitmix64: the same numbers from the same seed on every machine. */
static inline __u64 prng_mix(__u64 z)
{
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

static inline __u64 prng_next(__u64 *state)
{
	*state += 0x9e3779b97f4a7c15ULL;
	return prng_mix(*state);
}

/*
 * Makes room for one more element in an array that has @nr, by doubling it when it is full.
 * @array: a pointer to the pointer to its first element; @size: bytes of an element; @room:
 * elements that fit, 0 at first. Return: false without memory; the array is then as before.
 */
bool array_make_room(void *array, size_t size, size_t nr, size_t *room);

/* Zeroed memory, shared with processes that this one starts later; NULL if there is none. */
void *shared_alloc(size_t bytes);
void shared_free(void *mem, size_t bytes);

/*
 * Touches each page, because the first access is a page fault, which would delay a command that is
 * due. Writes what was there, in a way that the compiler does not remove.
 */
void touch_memory(void *mem, size_t bytes);

/* Waits until a child has ended. Return: its status, as waitpid() says it. */
int wait_for_process(pid_t pid);

#endif
