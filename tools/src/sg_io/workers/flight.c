// SPDX-License-Identifier: GPL-2.0
#include <stdlib.h>

#include "flight.h"

bool flight_add(struct flight *f, struct flight_end end)
{
	struct flight_end *bigger;
	size_t at, up, room;

	if (f->nr == f->room) {
		room = f->room ? 2 * f->room : 1024;
		bigger = realloc(f->ends, room * sizeof(*bigger));
		if (!bigger)
			return false;
		f->ends = bigger;
		f->room = room;
	}
	for (at = f->nr++; at; at = up) {
		up = (at - 1) / 2;
		if (f->ends[up].ns <= end.ns)
			break;
		f->ends[at] = f->ends[up];
	}
	f->ends[at] = end;
	return true;
}

void flight_remove(struct flight *f)
{
	struct flight_end end = f->ends[--f->nr];
	size_t at, down;

	for (at = 0; (down = 2 * at + 1) < f->nr; at = down) {
		if (down + 1 < f->nr && f->ends[down + 1].ns < f->ends[down].ns)
			down++;
		if (end.ns <= f->ends[down].ns)
			break;
		f->ends[at] = f->ends[down];
	}
	f->ends[at] = end;
}

void flight_remove_until(struct flight *f, __u64 ns)
{
	while (f->nr && f->ends[0].ns <= ns)
		flight_remove(f);
}
