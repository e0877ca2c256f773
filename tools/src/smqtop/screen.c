// SPDX-License-Identifier: GPL-2.0
#include "screen.h"

#include <ctype.h>
#include <curses.h>
#include <err.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "heat.h"
#include "settings.h"
#include "table.h"

#define LEAST_LINES	6
#define LEAST_COLUMNS	20
#define HEAD_LINES	3	/* title, state, names of the columns */
#define LEVELS		4
#define LEAST_SECONDS	0.1	/* between two looks, also if hosts and LUNs come and go */
#define KEY_ESCAPE	27
#define PATH_TEXT	160

enum mode { MODE_TABLE, MODE_HELP, MODE_HEAT, MODE_SETTINGS };
/* A setting is asked for twice before it is written. */
enum question { ASK_NOTHING, ASK_FILTER, ASK_TIME, ASK_VALUE, ASK_ONCE, ASK_TWICE };

/**
 * struct level - a view, on the way from a host to what it does
 * @view: the view
 * @scope: only rows of this host or LUN; empty: all
 * @name: of the selected row; empty: the first one, whichever that is
 * @label: of the selected row
 * @text: of the selected row
 * @at: index of the selected row
 * @top: index of the first row on the screen
 */
struct level {
	enum view view;
	char scope[ROW_NAME];
	char name[ROW_NAME];
	char label[ROW_NAME];
	char text[ROW_TEXT];
	unsigned int at;
	unsigned int top;
};

struct screen {
	struct source *source;
	struct level levels[LEVELS];
	unsigned int depth;
	enum mode mode;
	enum sort first, second;
	double interval;
	bool paused;
	enum question question;
	char input[64];
	char filter[64];
	char message[128];
	struct rows shown;
	char heat_name[ROW_NAME];
	struct heat heat;
	unsigned int host;	/* whose settings are shown */
	struct setting *settings;
	unsigned int nr_settings;
	unsigned int setting;	/* the selected one */
	char value[64];		/* that it shall have */
	unsigned int heat_line;	/* of the recording, up to which @heat is */
};

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

static struct level *level(struct screen *s)
{
	return &s->levels[s->depth];
}

static void restore(void)
{
	if (!isendwin())
		endwin();
}

static bool colors;

static attr_t attribute(enum meaning meaning)
{
	if (meaning == MEANS_NOTHING)
		return A_NORMAL;
	return A_BOLD | (colors ? COLOR_PAIR(meaning) : 0);
}

static const short heat_colors[] = { COLOR_BLUE, COLOR_CYAN, COLOR_GREEN, COLOR_YELLOW, COLOR_RED };

static void begin_colors(void)
{
	static const short meant[MEANINGS] = {
		[MEANS_ERROR] = COLOR_RED,
		[MEANS_RECOVERY] = COLOR_YELLOW,
		[MEANS_FULL] = COLOR_MAGENTA,
	};
	unsigned int i;

	start_color();
	use_default_colors();
	for (i = 1; i < MEANINGS; i++)
		init_pair(i, meant[i], -1);
	for (i = 0; i < sizeof(heat_colors) / sizeof(*heat_colors); i++)
		init_pair(MEANINGS + i, heat_colors[i], -1);
}

