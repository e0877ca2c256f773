// SPDX-License-Identifier: GPL-2.0
#include "source.h"

#include "metrics.h"

void source_seek(struct source *s, unsigned int line)
{
	frame_free(&s->frame);
	s->line = line;
	s->damaged = !replay_read(s->replay, line, &s->frame);
}

enum source_end source_next(struct source *s)
{
	if (s->replay) {
		if (s->line + 1 >= replay_lines(s->replay))
			return SOURCE_END;
		source_seek(s, s->line + 1);
		return SOURCE_NEXT;
	}
	collect(&s->live);
	frame_collected(&s->frame, &s->live);
	s->failed = NULL;
	if (s->record && !frame_write(&s->frame, s->record))
		s->failed = s->record_path;
	else if (s->metrics && !metrics_write(&s->frame, s->metrics))
		s->failed = s->metrics;
	return s->failed ? SOURCE_FAILED : SOURCE_NEXT;
}

void source_look_at(struct source *s, const char *lun)
{
	if (s->replay)
		return;
	collect_queues(&s->live, lun);
	s->frame.queues = s->live.queues;
}

bool source_close(struct source *s)
{
	bool good = !s->record || !fclose(s->record);

	if (s->replay) {
		frame_free(&s->frame);
		replay_close(s->replay);
	} else {
		collect_end(&s->live);
	}
	return good;
}
