// SPDX-License-Identifier: GPL-2.0
/*
 * Reads lines "HEX-CDB DIR BYTES ERRNO STATUS HOST DRIVER RESID HEX-SENSE", counts them in two
 * tallies in turn, merges the tallies and prints the entries.
 */
#include <stdio.h>
#include <string.h>

#include "cmdfile/cmdfile.h"
#include "workers/outcome.h"

static unsigned int from_hex(const char *hex, __u8 *to, unsigned int max)
{
	unsigned int n = 0, byte;

	while (n < max && sscanf(hex + 2 * n, "%2x", &byte) == 1)
		to[n++] = byte;
	return n;
}

int main(void)
{
	char cdb[80], dir[8], sense[256], text[512];
	static struct tally_entry entries[2][200];
	struct tally tally[2] = {
		{ .entries = entries[0], .room = 200 }, { .entries = entries[1], .room = 200 },
	};
	struct command cmd = {};
	__u8 bytes[CDB_INLINE] = {};
	struct outcome_class what;
	struct outcome out = {};
	unsigned int status, host, driver, i;
	__u64 sequence = 0;
	bool good;

	while (scanf("%79s %7s %u %d %u %u %u %d %255s", cdb, dir, &cmd.bytes, &out.error,
		     &status, &host, &driver, &out.resid, sense) == 9) {
		cmd.cdb_len = from_hex(cdb, bytes, CDB_INLINE);
		memcpy(cmd.cdb, bytes, CDB_INLINE);
		cmd.dir = !strcmp(dir, "in") ? DIR_IN : !strcmp(dir, "out") ? DIR_OUT : DIR_NONE;
		cmd.line = sequence + 1;
		out.status = status;
		out.host = host;
		out.driver = driver;
		out.sense_len = strcmp(sense, "-") ? from_hex(sense, out.sense, SENSE_BYTES) : 0;
		good = outcome_judge(&cmd, &out, NULL, NULL, &what);
		tally_add(&tally[sequence % 2], &cmd, good, &what, sequence);
		sequence++;
	}
	tally_merge(&tally[0], &tally[1]);
	tally_sort(&tally[0]);
	printf("%llu %llu\n", tally[0].good, tally[0].bad);
	for (i = 0; i < tally[0].nr; i++) {
		outcome_name(&tally[0].entries[i].what, text, sizeof(text));
		printf("%llu|%u|%s|", tally[0].entries[i].count, tally[0].entries[i].line, text);
		outcome_describe(&tally[0].entries[i].what, text, sizeof(text));
		puts(text);
	}
	return 0;
}
