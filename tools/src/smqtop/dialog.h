/* SPDX-License-Identifier: GPL-2.0 */
/* The settings of an smq host, and the line in which the user answers a question. */
#ifndef SMQTOP_DIALOG_H
#define SMQTOP_DIALOG_H

#include <stdbool.h>
#include <stddef.h>

#include "settings.h"

/* A setting is asked for twice before it is written. */
enum question { ASK_NOTHING, ASK_FILTER, ASK_TIME, ASK_VALUE, ASK_ONCE, ASK_TWICE };

/**
 * struct dialog - what the user is asked, and the settings that are shown
 * @question: what is asked
 * @input: what was typed
 * @host: number of the host whose settings are shown
 * @settings: these
 * @nr_settings: how many
 * @setting: index of the selected one
 * @value: that it shall have
 * @message: what the last key did, for the user; the dialog says there what it has set
 */
struct dialog {
	enum question question;
	char input[64];
	unsigned int host;
	struct setting *settings;
	unsigned int nr_settings;
	unsigned int setting;
	char value[64];
	char message[128];
};

/* Asks; @input is there as if it were typed. */
void dialog_ask(struct dialog *d, enum question what, const char *input);
/* A key while something is asked. Returns the question if its answer, @input, is complete. */
enum question dialog_answer(struct dialog *d, int key);

/* Shows the settings of a host: false, with a message, if it has none. */
bool dialog_show_settings(struct dialog *d, unsigned int host);
/* Reads the settings anew; the selected one stays selected. */
void dialog_refresh(struct dialog *d);
/* A key in the settings. Returns whether it has a meaning of its own there. */
bool dialog_press(struct dialog *d, int key);
/* The name of the selected setting. */
const char *dialog_setting(const struct dialog *d);
/* What is asked and typed, or the message; empty if there is neither. */
void dialog_line(const struct dialog *d, char *text, size_t size);

#endif
