/* SPDX-License-Identifier: GPL-2.0 */
/* How a command ended, and counts of each kind of bad outcome. */
#ifndef SG_IO_OUTCOME_H
#define SG_IO_OUTCOME_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

#define SENSE_BYTES	96

struct outcome {
	int error;		/* errno of the path; if not 0, the rest is not valid */
	__u8 status;		/* SCSI status */
	__u16 host;		/* DID_ */
	__u16 driver;		/* DRIVER_ */
	__u8 sense_len;
	__s32 resid;		/* bytes not moved */
	__u8 sense[SENSE_BYTES];
};

struct command;
struct expect;

/* What a command did not do that its line expects. */
enum mismatch {
	MISMATCH_NONE,
	MISMATCH_STATUS,	/* or the sense, or it was not sent */
	MISMATCH_RESID,
	MISMATCH_DATA,
};

/* A kind of outcome: outcomes that are equal in these fields are counted together. */
struct outcome_class {
	int error;
	__u8 status;
	__u16 host;
	__u16 driver;
	bool has_sense;
	__u8 key;
	__u8 asc;
	__u8 ascq;
	bool underrun;		/* status GOOD, but fewer blocks were moved than the CDB says */
	unsigned int device;	/* index of the target in the run */
	enum mismatch mismatch;
	const struct expect *expect;	/* what was expected, of one line; NULL: no mismatch */
	__s32 resid;		/* MISMATCH_RESID */
	__u32 offset;		/* MISMATCH_DATA: the first byte that differs */
	__u8 found;
	__u8 wanted;
};

struct tally_entry {
	struct outcome_class what;
	__u64 count;
	__u64 first;		/* sequence number of the first such command */
	__u32 line;		/* line of that command in the file */
};

struct tally {
	__u64 good;
	__u64 bad;
	struct tally_entry *entries;	/* memory of the caller for @room of them */
	unsigned int nr;
	unsigned int room;
	bool is_short;		/* some kinds had no room: only @good and @bad have them */
};

/* What kind of outcome it is, without the device. Return: false if the command failed. */
bool outcome_classify(const struct command *cmd, const struct outcome *out,
		      struct outcome_class *what);

/**
 * outcome_judge() - say whether a command ended as it should
 * @cmd: the command
 * @out: how it ended
 * @expect: what its line expects; NULL or with status 0: GOOD and all blocks moved
 * @in: its data-in
 * @what: receives the kind of outcome
 *
 * Return: false if it did not.
 */
bool outcome_judge(const struct command *cmd, const struct outcome *out,
		   const struct expect *expect, const void *in, struct outcome_class *what);

/* Counts an outcome that outcome_judge() found to be @good. */
void tally_add(struct tally *t, const struct command *cmd, bool good,
	       const struct outcome_class *what, __u64 sequence);
void tally_merge(struct tally *into, const struct tally *from);
/* Sorts the entries by their first command. */
void tally_sort(struct tally *t);

/* The short name of a kind of outcome: "CHECK CONDITION", "EIO", ... */
void outcome_name(const struct outcome_class *what, char *buf, size_t size);
/* Describes a kind of outcome in words. */
void outcome_describe(const struct outcome_class *what, char *buf, size_t size);

#endif
