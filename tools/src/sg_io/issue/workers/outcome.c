// SPDX-License-Identifier: GPL-2.0
#include <libsmq.h>
#include <scsi/sg_lib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "issue/cmdfile/cmdfile.h"
#include "outcome.h"
#include "util.h"

#define STATUS_MASK	0x7e
#define DRIVER_MASK	0x0f	/* old kernels have suggestions in the upper bits */
#define DRIVER_SENSE	0x08	/* only says that there is sense data */

static bool is_underrun(const struct command *cmd, const struct outcome *out)
{
	const struct cdb_op *op;

	if (out->resid <= 0)
		return false;
	/* A short INQUIRY is normal, but a READ or WRITE should move all of its blocks. */
	op = cdb_find(cdb_of(cmd), cmd->cdb_len);
	return op && cdb_block_size(op, cdb_of(cmd), cmd->bytes);
}

bool outcome_classify(const struct command *cmd, const struct outcome *out,
		      struct outcome_class *what)
{
	struct sg_scsi_sense_hdr sense;

	*what = (struct outcome_class){ .error = out->error };
	if (out->error)
		return false;
	what->status = out->status & STATUS_MASK;
	what->host = out->host;
	what->driver = out->driver & DRIVER_MASK & ~DRIVER_SENSE;
	if (what->status == SAM_STAT_CONDITION_MET)
		what->status = SAM_STAT_GOOD;
	if (!what->status && !what->host && !what->driver) {
		what->underrun = is_underrun(cmd, out);
		return !what->underrun;
	}
	if (sg_scsi_normalize_sense(out->sense, out->sense_len, &sense)) {
		what->has_sense = true;
		what->key = sense.sense_key;
		what->asc = sense.asc;
		what->ascq = sense.ascq;
	}
	return false;
}

static bool status_is(const struct outcome_class *what, unsigned int status)
{
	return what->status == status && !what->host && !what->driver;
}

static enum mismatch find_mismatch(const struct command *cmd, const struct outcome *out,
				   const struct expect *e, const __u8 *in,
				   struct outcome_class *what)
{
	const __u8 *data = e->data;
	__u32 bytes;

	if (what->error || (e->status == EXPECT_GOOD && !status_is(what, SAM_STAT_GOOD)) ||
	    (e->status == EXPECT_CHECK && !status_is(what, SAM_STAT_CHECK_CONDITION)))
		return MISMATCH_STATUS;
	if (e->has_sense && (!what->has_sense || what->key != e->key || what->asc != e->asc ||
			     what->ascq != e->ascq))
		return MISMATCH_STATUS;
	what->resid = out->resid;
	if (e->has_resid && (__u64)out->resid != e->resid)
		return MISMATCH_RESID;
	if (!status_is(what, SAM_STAT_GOOD))
		return MISMATCH_NONE;
	if (!e->has_resid && e->status == EXPECT_GOOD &&
	    (what->underrun || (data && out->resid)))
		return MISMATCH_RESID;
	if (!data || out->resid < 0)
		return MISMATCH_NONE;
	bytes = cmd->bytes - out->resid;
	if (!memcmp(in, data, bytes))
		return MISMATCH_NONE;
	for (what->offset = 0; in[what->offset] == data[what->offset]; what->offset++)
		;
	what->found = in[what->offset];
	what->wanted = data[what->offset];
	return MISMATCH_DATA;
}

bool outcome_judge(const struct command *cmd, const struct outcome *out,
		   const struct expect *expect, const void *in, struct outcome_class *what)
{
	bool good = outcome_classify(cmd, out, what);

	if (!expect || !expect->status)
		return good;
	what->mismatch = find_mismatch(cmd, out, expect, in, what);
	if (what->mismatch == MISMATCH_NONE)
		return true;
	what->underrun = false;
	what->expect = expect;
	return false;
}

static bool same_class(const struct outcome_class *a, const struct outcome_class *b)
{
	return a->error == b->error && a->status == b->status && a->host == b->host &&
	       a->driver == b->driver && a->has_sense == b->has_sense &&
	       a->key == b->key && a->asc == b->asc && a->ascq == b->ascq &&
	       a->underrun == b->underrun && a->device == b->device &&
	       a->mismatch == b->mismatch && a->expect == b->expect;
}

static void add_entry(struct tally *t, const struct tally_entry *add)
{
	struct tally_entry *e;
	unsigned int i;

	for (i = 0; i < t->nr; i++) {
		e = &t->entries[i];
		if (!same_class(&e->what, &add->what))
			continue;
		e->count += add->count;
		if (add->first < e->first) {
			e->first = add->first;
			e->line = add->line;
		}
		return;
	}
	if (t->nr < t->room)
		t->entries[t->nr++] = *add;
	else
		t->is_short = true;
}

