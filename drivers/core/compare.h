/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The comparison of a policy with "direct", by the commands that end in windows of time with the
 * policy and without it. This code does not depend on the kernel: tests/host runs it in user space.
 *
 * The load may change while it is compared. So a window is short, both windows of a pair follow
 * each other, and the order alternates from pair to pair: a load that grows or shrinks evenly then
 * changes nothing. The policy counts as slower only if each pair says so.
 */
#ifndef SMQ_CORE_COMPARE_H
#define SMQ_CORE_COMPARE_H

#ifdef __KERNEL__
#include <linux/types.h>
#else
#include <stdbool.h>
#endif

/* A comparison has this many windows, half of them with the policy. */
#define SMQ_COMPARE_WINDOWS	12
/* Without the policy at least this many commands must end in all windows together. */
#define SMQ_COMPARE_ENOUGH	64
/* The policy is slower if it ends fewer than this many percent of the commands of "direct". */
#define SMQ_COMPARE_PERCENT	99

/**
 * struct smq_compare - a comparison
 * @window: windows that have ended
 * @done: commands that ended in windows without the policy, and with it
 * @ns: length of these windows, in ns
 * @first: commands that ended in the first window of the pair
 * @first_ns: length of that window, in ns
 * @slower: pairs in which the policy was slower
 */
struct smq_compare {
	unsigned int window;
	unsigned long long done[2];
	unsigned long long ns[2];
	unsigned long long first;
	unsigned long long first_ns;
	unsigned int slower;
};

/* Whether commands go through the policy in the present window. */
static inline bool smq_compare_with(const struct smq_compare *c)
{
	/* With, without; without, with; and so on. */
	return !(c->window & 1) == !(c->window & 2);
}

/* A window has ended: @done commands in @ns. */
static inline void smq_compare_add(struct smq_compare *c, unsigned int done, unsigned int ns)
{
	bool with = smq_compare_with(c);

	c->done[with] += done;
	c->ns[with] += ns;
	if (c->window++ & 1) {
		unsigned long long mine = done * c->first_ns, other = c->first * ns;

		c->slower += with ? mine < other : other < mine;
	} else {
		c->first = done;
		c->first_ns = ns;
	}
}

/* Whether the policy has turned out to be slower than "direct", after the last window. */
static inline bool smq_compare_is_slower(const struct smq_compare *c)
{
	return c->slower == SMQ_COMPARE_WINDOWS / 2 && c->done[0] >= SMQ_COMPARE_ENOUGH &&
	       c->done[1] * c->ns[0] < c->done[0] * c->ns[1] / 100 * SMQ_COMPARE_PERCENT;
}

#endif /* SMQ_CORE_COMPARE_H */
