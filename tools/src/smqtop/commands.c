// SPDX-License-Identifier: GPL-2.0
/* The last commands that were slow, failed or timed out. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "issue/cmdfile/cdb.h"
#include "rows.h"

static __s64 clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void decode(struct command *c)
{
	const struct cdb_op *op = cdb_find(c->cdb, c->cdb_len);
	int n;

	opcode_name(c->cdb, c->cdb_text, sizeof(c->cdb_text));
	n = strlen(c->cdb_text);
	if (op && op->lba_at)
		n += snprintf(c->cdb_text + n, sizeof(c->cdb_text) - n, " lba=%llu",
			      cdb_lba(op, c->cdb));
	if (op && op->lba_at && op->len_at)
		snprintf(c->cdb_text + n, sizeof(c->cdb_text) - n, " blocks=%llu",
			 cdb_blocks(op, c->cdb));
}

static void read_event(struct command *c, const struct event *e, const struct sys *sys,
		       const struct watch *w)
{
	const struct failure f = {
		.status = e->result, .host = e->result >> 16,
		.key = e->key, .asc = e->asc, .ascq = e->ascq,
	};
	const struct sys_lun *lun;

	*c = (struct command){
		.time_ns = clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_MONOTONIC) + e->ns,
		.device_ns = e->took ? (__s64)e->took : -1,
		.number = e->number, .pid = e->task, .bytes = e->bytes, .timed_out = e->timed_out,
		.status = f.status, .host = f.host, .key = f.key, .asc = f.asc, .ascq = f.ascq,
	};
	memcpy(c->cdb, e->cdb, sizeof(c->cdb));
	memcpy(c->comm, e->comm, sizeof(c->comm) - 1);
	c->cdb_len = cdb_length(c->cdb);
	decode(c);
	if (!lun_name(w, e->sdev, c->lun, sizeof(c->lun)))
		strcpy(c->lun, "-");
	lun = sys_find(sys, c->lun);
	snprintf(c->disk, sizeof(c->disk), "%s", lun ? lun->disk : "");
	if (c->timed_out)
		strcpy(c->what, "timed out");
	else
		describe(&f, c->what, sizeof(c->what));
}

unsigned int commands_read(struct command *commands, const struct sys *sys, const struct watch *w)
{
	struct event events[EVENTS];
	unsigned int i, nr = w ? watch_events(w, events) : 0;

	for (i = 0; i < nr; i++)
		read_event(&commands[i], &events[i], sys, w);
	return nr;
}

void rows_of_commands(struct rows *rows, const struct sys *sys, const struct watch *w)
{
	struct command commands[EVENTS];
	unsigned int i, nr = commands_read(commands, sys, w);

	for (i = 0; i < nr; i++) {
		const struct command *c = &commands[i];
		char number[ROW_NAME], took[24] = "-";
		struct row *row;

		if (c->device_ns >= 0)
			snprintf(took, sizeof(took), "%.1fms", c->device_ns / 1e6);
		snprintf(number, sizeof(number), "%llu", c->number);
		row = rows_get(rows, c->lun, number);
		snprintf(row->text, sizeof(row->text), "%s/%u %s %s %s", c->pid ? c->comm : "-",
			 c->pid, took, c->cdb_text, c->what);
		row->total.failed = 1;
	}
}
