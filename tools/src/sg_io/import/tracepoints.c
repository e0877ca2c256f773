// SPDX-License-Identifier: GPL-2.0
/*
 * Text of the kernel's scsi tracepoints: printed by trace-cmd report or perf script, or read from
 * the file trace of tracefs.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "import.h"
#include "util.h"

#define EVENT	"scsi_dispatch_cmd_"

/* The value of " KEY=", up to the next blank; false after a message. */
static bool value(const struct import *im, const char *text, const char *key, char *out,
		  size_t size)
{
	size_t len = strlen(key), n;
	const char *at = text;

	while ((at = strstr(at, key)) && (at[-1] != ' ' || at[len] != '='))
		at += len;
	if (!at)
		return import_fail(im, MAX_FIELDS, key, "missing");
	at += len + 1;
	n = strcspn(at, " \t)");
	if (n >= size)
		return import_fail(im, MAX_FIELDS, key, "'%.40s' is too long", at);
	memcpy(out, at, n);
	out[n] = '\0';
	return true;
}

static bool read_number(const struct import *im, const char *text, const char *key, __u64 *out)
{
	char word[32];

	if (!value(im, text, key, word, sizeof(word)))
		return false;
	return !num_parse(word, 0, ~0ULL, out) ||
	       import_fail(im, MAX_FIELDS, key, "'%s' is no number", word);
}

/* The CPU and the time, in front of the event: "fio-202   [001] .....   104.464052: ". */
static bool head(const struct import *im, char *text, const char *event, struct trace_event *e)
{
	char *end = text + (event - text), *at, *cpu;
	__u64 n;

	if (end - text >= 5 && !memcmp(end - 5, "scsi:", 5))
		end -= 5;
	while (end > text && isspace((unsigned char)end[-1]))
		end--;
	if (end == text || end[-1] != ':')
		return import_fail(im, MAX_FIELDS, "time", "no 'SECONDS:' before " EVENT);
	*--end = '\0';
	for (at = end; at > text && !isspace((unsigned char)at[-1]);)
		at--;
	if (num_parse_decimal(at, S, &e->ns))
		return import_fail(im, MAX_FIELDS, "time", "'%.40s' is no time", at);
	cpu = strrchr(text, '[');
	if (!cpu || !isdigit((unsigned char)cpu[1]))
		return import_fail(im, MAX_FIELDS, "CPU", "no [CPU] before the time");
	n = strtoul(cpu + 1, &at, 10);
	if (*at != ']' || n >= NO_CPU)
		return import_fail(im, MAX_FIELDS, "CPU", "'%.10s' is no CPU", cpu);
	e->cpu = n;
	return true;
}

static bool cdb(const struct import *im, const char *text, struct trace_event *e)
{
	const char *at = strstr(text, " raw=");
	unsigned int byte;

	if (!at)
		return import_fail(im, MAX_FIELDS, "cmnd", strstr(text, "[FAILED TO PARSE]") ?
				   "this perf cannot print the CDB; trace-cmd and the file trace "
				   "of tracefs have it" : "no 'raw=' with the bytes of the CDB");
	for (at += 5; *at && *at != ')'; at += strspn(at, " ")) {
		if (!isxdigit((unsigned char)at[0]) || !isxdigit((unsigned char)at[1]) ||
		    sscanf(at, "%2x", &byte) != 1)
			return import_fail(im, MAX_FIELDS, "cmnd", "'%.2s' is no byte in hex", at);
		/* As in a recording, a longer CDB has the length 0. */
		if (e->cdb_len < CDB_MAX)
			e->cdb[e->cdb_len++] = byte;
		else
			return import_fail(im, MAX_FIELDS, "cmnd", "more than %d bytes", CDB_MAX);
		at += 2;
	}
	return *at || import_fail(im, MAX_FIELDS, "cmnd", "the line ends within the CDB");
}

/* "12:0:3:0" */
static bool device(struct import *im, const char *text, struct trace_event *e)
{
	__u64 host, channel, id, lun;
	char name[64];
	int dev;

	if (!read_number(im, text, "host_no", &host) ||
	    !read_number(im, text, "channel", &channel) ||
	    !read_number(im, text, "id", &id) || !read_number(im, text, "lun", &lun))
		return false;
	snprintf(name, sizeof(name), "%llu:%llu:%llu:%llu", host, channel, id, lun);
	dev = import_device(im, name);
	e->dev = dev;
	return dev >= 0;
}

static bool outcome(const struct import *im, const char *text, struct trace_event *e)
{
	char host[32], status[48];

	if (!value(im, text, "status", status, sizeof(status)))
		return false;
	/* The first in a parenthesis has no blank before it. */
	if (!value(im, text, "host", host, sizeof(host)))
		return false;
	e->result = (strcmp(status, "0x0") && strcmp(status, "SAM_STAT_GOOD")) ||
		    (strcmp(host, "0x0") && strcmp(host, "DID_OK"));
	return true;
}

static bool tracepoints_line(struct import *im, char *text)
{
	static const struct {
		const char *name;
		enum trace_kind kind;
	} kinds[] = {
		{ "start:", TRACE_START }, { "error:", TRACE_REFUSED }, { "done:", TRACE_DONE },
		{ "timeout:", TRACE_DONE },
	};
	char *event = strstr(text, EVENT);
	struct trace_event e = {};
	__u64 tag, data, prot;
	unsigned int i;

	if (strstr(text, "EVENTS DROPPED") || (strstr(text, "[LOST ") && strstr(text, "EVENTS]"))) {
		im->lost = true;
		return true;
	}
	if (!event) {
		/* Comments and empty lines, trace-cmd's head, and other events. */
		if (*text == '#' || !strncmp(text, "cpus=", 5) || !text[strspn(text, " \t")] ||
		    (!strncmp(text, "CPU ", 4) && strstr(text, " is empty")) ||
		    (strchr(text, '[') && strstr(text, ": ")))
			return true;
		return import_fail(im, MAX_FIELDS, "event", "'%.40s' is no line of a trace", text);
	}
	for (i = 0; i < 4; i++)
		if (!strncmp(event + strlen(EVENT), kinds[i].name, strlen(kinds[i].name)))
			break;
	if (i == 4)
		return import_fail(im, MAX_FIELDS, "event", "'%.40s' is not start, error, done or "
				   "timeout", event);
	e.kind = kinds[i].kind;
	if (!head(im, text, event, &e) || !device(im, event, &e) ||
	    !read_number(im, event, "driver_tag", &tag) || !cdb(im, event, &e))
		return false;
	if (!read_number(im, event, "data_sgl", &data) ||
	    !read_number(im, event, "prot_sgl", &prot))
		return false;
	e.tag = tag;
	e.has_data = data;
	e.protected = prot;
	if (e.kind == TRACE_DONE && !outcome(im, event, &e))
		return false;
	return import_event(im, &e);
}

const struct importer import_tracepoints = {
	"tracepoints", "text of the scsi tracepoints: trace-cmd report, perf script, tracefs",
	tracepoints_line,
};
