// SPDX-License-Identifier: GPL-2.0
/*
 * Measures passthrough requests from inside the kernel. The module smq_load issues them, and
 * executes the markers.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "devices.h"
#include "option.h"

#define DEBUGFS		"/sys/kernel/debug/smq_load/"
#define BLOCK		512
#define MAX_BYTES	4096
#define MAX_DEPTH	1024
#define MAX_CACHED	32	/* requests that a plug takes at a time */
#define MAX_SECONDS	3600	/* the longest run that the module accepts */
#define LINE		512

static struct {
	bool tur, cached;
	unsigned int bs, depth, batch;
	struct jobs_runs runs;
	struct devices devices;
} opt = { .bs = BLOCK, .depth = 32, .batch = 16, .runs = { .warmup = 1000, .seconds = 300,
	  .counts = { 2000, 6000 }, .nr_counts = 2 } };

static unsigned int requests(void)
{
	if (!opt.cached)
		return 1;
	return opt.batch < MAX_CACHED ? opt.batch : MAX_CACHED;
}

/* Does one run; returns 0 or a negative errno. */
static int run(unsigned long count)
{
	int fd = open(DEBUGFS "run", O_WRONLY), err = 0;
	unsigned int i;
	char *spec;
	size_t len;
	FILE *text;

	if (fd < 0)
		return -errno;
	text = open_memstream(&spec, &len);
	if (!text) {
		close(fd);
		return -ENOMEM;
	}
	fprintf(text, "op=%s bs=%u qd=%u batch=%u requests=%u count=%lu warmup=%u ",
		opt.tur ? "tur" : "read10", opt.bs, opt.depth, opt.batch, requests(), count,
		opt.runs.warmup);
	fprintf(text, "seconds=%u cpus=0 marked=1",
		opt.runs.seconds < MAX_SECONDS ? opt.runs.seconds : MAX_SECONDS);
	for (i = 0; i < opt.devices.nr; i++)
		fprintf(text, " dev=%s", opt.devices.names[i]);
	if (fclose(text))
		err = -ENOMEM;
	else if (write(fd, spec, len) < 0)
		err = -errno;
	free(spec);
	close(fd);
	return err;
}

/*
 * Reads the module's result, which is JSON: a line {"error": "...", "jobs": [ and then a line for
 * each job, here for one.
 */
static int result(unsigned long *count, unsigned long *ns)
{
	FILE *file = fopen(DEBUGFS "result", "r");
	char line[LINE];
	int err = -EPROTO;

	if (!file)
		return -errno;
	if (fgets(line, sizeof(line), file) && !strstr(line, "\"error\": \"\""))
		fprintf(stderr, "smq_load: %s", line);
	else if (fgets(line, sizeof(line), file) &&
		 sscanf(line, "{\"cpu\": %*u, \"commands\": %lu, \"ns\": %lu,", count, ns) == 2)
		err = 0;
	fclose(file);
	return err;
}

/*
 * The module measures whole batches, so @count, the number of commands that it measured, may be
 * more than were asked for.
 */
static void report(unsigned long count, unsigned long ns)
{
	printf("{\"loop\": \"inkernel\", ");
	devices_print(&opt.devices);
	printf(", \"jobs\": 1, \"command\": \"%s\", \"bs\": %u, \"depth\": %u, \"batch\": %u, ",
	       opt.tur ? "TUR" : "READ(10)", opt.tur ? 0 : opt.bs, opt.depth, opt.batch);
	printf("\"requests\": %u, \"warmup\": %u, \"count\": %lu, \"ns\": %lu}\n", requests(),
	       opt.runs.warmup, count, ns);
}

static const char help[] =
"usage: inkernel [options] DISK...\n"
"The module smq_load, which must be loaded, issues passthrough requests from inside the kernel,\n"
"on CPU 0, with markers for a counting plugin around each run.\n"
"  --tur            TEST UNIT READY instead of READ(10)\n"
"  --bs BYTES       size of a READ(10) (512)\n"
"  --depth N        commands in flight (32)\n"
"  --batch N        commands submitted under one plug (16)\n"
"  --cached         the plug allocates the requests of a batch together, as io_uring's plug\n"
"                   does; without --cached one by one, as a module's plug does\n"
"  --count N[,N]    commands of each measured run, at least 250; a run has a few more, to fill\n"
"                   its last batches (2000,6000)\n"
"  --warmup N       commands before each run (1000)\n"
"  --timeout S      give up after S seconds, at most 3600 (300)\n"
"Prints a line of JSON for each run.\n";

static const struct option_spec options[] = {
	OPTION_FLAG("tur", opt.tur),
	OPTION_BYTES("bs", opt.bs, BLOCK, MAX_BYTES),
	OPTION_NUMBER("depth", opt.depth, 1, MAX_DEPTH),
	OPTION_NUMBER("batch", opt.batch, 1, MAX_DEPTH),
	OPTION_FLAG("cached", opt.cached),
	OPTION_COUNTS(opt.runs),
	OPTION_WARMUP(opt.runs),
	OPTION_TIMEOUT(opt.runs),
	{ }
};

static void parse(int argc, char **argv)
{
	option_parse(argc, argv, options, help);
	opt.devices = devices_parse(argc, argv);
}

int main(int argc, char **argv)
{
	unsigned long count, ns;
	size_t i;
	int err, why;

	parse(argc, argv);
	for (i = 0; i < opt.runs.nr_counts; i++) {
		err = run(opt.runs.counts[i]);
		/* If the run failed, result() prints the module's message, which says more. */
		why = err == -ENOENT ? 0 : result(&count, &ns);
		if (err || why) {
			fprintf(stderr, "%srun: %s\n", DEBUGFS, strerror(-(err ? err : why)));
			return 1;
		}
		report(count, ns);
	}
	return 0;
}
