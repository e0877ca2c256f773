// SPDX-License-Identifier: GPL-2.0
/* Reads a view. */
#include "rows.h"

void rows_read(struct rows *rows, enum view view, const struct sys *sys, const struct watch *w)
{
	*rows = (struct rows){ .view = view };
	switch (view) {
	case VIEW_OPCODES:
		if (w)
			rows_of_opcodes(rows, w);
		break;
	case VIEW_ERRORS:
		rows_of_errors(rows, sys, w);
		break;
	case VIEW_COMMANDS:
		rows_of_commands(rows, sys, w);
		break;
	case VIEW_FILES:
		rows_of_files(rows, sys);
		break;
	case VIEW_SMQ:
		rows_of_smq(rows, sys);
		break;
	default:
		rows_of_hosts(rows, sys, w);
	}
}
