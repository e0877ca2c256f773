// SPDX-License-Identifier: GPL-2.0
#include "draw.h"

#include <curses.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "table.h"

#define LEAST_LINES	6
#define LEAST_COLUMNS	20
#define HEAD_LINES	3	/* title, state, names of the columns */
#define PATH_TEXT	160

static const char *const help[] = {
	"1-8 Tab    view: hosts, LUNs, queues, opcodes, errors, commands, files, smq",
	"Up Down PgUp PgDn Home End   select a row",
	"Enter            from a host to its LUNs, queues, slow and failed commands",
	"Esc Backspace    back",
	"s S              first and second sort key",
	"/                only rows with a text, or that match a pattern; empty: all",
	"m                latency of the selected LUN over time",
	"o                policy and settings of an smq host; Enter changes one",
	"+ -              longer, shorter interval",
	"p Space          pause, go on",
	"Left Right < >   recording: one interval back or on, or ten",
	"t                recording: go to a time: 14:02:03, or +90 (seconds)",
	"q Ctrl-C         end",
	"",
	"P50 to P99.9 are the driver's and device's part, QUEUE is the mean wait before.",
	"A dash: fewer than 2, 10, 100 or 1000 commands, or not known.",
	"Coloured or bold: commands failed, a host in recovery, INFLIGHT at its depth.",
	"Wide windows have more: MEAN time, FULL (TASK SET FULL), BUSY (not taken by the",
	"driver), RETRY (sent again), TIMEOUT.",
};

static const short heat_colors[] = { COLOR_BLUE, COLOR_CYAN, COLOR_GREEN, COLOR_YELLOW, COLOR_RED };

static bool colors;

static attr_t attribute(enum meaning meaning)
{
	if (meaning == MEANS_NOTHING)
		return A_NORMAL;
	return A_BOLD | (colors ? COLOR_PAIR(meaning) : 0);
}

static bool use_colors(void)
{
	const char *no = getenv("NO_COLOR");

	return !(no && *no) && has_colors();
}

void draw_begin(void)
{
	static const short meant[MEANINGS] = {
		[MEANS_ERROR] = COLOR_RED,
		[MEANS_RECOVERY] = COLOR_YELLOW,
		[MEANS_FULL] = COLOR_MAGENTA,
	};
	unsigned int i;

	colors = use_colors();
	if (!colors)
		return;
	start_color();
	use_default_colors();
	for (i = 1; i < MEANINGS; i++)
		init_pair(i, meant[i], -1);
	for (i = 0; i < sizeof(heat_colors) / sizeof(*heat_colors); i++)
		init_pair(MEANINGS + i, heat_colors[i], -1);
}

/* Writes at most @width columns, and clears the rest of them. */
static void put(int y, int x, int width, attr_t attr, const char *text)
{
	if (x >= COLS || y >= LINES)
		return;
	if (width > COLS - x)
		width = COLS - x;
	attrset(attr);
	mvprintw(y, x, "%-*.*s", width, width, text);
	attrset(A_NORMAL);
}

static void clock_text(double seconds, char *text, size_t size)
{
	time_t t = seconds;
	struct tm tm;

	*text = 0;
	if (localtime_r(&t, &tm))
		strftime(text, size, "%H:%M:%S", &tm);
}

static void draw_title(struct screen *s)
{
	/* Short, so that 80 columns have room for the time. */
	static const char *const names[VIEWS] = {
		"hosts", "luns", "queues", "ops", "errors", "cmds", "files", "smq",
	};
	enum view view, shown = place_level(&s->place)->view;
	char text[64], when[16];
	unsigned int x;

	for (view = 0, x = 0; view < VIEWS; view++) {
		snprintf(text, sizeof(text), "%u %s", view + 1, names[view]);
		put(0, x, strlen(text), view == shown ? A_REVERSE : A_NORMAL, text);
		x += strlen(text) + 1;
	}
	clock_text(s->frame->time, when, sizeof(when));
	if (s->source->replay)
		snprintf(text, sizeof(text), "%u/%u %s", s->source->line + 1,
			 replay_lines(s->source->replay), when);
	else
		snprintf(text, sizeof(text), "%gs %s", s->interval, when);
	if (COLS - (int)strlen(text) > (int)x)
		put(0, COLS - strlen(text), strlen(text), A_NORMAL, text);
}

