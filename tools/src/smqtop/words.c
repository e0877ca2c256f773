// SPDX-License-Identifier: GPL-2.0
/* What the programs have counted, in words. */
#include <libsmq.h>
#include <scsi/sg_lib.h>
#include <stdio.h>

#include "../sg_io/issue/cmdfile/cdb.h"
#include "rows.h"

/* SPC: the first three bits of the opcode determine the length, except that of 7Fh. */
unsigned int cdb_length(const __u8 *cdb)
{
	static const __u8 lengths[] = { 6, 10, 10, CDB_MAX, 16, 12, 6, 6 };

	return lengths[cdb[0] >> 5];
}

const char *opcode_name(const __u8 *cdb, char *name, size_t size)
{
	const struct cdb_op *op = cdb_find(cdb, cdb_length(cdb));

	if (op)
		snprintf(name, size, "%s", op->name);
	else
		sg_get_opcode_name(cdb[0], 0, size, name);
	return name;
}

void describe(const struct failure *f, char *text, size_t size)
{
	char part[ROW_TEXT];

	if (f->host)
		snprintf(text, size, "%s", smq_host_name(f->host, part, sizeof(part)));
	else if (f->key || f->asc)
		smq_sense_text(f->key, f->asc, f->ascq, text, size);
	else
		snprintf(text, size, "%s", smq_status_name(f->status, part, sizeof(part)));
}

bool lun_name(const struct watch *w, __u64 sdev, char *name, size_t size)
{
	unsigned int entry;

	for (entry = 0; entry < MAX_LUNS; entry++) {
		const struct lun *lun = watch_lun(w, entry);

		if (lun && lun->sdev == sdev) {
			snprintf(name, size, "%u:%u:%u:%llu", lun->host, lun->channel, lun->id,
				 lun->lun);
			return true;
		}
	}
	return false;
}
