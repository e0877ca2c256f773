// SPDX-License-Identifier: GPL-2.0
/*
 * Prints how sg_io record evaluates trace events. Standard input has an event per line,
 * "start|refused|done NS TAG CPU DATA PROTECTED RESULT HEX-CDB", or "sort NS", which sorts the
 * events older than NS.
 */
#include <err.h>
#include <stdlib.h>
#include <string.h>

#include "replay/recording/recording.h"

static void put_event(struct recording *r, const char *line, __u32 order)
{
	struct trace_event e = { .order = order };
	char kind[16], hex[2 * CDB_MAX + 1];
	unsigned int cpu, data, prot;
	__u64 ns;

	if (sscanf(line, "sort %llu", &ns) == 1) {
		recording_sort(r, ns);
		return;
	}
	if (sscanf(line, "%15s %llu %d %u %u %u %d %64s", kind, &e.ns, &e.tag, &cpu, &data, &prot,
		   &e.result, hex) != 8)
		errx(2, "not an event: %s", line);
	e.cpu = cpu;
	e.has_data = data;
	e.protected = prot;
	e.kind = !strcmp(kind, "start") ? TRACE_START :
		 !strcmp(kind, "done") ? TRACE_DONE : TRACE_REFUSED;
	for (e.cdb_len = 0; hex[2 * e.cdb_len]; e.cdb_len++)
		if (sscanf(hex + 2 * e.cdb_len, "%2hhx", &e.cdb[e.cdb_len]) != 1)
			errx(2, "no CDB: %s", hex);
	if (!recording_take(&e, r))
		errx(3, "not taken");
}

int main(int argc, char **argv)
{
	static struct writing w;
	static struct recorded_device dev = { .name = "d" };
	static struct recording r;
	char line[256];
	__u32 order = 0;

	r.limit = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000;
	dev.block_size = argc > 2 ? atoi(argv[2]) : 512;
	w.devs = &dev;
	w.nr_devs = 1;
	while (fgets(line, sizeof(line), stdin))
		put_event(&r, line, order++);
	recording_sort(&r, ~0ULL);
	w.out = stdout;
	recording_write(&r, &w);
	printf("written %llu left out %llu most %u cpus %u ends %llu not good %llu full %d\n",
	       w.nr_written, w.nr_left_out, r.most_in_flight, recording_cpus(&r), r.latency.count,
	       r.not_good, r.full);
	recording_free(&r);
	return 0;
}
