// SPDX-License-Identifier: GPL-2.0
#include "heat.h"

#include <err.h>
#include <stdlib.h>
#include <string.h>

/* The power of two of a bucket of counters.h. */
static unsigned int row_of(unsigned int bucket)
{
	if (bucket >= 1 << HIST_SUB)
		return (bucket >> HIST_SUB) + HIST_SUB;
	return bucket ? 32 - __builtin_clz(bucket) : 0;
}

const struct heat_lun *heat_find(const struct heat *heat, const char *name)
{
	unsigned int i;

	for (i = 0; i < heat->nr; i++)
		if (!strcmp(heat->luns[i].name, name))
			return &heat->luns[i];
	return NULL;
}

static struct heat_lun *add_lun(struct heat *heat, const char *name)
{
	struct heat_lun *lun;

	if (heat->nr == heat->room) {
		heat->room = heat->room ? 2 * heat->room : 16;
		heat->luns = realloc(heat->luns, heat->room * sizeof(*heat->luns));
		if (!heat->luns)
			err(3, "memory");
	}
	lun = memset(&heat->luns[heat->nr++], 0, sizeof(*lun));
	strcpy(lun->name, name);
	return lun;
}

static void add_frame(struct heat *heat, const struct frame *frame)
{
	const struct rows *rows = &frame->rows[VIEW_LUNS];
	unsigned int i, k, bucket, column = heat->intervals++ % HEAT_COLUMNS;
	struct heat_lun *lun;

	/* LUNs that are long gone make room for others. */
	for (i = k = 0; i < heat->nr; i++) {
		if (heat->intervals - heat->luns[i].seen > HEAT_COLUMNS)
			continue;
		if (k != i)
			heat->luns[k] = heat->luns[i];
		memset(heat->luns[k++].count[column], 0, sizeof(heat->luns->count[column]));
	}
	heat->nr = k;
	for (i = 0; i < rows->nr; i++) {
		lun = (struct heat_lun *)heat_find(heat, rows->row[i].name) ?:
			add_lun(heat, rows->row[i].name);
		lun->seen = heat->intervals;
		for (bucket = 0; bucket < HIST_BUCKETS; bucket++)
			lun->count[column][row_of(bucket)] += rows->row[i].diff.device[bucket];
	}
}

void heat_free(struct heat *heat)
{
	free(heat->luns);
	*heat = (struct heat){};
}

void heat_follow(struct heat *heat, const struct source *source)
{
	unsigned int line = source->line, i;

	if (!source->replay || line == heat->line + 1) {
		add_frame(heat, &source->frame);
	} else if (line != heat->line || !heat->intervals) {
		heat_free(heat);
		for (i = line >= HEAT_COLUMNS ? line - HEAT_COLUMNS + 1 : 0; i <= line; i++) {
			struct frame frame;

			replay_read(source->replay, i, &frame);
			add_frame(heat, &frame);
			frame_free(&frame);
		}
	}
	heat->line = line;
}
