/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reads what other tools recorded. An importer takes one line at a time, and calls import_event()
 * or import_io() for each command that it finds.
 */
#ifndef SG_IO_IMPORT_H
#define SG_IO_IMPORT_H

#include "cmdfile/cmdfile.h"
#include "recording/recording.h"

#define MAX_FIELDS	24
#define US		1000
#define S		1000000000

/* What a command does, for importers of files that have no CDBs. */
enum import_op {
	IMPORT_READ,
	IMPORT_WRITE,
	IMPORT_FLUSH,
	IMPORT_DISCARD,
};

/* The fields of a line. A message calls them by their numbers, from 1. */
struct fields {
	char *at[MAX_FIELDS];
	unsigned int nr;
};

/* The state of an import. */
struct import {
	const char *file;
	unsigned int line;		/* number of the line that is being read, from 1 */
	struct fields f;		/* of this line, if the importer has split it */
	struct recording *r;
	struct recorded_device devs[FILE_DEVICES];
	unsigned int nr_devs;
	__u32 block_size;
	const char *only;		/* import the commands of this device; NULL: all */
	__u32 order;			/* number of events so far */
	__u64 skipped;			/* commands that the importer cannot describe */
	bool lost;			/* the other tool lost events */
	bool ended;			/* only a summary follows */
	int version;			/* for the importer: what the first line says */
	unsigned int column[8];		/* for the importer: where the first line says they are */
	__u64 ns;			/* for the importer: the time of the previous line */
};

/**
 * struct importer - a format
 * @name: for --from
 * @what: for --help
 * @line: reads a line, without its end; returns false after one message
 */
struct importer {
	const char *name;
	const char *what;
	bool (*line)(struct import *im, char *text);
};

extern const struct importer import_blkparse;
extern const struct importer import_fio;
extern const struct importer import_hfplayer;
extern const struct importer import_msr;
extern const struct importer import_snia;
extern const struct importer import_tracepoints;

/*
 * Prints why a line cannot be imported: @i is the index of the field, @name what it should be. A
 * number of fields or more: the field is missing, or it is about no field in particular.
 * Return: false.
 */
bool import_fail(const struct import *im, unsigned int i, const char *name, const char *why, ...)
	__attribute__((format(printf, 4, 5)));

/*
 * Splits a line at white space or, with @comma, at each comma, so that fields may be empty. The
 * last of MAX_FIELDS fields has the rest of the line.
 */
void import_split(struct import *im, char *text, bool comma);

/* Each reads field @i, and returns false after one message if it is not what it should be. */
bool import_number(const struct import *im, unsigned int i, const char *name, __u64 max,
		   __u64 *out);
/* A decimal fraction, times @unit. */
bool import_time(const struct import *im, unsigned int i, const char *name, __u64 unit, __u64 *ns);
/* A number of @unit bytes each, converted to blocks of the device. */
bool import_blocks(const struct import *im, unsigned int i, const char *name, __u32 unit,
		   __u64 *blocks);

/* The fields of a CSV file with the names in @names, from its first line. */
bool import_columns(struct import *im, const char * const *names, unsigned int nr);

/* The index of a device, a new one if needed; -1 after one message. */
int import_device(struct import *im, const char *name);

/* Builds the CDB of a command, as short as it can be. Return: false after one message. */
bool import_cdb(const struct import *im, enum import_op op, __u64 lba, __u64 blocks,
		struct trace_event *e);

/* Adds an event whose fields are set, except for its order. */
bool import_event(struct import *im, struct trace_event *e);

/* Adds a command whose start and, unless @took_ns is 0, end are known. */
bool import_io(struct import *im, int dev, enum import_op op, __u64 ns, __u64 took_ns, __u64 lba,
	       __u64 blocks);

#endif
