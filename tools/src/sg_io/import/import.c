// SPDX-License-Identifier: GPL-2.0
/* sg_io import: a command file from what another tool recorded. */
#include <argp.h>
#include <err.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "import.h"
#include "inputs.h"
#include "util.h"
#include "run/run.h"

static const struct importer * const importers[] = {
	&import_blkparse, &import_fio, &import_hfplayer, &import_msr, &import_snia,
	&import_tracepoints,
};

struct import_options {
	const struct importer *from;
	const char *file;
	struct writing_options to;
	const char *only;
	__u32 block_size;
};

enum {
	OPT_FROM = 256, OPT_ONLY, OPT_BLOCK_SIZE,
};

static void list_formats(void)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(importers); i++)
		printf("%-12s %s\n", importers[i]->name, importers[i]->what);
}

static const struct importer *find(struct argp_state *state, const char *name)
{
	unsigned int i;

	if (!strcmp(name, "help")) {
		list_formats();
		exit(finish_output(EXIT_GOOD));
	}
	for (i = 0; i < ARRAY_SIZE(importers); i++)
		if (!strcmp(name, importers[i]->name))
			return importers[i];
	argp_error(state, "--from: '%s' is not known; --from help lists the formats", name);
	return NULL;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct import_options *o = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &o->to;
		return 0;
	case OPT_FROM:
		o->from = find(state, arg);
		return 0;
	case OPT_ONLY:
		o->only = arg;
		return 0;
	case OPT_BLOCK_SIZE:
		o->block_size = option_number(state, "--block-size", arg, 1, 1 << 20);
		return 0;
	case ARGP_KEY_ARG:
		if (o->file)
			argp_error(state, "'%s': one file at a time", arg);
		o->file = arg;
		return 0;
	case ARGP_KEY_END:
		if (!o->from)
			argp_error(state, "--from FORMAT is needed; --from help lists the formats");
		if (!o->file)
			argp_error(state, "FILE is missing");
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static bool read_lines(struct import *im, FILE *in, const struct importer *from)
{
	char *text = NULL;
	size_t room = 0;
	ssize_t len;
	bool good = true;

	while (good && (len = getline(&text, &room, in)) >= 0) {
		im->line++;
		while (len && strchr("\r\n", text[len - 1]))
			text[--len] = '\0';
		if (strlen(text) != (size_t)len)
			good = import_fail(im, MAX_FIELDS, "line", "holds a NUL byte");
		else
			good = from->line(im, text);
	}
	free(text);
	if (good && ferror(in)) {
		warn("%s", im->file);
		good = false;
	}
	return good;
}

static void print_text(FILE *out, const struct import *im,
		       const struct writing *w)
{
	unsigned int i;

	fprintf(out, "%s: %llu commands in %.3f s", im->file, w->nr_written,
		recording_seconds(im->r));
	/* Without ends it is not known how many were in flight. */
	if (im->r->latency.count)
		fprintf(out, ", at most %u in flight", im->r->most_in_flight);
	fputc('\n', out);
	if (w->nr_written) {
		fputs("  ", out);
		opcodes_print(&w->written, out);
		fputc('\n', out);
	}
	for (i = 0; i < im->nr_devs; i++)
		fprintf(out, "  %s: %llu\n", im->devs[i].name, recording_count(im->r, i));
	if (w->nr_left_out)
		fprintf(out, "left out: %llu, in comments of the file with the reason\n",
			w->nr_left_out);
	if (im->skipped)
		fprintf(out, "left out: %llu lines of commands without blocks\n", im->skipped);
}

static void print_json(const struct import_options *o, const struct import *im,
		       const struct writing *w)
{
	struct json_object *all = json_object_new_object(), *devs = json_object_new_object();
	unsigned int i;

	json_object_object_add(all, "file", json_object_new_string(o->to.output));
	json_object_object_add(all, "commands", json_object_new_uint64(w->nr_written));
	report_real(all, "seconds", recording_seconds(im->r));
	json_object_object_add(all, "most_in_flight", im->r->latency.count ?
			       json_object_new_uint64(im->r->most_in_flight) : NULL);
	json_object_object_add(all, "opcodes", opcodes_json(&w->written));
	json_object_object_add(all, "lat_ns", report_percentiles(&im->r->latency));
	for (i = 0; i < im->nr_devs; i++)
		json_object_object_add(devs, im->devs[i].name,
				       json_object_new_uint64(recording_count(im->r, i)));
	json_object_object_add(all, "devices", devs);
	json_object_object_add(all, "left_out",
			       json_object_new_uint64(w->nr_left_out + im->skipped));
	json_object_object_add(all, "lost", json_object_new_boolean(im->lost));
	report_print(all);
}

static int write_file(const struct import_options *o, const struct import *im)
{
	struct writing *w = calloc(1, sizeof(*w));
	FILE *out = o->to.output ? fopen(o->to.output, "we") : stdout;
	int status = EXIT_GOOD;

	if (!w || !out) {
		warn("%s", o->to.output ?: "standard output");
		free(w);
		return EXIT_DEVICE;
	}
	*w = (struct writing){
		.out = out, .devs = im->devs, .nr_devs = o->only ? 1 : im->nr_devs,
		.pattern = o->to.pattern,
	};
	fprintf(out, "# sg_io import --from %s %s\n", o->from->name, im->file);
	recording_write(im->r, w);
	if (ferror(out) || fflush(out) || (o->to.output && fclose(out))) {
		warn("%s", o->to.output ?: "standard output");
		free(w);
		return EXIT_DEVICE;
	}
	if (o->to.json)
		print_json(o, im, w);
	else
		print_text(o->to.output ? stdout : stderr, im, w);
	if (im->lost)
		warnx("%s: the tool that made it lost events: commands are missing", im->file);
	if (w->nr_left_out || im->skipped || im->lost)
		status = EXIT_NOT_GOOD;
	free(w);
	return finish_output(status);
}

/* A line that cannot be imported leaves an existing output file as it is. */
static int import(const struct import_options *o, FILE *in, const char *name)
{
	struct recording *r = calloc(1, sizeof(*r));
	struct import im = {
		.file = name, .r = r, .block_size = o->block_size, .only = o->only,
	};
	int status = EXIT_USAGE;

	if (!r)
		err(EXIT_DEVICE, "no memory");
	r->limit = MAX_COMMANDS;
	if (!read_lines(&im, in, o->from))
		goto out;
	recording_sort(r, ~0ULL);
	if (r->no_memory)
		warnx("%s: no memory", name);
	else if (r->nr - r->refused == r->limit && r->nr_events)
		warnx("%s: more than %u commands", name, MAX_COMMANDS);
	else if (r->nr == r->refused)
		warnx("%s: has no command%s%s", name, o->only ? " of " : "", o->only ?: "");
	else
		status = write_file(o, &im);
out:
	while (im.nr_devs)
		free((char *)im.devs[--im.nr_devs].name);
	recording_free(r);
	free(r);
	return status;
}

int cmd_import(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "from", OPT_FROM, "FORMAT", 0,
		  "What FILE is: blkparse, fio, hfplayer, msr, snia or tracepoints; --from help says "
		  "more", 1 },
		{ "only", OPT_ONLY, "NAME", 0, "Only the commands of this device of FILE", 1 },
		{ "block-size", OPT_BLOCK_SIZE, "BYTES", 0,
		  "The size of the blocks of the commands (512); offsets and sizes that are no "
		  "multiple of it are errors", 1 },
		{ 0 }
	};
	static const struct argp_child children[] = { { &writing_argp, 0, NULL, 0 }, { 0 } };
	static const struct argp argp = {
		.children = children, .options = options, .parser = parse, .args_doc = "FILE",
		.doc =
		"Write a command file from what another tool recorded in FILE ('-': standard\n"
		"input).\v"
		"Each read, write, flush or discard becomes a line with at=, the time since the\n"
		"first one. If FILE has them, the line has the CPU (cpu=), and how long the\n"
		"command took (took=). A file of several devices has dev= in each line. A\n"
		"discard becomes a WRITE SAME(16) with the UNMAP bit, a flush a SYNCHRONIZE\n"
		"CACHE. The lines are in the order of time.\n"
		"\n"
		"A line of FILE that cannot be read ends the import with a message that names\n"
		"the line and the field, and nothing is written. The exit status is 1 if\n"
		"commands were left out: those of programs in a trace of blktrace, those whose\n"
		"kind is blank in a SNIA trace, those that a command file cannot have.\n"
		"\n"
		"Example, with what 'blkparse -q -i sda' has printed:\n"
		"  sg_io import --from blkparse --output load.cdb sda.txt\n",
	};
	struct import_options o = { .block_size = 512 };
	FILE *in = stdin;
	bool is_stdin;
	int status;

	argp_parse(&argp, argc, argv, 0, NULL, &o);
	is_stdin = !strcmp(o.file, "-");
	if (!is_stdin)
		in = fopen(o.file, "re");
	if (!in) {
		warn("%s", o.file);
		return EXIT_USAGE;
	}
	input_note_fd(fileno(in));
	if (!output_check("--output", o.to.output))
		return EXIT_USAGE;
	status = import(&o, in, is_stdin ? "standard input" : o.file);
	if (!is_stdin)
		fclose(in);
	return status;
}
