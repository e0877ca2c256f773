/* SPDX-License-Identifier: GPL-2.0 */
/* A command of a command file in memory. */
#ifndef SG_IO_COMMAND_H
#define SG_IO_COMMAND_H

#include "cdb.h"

#define CPU_ANY			-1
#define FILE_DEVICES	64	/* that dev= can name in a file */
#define FILE_DEVICE_NAME	63	/* characters of the longest name */

#define CDB_INLINE		16	/* bytes of a CDB that struct command has room for */

/* 48 bytes: a recording may have millions. */
struct command {
	union {
		__u8 cdb[CDB_INLINE];	/* cdb_of() returns it, or @long_cdb */
		__u8 *long_cdb;
	};
	/* Data-out, shared between commands; if @made, the struct pattern to make it from. */
	const void *data;
	__u64 at_us;		/* when replay issues it; set_time() sets it if at= is missing */
	__u32 bytes;
	__u32 timeout_ms;
	__u32 line;		/* in the file, from 1 */
	__s16 cpu;		/* the CPU that submits it, or CPU_ANY */
	__u8 cdb_len : 6;
	__u8 dir : 2;		/* enum cdb_dir */
	__u8 dev : 6;		/* index of its name in cmdfile.devs, 0 without dev= */
	__u8 made : 1;		/* its data-out is made when it is sent: cmdfile_fill() */
};

static inline __u8 *cdb_of(const struct command *cmd)
{
	return cmd->cdb_len > CDB_INLINE ? cmd->long_cdb : (__u8 *)cmd->cdb;
}

#endif
