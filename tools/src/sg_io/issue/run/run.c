// SPDX-License-Identifier: GPL-2.0
/* sg_io run: issue the commands of a file. */
#include <err.h>
#include <errno.h>
#include <scsi/smq_sg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "commands.h"
#include "inputs.h"
#include "issue/cmdfile/dataset.h"
#include "issue/paths/paths.h"
#include "issue/workers/workers.h"
#include "run.h"
#include "signals.h"

#define MAX_WORKERS	4096

/*
 * Returns the number of workers. An asynchronous engine has a worker for each job, with --depth
 * requests for each target. A synchronous one has --depth workers for each job and target, each
 * with one request.
 */
static unsigned int count_workers(const struct run *run, const struct run_options *opt)
{
	if (run->nr_workers)
		return run->nr_workers;
	return run->engine->sync ? opt->jobs * opt->depth * run->nr_targets : opt->jobs;
}

static int check_size(const struct run *run, const struct run_options *opt)
{
	__u64 requests = opt->depth * (run->nr_workers ?: opt->jobs * run->nr_targets);
	__u64 need = dataset_bytes(run->file->data) +
		(run->memory ?: requests * worker_request_bytes(run));

	if (count_workers(run, opt) > MAX_WORKERS) {
		warnx("--jobs, --depth and the devices make %u threads, the limit is %d",
		      count_workers(run, opt), MAX_WORKERS);
		return -1;
	}
	/* A replay, and a run that checks the data, need slots for shapes of commands only. */
	if (run->engine == &engine_smq && !run->check && !run->any_target &&
	    run->file->nr + opt->depth >= SMQ_SG_MAX_SLOTS) {
		warnx("%s: %zu commands; --via %s needs a slot for each and --depth more, "
		      "the limit is %u",
		      run->file->name, run->file->nr, run->engine->name, SMQ_SG_MAX_SLOTS);
		return -1;
	}
	if (need > opt->memory) {
		warnx("data-in of %llu x %zu bytes and data-out make %llu MiB, --memory is %llu",
		      requests, worker_request_bytes(run), (need >> 20) + 1,
		      opt->memory >> 20);
		return -1;
	}
	return 0;
}

static void collect_worker(const struct run *run, const struct worker *w, struct result *r)
{
	__u64 first = run_counts_from(run);
	struct device_result *d;
	unsigned int t;
	double seconds;

	for (t = 0; t < w->nr_targets; t++) {
		d = &r->devices[w->targets - run->targets + t];
		hist_merge(&d->latency, &w->shares[t].latency);
		hist_merge(&r->latency, &w->shares[t].latency);
		seconds = w->shares[t].last_ns > first ? (w->shares[t].last_ns - first) / 1e9 : 0;
		d->seconds = seconds > d->seconds ? seconds : d->seconds;
	}
	slowest_merge(&r->slowest, &w->slowest);
	r->uncounted += w->uncounted;
	tally_merge(&r->tally, &w->tally);
}

static void collect(const struct run *run, const struct worker *workers, unsigned int nr,
		    struct result *r)
{
	__u64 first = run_counts_from(run), last = first;
	unsigned int i;

	for (i = 0; i < nr; i++)
		r->tally.room += workers[i].tally.nr;
	r->tally.entries = calloc(r->tally.room + 1, sizeof(*r->tally.entries));
	r->tally.room = r->tally.entries ? r->tally.room : 0;
	for (i = 0; i < nr; i++) {
		collect_worker(run, &workers[i], r);
		if (workers[i].last_ns > last)
			last = workers[i].last_ns;
	}
	r->start_ns = run_begin(run);
	r->seconds = (last - first) / 1e9;
	tally_sort(&r->tally);
	for (i = 0; i < r->tally.nr; i++)
		r->devices[r->tally.entries[i].what.device].bad += r->tally.entries[i].count;
}

static int conclude(const struct run *run, const struct result *r, bool stuck,
		    int (*report)(const struct run *run, const struct result *r))
{
	int fatal = atomic_load(&run->fatal);
	const struct device *dev = run->fatal_dev;
	int status = report(run, r);
	char state[DEVICE_STATE];

	if (fatal)
		warnx("%s: %s%s, the run ended early", dev ? dev->given : "device",
		      strerror(fatal), dev && *device_state(dev, state) ? state :
		      ": the device is gone");
	if (r->signal)
		return EXIT_SIGNAL + r->signal;
	if (fatal || stuck || run->lost)
		return EXIT_DEVICE;
	if (status)
		return status;
	return r->tally.bad ? EXIT_NOT_GOOD : EXIT_GOOD;
}

