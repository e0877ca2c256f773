// SPDX-License-Identifier: GPL-2.0
/* Logs that fio's write_iolog makes, versions 2 and 3. */
#include <stdio.h>
#include <string.h>

#include "import.h"

static const struct {
	const char *name;
	enum import_op op;
} actions[] = {
	{ "read", IMPORT_READ }, { "write", IMPORT_WRITE }, { "trim", IMPORT_DISCARD },
	{ "sync", IMPORT_FLUSH }, { "datasync", IMPORT_FLUSH },
};

static bool first_line(struct import *im, const char *text)
{
	char end;

	if (sscanf(text, "fio version %d iolo%c", &im->version, &end) == 2 &&
	    (im->version == 2 || im->version == 3))
		return true;
	return import_fail(im, MAX_FIELDS, "first line", "'%.40s' is not 'fio version 2 iolog' or "
			   "'fio version 3 iolog'", text);
}

/* Version 3 has the time in front. Version 2 has no times, but may have waits. */
static bool fio_line(struct import *im, char *text)
{
	unsigned int at, i;
	__u64 lba = 0, blocks = 0, us;
	const char *action;

	if (im->line == 1)
		return first_line(im, text);
	import_split(im, text, false);
	if (im->version == 3 && !import_time(im, 0, "timestamp", US, &im->ns))
		return false;
	at = im->version == 3 ? 2 : 1;
	if (at - 1 >= im->f.nr)
		return import_fail(im, at - 1, "filename", "missing");
	if (at >= im->f.nr)
		return import_fail(im, at, "action", "missing");
	action = im->f.at[at];
	if (!strcmp(action, "add") || !strcmp(action, "open") || !strcmp(action, "close"))
		return true;
	if (im->version == 2 && !strcmp(action, "wait")) {
		if (!import_number(im, at + 1, "offset", ~0u, &us))
			return false;
		/* The time since the previous wait. */
		im->ns += us * US;
		return true;
	}
	for (i = 0; i < sizeof(actions) / sizeof(*actions); i++)
		if (!strcmp(action, actions[i].name))
			break;
	if (i == sizeof(actions) / sizeof(*actions))
		return import_fail(im, at, "action", "'%.40s' is not known", action);
	if (actions[i].op != IMPORT_FLUSH &&
	    (!import_blocks(im, at + 1, "offset", 1, &lba) ||
	     !import_blocks(im, at + 2, "length", 1, &blocks)))
		return false;
	return import_io(im, import_device(im, im->f.at[at - 1]), actions[i].op, im->ns, 0, lba,
			 blocks);
}

const struct importer import_fio = {
	"fio", "log of fio's write_iolog, version 2 or 3", fio_line,
};
