// SPDX-License-Identifier: GPL-2.0
#include <stdlib.h>

#include "flight.h"
#include "util.h"

bool flight_add(struct flight *f, struct flight_end end)
{
	size_t at, up;

	if (!array_make_room(&f->ends, sizeof(*f->ends), f->nr, &f->room))
		return false;
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