/* What holds for all rows: where we are, order, filter, hosts that do not run. */
static void draw_state(struct screen *s)
{
	const struct frame *frame = s->frame;
	const struct rows *hosts = &frame->rows[VIEW_HOSTS];
	const struct place *p = &s->place;
	enum meaning meaning = MEANS_NOTHING;
	char text[512], path[PATH_TEXT] = "", scope[ROW_NAME];
	size_t used = 0;
	unsigned int i;

	for (i = 1; i <= p->depth; i++) {
		cell_copy(scope, sizeof(scope), p->levels[i].scope);
		if (i < 2 || strcmp(p->levels[i].scope, p->levels[i - 1].scope))
			used += snprintf(path + used, sizeof(path) - used, "%s > ", scope);
	}
	used = snprintf(text, sizeof(text), "%s%ssort %s,%s%s%s%s%s%s", path,
			s->paused ? "paused  " : "", sort_names[p->first], sort_names[p->second],
			*p->filter ? "  filter " : "", p->filter,
			frame->times ? "" : "  sysfs: no times", p->whole_host ?
			"  whole host" : "", s->source->damaged ?
			"  this line of the recording is damaged" : "");
	if (!s->source->damaged && !place_is_there(&s->place, frame)) {
		used += snprintf(text + used, sizeof(text) - used, "  %s is gone", scope);
		meaning = MEANS_ERROR;
	}
	for (i = 0; i < hosts->nr && used + ROW_NAME < sizeof(text); i++) {
		const struct row *row = &hosts->row[i];

		if (!*row->text || !strcmp(row->text, "running"))
			continue;
		cell_copy(scope, sizeof(scope), row->name);
		used += snprintf(text + used, sizeof(text) - used, "%s%s",
				 meaning == MEANS_RECOVERY ? " " : "  not running: ", scope);
		meaning = MEANS_RECOVERY;
	}
	put(1, 0, COLS, attribute(meaning), text);
}

static void draw_cells(enum view view, int y, const struct cell *cells, const int *widths,
		       attr_t line)
{
	unsigned int i, nr = table_columns(view);
	char text[ROW_TEXT];
	int x = 0;

	put(y, 0, COLS, line, "");
	for (i = 0; i < nr; i++) {
		if (!widths[i])
			continue;
		snprintf(text, sizeof(text), "%*s",
			 table_column(view, i)->left ? -widths[i] : widths[i], cells[i].text);
		put(y, x, widths[i], line | attribute(cells[i].meaning), text);
		x += widths[i] + 1;
	}
}

static void draw_table(struct screen *s)
{
	/* The columns are in the order of enum sort, behind the two names. */
	unsigned int sorted = s->place.first == SORT_NAME ? 1 : s->place.first + 1;
	struct cell cells[TABLE_COLUMNS] = {};
	const struct rows *shown = &s->place.shown;
	struct level *l = place_level(&s->place);
	unsigned int i, nr = table_columns(l->view);
	int widths[TABLE_COLUMNS];

	table_fit(l->view, COLS, widths);
	for (i = 0; i < nr; i++)
		snprintf(cells[i].text, sizeof(cells[i].text), "%s",
			 table_column(l->view, i)->head);
	draw_cells(l->view, HEAD_LINES - 1, cells, widths, A_REVERSE);
	if (l->view <= VIEW_OPCODES) {
		mvchgat(HEAD_LINES - 1, 0, 0, A_NORMAL, 0, NULL);
		for (i = 0, nr = 0; i < sorted; i++)
			nr += widths[i] + 1;
		mvchgat(HEAD_LINES - 1, nr, widths[sorted], A_BOLD | A_UNDERLINE, 0, NULL);
	}
	if (l->at < l->top)
		l->top = l->at;
	if (l->at >= l->top + s->page)
		l->top = l->at - s->page + 1;
	if (l->top + s->page > shown->nr)
		l->top = shown->nr > s->page ? shown->nr - s->page : 0;
	for (i = l->top; s->place.seconds && i < shown->nr && i < l->top + s->page; i++) {
		table_cells(l->view, &shown->row[i], s->place.seconds, cells);
		draw_cells(l->view, HEAD_LINES + i - l->top, cells, widths,
			   i == l->at ? A_REVERSE : A_NORMAL);
	}
	if (!s->place.seconds && !s->source->replay)
		put(HEAD_LINES, 0, COLS, A_NORMAL, "when the interval has ended");
	else if (!shown->nr)
		put(HEAD_LINES, 0, COLS, A_NORMAL, *s->place.filter ? "no row matches the filter" :
		    l->view == VIEW_ERRORS ? "no errors" : l->view == VIEW_COMMANDS ?
		    "no slow or failed commands" : "nothing to show");
}

static void draw_help(void)
{
	unsigned int i;

	for (i = 0; i < sizeof(help) / sizeof(*help); i++)
		put(HEAD_LINES - 1 + i, 0, COLS, A_NORMAL, help[i]);
}

