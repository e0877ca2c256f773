// SPDX-License-Identifier: GPL-2.0
/*
 * Calls functions of libsmq that need no device. Each line of standard input is one call:
 *	cdb OPCODE LBA BLOCKS		-> HEX, or an errno
 *	slot RESULT RESID KEY ASC ASCQ SENSE-LEN -> GOOD|BAD RESID TEXT
 *	timed RESULT RESID KEY ASC ASCQ	-> GOOD|BAD RESID TEXT
 *	command RESULT MORE HEX-SENSE	-> GOOD|BAD RESID TEXT
 *	error CALL ERRNO		-> TEXT
 *	field NUMBER			-> NAME, or - for none
 *	open NODE			-> errno
 */
#include <libsmq.h>
#include <stdio.h>
#include <string.h>

#include "../../tools/libsmq/device.h"

static void show(const struct smq_outcome *o)
{
	char text[512], cut[8];

	smq_outcome_text(o, text, sizeof(text));
	smq_outcome_text(o, cut, sizeof(cut));
	if (strncmp(text, cut, sizeof(cut) - 1))
		printf("(cut off differently) ");
	printf("%s %u %s\n", smq_good(o) ? "GOOD" : "BAD", o->resid, text);
}

static void do_cdb(const char *line)
{
	unsigned int opcode, blocks;
	unsigned long long lba;
	__u8 cdb[16];
	int i, len;

	if (sscanf(line, "cdb %x %llu %u", &opcode, &lba, &blocks) != 3)
		return;
	memset(cdb, 0xee, sizeof(cdb));
	len = smq_cdb_blocks(cdb, opcode, lba, blocks);
	if (len < 0)
		printf("%d", len);
	for (i = 0; i < len; i++)
		printf("%02x", cdb[i]);
	/* Nothing beyond the length may be written. */
	for (i = len < 0 ? 0 : len; i < 16; i++)
		if (cdb[i] != 0xee)
			printf(" wrote byte %d", i);
	putchar('\n');
}

/* Makes the statuses of three slots, 64 bytes apart, as a kernel could. Shows slot 1. */
static void do_slot(const char *line)
{
	static unsigned char array[3 * 64] __attribute__((aligned(8)));
	struct smq_sg_status *s = (void *)(array + 64);
	struct smq_device dev = { .slots = 3, .status_stride = 64, .status = array };
	unsigned int key, asc, ascq, len;
	struct smq_outcome o;

	memset(array, 0xff, sizeof(array));
	if (sscanf(line, "slot %d %u %x %x %x %u", &s->result, &s->resid, &key, &asc, &ascq,
		   &len) != 6)
		return;
	s->sense_key = key;
	s->asc = asc;
	s->ascq = ascq;
	s->sense_len = len;
	smq_slot_outcome(&dev, 1, &o);
	if (o.sense && o.sense != s->sense)
		printf("(sense elsewhere) ");
	if (smq_status(&dev, 3))
		printf("(slot 3 of 3) ");
	show(&o);
}

static void do_timed(const char *line)
{
	struct smq_sg_timed_result r = { .reserved = ~0u };
	unsigned int key, asc, ascq;
	struct smq_outcome o;

	if (sscanf(line, "timed %d %u %x %x %x", &r.result, &r.resid, &key, &asc, &ascq) != 5)
		return;
	r.sense_key = key;
	r.asc = asc;
	r.ascq = ascq;
	smq_timed_outcome(&r, &o);
	if (o.sense_len || o.sense)
		printf("(with sense) ");
	show(&o);
}

static void do_command(const char *line)
{
	struct smq_sg_uring_cmd command = {};
	struct smq_event event = {};
	unsigned char sense[96] = {};
	unsigned long long more;
	struct smq_outcome o;
	unsigned int i, byte;
	char hex[200];

	if (sscanf(line, "command %d %llx %199s", &event.result, &more, hex) != 3)
		return;
	event.more = more;
	for (i = 0; i < 96 && sscanf(hex + 2 * i, "%2x", &byte) == 1; i++)
		sense[i] = byte;
	command.response = (uintptr_t)sense;
	smq_command_outcome(&event, &command, &o);
	show(&o);
}

int main(void)
{
	char line[512], node[256];
	struct smq_device *dev;
	unsigned int field;
	int call, error;

	while (fgets(line, sizeof(line), stdin)) {
		if (!strncmp(line, "cdb ", 4))
			do_cdb(line);
		else if (!strncmp(line, "slot ", 5))
			do_slot(line);
		else if (!strncmp(line, "timed ", 6))
			do_timed(line);
		else if (!strncmp(line, "command ", 8))
			do_command(line);
		else if (sscanf(line, "error %d %d", &call, &error) == 2)
			puts(smq_strerror(call, error));
		else if (sscanf(line, "field %u", &field) == 1)
			puts(smq_field_name(field) ?: "-");
		else if (sscanf(line, "open %255s", node) == 1)
			printf("%d\n", smq_open(node, &dev));
	}
	return 0;
}
