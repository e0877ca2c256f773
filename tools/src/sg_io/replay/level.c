// SPDX-License-Identifier: GPL-2.0
#include <stdlib.h>

#include "level.h"

void level_until(struct level *l, __u64 ns)
{
	__u64 next;

	while (l->flight.nr) {
		next = l->flight.ends[0].ns < ns ? l->flight.ends[0].ns : ns;
		if (next > l->at) {
			l->area += (double)l->flight.nr * (next - l->at);
			l->busy += next - l->at;
			l->at = next;
		}
		if (l->flight.ends[0].ns > ns)
			break;
		flight_remove(&l->flight);
	}
	l->at = ns > l->at ? ns : l->at;
}

size_t level_groups(size_t nr)
{
	return nr < LEVEL_GROUP ? 1 : nr / LEVEL_GROUP;
}

size_t level_group(size_t nr, size_t cmd)
{
	size_t group = cmd / LEVEL_GROUP;

	return group < level_groups(nr) ? group : level_groups(nr) - 1;
}

bool level_means_begin(struct level_means *m, size_t nr)
{
	*m = (struct level_means){ .nr = nr };
	m->means = calloc(level_groups(nr), sizeof(*m->means));
	return m->means;
}

/* Ends the group of the last command at @ns. Its mean stays 0 if it took no time. */
static void end_group(struct level_means *m, __u64 ns)
{
	struct level *l = &m->level;

	level_until(l, ns);
	if (l->busy > m->busy)
		m->means[level_group(m->nr, m->next - 1)] = (l->area - m->area) /
			(l->busy - m->busy);
	m->area = l->area;
	m->busy = l->busy;
}

bool level_means_add(struct level_means *m, __u64 issued, __u64 end)
{
	struct flight *f = &m->level.flight;

	if (m->next && level_group(m->nr, m->next) != level_group(m->nr, m->next - 1))
		end_group(m, issued);
	m->next++;
	level_until(&m->level, issued);
	if (!flight_add(f, (struct flight_end){ end }))
		return false;
	m->most = f->nr > m->most ? f->nr : m->most;
	return true;
}

void level_means_end(struct level_means *m)
{
	float mean = 1;
	size_t i;

	/* What is in flight when no more are issued says nothing about the load. */
	if (m->means && m->level.flight.nr)
		end_group(m, m->level.flight.ends[0].ns);
	/* The commands of a group that took no time are in flight in the next one. */
	for (i = m->means ? level_groups(m->nr) : 0; i--; mean = m->means[i])
		if (!m->means[i])
			m->means[i] = mean;
	free(m->level.flight.ends);
	m->level.flight = (struct flight){};
}

unsigned int level_limit(double wanted, unsigned int most)
{
	if (wanted < 1.5)
		return 1;
	return wanted < level_most(most) ? wanted + 0.5 : level_most(most);
}
