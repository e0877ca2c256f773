// SPDX-License-Identifier: GPL-2.0
#include "place.h"

#include <err.h>
#include <stdlib.h>
#include <string.h>

struct level *place_level(struct place *p)
{
	return &p->levels[p->depth];
}

static bool names_host(const char *name)
{
	return !strncmp(name, "host", 4);
}

unsigned int place_host(const char *name)
{
	return atol(name + (names_host(name) ? 4 : 0));
}

static bool in_scope(const char *scope, const struct row *row, enum view view)
{
	if (!*scope || view == VIEW_OPCODES || view == VIEW_FILES)
		return true;
	if (view != VIEW_QUEUES && view != VIEW_SMQ && !names_host(scope))
		return !strcmp(row->name, scope);
	return place_host(row->name) == place_host(scope);
}

bool place_is_there(struct place *p, const struct frame *frame)
{
	const char *scope = place_level(p)->scope;
	const struct rows *rows = &frame->rows[names_host(scope) ? VIEW_HOSTS : VIEW_LUNS];
	unsigned int i;

	for (i = 0; i < rows->nr; i++)
		if (!strcmp(rows->row[i].name, scope))
			return true;
	return !*scope;
}

const char *place_target(struct place *p)
{
	const struct level *l = place_level(p);

	if (l->view <= VIEW_QUEUES && p->shown.nr)
		return p->shown.row[l->at].name;
	return l->scope;
}

const char *place_lun(struct place *p)
{
	const struct level *l = place_level(p);

	if (l->view == VIEW_LUNS && p->shown.nr)
		return p->shown.row[l->at].name;
	return names_host(l->scope) ? "" : l->scope;
}

static void select_row(struct place *p, unsigned int at)
{
	struct level *l = place_level(p);
	const struct row *row = &p->shown.row[at];

	l->at = at;
	strcpy(l->name, row->name);
	strcpy(l->label, row->label);
	strcpy(l->text, row->text);
}

/* The rows from which those that are shown are chosen. */
static const struct rows *rows_of(struct place *p, const struct frame *frame)
{
	const struct level *l = place_level(p);
	bool of_lun = l->view == VIEW_QUEUES && *l->scope && !names_host(l->scope);

	p->seconds = frame->seconds;
	p->whole_host = of_lun && strcmp(frame->queues.lun, l->scope);
	if (!of_lun || p->whole_host)
		return &frame->rows[l->view];
	p->seconds = frame->queues.seconds;
	return &frame->queues.rows;
}

void place_arrange(struct place *p, const struct frame *frame)
{
	struct level *l = place_level(p);
	const struct rows *rows = rows_of(p, frame);
	unsigned int i;

	rows_free(&p->shown);
	p->shown = (struct rows){ .view = l->view };
	p->shown.row = malloc(rows->nr * sizeof(*rows->row) + 1);
	if (!p->shown.row)
		err(3, "memory");
	for (i = 0; i < rows->nr; i++)
		if (in_scope(l->scope, &rows->row[i], l->view))
			p->shown.row[p->shown.nr++] = rows->row[i];
	if (*p->filter)
		rows_filter(&p->shown, p->filter);
	rows_sort(&p->shown, p->first, p->second);
	if (!*l->name)
		l->at = 0;
	for (i = 0; *l->name && i < p->shown.nr; i++) {
		const struct row *row = &p->shown.row[i];

		if (!strcmp(row->name, l->name) && !strcmp(row->label, l->label) &&
		    (l->view != VIEW_ERRORS || !strcmp(row->text, l->text)))
			l->at = i;
	}
	if (l->at >= p->shown.nr)
		l->at = p->shown.nr ? p->shown.nr - 1 : 0;
}

void place_move(struct place *p, long at)
{
	if (!p->shown.nr)
		return;
	if (at >= (long)p->shown.nr)
		at = p->shown.nr - 1;
	select_row(p, at < 0 ? 0 : at);
}

void place_go_to(struct place *p, enum view view)
{
	p->depth = 0;
	p->levels[0] = (struct level){ .view = view };
}

void place_go_in(struct place *p)
{
	struct level *l = place_level(p), next = {};

	if (!p->shown.nr || l->view == VIEW_OPCODES || l->view >= VIEW_COMMANDS)
		return;
	select_row(p, l->at);
	strcpy(next.scope, l->name);
	if (l->view == VIEW_HOSTS) {
		next.view = VIEW_LUNS;
	} else if (l->view == VIEW_LUNS) {
		next.view = VIEW_QUEUES;
	} else {
		next.view = VIEW_COMMANDS;
		if (l->view == VIEW_QUEUES && *l->scope)
			strcpy(next.scope, l->scope);
	}
	p->levels[++p->depth] = next;
}
