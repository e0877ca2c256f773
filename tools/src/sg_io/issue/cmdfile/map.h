/* SPDX-License-Identifier: GPL-2.0 */
/* --map: puts the commands of a recording on other devices, other blocks, and a window of time. */
#ifndef SG_IO_MAP_H
#define SG_IO_MAP_H

#include <argp.h>

#include "command.h"

#define MAP_NAME	256	/* size of the name of a target */
#define SCALE_1		1000000		/* map.scale for no change */

/* The commands of the device @old go to @target. */
struct map {
	char old[FILE_DEVICE_NAME + 1];	/* the name in dev= */
	__u8 target;		/* index in maps.targets */
	bool minus;		/* @offset is subtracted */
	__u64 offset;		/* blocks to add to each LBA, after scaling */
	__u32 scale;		/* factor for LBAs and lengths, times SCALE_1 */
};

struct map_target {
	char name[MAP_NAME];
	__u32 block_size;	/* 0: not known */
	__u64 blocks;		/* its capacity, 0: not known */
};

struct maps {
	struct map maps[FILE_DEVICES];
	unsigned int nr;
	struct map_target targets[FILE_DEVICES];
	unsigned int nr_targets;
	__u64 from_us;		/* commands before this time are left out */
	__u64 to_us;		/* commands from this time on are left out */
};

/* What --map does, for --help. */
extern const char map_help[];

/* Adds OLD=NEW[,offset=BLOCKS][,scale=X]. Exits with a usage error if it is no such mapping. */
void map_add(struct argp_state *state, const char *arg, struct maps *m);

/**
 * map_take_args() - the arguments DEV... FILE of a command that has --map
 * @state: of ARGP_KEY_END
 * @args: the arguments
 * @nr: how many
 * @m: of several DEVs, and beside --map, each DEV is added as --map DEV=DEV. A DEV alone is not
 *
 * Return: FILE; exits with a usage error if arguments are missing.
 */
const char *map_take_args(struct argp_state *state, const char * const *args, unsigned int nr,
			  struct maps *m);

/* Whether there is anything to do for the lines of a file. */
bool map_any(const struct maps *m);

/* Finds the targets and reads their sizes. Return: 0, or an exit status after one message. */
int map_find_targets(struct maps *m);

enum map_result {
	MAP_FAIL = false,	/* it does not fit: @why has the reason */
	MAP_KEEP,
	MAP_DROP,	/* it is not in the window of time */
};

/**
 * map_command() - change a command as the mapping of its device says
 * @m: the mappings. Without any, only the window of time counts
 * @dev: its dev=, or NULL
 * @cmd: the command; its time is set. Receives the index of its target
 * @why: receives the reason of MAP_FAIL
 * @size: of @why
 */
enum map_result map_command(const struct maps *m, const char *dev, struct command *cmd,
			    char *why, size_t size);

#endif
