// SPDX-License-Identifier: GPL-2.0
#include <stdlib.h>

#include "slowest.h"

static void sift_down(struct slowest *s)
{
	struct slow last = s->entries[0];
	unsigned int at = 0, down;

	for (; (down = 2 * at + 1) < s->nr; at = down) {
		if (down + 1 < s->nr && s->entries[down + 1].ns < s->entries[down].ns)
			down++;
		if (last.ns <= s->entries[down].ns)
			break;
		s->entries[at] = s->entries[down];
	}
	s->entries[at] = last;
}

static void sift_up(struct slowest *s)
{
	unsigned int at = s->nr - 1, up;
	struct slow new = s->entries[at];

	for (; at; at = up) {
		up = (at - 1) / 2;
		if (s->entries[up].ns <= new.ns)
			break;
		s->entries[at] = s->entries[up];
	}
	s->entries[at] = new;
}

void slowest_insert(struct slowest *s, const struct slow *new)
{
	if (s->nr < s->room) {
		s->entries[s->nr++] = *new;
		sift_up(s);
	} else {
		s->entries[0] = *new;
		sift_down(s);
	}
}

void slowest_merge(struct slowest *into, const struct slowest *from)
{
	unsigned int i;

	for (i = 0; i < from->nr; i++)
		slowest_add(into, &from->entries[i]);
}

static int slower_first(const void *a, const void *b)
{
	const struct slow *x = a, *y = b;

	if (x->ns != y->ns)
		return x->ns > y->ns ? -1 : 1;
	return (x->issued_ns > y->issued_ns) - (x->issued_ns < y->issued_ns);
}

void slowest_sort(struct slowest *s)
{
	if (s->nr)
		qsort(s->entries, s->nr, sizeof(*s->entries), slower_first);
}
