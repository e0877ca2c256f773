// SPDX-License-Identifier: GPL-2.0
/* The text that blkparse prints for a trace of blktrace, in its usual format. */
#include <stdio.h>
#include <string.h>

#include "import.h"

#define SECTOR	512
#define FLUSH_TAG	-1

/* After the events come sums: a line such as "CPU0 (sda):", or "Total (sda):". */
static bool is_summary(const char *text)
{
	return !strncmp(text, "CPU", 3) || !strncmp(text, "Total (", 7);
}

/* "8,16" as 8:16. */
static int device(struct import *im)
{
	unsigned int major, minor;
	char name[32], end;

	if (sscanf(im->f.at[0], "%u,%u%c", &major, &minor, &end) != 2) {
		import_fail(im, 0, "device", "'%.40s' is not MAJOR,MINOR", im->f.at[0]);
		return -1;
	}
	snprintf(name, sizeof(name), "%u:%u", major, minor);
	return import_device(im, name);
}

/*
 * What blkparse calls RWBS: F at first for a flush, then D, W, R or N, then more letters. @plain is
 * true for a flush without blocks.
 */
static bool operation(const struct import *im, enum import_op *op, bool *plain)
{
	const char *rwbs = im->f.nr > 6 ? im->f.at[6] : "", *p = rwbs;

	*plain = false;
	if (*p == 'F') {
		p++;
		*plain = im->f.nr <= 8 || strcmp(im->f.at[8], "+");
	}
	*op = *plain ? IMPORT_FLUSH : *p == 'D' ? IMPORT_DISCARD :
	      *p == 'W' ? IMPORT_WRITE : IMPORT_READ;
	if (*plain || (*p && strchr("DWR", *p)))
		return true;
	return import_fail(im, 6, "RWBS", "'%.40s' is no read, write, discard or flush", rwbs);
}

static bool add(struct import *im, int dev, __u64 ns, __u64 cpu, enum trace_kind kind)
{
	struct trace_event e = { .ns = ns, .dev = dev, .cpu = cpu, .kind = kind };
	__u64 lba = 0, blocks = 0;
	enum import_op op;
	bool plain;

	/* A command of a program: "D   R 36 (12 00 ..) [sg_inq]", without blocks. */
	if (im->f.nr > 8 && im->f.at[8][0] == '(') {
		im->skipped += kind == TRACE_START;
		return true;
	}
	if (!operation(im, &op, &plain))
		return false;
	if (!plain && (im->f.nr <= 8 || strcmp(im->f.at[8], "+")))
		return import_fail(im, 8, "+", "SECTOR + SECTORS expected");
	if (!plain && (!import_blocks(im, 7, "sector", SECTOR, &lba) ||
		       !import_blocks(im, 9, "sectors", SECTOR, &blocks)))
		return false;
	e.tag = plain ? FLUSH_TAG : (__s32)(lba & 0x7fffffff);
	return import_cdb(im, op, lba, blocks, &e) && import_event(im, &e);
}

static bool blkparse_line(struct import *im, char *text)
{
	static const char * const others[] = {
		"A", "B", "F", "G", "I", "M", "P", "Q", "S", "T", "U", "UT", "X", "d", "m",
	};
	const char *action;
	unsigned int i;
	__u64 ns, cpu;
	int dev;

	im->ended |= is_summary(text);
	if (im->ended || !text[strspn(text, " \t")] || !strncmp(text, "Input file ", 11))
		return true;
	import_split(im, text, false);
	dev = device(im);
	if (dev < 0 || !import_number(im, 1, "CPU", NO_CPU - 1, &cpu) ||
	    !import_time(im, 3, "time", S, &ns))
		return false;
	action = im->f.nr > 5 ? im->f.at[5] : "";
	if (!strcmp(action, "D"))
		return add(im, dev, ns, cpu, TRACE_START);
	if (!strcmp(action, "C"))
		return add(im, dev, ns, cpu, TRACE_DONE);
	if (!strcmp(action, "R"))
		return add(im, dev, ns, cpu, TRACE_REFUSED);
	for (i = 0; i < sizeof(others) / sizeof(*others); i++)
		if (!strcmp(action, others[i]))
			return true;
	return import_fail(im, 5, "action", "'%.40s' is none that blkparse prints", action);
}

const struct importer import_blkparse = {
	"blkparse", "text that blkparse prints", blkparse_line,
};
