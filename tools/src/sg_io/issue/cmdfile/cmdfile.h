/* SPDX-License-Identifier: GPL-2.0 */
/* A command file in memory: parsed and checked, with its data-out. */
#ifndef SG_IO_CMDFILE_H
#define SG_IO_CMDFILE_H

#include "command.h"
#include "expect.h"

#define TIMEOUT_MS_DEFAULT	30000
#define TIMEOUT_MS_MAX		86400000	/* a day: formatting takes hours */
#define MAX_COMMANDS	(16u << 20)	/* of a file */

/* What a message about a command adds if the user can set cmdfile_options.unchecked. */
#define UNCHECKED_HINT		"; --unchecked accepts that"

struct dataset;
struct maps;

struct cmdfile {
	const char *name;
	struct command *cmds;
	size_t nr;
	__u32 *took;		/* of each command, see cmdfile_took(); NULL: no line has took= */
	struct expect *expects;	/* of each command; NULL: no line has any */
	bool expects_data;	/* some line expects certain data-in */
	bool in_order;		/* some line has wait= or repeat=: commands go one by one */
	char *devs[FILE_DEVICES];	/* the names that dev= gives, in the order of the file */
	unsigned int nr_devs;	/* 0: no line has dev= */
	__u32 max_in;		/* largest data-in of any command */
	__u32 max_bytes;
	__u32 max_timeout_ms;
	bool timed;		/* some line has at= */
	struct dataset *data;
};

/* What a command's line expects; NULL if no line expects anything. */
static inline const struct expect *expect_of(const struct cmdfile *file, const struct command *cmd)
{
	return file->expects ? &file->expects[cmd - file->cmds] : NULL;
}

/* How long a command took, in ns, from 2 s on in ms; 0: not known. */
static inline __u64 cmdfile_took(const struct cmdfile *file, size_t cmd)
{
	__u32 took = file->took ? file->took[cmd] : 0;

	return took >> 31 ? (took & ~(1u << 31)) * 1000000ULL : took;
}

struct cmdfile_options {
	bool unchecked;		/* BYTES and direction may contradict the CDB */
	bool names_unchecked;	/* the user can set @unchecked: a message names --unchecked */
	bool many_devices;	/* dev= may name more than one */
	bool make_later;	/* no images of patterns: cmdfile_fill() makes the data */
	bool by_time;		/* commands are sorted by at=, which must not go back on a CPU */
	const char *needs_took;	/* needs took=: commands without it ended last; NULL: nothing */
	const struct maps *maps;	/* changes each command; NULL: none */
	__u64 memory;		/* limit for the data-out images, in bytes */
};

/**
 * cmdfile_load() - read a whole command file
 * @name: path, or "-" for standard input
 * @opt: which checks to make, and limits
 * @file: the result
 *
 * Return: 0, or -1 after one message that names the line and the reason.
 */
int cmdfile_load(const char *name, const struct cmdfile_options *opt,
		 struct cmdfile *file);
/* Writes the data-out of a command, cmd->bytes bytes. */
void cmdfile_fill(const struct command *cmd, void *buf);
void cmdfile_free(struct cmdfile *file);

#endif