static bool use_colors(void)
{
	const char *no = getenv("NO_COLOR");

	return !(no && *no) && has_colors();
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

/* The number of a scope's host: of host3, and of 3:0:0:1. */
static long host_of(const char *name)
{
	return atol(name + (strncmp(name, "host", 4) ? 0 : 4));
}

static bool in_scope(const char *scope, const struct row *row, enum view view)
{
	if (!*scope || view == VIEW_OPCODES || view == VIEW_FILES)
		return true;
	if (view != VIEW_QUEUES && view != VIEW_SMQ && strncmp(scope, "host", 4))
		return !strcmp(row->name, scope);
	return host_of(row->name) == host_of(scope);
}

/* Whether the host or LUN of the level is there. */
static bool scope_is_there(const struct frame *frame, const char *scope)
{
	const struct rows *rows = &frame->rows[strncmp(scope, "host", 4) ? VIEW_LUNS : VIEW_HOSTS];
	unsigned int i;

	for (i = 0; i < rows->nr; i++)
		if (!strcmp(rows->row[i].name, scope))
			return true;
	return !*scope;
}

static void select_row(struct screen *s, unsigned int at)
{
	struct level *l = level(s);
	const struct row *row = &s->shown.row[at];

	l->at = at;
	strcpy(l->name, row->name);
	strcpy(l->label, row->label);
	strcpy(l->text, row->text);
}

/* Fills in the rows that are shown, and finds the selected one among them. */
static void arrange(struct screen *s)
{
	struct level *l = level(s);
	const struct rows *rows = &s->source->frame.rows[l->view];
	unsigned int i;

	rows_free(&s->shown);
	s->shown = (struct rows){ .view = l->view };
	s->shown.row = malloc(rows->nr * sizeof(*rows->row) + 1);
	if (!s->shown.row)
		err(3, "memory");
	for (i = 0; i < rows->nr; i++)
		if (in_scope(l->scope, &rows->row[i], l->view))
			s->shown.row[s->shown.nr++] = rows->row[i];
	if (*s->filter)
		rows_filter(&s->shown, s->filter);
	rows_sort(&s->shown, s->first, s->second);
	if (!*l->name)
		l->at = 0;
	for (i = 0; *l->name && i < s->shown.nr; i++) {
		const struct row *row = &s->shown.row[i];

		if (!strcmp(row->name, l->name) && !strcmp(row->label, l->label) &&
		    (l->view != VIEW_ERRORS || !strcmp(row->text, l->text)))
			l->at = i;
	}
	if (l->at >= s->shown.nr)
		l->at = s->shown.nr ? s->shown.nr - 1 : 0;
}

static unsigned int page(void)
{
	return LINES - HEAD_LINES - 1;
}

static void move_to(struct screen *s, long at)
{
	if (!s->shown.nr)
		return;
	if (at >= (long)s->shown.nr)
		at = s->shown.nr - 1;
	select_row(s, at < 0 ? 0 : at);
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
	char text[64], when[16];
	unsigned int view, x;

	for (view = 0, x = 0; view < VIEWS; view++) {
		snprintf(text, sizeof(text), "%u %s", view + 1, names[view]);
		put(0, x, strlen(text), view == level(s)->view ? A_REVERSE : A_NORMAL, text);
		x += strlen(text) + 1;
	}
	clock_text(s->source->frame.time, when, sizeof(when));
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
	const struct frame *frame = &s->source->frame;
	const struct rows *hosts = &frame->rows[VIEW_HOSTS];
	enum meaning meaning = MEANS_NOTHING;
	char text[512], path[PATH_TEXT] = "", scope[ROW_NAME];
	size_t used = 0;
	unsigned int i;

	for (i = 1; i <= s->depth; i++) {
		cell_copy(scope, sizeof(scope), s->levels[i].scope);
		if (i < 2 || strcmp(s->levels[i].scope, s->levels[i - 1].scope))
			used += snprintf(path + used, sizeof(path) - used, "%s > ", scope);
	}
	used = snprintf(text, sizeof(text), "%s%ssort %s,%s%s%s%s%s", path,
			s->paused ? "paused  " : "", sort_names[s->first], sort_names[s->second],
			*s->filter ? "  filter " : "", s->filter,
			frame->times ? "" : "  sysfs: no times", s->source->damaged ?
			"  this line of the recording is damaged" : "");
	if (!s->source->damaged && !scope_is_there(frame, level(s)->scope)) {
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

static void draw_cells(struct screen *s, int y, const struct cell *cells, const int *widths,
		       attr_t line)
{
	unsigned int i, nr = table_columns(level(s)->view);
	char text[ROW_TEXT];
	int x = 0;

	put(y, 0, COLS, line, "");
	for (i = 0; i < nr; i++) {
		if (!widths[i])
			continue;
		snprintf(text, sizeof(text), "%*s",
			 table_column(level(s)->view, i)->left ? -widths[i] : widths[i],
			 cells[i].text);
		put(y, x, widths[i], line | attribute(cells[i].meaning), text);
		x += widths[i] + 1;
	}
}

static void draw_table(struct screen *s)
{
	/* The columns are in the order of enum sort, behind the two names. */
	unsigned int sorted = s->first == SORT_NAME ? 1 : s->first + 1;
	struct cell cells[TABLE_COLUMNS] = {};
	struct level *l = level(s);
	unsigned int i, nr = table_columns(l->view);
	int widths[TABLE_COLUMNS];

	table_fit(l->view, COLS, widths);
	for (i = 0; i < nr; i++)
		snprintf(cells[i].text, sizeof(cells[i].text), "%s",
			 table_column(l->view, i)->head);
	draw_cells(s, HEAD_LINES - 1, cells, widths, A_REVERSE);
	if (l->view <= VIEW_OPCODES) {
		mvchgat(HEAD_LINES - 1, 0, 0, A_NORMAL, 0, NULL);
		for (i = 0, nr = 0; i < sorted; i++)
			nr += widths[i] + 1;
		mvchgat(HEAD_LINES - 1, nr, widths[sorted], A_BOLD | A_UNDERLINE, 0, NULL);
	}
	if (l->at < l->top)
		l->top = l->at;
	if (l->at >= l->top + page())
		l->top = l->at - page() + 1;
	if (l->top + page() > s->shown.nr)
		l->top = s->shown.nr > page() ? s->shown.nr - page() : 0;
	for (i = l->top; i < s->shown.nr && i < l->top + page(); i++) {
		table_cells(l->view, &s->shown.row[i], s->source->frame.seconds, cells);
		draw_cells(s, HEAD_LINES + i - l->top, cells, widths,
			   i == l->at ? A_REVERSE : A_NORMAL);
	}
	if (!s->shown.nr)
		put(HEAD_LINES, 0, COLS, A_NORMAL, *s->filter ? "no row matches the filter" :
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
	unsigned int i, row, low = HEAT_ROWS, high = 0, first, lines = page();
	unsigned int columns = COLS - 8, share;
	char text[256], scope[ROW_NAME];
	__u64 sum, n;

	if (columns > HEAT_COLUMNS)
		columns = HEAT_COLUMNS;
	if (columns > s->heat.intervals)
		columns = s->heat.intervals;
	first = s->heat.intervals - columns;
	cell_copy(scope, sizeof(scope), s->heat_name);
	snprintf(text, sizeof(text), "%s: time, by interval; . : + * # are up to 3, 10, 30, 60 "
		 "and 100 %%", scope);
	put(HEAD_LINES - 1, 0, COLS, A_REVERSE, text);
	for (row = 0; lun && row < HEAT_ROWS; row++) {
		for (i = first; i < s->heat.intervals; i++) {
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
		for (i = first; i < s->heat.intervals; i++) {
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

static const char *setting_name(const struct screen *s)
{
	return s->nr_settings ? s->settings[s->setting].name : "";
}

/* Reads the settings anew; the selected one stays selected. */
static void arrange_settings(struct screen *s)
{
	char name[sizeof(s->settings->name)];
	unsigned int i;

	strcpy(name, setting_name(s));
	free(s->settings);
	s->nr_settings = settings_read(s->host, &s->settings);
	for (i = 0, s->setting = 0; i < s->nr_settings; i++)
		if (!strcmp(s->settings[i].name, name))
			s->setting = i;
}

static void draw_settings(struct screen *s)
{
	unsigned int i, top = s->setting >= page() ? s->setting - page() + 1 : 0;
	char text[256], value[sizeof(s->settings->value)];

	snprintf(text, sizeof(text), "host%-24u VALUE", s->host);
	put(HEAD_LINES - 1, 0, COLS, A_REVERSE, text);
	for (i = top; i < s->nr_settings && i < top + page(); i++) {
		const struct setting *one = &s->settings[i];

		cell_copy(value, sizeof(value), one->value);
		snprintf(text, sizeof(text), "%-28s %s%s", one->name, value,
			 one->writable && i == s->setting ? "    (Enter changes it)" : "");
		put(HEAD_LINES + i - top, 0, COLS, i == s->setting ? A_REVERSE : A_NORMAL, text);
	}
	if (!s->nr_settings)
		put(HEAD_LINES, 0, COLS, A_NORMAL, "gone");
}

static void draw_keys(struct screen *s)
{
	static const char *const questions[] = {
		[ASK_FILTER] = "filter: ",
		[ASK_TIME] = "time (14:02:03, or +90 for 90 seconds from the begin): ",
	};
	char text[256];

	if (s->question == ASK_VALUE)
		snprintf(text, sizeof(text), "host%u %s: %s", s->host, setting_name(s), s->input);
	else if (s->question == ASK_ONCE)
		snprintf(text, sizeof(text), "set %s of host%u to %s? (y or n) ", setting_name(s),
			 s->host, s->value);
	else if (s->question == ASK_TWICE)
		snprintf(text, sizeof(text), "host%u changes at once, also under load: really? "
			 "(y or n) ", s->host);
	else if (s->question != ASK_NOTHING)
		snprintf(text, sizeof(text), "%s%s", questions[s->question], s->input);
	else if (*s->message)
		snprintf(text, sizeof(text), "%s", s->message);
	else if (s->mode != MODE_TABLE)
		strcpy(text, "Esc back  q end");
	else
		snprintf(text, sizeof(text), "h help  q end  Tab view  Enter in  Esc back  "
			 "s sort  / filter  %s",
			 s->source->replay ? "Left Right" : "m heat  p pause");
	put(LINES - 1, 0, COLS, A_NORMAL, text);
	curs_set(s->question != ASK_NOTHING);
	if (s->question != ASK_NOTHING)
		move(LINES - 1, (int)strlen(text) < COLS ? (int)strlen(text) : COLS - 1);
}

static void draw(struct screen *s)
{
	erase();
	if (LINES < LEAST_LINES || COLS < LEAST_COLUMNS) {
		put(0, 0, COLS, A_NORMAL, "too small");
		refresh();
		return;
	}
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
	draw_keys(s);
	refresh();
}

/* Has the heat map end with the interval that is shown. */
static void follow_heat(struct screen *s)
{
	struct source *source = s->source;
	unsigned int line = source->line, i;

	if (!source->replay || line == s->heat_line + 1) {
		heat_add(&s->heat, &source->frame);
	} else if (line != s->heat_line || !s->heat.intervals) {
		heat_free(&s->heat);
		for (i = line >= HEAT_COLUMNS ? line - HEAT_COLUMNS + 1 : 0; i <= line; i++) {
			struct frame frame;

			replay_read(source->replay, i, &frame);
			heat_add(&s->heat, &frame);
			frame_free(&frame);
		}
	}
	s->heat_line = line;
}

static void seek(struct screen *s, long line)
{
	long last = replay_lines(s->source->replay) - 1;

	source_seek(s->source, line < 0 ? 0 : line > last ? last : line);
	follow_heat(s);
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
		snprintf(s->message, sizeof(s->message), "'%s' is no time", text);
		return;
	}
	for (line = 0; line < last && replay_time(r, line) < wanted; line++)
		;
	seek(s, line);
}

static void go_to_view(struct screen *s, enum view view)
{
	s->depth = 0;
	s->mode = MODE_TABLE;
	s->levels[0] = (struct level){ .view = view };
}

static void go_in(struct screen *s)
{
	struct level *l = level(s), next = {};
	const struct row *row;

	if (!s->shown.nr || l->view == VIEW_OPCODES || l->view >= VIEW_COMMANDS)
		return;
	row = &s->shown.row[l->at];
	select_row(s, l->at);
	strcpy(next.scope, row->name);
	if (l->view == VIEW_HOSTS) {
		next.view = VIEW_LUNS;
	} else if (l->view == VIEW_LUNS) {
		next.view = VIEW_QUEUES;
	} else {
		next.view = VIEW_COMMANDS;
		if (l->view == VIEW_QUEUES && *l->scope)
			strcpy(next.scope, l->scope);
	}
	s->levels[++s->depth] = next;
}

static void go_back(struct screen *s)
{
	if (s->mode != MODE_TABLE)
		s->mode = MODE_TABLE;
	else if (s->depth)
		s->depth--;
}

static void show_heat(struct screen *s)
{
	struct level *l = level(s);

	if (l->view == VIEW_LUNS && s->shown.nr)
		strcpy(s->heat_name, s->shown.row[l->at].name);
	else if (strchr(l->scope, ':'))
		strcpy(s->heat_name, l->scope);
	else
		strcpy(s->message, "select a LUN first");
	if (!*s->message)
		s->mode = MODE_HEAT;
}

static void show_settings(struct screen *s)
{
	struct level *l = level(s);
	const char *name = l->scope;

	if ((l->view == VIEW_HOSTS || l->view == VIEW_LUNS || l->view == VIEW_QUEUES) &&
	    s->shown.nr)
		name = s->shown.row[l->at].name;
	if (s->source->replay) {
		strcpy(s->message, "a recording has no settings");
	} else if (!*name) {
		strcpy(s->message, "select a host first");
	} else {
		s->host = host_of(name);
		s->setting = 0;
		s->nr_settings = 0;
		arrange_settings(s);
		if (s->nr_settings)
			s->mode = MODE_SETTINGS;
		else
			snprintf(s->message, sizeof(s->message), "host%u is no smq host", s->host);
	}
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

static void change(struct screen *s)
{
	int error = settings_write(s->host, setting_name(s), s->value);

	if (error)
		snprintf(s->message, sizeof(s->message), "%s: %s", s->value, strerror(error));
	else
		snprintf(s->message, sizeof(s->message), "%.40s is set", setting_name(s));
}

static void answer(struct screen *s, int key)
{
	size_t used = strlen(s->input);

	if (s->question == ASK_ONCE || s->question == ASK_TWICE) {
		if (key == 'y' && s->question == ASK_TWICE)
			change(s);
		s->question = key == 'y' && s->question == ASK_ONCE ? ASK_TWICE : ASK_NOTHING;
		return;
	}
	if (key == KEY_ESCAPE) {
		s->question = ASK_NOTHING;
	} else if (key == '\n' || key == '\r' || key == KEY_ENTER) {
		enum question asked = s->question;

		s->question = ASK_NOTHING;
		if (asked == ASK_FILTER) {
			strcpy(s->filter, s->input);
		} else if (asked == ASK_VALUE && *s->input) {
			strcpy(s->value, s->input);
			s->question = ASK_ONCE;
		} else if (*s->input) {
			seek_time(s, s->input);
		}
	} else if (key == KEY_BACKSPACE || key == 127 || key == '\b') {
		s->input[used ? used - 1 : 0] = 0;
	} else if (key == ('U' & 0x1f)) {
		*s->input = 0;
	} else if (key >= ' ' && key <= '~' && used + 1 < sizeof(s->input)) {
		s->input[used] = key;
		s->input[used + 1] = 0;
	}
}

static void ask(struct screen *s, enum question what, const char *input)
{
	s->question = what;
	strcpy(s->input, input);
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
		ask(s, ASK_TIME, "");
		break;
	}
}

/* Returns whether the key has a meaning of its own there. */
static bool press_in_settings(struct screen *s, int key)
{
	switch (key) {
	case KEY_UP:
	case 'k':
		s->setting -= s->setting > 0;
		return true;
	case KEY_DOWN:
	case 'j':
		s->setting += s->setting + 1 < s->nr_settings;
		return true;
	case '\n':
	case '\r':
	case KEY_ENTER:
		if (s->nr_settings && s->settings[s->setting].writable)
			ask(s, ASK_VALUE, "");
		else
			strcpy(s->message, "this is a counter");
		return true;
	}
	return false;
}

/* Returns whether the user ends smqtop. */
static bool press(struct screen *s, int key)
{
	struct level *l = level(s);

	*s->message = 0;
	if (s->question != ASK_NOTHING) {
		answer(s, key);
		return false;
	}
	if (key >= '1' && key < '1' + VIEWS) {
		go_to_view(s, key - '1');
		return false;
	}
	if (s->mode == MODE_SETTINGS && press_in_settings(s, key))
		return false;
	switch (key) {
	case 'q':
		return true;
	case 'h':
	case '?':
		s->mode = s->mode == MODE_HELP ? MODE_TABLE : MODE_HELP;
		break;
	case '\t':
		go_to_view(s, (l->view + 1) % VIEWS);
		break;
	case KEY_BTAB:
		go_to_view(s, (l->view + VIEWS - 1) % VIEWS);
		break;
	case KEY_UP:
	case 'k':
		move_to(s, (long)l->at - 1);
		break;
	case KEY_DOWN:
	case 'j':
		move_to(s, (long)l->at + 1);
		break;
	case KEY_PPAGE:
		move_to(s, (long)l->at - page());
		break;
	case KEY_NPAGE:
		move_to(s, (long)l->at + page());
		break;
	case KEY_HOME:
		*l->name = 0;
		break;
	case KEY_END:
		move_to(s, s->shown.nr);
		break;
	case '\n':
	case '\r':
	case KEY_ENTER:
		if (s->mode == MODE_TABLE)
			go_in(s);
		break;
	case KEY_ESCAPE:
	case KEY_BACKSPACE:
	case 127:
	case '\b':
		go_back(s);
		break;
	case 's':
		s->first = (s->first + 1) % SORTS;
		break;
	case 'S':
		s->second = (s->second + 1) % SORTS;
		break;
	case '/':
		ask(s, ASK_FILTER, s->filter);
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

static void resize(void)
{
	struct winsize size;

	if (!ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) && size.ws_row && size.ws_col)
		resizeterm(size.ws_row, size.ws_col);
}

/* Stops as a program does that knows nothing of SIGTSTP; until SIGCONT. */
static void suspend(void)
{
	struct sigaction stop = { .sa_handler = SIG_DFL }, before;
	sigset_t set;

	endwin();
	sigaction(SIGTSTP, &stop, &before);
	sigemptyset(&set);
	sigaddset(&set, SIGTSTP);
	raise(SIGTSTP);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	sigprocmask(SIG_BLOCK, &set, NULL);
	sigaction(SIGTSTP, &before, NULL);
}

/* Returns the signal if it ends smqtop, else 0. */
static int handle(int signal_)
{
	switch (signal_) {
	case SIGTSTP:
		suspend();
		break;
	case SIGCONT:
	case SIGWINCH:
		break;
	default:
		return signal_;
	}
	/* The size may have changed while it was stopped, and the shell has set its modes. */
	reset_prog_mode();
	resize();
	clearok(curscr, true);
	return 0;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

/* Ends an interval; *status is not -1 if that ends smqtop. */
static void next(struct screen *s, int *status)
{
	switch (source_next(s->source)) {
	case SOURCE_NEXT:
		follow_heat(s);
		break;
	case SOURCE_END:
		s->paused = true;
		strcpy(s->message, "the end of the recording");
		break;
	case SOURCE_FAILED:
		*status = errno;
		endwin();
		errno = *status;
		warn("%s", s->source->failed);
		*status = 3;
	}
}

/* Returns the exit status. */
static int loop(struct screen *s, unsigned long count, int signals)
{
	struct pollfd fds[] = {
		{ .fd = STDIN_FILENO, .events = POLLIN }, { .fd = signals, .events = POLLIN },
		{ .events = POLLIN },
	};
	double end = now() + s->interval, begun = now(), left;
	bool early;
	struct signalfd_siginfo info;
	int status = -1, key, got;
	unsigned long n = 0;

	while (status < 0) {
		arrange(s);
		if (s->mode == MODE_SETTINGS && s->question == ASK_NOTHING)
			arrange_settings(s);
		draw(s);
		/* A host or LUN that comes or goes ends the interval. */
		early = now() < begun + LEAST_SECONDS;
		fds[2].fd = early || s->paused || s->source->replay ? -1 :
			s->source->live.sys.uevents;
		left = (early ? begun + LEAST_SECONDS : end) - now();
		poll(fds, 3, s->paused ? -1 : left > 0 ? left * 1000 + 1 : 0);
		if (fds[1].revents && read(signals, &info, sizeof(info)) > 0) {
			got = handle(info.ssi_signo);
			if (got)
				return 128 + got;
		}
		if (fds[0].revents & (POLLHUP | POLLERR | POLLNVAL))
			return 128 + SIGHUP;
		while ((key = getch()) != ERR) {
			if (press(s, key))
				return 0;
			arrange(s);
		}
		end = begun + s->interval;
		if (!s->paused && (now() >= end || (fds[2].fd >= 0 && fds[2].revents))) {
			next(s, &status);
			begun = now();
			end = begun + s->interval;
			if (count && ++n == count)
				return status < 0 ? 0 : status;
		}
	}
	return status;
}

int screen_run(struct source *source, const struct options *o, int signals)
{
	struct screen s = {
		.source = source,
		.first = o->sort,
		.second = SORT_IOPS,
		.interval = o->interval,
		.paused = source->replay,
		.levels = { { .view = o->view } },
	};
	int status;

	snprintf(s.filter, sizeof(s.filter), "%s", o->filter ?: "");
	if (!newterm(NULL, stdout, stdin)) {
		warnx("the terminal cannot be used");
		return 3;
	}
	atexit(restore);
	colors = use_colors();
	if (colors)
		begin_colors();
	cbreak();
	noecho();
	nonl();
	keypad(stdscr, true);
	nodelay(stdscr, true);
	set_escdelay(25);
	resize();
	if (source->replay)
		seek(&s, 0);
	else
		frame_collected(&source->frame, &source->live);
	status = loop(&s, o->count, signals);
	restore();
	rows_free(&s.shown);
	heat_free(&s.heat);
	free(s.settings);
	return status;
}
