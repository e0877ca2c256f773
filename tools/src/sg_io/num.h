/* SPDX-License-Identifier: GPL-2.0 */
/* Strict parsing of numbers: the whole string, decimal or 0x, within limits. */
#ifndef SG_IO_NUM_H
#define SG_IO_NUM_H

#include <linux/types.h>

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

#endif
