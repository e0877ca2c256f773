// SPDX-License-Identifier: GPL-2.0
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "stream.h"
#include "util.h"

struct stream *stream_new(const struct plan *plan, unsigned int nr_lanes)
{
	struct stream *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->plan = plan;
	s->nr_lanes = nr_lanes;
	s->blocks = calloc(STREAM_WINDOW, sizeof(*s->blocks));
	s->known = calloc(STREAM_WINDOW, nr_lanes);
	s->waits = calloc(STREAM_WINDOW, sizeof(*s->waits));
	if (s->blocks && s->known && s->waits)
		return s;
	stream_free(s);
	return NULL;
}

void stream_free(struct stream *s)
{
	if (!s)
		return;
	free(s->blocks);
	free(s->known);
	free(s->waits);
	free(s->flight.ends);
	free(s->recent);
	free(s);
}

static bool *known_by(struct stream *s, __u32 cmd, unsigned int lane)
{
	return &s->known[(size_t)(cmd % STREAM_WINDOW) * s->nr_lanes + lane];
}

static void add_wait(struct stream *s, unsigned int lane, __u32 cmd)
{
	bool *known = known_by(s, cmd, lane);

	if (!*known)
		s->waits[s->nr_waits++] = cmd;
	*known = true;
}

static bool covers(const struct blocks *a, const struct blocks *b)
{
	return a->first <= b->first && a->last >= b->last;
}

/* Finds commands before @cmd that use the same blocks, from the last one back. */
static void add_conflicts(struct stream *s, unsigned int lane, __u32 cmd)
{
	const struct command *cmds = s->plan->file->cmds;
	const struct blocks *b = &s->blocks[cmd % STREAM_WINDOW], *earlier;
	__u32 i;

	if (b->use == USE_NONE)
		return;
	for (i = s->plan->after[cmd]; i > s->first; i--) {
		earlier = &s->blocks[(i - 1) % STREAM_WINDOW];
		if (cmds[i - 1].dev != cmds[cmd].dev || !plan_conflict(earlier, b))
			continue;
		add_wait(s, lane, i - 1);
		/* It has waited for all others with these blocks. */
		if (earlier->use == USE_WRITE && covers(earlier, b))
			return;
	}
}

/* A command has ended in the recording. */
static bool note_end(struct stream *s, struct flight_end end)
{
	unsigned int i, kept = 0;

	if (end.cmd >= s->latest) {
		s->latest = end.cmd + 1;
		/* What had ended when this one was issued, it has waited for. */
		for (i = 0; i < s->nr_recent; i++)
			if (s->recent[i].ns > s->plan->file->cmds[end.cmd].at_us * 1000)
				s->recent[kept++] = s->recent[i];
		s->nr_recent = kept;
	}
	if (!array_make_room(&s->recent, sizeof(*s->recent), s->nr_recent, &s->room))
		return false;
	s->recent[s->nr_recent++] = end;
	return true;
}

/* Looks at what had ended in the recording when @cmd was issued, and what had not. */
static bool look_at_recording(struct stream *s, unsigned int lane, __u32 cmd)
{
	const struct plan *p = s->plan;
	__u64 now = p->file->cmds[cmd].at_us * 1000;
	struct flight *f = &s->flight;
	unsigned int i;

	for (; f->nr && f->ends[0].ns <= now; flight_remove(f))
		if (!note_end(s, f->ends[0]))
			return false;
	for (i = 0; i < s->nr_recent; i++)
		if (s->recent[i].cmd >= s->first && now - s->recent[i].ns < p->opt.window_ns)
			add_wait(s, lane, s->recent[i].cmd);
	return flight_add(f, (struct flight_end){ plan_end(p, cmd), cmd });
}

bool stream_next(struct stream *s, unsigned int lane)
{
	__u32 cmd = s->next++;

	s->nr_waits = 0;
	s->blocks[cmd % STREAM_WINDOW] = plan_blocks(s->plan, &s->plan->file->cmds[cmd]);
	memset(known_by(s, cmd, 0), 0, s->nr_lanes);
	add_conflicts(s, lane, cmd);
	return s->plan->opt.mode != PLAN_DEPEND || look_at_recording(s, lane, cmd);
}

void stream_forget(struct stream *s, __u32 first)
{
	s->first = first;
}

void stream_again(struct stream *s)
{
	s->next = 0;
	s->first = 0;
	s->flight.nr = 0;
	s->latest = 0;
	s->nr_recent = 0;
}
