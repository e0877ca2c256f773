// SPDX-License-Identifier: GPL-2.0
/* Reads a line of a recording from standard input, and writes its intervals as counters. */
#include <stdio.h>

#include "metrics.h"

int main(int argc, char **argv)
{
	static char line[1 << 20];
	struct frame frame;
	unsigned int view, i;

	if (argc != 2 || !fgets(line, sizeof(line), stdin) || !frame_parse(&frame, line))
		return 2;
	for (view = 0; view < VIEWS; view++)
		for (i = 0; i < frame.rows[view].nr; i++)
			frame.rows[view].row[i].total = frame.rows[view].row[i].diff;
	if (!metrics_write(&frame, argv[1])) {
		perror(argv[1]);
		return 3;
	}
	frame_free(&frame);
	return 0;
}
