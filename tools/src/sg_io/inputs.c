// SPDX-License-Identifier: GPL-2.0
#include <err.h>
#include <stddef.h>

#include "commands.h"
#include "inputs.h"
#include "util.h"

static struct input {
	dev_t dev;
	ino_t inode;
} *inputs;
static size_t nr, room;

void input_note(const struct stat *st)
{
	if (!S_ISREG(st->st_mode) && !S_ISBLK(st->st_mode))
		return;
	if (!array_make_room(&inputs, sizeof(*inputs), nr, &room))
		errx(EXIT_DEVICE, "no memory");
	inputs[nr++] = (struct input){ st->st_dev, st->st_ino };
}

void input_note_fd(int fd)
{
	struct stat st;

	if (!fstat(fd, &st))
		input_note(&st);
}

bool output_check(const char *option, const char *path)
{
	struct stat st;
	size_t i;

	if (!path || stat(path, &st))
		return true;
	for (i = 0; i < nr; i++) {
		if (inputs[i].dev != st.st_dev || inputs[i].inode != st.st_ino)
			continue;
		warnx("%s: writing %s would replace an input or another output of this command",
		      option, path);
		return false;
	}
	input_note(&st);
	return true;
}
