// SPDX-License-Identifier: GPL-2.0
#include "keys.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "key.h"

static void seek(struct screen *s, long line)
{
	long last = replay_lines(s->source->replay) - 1;

	source_seek(s->source, line < 0 ? 0 : line > last ? last : line);
	heat_follow(&s->heat, s->source);
}

/* The first interval that ends at or after a time. */
static void seek_time(struct screen *s, const char *text)
{
	struct replay *r = s->source->replay;
	double begin = replay_time(r, 0), wanted;
	unsigned int line, last = replay_lines(r) - 1;
	time_t day = begin;
	struct tm tm;
	char *end;

	if (*text == '+') {
		wanted = begin + strtod(text + 1, &end);
	} else {
		localtime_r(&day, &tm);
		end = strptime(text, "%H:%M:%S", &tm);
		wanted = mktime(&tm);
		/* After midnight. */
		if (wanted < (time_t)begin && wanted + 86400 <= replay_time(r, last) + 1)
			wanted += 86400;
	}
	if (!end || *end || !text[1]) {
		snprintf(s->dialog.message, sizeof(s->dialog.message), "'%s' is no time", text);
		return;
	}
	for (line = 0; line < last && replay_time(r, line) < wanted; line++)
		;
	seek(s, line);
}

static void go_back(struct screen *s)
{
	if (s->mode != MODE_TABLE)
		s->mode = MODE_TABLE;
	else if (s->place.depth)
		s->place.depth--;
}

static void show_heat(struct screen *s)
{
	const char *name = place_target(&s->place);

	/* A host or queue has none of its own: then that of the LUN on the way to it. */
	if (!strchr(name, ':'))
		name = place_level(&s->place)->scope;
	if (strchr(name, ':')) {
		strcpy(s->heat_name, name);
		s->mode = MODE_HEAT;
	} else {
		strcpy(s->dialog.message, "select a LUN first");
	}
}

static void show_settings(struct screen *s)
{
	const char *name = place_target(&s->place);

	if (s->source->replay)
		strcpy(s->dialog.message, "a recording has no settings");
	else if (!*name)
		strcpy(s->dialog.message, "select a host first");
	else if (dialog_show_settings(&s->dialog, place_host(name)))
		s->mode = MODE_SETTINGS;
}

static void take_answer(struct screen *s, enum question answered)
{
	if (answered == ASK_FILTER)
		strcpy(s->place.filter, s->dialog.input);
	else if (answered == ASK_TIME && *s->dialog.input)
		seek_time(s, s->dialog.input);
}

static void go_to(struct screen *s, enum view view)
{
	s->mode = MODE_TABLE;
	place_go_to(&s->place, view);
}

static void change_interval(struct screen *s, bool longer)
{
	static const double steps[] = { 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300, 3600 };
	unsigned int i, nr = sizeof(steps) / sizeof(*steps);

	for (i = 0; longer && i < nr; i++) {
		if (steps[i] > s->interval) {
			s->interval = steps[i];
			return;
		}
	}
	for (i = nr; !longer && i-- > 0;) {
		if (steps[i] < s->interval) {
			s->interval = steps[i];
			return;
		}
	}
}

static void press_in_recording(struct screen *s, int key)
{
	unsigned int line = s->source->line;

	switch (key) {
	case KEY_LEFT:
		seek(s, (long)line - 1);
		break;
	case KEY_RIGHT:
		seek(s, (long)line + 1);
		break;
	case '<':
		seek(s, (long)line - 10);
		break;
	case '>':
		seek(s, (long)line + 10);
		break;
	case 't':
		dialog_ask(&s->dialog, ASK_TIME, "");
		break;
	}
}

bool keys_press(struct screen *s, int key)
{
	struct level *l = place_level(&s->place);

	*s->dialog.message = 0;
	if (s->dialog.question != ASK_NOTHING) {
		take_answer(s, dialog_answer(&s->dialog, key));
		return false;
	}
	if (key >= '1' && key < '1' + VIEWS) {
		go_to(s, key - '1');
		return false;
	}
	if (s->mode == MODE_SETTINGS && dialog_press(&s->dialog, key))
		return false;
	switch (key) {
	case 'q':
		return true;
	case 'h':
	case '?':
		s->mode = s->mode == MODE_HELP ? MODE_TABLE : MODE_HELP;
		break;
	case '\t':
		go_to(s, (l->view + 1) % VIEWS);
		break;
	case KEY_BTAB:
		go_to(s, (l->view + VIEWS - 1) % VIEWS);
		break;
	case KEY_UP:
	case 'k':
		place_move(&s->place, (long)l->at - 1);
		break;
	case KEY_DOWN:
	case 'j':
		place_move(&s->place, (long)l->at + 1);
		break;
	case KEY_PPAGE:
		place_move(&s->place, (long)l->at - s->page);
		break;
	case KEY_NPAGE:
		place_move(&s->place, (long)l->at + s->page);
		break;
	case KEY_HOME:
		*l->name = 0;
		break;
	case KEY_END:
		place_move(&s->place, s->place.shown.nr);
		break;
	case '\n':
	case '\r':
	case KEY_ENTER:
		if (s->mode == MODE_TABLE)
			place_go_in(&s->place);
		break;
	case KEY_ESCAPE:
	case KEY_BACKSPACE:
	case 127:
	case '\b':
		go_back(s);
		break;
	case 's':
		s->place.first = (s->place.first + 1) % SORTS;
		break;
	case 'S':
		s->place.second = (s->place.second + 1) % SORTS;
		break;
	case '/':
		dialog_ask(&s->dialog, ASK_FILTER, s->place.filter);
		break;
	case 'm':
		show_heat(s);
		break;
	case 'o':
		show_settings(s);
		break;
	case '+':
	case '-':
		change_interval(s, key == '+');
		break;
	case 'p':
	case ' ':
		s->paused = !s->paused;
		break;
	default:
		if (s->source->replay)
			press_in_recording(s, key);
	}
	return false;
}