void tally_add(struct tally *t, const struct command *cmd, bool good,
	       const struct outcome_class *what, __u64 sequence)
{
	if (good) {
		t->good++;
		return;
	}
	t->bad++;
	add_entry(t, &(struct tally_entry){
		.what = *what, .count = 1, .first = sequence, .line = cmd->line,
	});
}

void tally_merge(struct tally *into, const struct tally *from)
{
	unsigned int i;

	into->good += from->good;
	into->bad += from->bad;
	into->is_short |= from->is_short;
	for (i = 0; i < from->nr; i++)
		add_entry(into, &from->entries[i]);
}

static int by_first(const void *a, const void *b)
{
	const struct tally_entry *x = a, *y = b;

	if (x->first != y->first)
		return x->first < y->first ? -1 : 1;
	return (x->what.device > y->what.device) - (x->what.device < y->what.device);
}

void tally_sort(struct tally *t)
{
	if (t->nr)
		qsort(t->entries, t->nr, sizeof(*t->entries), by_first);
}

static const char *driver_name(unsigned int driver)
{
	static const char * const names[] = {
		"DRIVER_OK", "DRIVER_BUSY", "DRIVER_SOFT", "DRIVER_MEDIA",
		"DRIVER_ERROR", "DRIVER_INVALID", "DRIVER_TIMEOUT", "DRIVER_HARD",
	};

	return driver < ARRAY_SIZE(names) ? names[driver] : NULL;
}

/* Writes the name of a code, or @prefix and its number if it has no name. */
static void put_code(const char *name, const char *prefix, unsigned int code,
		     char *buf, size_t size)
{
	if (name)
		snprintf(buf, size, "%s", name);
	else
		snprintf(buf, size, "%s%#x", prefix, code);
}

void outcome_name(const struct outcome_class *what, char *buf, size_t size)
{
	if (what->error)
		put_code(strerrorname_np(what->error), "errno ", what->error, buf, size);
	else if (what->expect)
		snprintf(buf, size, "MISMATCH");
	else if (what->underrun)
		snprintf(buf, size, "UNDERRUN");
	else if (what->status)
		smq_status_name(what->status, buf, size);
	else if (what->host)
		smq_host_name(what->host, buf, size);
	else
		put_code(driver_name(what->driver), "driver ", what->driver, buf, size);
}

/* What was expected, and what came: "expected GOOD, got BUSY". */
static void describe_mismatch(const struct outcome_class *what, char *buf, size_t size)
{
	struct outcome_class plain = *what;
	char text[512];
	int n;

	expect_describe(what->expect, text, sizeof(text));
	n = snprintf(buf, size, "expected %s, got ", text);
	buf += n;
	size -= n;
	switch (what->mismatch) {
	case MISMATCH_RESID:
		snprintf(buf, size, "residual %d", what->resid);
		break;
	case MISMATCH_DATA:
		snprintf(buf, size, "data whose byte %u is %02Xh, not %02Xh", what->offset,
			 what->found, what->wanted);
		break;
	default:
		plain.expect = NULL;
		outcome_describe(&plain, buf, size);
		break;
	}
}

void outcome_describe(const struct outcome_class *what, char *buf, size_t size)
{
	char status[64], host[64], driver[64], sense[384];
	int n;

	if (what->expect) {
		describe_mismatch(what, buf, size);
		return;
	}
	if (what->error) {
		outcome_name(what, status, sizeof(status));
		snprintf(buf, size, "%s: %s", status, strerror(what->error));
		return;
	}
	if (what->underrun) {
		snprintf(buf, size,
			 "GOOD status, but fewer bytes were moved than the CDB asks for");
		return;
	}
	smq_status_name(what->status, status, sizeof(status));
	smq_host_name(what->host, host, sizeof(host));
	put_code(driver_name(what->driver), "driver ", what->driver, driver, sizeof(driver));
	/* A status of 0 beside another byte says nothing: the device has often sent none. */
	n = what->status ? snprintf(buf, size, "%s", status) : 0;
	if (what->host)
		n += snprintf(buf + n, size - n, "%s%s", n ? ", " : "", host);
	if (what->driver)
		n += snprintf(buf + n, size - n, "%s%s", n ? ", " : "", driver);
	if (!n)
		n = snprintf(buf, size, "%s", status);
	if (!what->has_sense)
		return;
	smq_sense_text(what->key, what->asc, what->ascq, sense, sizeof(sense));
	snprintf(buf + n, size - n, ": %s", sense);
}
