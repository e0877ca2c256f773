/* SPDX-License-Identifier: GPL-2.0 */
/* A command file in memory: parsed and checked, with its data-out. */
#ifndef SG_IO_CMDFILE_H
#define SG_IO_CMDFILE_H

#include "cdb.h"
#include "expect.h"

#define TIMEOUT_MS_DEFAULT	30000
#define TIMEOUT_MS_MAX		86400000	/* a day: formatting takes hours */
#define CPU_ANY			-1
#define MAX_COMMANDS	(16u << 20)	/* of a file */
#define FILE_DEVICES	64	/* that dev= can name in a file */
#define FILE_DEVICE_NAME	63	/* characters of the longest name */

struct command {
	__u8 cdb[CDB_MAX];
	__u8 cdb_len;
	__u8 dir : 2;		/* enum cdb_dir */
	__u8 dev : 6;		/* index of its name in cmdfile.devs, 0 without dev= */
	__s16 cpu;		/* the CPU that submits it, or CPU_ANY */
	__u32 bytes;
	__u32 timeout_ms;
	__u32 line;		/* in the file, from 1 */
	__u64 at_us;		/* when replay issues it; set_time() sets it if at= is missing */
	const void *data;	/* data-out, shared between commands */
};

struct dataset;
struct maps;

struct cmdfile {
	const char *name;
	struct command *cmds;
	size_t nr;
	__u64 *took_ns;		/* of each command, 0: not known; NULL: no line has took= */
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

struct cmdfile_options {
	bool unchecked;		/* BYTES and direction may contradict the CDB */
	bool names_unchecked;	/* the user can set @unchecked: a message names --unchecked */
	bool many_devices;	/* dev= may name more than one */
	bool shared;		/* processes that are forked later share the images of data-out */
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
void cmdfile_free(struct cmdfile *file);

#endif
