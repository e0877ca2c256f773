// SPDX-License-Identifier: GPL-2.0
#include "slowest.h"

static bool is_slower(const struct slow *a, const struct slow *b)
{
	return a->ns != b->ns ? a->ns > b->ns : a->issued_ns < b->issued_ns;
}

void slowest_insert(struct slowest *s, const struct slow *new)
{
	unsigned int at = s->nr < s->room ? s->nr++ : s->nr - 1;

	for (; at && is_slower(new, &s->entries[at - 1]); at--)
		s->entries[at] = s->entries[at - 1];
	s->entries[at] = *new;
}

void slowest_merge(struct slowest *into, const struct slowest *from)
{
	unsigned int i;

	for (i = 0; i < from->nr; i++)
		slowest_add(into, &from->entries[i]);
}
