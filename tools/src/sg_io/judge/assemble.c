// SPDX-License-Identifier: GPL-2.0
/*
 * sg_io assemble: for sg_io's own use, so --help does not list it. Writes the command file of sg_io
 * import, whose Python part, judge/importing.py, hands over the events of a trace.
 */
#include <err.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "issue/cmdfile/cmdfile.h"
#include "issue/cmdfile/pattern.h"
#include "issue/run/run.h"
#include "replay/recording/recording.h"
#include "util.h"

#define WSAME_UNMAP	0x08	/* in byte 1 of WRITE SAME */
#define RW_FUA		0x08	/* in byte 1 of READ and WRITE */
#define SORT_EVENTS	4096

enum import_op {
	IMPORT_READ,
	IMPORT_WRITE,
	IMPORT_FLUSH,
	IMPORT_DISCARD,
	IMPORT_ZEROES,
	IMPORT_CDB,		/* @cdb has it */
	IMPORT_FUA = 8,		/* with IMPORT_READ or IMPORT_WRITE */
};

enum import_flag {
	HAS_DATA = 1 << 0,
	PROTECTED = 1 << 1,
	FAILED = 1 << 2,
};

/* An event, in the byte order of this machine. They come in the order of their times. */
struct import_event {
	__u64 ns;
	__u64 lba;
	__u32 blocks;
	__s32 tag;
	__u16 cpu;
	__u8 kind;		/* enum trace_kind */
	__u8 op;		/* enum import_op */
	__u8 dev;
	__u8 flags;		/* with IMPORT_CDB */
	__u8 cdb_len;
	__u8 cdb[CDB_MAX];
	__u8 unused;
};

struct assembly {
	const char *from;
	const char *file;
	const char *output;		/* NULL: standard output */
	const char *pattern;		/* NULL: as writing.pattern */
	const char *only;		/* the device whose commands these are; NULL: all */
	__u32 block_size;
	bool json;
	bool lost;			/* the tool that made the trace lost events */
	char **left_out;		/* what the Python part left out: COUNT WHY... */
	unsigned int nr_left_out;
	struct recording *r;
	struct recorded_device devs[FILE_DEVICES];
	unsigned int nr_devs;
};

/* The CDB as short as it can be. UNMAP's does not have the blocks, but that of WRITE SAME has. */
static void build_cdb(const struct import_event *from, struct trace_event *e)
{
	static const char * const names[][2] = {
		[IMPORT_READ] = { "read10", "read16" },
		[IMPORT_WRITE] = { "write10", "write16" },
		[IMPORT_FLUSH] = { "sync10", "sync16" },
		[IMPORT_DISCARD] = { "writesame16", "writesame16" },
		[IMPORT_ZEROES] = { "writesame16", "writesame16" },
	};
	unsigned int op = from->op & ~IMPORT_FUA;
	const struct cdb_op *table = cdb_find_gen(names[op][0]);

	if (from->lba > cdb_max_lba(table) || from->blocks > cdb_max_blocks(table))
		table = cdb_find_gen(names[op][1]);
	cdb_build(table, from->lba, from->blocks, e->cdb);
	if (op == IMPORT_DISCARD)
		e->cdb[1] |= WSAME_UNMAP;
	if (from->op & IMPORT_FUA)
		e->cdb[1] |= RW_FUA;
	e->cdb_len = table->len;
	e->has_data = op != IMPORT_FLUSH && from->blocks;
}

static bool read_devices(struct assembly *a)
{
	char *name = NULL;
	size_t room = 0;
	bool good = scanf("%u", &a->nr_devs) == 1 && getchar() == '\n' &&
		a->nr_devs <= FILE_DEVICES;
	unsigned int i;

	for (i = 0; good && i < a->nr_devs; i++) {
		good = getdelim(&name, &room, '\0', stdin) > 0;
		a->devs[i] = (struct recorded_device){
			.name = name, .block_size = a->block_size,
		};
		name = NULL;
	}
	return good;
}

/* Return: false if there is no memory. */
static bool read_events(struct assembly *a)
{
	struct import_event from;
	struct trace_event e;
	unsigned int order = 0;

	while (fread_unlocked(&from, sizeof(from), 1, stdin) == 1) {
		e = (struct trace_event){
			.ns = from.ns, .order = order++, .tag = from.tag, .cpu = from.cpu,
			.kind = from.kind, .dev = from.dev,
		};
		if (from.op == IMPORT_CDB) {
			e.has_data = from.flags & HAS_DATA;
			e.protected = from.flags & PROTECTED;
			e.result = from.flags & FAILED;
			e.cdb_len = from.cdb_len;
			memcpy(e.cdb, from.cdb, CDB_MAX);
		} else {
			build_cdb(&from, &e);
		}
		if (!recording_take(&e, a->r))
			return false;
		/* Those of the latest time stay unsorted, which may be all. */
		if (a->r->nr_events >= SORT_EVENTS && a->r->events[0].ns < e.ns)
			recording_sort(a->r, e.ns);
		if (a->r->full)
			break;
	}
	recording_sort(a->r, ~0ULL);
	return !a->r->no_memory;
}

static __u64 count_left_out(const struct assembly *a)
{
	__u64 n = 0;
	unsigned int i;

	for (i = 0; i < a->nr_left_out; i += 2)
		n += strtoull(a->left_out[i], NULL, 10);
	return n;
}

