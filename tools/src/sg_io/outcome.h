/* SPDX-License-Identifier: GPL-2.0 */
/* How a command ended, and the count of every way that was not good. */
#ifndef SG_IO_OUTCOME_H
#define SG_IO_OUTCOME_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

#define SENSE_BYTES	96

struct outcome {
	int error;		/* errno of the path; the rest is void then */
	__u8 status;		/* SCSI status */
	__u16 host;		/* DID_ */
	__u16 driver;		/* DRIVER_ */
	__u8 sense_len;
	__s32 resid;		/* bytes not moved */
	__u8 sense[SENSE_BYTES];
};

struct command;

/* What makes two bad outcomes the same. */
struct outcome_class {
	int error;
	__u8 status;
	__u16 host;
	__u16 driver;
	bool has_sense;
	__u8 key;
	__u8 asc;
	__u8 ascq;
	bool underrun;		/* GOOD, but blocks are missing */
};

struct tally_entry {
	struct outcome_class what;
	__u64 count;
	__u64 first;		/* sequence number of the first such command */
	__u32 line;		/* and its line */
};

struct tally {
	__u64 good;
	__u64 bad;
	struct tally_entry *entries;
	unsigned int nr;
	unsigned int room;
	bool lent;		/* the entries are not ours: there is no more room */
};

/* Have @t keep its entries in @entries, which has @room of them and outlives it. */
void tally_lend(struct tally *t, struct tally_entry *entries, unsigned int room);
/* Return: false when memory ran out; the totals stay right even then. */
bool tally_add(struct tally *t, const struct command *cmd,
	       const struct outcome *out, __u64 sequence);
bool tally_merge(struct tally *into, const struct tally *from);
/* Entries in the order in which they first came up. */
void tally_sort(struct tally *t);
void tally_free(struct tally *t);

/* The short name that counts are kept under: "CHECK CONDITION", "EIO", ... */
void outcome_name(const struct outcome_class *what, char *buf, size_t size);
/* All of it, decoded. */
void outcome_describe(const struct outcome_class *what, char *buf, size_t size);

#endif
