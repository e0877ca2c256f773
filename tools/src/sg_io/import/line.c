// SPDX-License-Identifier: GPL-2.0
/* What all importers need: fields, devices, events. */
#include <err.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "import.h"
#include "util.h"

#define UNMAP_BIT	0x08	/* of WRITE SAME, in byte 1 */

bool import_fail(const struct import *im, unsigned int i, const char *name, const char *why, ...)
{
	char text[256];
	va_list args;

	va_start(args, why);
	vsnprintf(text, sizeof(text), why, args);
	va_end(args);
	if (i < MAX_FIELDS)
		warnx("%s:%u: field %u (%s): %s", im->file, im->line, i + 1, name, text);
	else
		warnx("%s:%u: %s: %s", im->file, im->line, name, text);
	return false;
}

void import_split(struct import *im, char *text, bool comma)
{
	const char *ends = comma ? "," : " \t";
	struct fields *f = &im->f;

	f->nr = 0;
	for (;;) {
		if (!comma)
			text += strspn(text, ends);
		if (!comma && !*text)
			return;
		f->at[f->nr++] = text;
		if (f->nr == MAX_FIELDS)
			return;
		text += strcspn(text, ends);
		if (!*text)
			return;
		*text++ = '\0';
	}
}

static bool has(const struct import *im, unsigned int i, const char *name)
{
	return i < im->f.nr || import_fail(im, i, name, "missing");
}

bool import_number(const struct import *im, unsigned int i, const char *name, __u64 max,
		   __u64 *out)
{
	if (!has(im, i, name))
		return false;
	switch (num_parse(im->f.at[i], 0, max, out)) {
	case 0:
		return true;
	case -ERANGE:
		return import_fail(im, i, name, "'%.40s' is over %llu", im->f.at[i], max);
	}
	return import_fail(im, i, name, "'%.40s' is no number", im->f.at[i]);
}

bool import_time(const struct import *im, unsigned int i, const char *name, __u64 unit, __u64 *ns)
{
	if (!has(im, i, name))
		return false;
	if (!num_parse_decimal(im->f.at[i], unit, ns))
		return true;
	return import_fail(im, i, name, "'%.40s' is no time", im->f.at[i]);
}

bool import_blocks(const struct import *im, unsigned int i, const char *name, __u32 unit,
		   __u64 *blocks)
{
	__u64 n;

	if (!import_number(im, i, name, ~0ULL / unit, &n))
		return false;
	if (n * unit % im->block_size)
		return import_fail(im, i, name, "%llu bytes are no whole number of blocks of %u "
				   "bytes", n * unit, im->block_size);
	*blocks = n * unit / im->block_size;
	return true;
}

bool import_columns(struct import *im, const char * const *names, unsigned int nr)
{
	unsigned int i, k;

	for (i = 0; i < nr; i++) {
		for (k = 0; k < im->f.nr && strcmp(im->f.at[k], names[i]); k++)
			;
		if (k == im->f.nr)
			return import_fail(im, MAX_FIELDS, "first line", "has no column %s",
					   names[i]);
		im->column[i] = k;
	}
	return true;
}

int import_device(struct import *im, const char *name)
{
	unsigned int i;

	for (i = 0; i < im->nr_devs; i++)
		if (!strcmp(im->devs[i].name, name))
			return i;
	if (!*name || strlen(name) > FILE_DEVICE_NAME || strpbrk(name, " \t#")) {
		import_fail(im, MAX_FIELDS, "device", "'%.80s' cannot be a name in dev=: 1 to %d "
			    "characters, without blanks and #", name, FILE_DEVICE_NAME);
		return -1;
	}
	if (i == FILE_DEVICES) {
		import_fail(im, MAX_FIELDS, "device", "%s is one more than %d; --only NAME "
			    "imports the commands of one", name, FILE_DEVICES);
		return -1;
	}
	im->devs[i] = (struct recorded_device){
		.name = strdup(name), .block_size = im->block_size,
	};
	if (!im->devs[i].name)
		err(3, "no memory");
	im->nr_devs++;
	return i;
}

bool import_cdb(const struct import *im, enum import_op op, __u64 lba, __u64 blocks,
		struct trace_event *e)
{
	static const char * const names[][2] = {
		[IMPORT_READ] = { "read10", "read16" },
		[IMPORT_WRITE] = { "write10", "write16" },
		[IMPORT_FLUSH] = { "sync10", "sync16" },
		/* The CDB of an UNMAP does not have the blocks, but that of a WRITE SAME has. */
		[IMPORT_DISCARD] = { "writesame16", "writesame16" },
	};
	const struct cdb_op *table = cdb_find_gen(names[op][0]);

	if (lba > cdb_max_lba(table) || blocks > cdb_max_blocks(table))
		table = cdb_find_gen(names[op][1]);
	if (blocks > cdb_max_blocks(table) || lba + blocks < lba)
		return import_fail(im, MAX_FIELDS, "size", "%llu blocks at LBA %llu are more than "
				   "a CDB can have", blocks, lba);
	cdb_build(table, lba, blocks, e->cdb);
	if (op == IMPORT_DISCARD)
		e->cdb[1] |= UNMAP_BIT;
	e->cdb_len = table->len;
	e->has_data = op != IMPORT_FLUSH && blocks;
	return true;
}

bool import_event(struct import *im, struct trace_event *e)
{
	if (im->only && strcmp(im->only, im->devs[e->dev].name))
		return true;
	e->order = im->order++;
	if (recording_take(e, im->r))
		return true;
	return import_fail(im, MAX_FIELDS, "line", "no memory for more commands");
}

bool import_io(struct import *im, int dev, enum import_op op, __u64 ns, __u64 took_ns, __u64 lba,
	       __u64 blocks)
{
	struct trace_event e = { .ns = ns, .dev = dev, .cpu = NO_CPU, .kind = TRACE_START };

	/* No other command has this tag, so that the end finds its start at once. */
	e.tag = im->order;
	if (dev < 0 || !import_cdb(im, op, lba, blocks, &e) || !import_event(im, &e))
		return false;
	if (!took_ns)
		return true;
	if (__builtin_add_overflow(ns, took_ns, &e.ns))
		return import_fail(im, MAX_FIELDS, "time", "the end is beyond what 64 bits of "
				   "nanoseconds can have");
	e.kind = TRACE_DONE;
	return import_event(im, &e);
}