static void print_text(FILE *out, const struct assembly *a, const struct writing *w)
{
	unsigned int i;

	fprintf(out, "%s: %llu commands in %.3f s", a->file, w->nr_written,
		recording_seconds(a->r));
	/* Without ends it is not known how many were in flight. */
	if (a->r->latency.count)
		fprintf(out, ", at most %u in flight", a->r->most_in_flight);
	fputc('\n', out);
	if (w->nr_written) {
		fputs("  ", out);
		opcodes_print(&w->written, out);
		fputc('\n', out);
	}
	for (i = 0; i < a->nr_devs; i++)
		fprintf(out, "  %s: %llu\n", a->devs[i].name, recording_count(a->r, i));
	if (w->nr_left_out)
		fprintf(out, "left out: %llu, in comments of the file with the reason\n",
			w->nr_left_out);
	for (i = 0; i < a->nr_left_out; i += 2)
		fprintf(out, "left out: %s %s\n", a->left_out[i], a->left_out[i + 1]);
}

static void print_json(const struct assembly *a, const struct writing *w)
{
	struct json_object *all = json_object_new_object(), *devs = json_object_new_object();
	struct json_object *why = json_object_new_object();
	unsigned int i;

	json_object_object_add(all, "file", json_object_new_string(a->output));
	json_object_object_add(all, "commands", json_object_new_uint64(w->nr_written));
	report_real(all, "seconds", recording_seconds(a->r));
	json_object_object_add(all, "most_in_flight", a->r->latency.count ?
			       json_object_new_uint64(a->r->most_in_flight) : NULL);
	json_object_object_add(all, "opcodes", opcodes_json(&w->written));
	json_object_object_add(all, "lat_ns", report_percentiles(&a->r->latency));
	for (i = 0; i < a->nr_devs; i++)
		json_object_object_add(devs, a->devs[i].name,
				       json_object_new_uint64(recording_count(a->r, i)));
	json_object_object_add(all, "devices", devs);
	json_object_object_add(all, "left_out",
			       json_object_new_uint64(w->nr_left_out + count_left_out(a)));
	for (i = 0; i < a->nr_left_out; i += 2)
		json_object_object_add(why, a->left_out[i + 1],
				       json_object_new_uint64(strtoull(a->left_out[i], NULL, 10)));
	json_object_object_add(all, "left_out_by_kind", why);
	json_object_object_add(all, "lost", json_object_new_boolean(a->lost));
	report_print(all);
}

static int write_file(const struct assembly *a)
{
	struct writing *w = calloc(1, sizeof(*w));
	FILE *out = a->output ? fopen(a->output, "we") : stdout;
	int status = EXIT_GOOD;

	if (!w || !out) {
		warn("%s", a->output ?: "standard output");
		free(w);
		return EXIT_DEVICE;
	}
	*w = (struct writing){
		.out = out, .devs = a->devs, .nr_devs = a->only ? 1 : a->nr_devs,
		.pattern = a->pattern,
	};
	fprintf(out, "# sg_io import --from %s %s\n", a->from, a->file);
	recording_write(a->r, w);
	if (ferror(out) || fflush(out) || (a->output && fclose(out))) {
		warn("%s", a->output ?: "standard output");
		free(w);
		return EXIT_DEVICE;
	}
	if (a->json)
		print_json(a, w);
	else
		print_text(a->output ? stdout : stderr, a, w);
	if (a->lost)
		warnx("%s: the tool that made it lost events: commands are missing", a->file);
	if (w->nr_left_out || a->nr_left_out || a->lost)
		status = EXIT_NOT_GOOD;
	free(w);
	return finish_output(status);
}

/* Prints what is wrong with a pattern, nothing if it is right. */
static int check_pattern(const char *name)
{
	struct pattern p;
	char why[256];

	if (!pattern_parse(name, &p, why, sizeof(why)))
		fputs(why, stdout);
	return finish_output(EXIT_GOOD);
}

/*
 * sg_io assemble pattern NAME
 * sg_io assemble commands FORMAT FILE OUTPUT PATTERN ONLY BLOCK-SIZE JSON LOST [COUNT WHY]...
 * An empty word is an option that was not given.
 */
int cmd_assemble(int argc, char **argv)
{
	struct assembly a = {};
	unsigned int i;
	int status = EXIT_USAGE;

	if (argc == 3 && !strcmp(argv[1], "pattern"))
		return check_pattern(argv[2]);
	if (argc < 10)
		return EXIT_USAGE;
	a.from = argv[2];
	a.file = argv[3];
	a.output = *argv[4] ? argv[4] : NULL;
	a.pattern = *argv[5] ? argv[5] : NULL;
	a.only = *argv[6] ? argv[6] : NULL;
	a.block_size = strtoul(argv[7], NULL, 10);
	a.json = *argv[8] == '1';
	a.lost = *argv[9] == '1';
	a.left_out = argv + 10;
	a.nr_left_out = argc - 10;
	a.r = calloc(1, sizeof(*a.r));
	if (!a.r)
		err(EXIT_DEVICE, "no memory");
	a.r->limit = MAX_COMMANDS;
	if (!read_devices(&a))
		return EXIT_USAGE;
	if (!read_events(&a))
		warnx("%s: no memory", a.file);
	else if (a.r->nr - a.r->refused == a.r->limit && a.r->nr_events)
		warnx("%s: more than %u commands", a.file, MAX_COMMANDS);
	else if (a.r->nr == a.r->refused)
		warnx("%s: has no command%s%s", a.file, a.only ? " of " : "", a.only ?: "");
	else
		status = write_file(&a);
	for (i = 0; i < a.nr_devs; i++)
		free((char *)a.devs[i].name);
	recording_free(a.r);
	free(a.r);
	return status;
}
