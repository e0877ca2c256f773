// SPDX-License-Identifier: GPL-2.0
/* The views of opcodes and of errors. */
#include <stdio.h>
#include <string.h>

#include "issue/cmdfile/cdb.h"
#include "hist.h"
#include "rows.h"

static const char *name_of(unsigned int opcode, char *name, size_t size)
{
	const __u8 cdb[CDB_MAX] = { opcode };

	return opcode_name(cdb, name, size);
}

void rows_of_opcodes(struct rows *rows, const struct watch *w)
{
	char name[ROW_NAME], label[ROW_NAME];
	unsigned int opcode, cpu;

	for (opcode = 0; opcode < 256; opcode++) {
		struct totals sum = {};
		struct row *row;

		for (cpu = 0; cpu < watch_cpus(w); cpu++) {
			const struct opcode *o = watch_opcode(w, cpu, opcode);

			sum.untimed += o->untimed;
			hist_add(sum.device, o->device);
		}
		totals_count(&sum);
		if (!sum.done)
			continue;
		snprintf(label, sizeof(label), "%02Xh", opcode);
		row = rows_get(rows, name_of(opcode, name, sizeof(name)), label);
		row->total = sum;
	}
}

/* Failures are told apart by more than the text says: the label has all of it. */
static void add_failures(struct rows *rows, const struct watch *w)
{
	char name[ROW_NAME], label[ROW_NAME], text[ROW_TEXT];
	struct failure f = {};
	struct row *row;
	__u64 count;

	while (watch_failure(w, &f, &f, &count)) {
		if (!lun_name(w, f.sdev, name, sizeof(name)))
			continue;
		name_of(f.opcode, label, sizeof(label));
		describe(&f, text, sizeof(text));
		for (row = rows->row; row < rows->row + rows->nr; row++)
			if (!strcmp(row->name, name) && !strcmp(row->label, label) &&
			    !strcmp(row->text, text))
				break;
		if (row == rows->row + rows->nr) {
			/* rows_get() finds rows by name and label: a new one, then its name. */
			row = rows_get(rows, name, "");
			snprintf(row->label, sizeof(row->label), "%s", label);
			snprintf(row->text, sizeof(row->text), "%s", text);
		}
		row->total.failed += count;
	}
}

static void add_event(struct rows *rows, const char *name, const char *text, __u64 count)
{
	struct row *row;

	if (!count)
		return;
	row = rows_get(rows, name, "");
	snprintf(row->label, sizeof(row->label), "-");
	snprintf(row->text, sizeof(row->text), "%s", text);
	row->total.failed = count;
}

/* What is no result of a command. */
static void add_events(struct rows *rows, const struct sys *sys, const struct watch *w)
{
	struct rows luns = { .view = VIEW_LUNS }, hosts = { .view = VIEW_HOSTS };
	unsigned int i;

	rows_of_hosts(&luns, sys, w);
	for (i = 0; i < luns.nr; i++) {
		const struct row *lun = &luns.row[i];

		add_event(rows, lun->name, "timed out", lun->total.timeouts);
		add_event(rows, lun->name, "not taken by the LLD, sent again", lun->total.refused);
		add_event(rows, lun->name, "sent again after a failure", lun->total.retried);
		if (!w)
			add_event(rows, lun->name, "failed", lun->total.failed);
	}
	rows_free(&luns);
	rows_of_hosts(&hosts, sys, w);
	for (i = 0; i < hosts.nr; i++)
		add_event(rows, hosts.row[i].name, "error handling was woken",
			  hosts.row[i].total.wakeups);
	rows_free(&hosts);
}

void rows_of_errors(struct rows *rows, const struct sys *sys, const struct watch *w)
{
	if (w)
		add_failures(rows, w);
	add_events(rows, sys, w);
}
