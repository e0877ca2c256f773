// SPDX-License-Identifier: GPL-2.0
#include "dialog.h"

#include <stdlib.h>
#include <string.h>

#include "key.h"

void dialog_ask(struct dialog *d, enum question what, const char *input)
{
	d->question = what;
	strcpy(d->input, input);
}

const char *dialog_setting(const struct dialog *d)
{
	return d->nr_settings ? d->settings[d->setting].name : "";
}

void dialog_refresh(struct dialog *d)
{
	char name[sizeof(d->settings->name)];
	unsigned int i;

	strcpy(name, dialog_setting(d));
	free(d->settings);
	d->nr_settings = settings_read(d->host, &d->settings);
	for (i = 0, d->setting = 0; i < d->nr_settings; i++)
		if (!strcmp(d->settings[i].name, name))
			d->setting = i;
}

bool dialog_show_settings(struct dialog *d, unsigned int host)
{
	d->host = host;
	d->setting = 0;
	d->nr_settings = 0;
	dialog_refresh(d);
	if (!d->nr_settings)
		snprintf(d->message, sizeof(d->message), "host%u is no smq host", host);
	return d->nr_settings;
}

static void change(struct dialog *d)
{
	int error = settings_write(d->host, dialog_setting(d), d->value);

	if (error)
		snprintf(d->message, sizeof(d->message), "%s: %s", d->value, strerror(error));
	else
		snprintf(d->message, sizeof(d->message), "%.40s is set", dialog_setting(d));
}

enum question dialog_answer(struct dialog *d, int key)
{
	size_t used = strlen(d->input);
	enum question asked = d->question;

	if (asked == ASK_ONCE || asked == ASK_TWICE) {
		if (key == 'y' && asked == ASK_TWICE)
			change(d);
		d->question = key == 'y' && asked == ASK_ONCE ? ASK_TWICE : ASK_NOTHING;
	} else if (key == KEY_ESCAPE) {
		d->question = ASK_NOTHING;
	} else if (is_enter(key)) {
		d->question = ASK_NOTHING;
		if (asked != ASK_VALUE)
			return asked;
		if (*d->input) {
			strcpy(d->value, d->input);
			d->question = ASK_ONCE;
		}
	} else if (is_backspace(key)) {
		d->input[used ? used - 1 : 0] = 0;
	} else if (key == ('U' & 0x1f)) {
		*d->input = 0;
	} else if (key >= ' ' && key <= '~' && used + 1 < sizeof(d->input)) {
		d->input[used] = key;
		d->input[used + 1] = 0;
	}
	return ASK_NOTHING;
}

bool dialog_press(struct dialog *d, int key)
{
	if (key == KEY_UP || key == 'k') {
		d->setting -= d->setting > 0;
	} else if (key == KEY_DOWN || key == 'j') {
		d->setting += d->setting + 1 < d->nr_settings;
	} else if (is_enter(key)) {
		if (d->nr_settings && d->settings[d->setting].writable)
			dialog_ask(d, ASK_VALUE, "");
		else
			strcpy(d->message, "this is a counter");
	} else {
		return false;
	}
	return true;
}

void dialog_line(const struct dialog *d, char *text, size_t size)
{
	static const char *const questions[] = {
		[ASK_FILTER] = "filter: ",
		[ASK_TIME] = "time (14:02:03, or +90 for 90 seconds from the begin): ",
	};

	if (d->question == ASK_VALUE)
		snprintf(text, size, "host%u %s: %s", d->host, dialog_setting(d), d->input);
	else if (d->question == ASK_ONCE)
		snprintf(text, size, "set %s of host%u to %s? (y or n) ", dialog_setting(d),
			 d->host, d->value);
	else if (d->question == ASK_TWICE)
		snprintf(text, size, "host%u changes at once, also under load: really? (y or n) ",
			 d->host);
	else if (d->question != ASK_NOTHING)
		snprintf(text, size, "%s%s", questions[d->question], d->input);
	else
		snprintf(text, size, "%s", d->message);
}
