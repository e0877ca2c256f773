/* SPDX-License-Identifier: GPL-2.0 */
/* Keys for which terminals send one of several codes. */
#ifndef SMQTOP_KEY_H
#define SMQTOP_KEY_H

#include <curses.h>

#define KEY_ESCAPE	27

static inline bool is_enter(int key)
{
	return key == '\n' || key == '\r' || key == KEY_ENTER;
}

static inline bool is_backspace(int key)
{
	return key == KEY_BACKSPACE || key == 127 || key == '\b';
}

#endif
