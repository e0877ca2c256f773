// SPDX-License-Identifier: GPL-2.0
/* A file of its own, because term.h has names such as "lines" and "columns". */
#include <curses.h>
#include <err.h>
#include <stdlib.h>
#include <term.h>
#include <unistd.h>

#include "screen.h"

bool screen_possible(void)
{
	int error;

	if (setupterm(NULL, STDOUT_FILENO, &error) == OK && cursor_address && clear_screen)
		return true;
	warnx("terminal '%s' has no screen: showing text", getenv("TERM") ?: "");
	return false;
}