int run_execute(struct run *run, const struct run_options *opt,
		int (*report)(const struct run *run, const struct result *r))
{
	unsigned int nr = count_workers(run, opt);
	struct result *r = calloc(1, sizeof(*r));
	int status = EXIT_DEVICE;
	struct monitor_output out = { .opt = opt };
	struct worker *workers;
	bool stuck;

	if (check_size(run, opt)) {
		status = EXIT_USAGE;
		goto out;
	}
	if (r) {
		r->devices = calloc(run->nr_targets, sizeof(*r->devices));
		r->slowest.entries = calloc(opt->slowest + 1, sizeof(*r->slowest.entries));
		r->slowest.room = opt->slowest;
	}
	if (!r || !r->devices || !r->slowest.entries) {
		warnx("no memory");
		goto out;
	}
	run->slowest = opt->slowest;
	run->wake_fd = eventfd(0, EFD_CLOEXEC);
	if (run->wake_fd < 0) {
		warn("eventfd");
		goto out;
	}
	run->logs = opt->log;
	out.log = opt->log ? log_open(opt->log) : NULL;
	if (opt->log && !out.log)
		goto out_wake;
	/* Workers inherit the blocked signals, so that only the monitor gets them. */
	signals_block();
	workers = workers_start(run, nr);
	if (!workers)
		goto out_wake;
	if (opt->interval)
		out.intervals = intervals_new(run, opt, workers, nr);
	r->signal = monitor(run, &out, workers, nr, &stuck);
	if (!stuck)
		workers_join(run, workers, nr);
	while (out.log && log_write(out.log, run, opt, workers, nr))
		;

	r->path = run->engine->name;
	r->opt = opt;
	collect(run, workers, nr, r);
	/* The reader of the output may be slow or stuck: let a signal end the program. */
	signals_unblock();
	if (out.intervals)
		intervals_end(out.intervals);
	status = finish_output(conclude(run, r, stuck, report));
	if (out.log && log_close(out.log, opt->log) && status == EXIT_GOOD)
		status = EXIT_DEVICE;
	out.log = NULL;
	if (stuck)	/* The kernel may still write to the workers' memory. */
		_exit(status);
	workers_end(run, workers, nr);
out_wake:
	if (out.log)
		fclose(out.log);
	intervals_free(out.intervals);
	close(run->wake_fd);
out:
	if (r) {
		free(r->tally.entries);
		free(r->devices);
		free(r->slowest.entries);
	}
	free(r);
	return status;
}

static int print_result(const struct run *run, const struct result *r)
{
	(void)run;
	if (r->opt->json)
		report_json(r);
	else
		report_text(r);
	return 0;
}

int cmd_run(int argc, char **argv)
{
	struct cmdfile_options file_opt;
	struct run_options opt;
	struct run run = {};
	struct cmdfile file;
	struct device *devs;
	int taken_fds[MAX_DEVICES];
	int status;
	unsigned int i;

	run_parse_options(argc, argv, &opt);
	run_set_type(&opt);
	file_opt = (struct cmdfile_options){
		.unchecked = opt.unchecked, .names_unchecked = true, .memory = opt.memory,
	};
	if (!device_comes_first(opt.devs[0]) || cmdfile_load(opt.file, &file_opt, &file))
		return EXIT_USAGE;
	devs = calloc(opt.nr_devs, sizeof(*devs));
	if (!devs) {
		cmdfile_free(&file);
		warnx("no memory");
		return EXIT_DEVICE;
	}
	memset(taken_fds, -1, sizeof(taken_fds));
	status = run_prepare(&run, &opt, &file, devs, taken_fds);
	if (!status && !output_check("--log", opt.log))
		status = EXIT_USAGE;
	if (!status)
		status = run_execute(&run, &opt, print_result);
	for (i = 0; i < opt.nr_devs; i++)
		if (taken_fds[i] >= 0)
			close(taken_fds[i]);
	free(run.targets);
	free(devs);
	cmdfile_free(&file);
	return status;
}
