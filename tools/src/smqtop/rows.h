/* SPDX-License-Identifier: GPL-2.0 */
/* A view's rows: what was counted up to now, and in the last interval. */
#ifndef SMQTOP_ROWS_H
#define SMQTOP_ROWS_H

#include <stdbool.h>

#include "counters.h"
#include "sysfs.h"
#include "watch.h"

enum view {
	VIEW_HOSTS,
	VIEW_LUNS,
	VIEW_QUEUES,
	VIEW_OPCODES,
	VIEW_ERRORS,
	VIEW_COMMANDS,
	VIEW_FILES,
	VIEW_SMQ,
	VIEWS,
};

enum sort {
	SORT_NAME,
	SORT_IOPS,
	SORT_MBPS,
	SORT_INFLIGHT,
	SORT_P50,
	SORT_P90,
	SORT_P99,
	SORT_P999,
	SORT_QUEUE,
	SORT_SIZE,
	SORT_ERRORS,
	SORTS,
};

extern const char *const view_names[VIEWS];
extern const char *const sort_names[SORTS];

/* Sums of what was counted, and of what sysfs has. */
struct totals {
	__u64 done;
	struct of_host;		/* of hosts only */
	struct counters;
};

#define ROW_NAME	40
#define ROW_TEXT	192

/**
 * struct row - one line
 * @name: H:C:T:L, hostN, an opcode's name, ...: unique in its view, with @label
 * @label: disk, queue, ...
 * @text: driver of a host; what went wrong, in the errors' view
 * @depth: how many commands it takes, -1 if not known
 * @inflight: how many it has, -1 if not known
 * @total: since smqtop began
 * @diff: in the interval
 */
struct row {
	char name[ROW_NAME];
	char label[ROW_NAME];
	char text[ROW_TEXT];
	long depth;
	long inflight;
	struct totals total;
	struct totals diff;
};

struct rows {
	enum view view;
	struct row *row;
	unsigned int nr;
	unsigned int room;
};

/**
 * struct command - a command that was slow, failed or timed out
 * @number: which one it is, from 1 on
 * @time_ns: when that was, in nanoseconds since 1970
 * @device_ns: how long it took; -1 if that is not known
 * @lun: H:C:T:L, "-" if smqtop has forgotten the LUN
 * @disk: its disk, empty if it has none
 * @cdb: the command
 * @cdb_text: its name, and which blocks
 * @cdb_len: bytes of it
 * @what: its result in words
 * @status: SCSI status
 * @host: the mid-layer's host byte
 * @timed_out: without status and host
 * @key: of the sense data, with @asc and @ascq; 0 if there are none
 * @bytes: size of its data
 * @pid: the process that sent it, 0 if it is not known
 * @comm: the name of its task
 */
struct command {
	__u64 number;
	__s64 time_ns;
	__s64 device_ns;
	char lun[SYS_NAME];
	char disk[SYS_NAME];
	__u8 cdb[32];
	char cdb_text[64];
	unsigned int cdb_len;
	char what[ROW_TEXT];
	__u8 status;
	__u8 host;
	bool timed_out;
	__u8 key;
	__u8 asc;
	__u8 ascq;
	__u32 bytes;
	__u32 pid;
	char comm[16];
};

/* Reads the last ones, newest first: room for EVENTS. Returns how many there are. */
unsigned int commands_read(struct command *commands, const struct sys *sys, const struct watch *w);

/**
 * rows_read() - read a view
 * @rows: receives it; freed by rows_free()
 * @view: the view
 * @sys: hosts and LUNs
 * @w: the programs' counters; NULL: only what sysfs has
 */
void rows_read(struct rows *rows, enum view view, const struct sys *sys, const struct watch *w);
void rows_free(struct rows *rows);

/* Fills in @diff of each row: what came since @before, of the same view. */
void rows_compare(struct rows *rows, const struct rows *before);
/* Leaves only the rows in which name, label or text contain or match the pattern. */
void rows_filter(struct rows *rows, const char *pattern);
/*
 * The largest first, names in their order; rows that are equal by @first are sorted by @second.
 * Commands, files and what smq says stay in their own order.
 */
void rows_sort(struct rows *rows, enum sort first, enum sort second);

/* Adds a row. */
struct row *rows_add(struct rows *rows, const char *name, const char *label);
/* The row with this name and label, which it adds if there is none. */
struct row *rows_get(struct rows *rows, const char *name, const char *label);

/* The name that sg_io has for a command, or that of sg3_utils. */
const char *opcode_name(const __u8 *cdb, char *name, size_t size);
/* How many bytes a command has, by its opcode. */
unsigned int cdb_length(const __u8 *cdb);
/* A result in words. */
void describe(const struct failure *f, char *text, size_t size);
/* H:C:T:L of the LUN at an address; false if smqtop has forgotten it. */
bool lun_name(const struct watch *w, __u64 sdev, char *name, size_t size);

/* Sets @done of counters that were added up. */
void totals_count(struct totals *t);

/* The queues of a LUN's host, with that LUN's commands only; no row without programs. */
void rows_of_lun(struct rows *rows, const struct sys *sys, const struct watch *w, const char *lun);
/* Fill in the views of the same name; rows_of_hosts() also those of LUNs and queues. */
void rows_of_hosts(struct rows *rows, const struct sys *sys, const struct watch *w);
void rows_of_smq(struct rows *rows, const struct sys *sys);
void rows_of_opcodes(struct rows *rows, const struct watch *w);
void rows_of_commands(struct rows *rows, const struct sys *sys, const struct watch *w);
void rows_of_files(struct rows *rows, const struct sys *sys);
void rows_of_errors(struct rows *rows, const struct sys *sys, const struct watch *w);

/* A percentile of the interval in nanoseconds, 0 without a command. */
__u64 row_percentile(const struct row *row, unsigned int permille);
/* Whether there were enough commands for it: 2, 10, 100 and 1000 for the four that are shown. */
bool row_has_percentile(const struct row *row, unsigned int permille);
/* Mean time from the block layer to the driver; -1 if it is not known. */
long row_queue_ns(const struct row *row);

#endif