static void draw_heat(struct screen *s)
{
	static const char levels[] = ".:+*#";
	const struct heat_lun *lun = heat_find(&s->heat, s->heat_name);
	unsigned int i, row, low = HEAT_ROWS, high = 0, first, lines = s->page;
	unsigned int columns = COLS - 8, end = s->heat_end, share;
	char text[256], scope[ROW_NAME];
	__u64 sum, n;

	/* Those that were collected while it is paused took the place of the oldest ones. */
	if (columns + s->heat.intervals > end + HEAT_COLUMNS)
		columns = s->heat.intervals < end + HEAT_COLUMNS ?
			end + HEAT_COLUMNS - s->heat.intervals : 0;
	if (columns > end)
		columns = end;
	first = end - columns;
	cell_copy(scope, sizeof(scope), s->heat_name);
	snprintf(text, sizeof(text), "%s: time, by interval; . : + * # are up to 3, 10, 30, 60 "
		 "and 100 %%", scope);
	put(HEAD_LINES - 1, 0, COLS, A_REVERSE, text);
	for (row = 0; lun && row < HEAT_ROWS; row++) {
		for (i = first; i < end; i++) {
			if (lun->count[i % HEAT_COLUMNS][row]) {
				low = row < low ? row : low;
				high = row;
			}
		}
	}
	if (low == HEAT_ROWS) {
		put(HEAD_LINES, 0, COLS, A_NORMAL, "no commands");
		return;
	}
	if (high - low >= lines)
		low = high - lines + 1;
	for (row = high + 1; row-- > low;) {
		int y = HEAD_LINES + high - row;

		text[0] = '<';
		cell_time(text + 1, true, 64ULL << row);
		put(y, 0, 7, A_NORMAL, text);
		for (i = first; i < end; i++) {
			const __u32 *count = lun->count[i % HEAT_COLUMNS];
			unsigned int k;

			for (sum = 0, k = 0; k < HEAT_ROWS; k++)
				sum += count[k];
			/* The lowest line has also what is below it. */
			for (n = count[row], k = 0; row == low && k < low; k++)
				n += count[k];
			if (!n)
				continue;
			n = n * 100 / sum;
			share = n < 3 ? 0 : n < 10 ? 1 : n < 30 ? 2 : n < 60 ? 3 : 4;
			mvaddch(y, 8 + i - first, levels[share] |
				(colors ? COLOR_PAIR(MEANINGS + share) : A_NORMAL));
		}
	}
}

static void draw_settings(struct screen *s)
{
	const struct dialog *d = &s->dialog;
	unsigned int i, top = d->setting >= s->page ? d->setting - s->page + 1 : 0;
	char text[256], value[sizeof(d->settings->value)];

	snprintf(text, sizeof(text), "host%-24u VALUE", d->host);
	put(HEAD_LINES - 1, 0, COLS, A_REVERSE, text);
	for (i = top; i < d->nr_settings && i < top + s->page; i++) {
		const struct setting *one = &d->settings[i];

		cell_copy(value, sizeof(value), one->value);
		snprintf(text, sizeof(text), "%-28s %s%s", one->name, value,
			 one->writable && i == d->setting ? "    (Enter changes it)" : "");
		put(HEAD_LINES + i - top, 0, COLS, i == d->setting ? A_REVERSE : A_NORMAL, text);
	}
	if (!d->nr_settings)
		put(HEAD_LINES, 0, COLS, A_NORMAL, "gone");
}

/* What is asked, what the last key did, or which keys there are. */
static void draw_line(struct screen *s)
{
	bool asks = s->dialog.question != ASK_NOTHING;
	char text[256];

	dialog_line(&s->dialog, text, sizeof(text));
	if (!*text && s->mode != MODE_TABLE)
		strcpy(text, "Esc back  q end");
	else if (!*text)
		snprintf(text, sizeof(text), "h help  q end  Tab view  Enter in  Esc back  "
			 "s sort  / filter  %s",
			 s->source->replay ? "Left Right" : "m heat  p pause");
	put(LINES - 1, 0, COLS, A_NORMAL, text);
	curs_set(asks);
	if (asks)
		move(LINES - 1, (int)strlen(text) < COLS ? (int)strlen(text) : COLS - 1);
}

void draw(struct screen *s)
{
	erase();
	if (LINES < LEAST_LINES || COLS < LEAST_COLUMNS) {
		put(0, 0, COLS, A_NORMAL, "too small");
		refresh();
		return;
	}
	s->page = LINES - HEAD_LINES - 1;
	draw_title(s);
	draw_state(s);
	if (s->mode == MODE_HELP)
		draw_help();
	else if (s->mode == MODE_HEAT)
		draw_heat(s);
	else if (s->mode == MODE_SETTINGS)
		draw_settings(s);
	else
		draw_table(s);
	draw_line(s);
	refresh();
}
