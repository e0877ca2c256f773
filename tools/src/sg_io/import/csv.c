// SPDX-License-Identifier: GPL-2.0
/* Traces as CSV: of Microsoft Research in Cambridge, of SYSTOR '17 (SNIA), and of hfplayer. */
#include <stdio.h>
#include <string.h>

#include "import.h"

#define FILETIME	100	/* ns of a Windows filetime */
#define SECTOR		512

/* Reads a field that has one of the words @read and @write. */
static bool direction(const struct import *im, unsigned int i, const char *name, const char *read,
		      const char *write, enum import_op *op)
{
	if (i >= im->f.nr)
		return import_fail(im, i, name, "missing");
	*op = strcmp(im->f.at[i], write) ? IMPORT_READ : IMPORT_WRITE;
	if (*op == IMPORT_READ && strcmp(im->f.at[i], read))
		return import_fail(im, i, name, "'%.40s' is not %s or %s", im->f.at[i], read,
				   write);
	return true;
}

/* More fields than the format has: it is another one. */
static bool no_more(const struct import *im, unsigned int nr)
{
	return im->f.nr <= nr || import_fail(im, nr, "none", "'%.40s' is one field too many",
					     im->f.at[nr]);
}

/* Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime; there is no first line. */
static bool msr_line(struct import *im, char *text)
{
	char name[FILE_DEVICE_NAME + 2];
	__u64 ns, took, lba, blocks, disk;
	enum import_op op;

	import_split(im, text, true);
	if (!import_time(im, 0, "Timestamp", FILETIME, &ns) ||
	    !import_number(im, 2, "DiskNumber", 1 << 20, &disk) ||
	    !direction(im, 3, "Type", "Read", "Write", &op) ||
	    !import_blocks(im, 4, "Offset", 1, &lba) || !import_blocks(im, 5, "Size", 1, &blocks) ||
	    !import_time(im, 6, "ResponseTime", FILETIME, &took) || !no_more(im, 7))
		return false;
	snprintf(name, sizeof(name), "%s_%llu", im->f.at[1], disk);
	return import_io(im, import_device(im, name), op, ns, took, lba, blocks);
}

const struct importer import_msr = {
	"msr", "CSV of the traces of Microsoft Research in Cambridge", msr_line,
};

/* Timestamp,Response,IOType,LUN,Offset,Size; the first line has these names. */
static bool snia_line(struct import *im, char *text)
{
	static const char * const names[] = {
		"Timestamp", "Response", "IOType", "LUN", "Offset", "Size",
	};
	const unsigned int *c = im->column;
	__u64 ns, took = 0, lba, blocks, lun;
	char name[32];
	enum import_op op;

	import_split(im, text, true);
	if (im->line == 1)
		return import_columns(im, names, 6);
	if (!import_time(im, c[0], names[0], S, &ns) ||
	    !import_number(im, c[3], names[3], 1 << 20, &lun) ||
	    !import_blocks(im, c[4], names[4], 1, &lba) ||
	    !import_blocks(im, c[5], names[5], 1, &blocks))
		return false;
	/* A blank response is not known. A blank type is neither a read nor a write. */
	if (*im->f.at[c[1]] && !import_time(im, c[1], names[1], S, &took))
		return false;
	if (!*im->f.at[c[2]]) {
		im->skipped++;
		return true;
	}
	if (!direction(im, c[2], names[2], "R", "W", &op))
		return false;
	snprintf(name, sizeof(name), "lun%llu", lun);
	return import_io(im, import_device(im, name), op, ns, took, lba, blocks);
}

const struct importer import_snia = {
	"snia", "CSV of the SYSTOR '17 traces of the SNIA's repository", snia_line,
};

/* Of hfplayer's 16 columns these matter. Its blocks have 512 bytes. */
static bool hfplayer_line(struct import *im, char *text)
{
	static const char * const names[] = {
		"ELAPSED_USECS.D", "CMD.S", "LUN_SSID.I", "LBA.I", "NBLKS.I", "LATENCY_USECS.D",
	};
	const unsigned int *c = im->column;
	__u64 ns, took, lba, blocks, lun;
	enum import_op op;
	char name[32], *cmd;

	if (im->line == 1 && *text == '#')
		text++;
	import_split(im, text, true);
	if (im->line == 1)
		return import_columns(im, names, 6);
	if (!import_time(im, c[0], names[0], US, &ns))
		return false;
	if (c[1] >= im->f.nr)
		return import_fail(im, c[1], names[1], "missing");
	/* RD_IN is the arrival of a read, RD_OUT its end, which has the same latency. */
	cmd = im->f.at[c[1]];
	if (!strcmp(cmd, "RD_OUT") || !strcmp(cmd, "WR_OUT")) {
		im->skipped++;
		return true;
	}
	if (strlen(cmd) == 5 && !strcmp(cmd + 2, "_IN"))
		cmd[2] = '\0';
	if (!direction(im, c[1], names[1], "RD", "WR", &op) ||
	    !import_number(im, c[2], names[2], ~0u, &lun) ||
	    !import_blocks(im, c[3], names[3], SECTOR, &lba) ||
	    !import_blocks(im, c[4], names[4], SECTOR, &blocks) ||
	    !import_time(im, c[5], names[5], US, &took))
		return false;
	snprintf(name, sizeof(name), "lun%llu", lun);
	return import_io(im, import_device(im, name), op, ns, took, lba, blocks);
}

const struct importer import_hfplayer = {
	"hfplayer", "CSV of hfplayer", hfplayer_line,
};
