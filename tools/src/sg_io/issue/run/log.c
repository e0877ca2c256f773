// SPDX-License-Identifier: GPL-2.0
/* The log of all commands, as CSV. */
#include <err.h>
#include <stdlib.h>

#include "commands.h"
#include "run.h"

#define NAME_BYTES	64
#define AT_A_TIME	1024	/* entries of a worker that one call writes */

FILE *log_open(const char *name)
{
	FILE *log = fopen(name, "we");

	if (!log)
		warn("%s", name);
	else
		fputs("issued_us,took_us,device,line,command,result,sense,residual\n", log);
	return log;
}

static void write_entry(FILE *log, const struct run *run, const struct run_options *opt,
			const struct log_entry *e)
{
	char name[NAME_BYTES], result[NAME_BYTES] = "GOOD", sense[16] = "";
	const struct outcome_class *what = &e->what;
	__u64 issued;

	report_name(e->cmd, name, sizeof(name));
	if (!e->good)
		outcome_name(what, result, sizeof(result));
	if (what->has_sense)
		snprintf(sense, sizeof(sense), "%x/%02x/%02x", what->key, what->asc, what->ascq);
	/* printf() is several times slower with doubles. */
	issued = e->issued_ns - run_begin(run);
	fprintf(log, "%llu.%03llu,%llu.%03llu,%s,%u,%s,%s,%s,%d\n", issued / 1000, issued % 1000,
		e->ns / 1000, e->ns % 1000, opt->devs[what->device], e->cmd->line, name, result,
		sense, e->resid);
}

bool log_write(FILE *log, const struct run *run, const struct run_options *opt,
	       struct worker *workers, unsigned int nr)
{
	unsigned int i, n;
	struct log_entry entry;
	bool more = false;

	for (i = 0; i < nr; i++) {
		for (n = 0; n < AT_A_TIME && log_ring_take(&workers[i].log, &entry); n++)
			write_entry(log, run, opt, &entry);
		more |= n == AT_A_TIME;
	}
	return more;
}

int log_close(FILE *log, const char *name)
{
	int failed = ferror(log);

	if (!fclose(log) && !failed)
		return 0;
	warn("%s", name);
	return EXIT_DEVICE;
}
