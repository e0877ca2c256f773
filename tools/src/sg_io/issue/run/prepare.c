// SPDX-License-Identifier: GPL-2.0
/* Prepares a run from its options: devices, path, and all checks. */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "issue/device/take.h"
#include "issue/paths/paths.h"
#include "run.h"

#define WHY_BYTES	512

static const struct engine *choose_engine(const struct run_options *opt,
					  const struct device *dev)
{
	const char *via = opt->via ? opt->via : node_kind_name(dev->kind);

	/* A replay needs a path that takes any command, and several at a time: not block or bsg. */
	if (opt->replay && !opt->via && (dev->kind == NODE_BLOCK || dev->kind == NODE_BSG))
		via = "sg";

	if (!strcmp(via, "block"))
		return &engine_block;
	if (!strcmp(via, "bsg"))
		return &engine_bsg;
	if (!strcmp(via, "smq"))
		return opt->smq ?: &engine_smq;
	if (!strcmp(via, "bsg-uring"))
		return dev->kind == NODE_SMQ ? &engine_smq_uring : &engine_bsg_uring;
	/* Use SG_IO on an sd node only if the depth is 1 or there is no sg node. */
	if (dev->kind == NODE_BLOCK && (opt->depth == 1 || !dev->node[NODE_SG][0]))
		return &engine_sd_ioctl;
	return opt->depth > 1 ? &engine_sg_queue : &engine_sg_ioctl;
}

void run_set_type(const struct run_options *opt)
{
	struct device dev;
	unsigned int i;

	for (i = 0; i < opt->nr_devs; i++)
		if (!device_try(opt->devs[i], &dev, NULL) &&
		    !cdb_set_type(sysfs_number(dev.sysfs, "type")))
			return;
}

static int find_devices(struct run *run, const struct run_options *opt, struct device *devs)
{
	const struct engine *engine;
	unsigned int i, j;

	for (i = 0; i < opt->nr_devs; i++) {
		if (device_find(opt->devs[i], &devs[i]))
			return EXIT_DEVICE;
		for (j = 0; j < i; j++) {
			if (!strcmp(devs[i].sysfs, devs[j].sysfs)) {
				warnx("%s and %s are the same device", opt->devs[j], opt->devs[i]);
				return EXIT_USAGE;
			}
		}
		engine = choose_engine(opt, &devs[i]);
		if (i && engine != run->engine) {
			warnx("%s would use another path than %s: name nodes of one kind",
			      opt->devs[i], opt->devs[0]);
			return EXIT_USAGE;
		}
		run->engine = engine;
		if (!devs[i].node[engine->node][0]) {
			warnx("%s: has no %s node, which --via %s needs%s", opt->devs[i],
			      node_kind_name(engine->node), engine->name,
			      engine->node == NODE_SMQ ? " (modprobe smq_sg)" : "");
			return EXIT_DEVICE;
		}
	}
	return 0;
}

static int init_target(struct run *run, struct target *t, const struct device *dev,
		       const struct run_options *opt)
{
	t->dev = dev;
	t->block_size = dev->block_size;
	t->limit = opt->count ? opt->count : opt->time ? ~0ULL : run->file->nr;
	run->total += t->limit != ~0ULL ? t->limit : 0;
	if (run->engine == &engine_block && !dev->blocks) {
		warnx("%s: has no medium to read or write", dev->given);
		return EXIT_DEVICE;
	}
	if (opt->poll && dev->queue[0] && sysfs_number(dev->queue, "io_poll") != 1) {
		warnx("%s: --poll: the host has no poll queues (queue/io_poll is not 1)",
		      dev->given);
		return EXIT_DEVICE;
	}
	return 0;
}

/* The @nth of the CPUs that this process may run on. */
static int nth_cpu(const cpu_set_t *cpus, unsigned int nth)
{
	int cpu = 0;

	while (!CPU_ISSET(cpu, cpus) || nth--)
		cpu++;
	return cpu;
}

static int check_cpus(const struct run *run, bool fold)
{
	const struct cmdfile *file = run->file;
	struct command *cmd;

	for (cmd = file->cmds; cmd < file->cmds + file->nr; cmd++) {
		if (cmd->cpu == CPU_ANY || CPU_ISSET(cmd->cpu, &run->cpus))
			continue;
		if (!fold) {
			warnx("%s:%u: cpu=%d is not a CPU this process may run on; --fold-cpus "
			      "puts it on another", file->name, cmd->line, cmd->cpu);
			return EXIT_USAGE;
		}
		cmd->cpu = nth_cpu(&run->cpus, cmd->cpu % CPU_COUNT(&run->cpus));
	}
	return 0;
}

/* Whether target @t gets the command: a run sends all to each target. */
static bool is_for(const struct run *run, const struct command *cmd, const struct target *t)
{
	return !run->by_device || &run->targets[cmd->dev] == t;
}

/* wait= and repeat= mean something only if a command is sent when the one before has ended. */
static int check_order(const struct run_options *opt, const struct cmdfile *file)
{
	if (!file->in_order)
		return 0;
	if (opt->replay) {
		warnx("%s: repeat= and wait= are for sg_io run: replay sends commands at their "
		      "times", file->name);
		return EXIT_USAGE;
	}
	if (opt->depth == 1 && opt->jobs == 1)
		return 0;
	warnx("%s: repeat= and wait= need --depth 1 and --jobs 1, so that the command before has "
	      "ended; --depth is %llu, --jobs %llu", file->name, opt->depth, opt->jobs);
	return EXIT_USAGE;
}

/* Block I/O has errors, but neither SCSI status nor sense. */
static bool can_expect(const struct run *run, const struct command *cmd, char *why, size_t size)
{
	const struct expect *e = expect_of(run->file, cmd);

	if (run->engine != &engine_block || !e || e->status != EXPECT_CHECK)
		return true;
	snprintf(why, size, "expects CHECK CONDITION: block I/O has no SCSI status; --via sg has");
	return false;
}

/* Whether the transfer is not larger than the queue's max_hw_sectors_kb. */
static bool check_size(const struct target *t, const struct command *cmd, char *why, size_t size)
{
	if (!t->dev->max_transfer || cmd->bytes <= t->dev->max_transfer)
		return true;
	snprintf(why, size, "BYTES %u is over the largest transfer of %s, %llu (max_hw_sectors_kb)",
		 cmd->bytes, t->dev->given, t->dev->max_transfer);
	return false;
}

static int check_commands(const struct run *run, const struct target *t, bool unchecked)
{
	const struct cmdfile *file = run->file;
	const struct command *cmd;
	const struct cdb_op *op;
	char why[WHY_BYTES];
	__u32 implied;
	size_t i;

	for (i = 0; i < file->nr; i++) {
		cmd = &file->cmds[i];
		if (!is_for(run, cmd, t))
			continue;
		if (!(run->engine->check ?: check_size)(t, cmd, why, sizeof(why)) ||
		    !can_expect(run, cmd, why, sizeof(why))) {
			warnx("%s:%u: %s", file->name, cmd->line, why);
			return EXIT_USAGE;
		}
		op = cdb_find(cdb_of(cmd), cmd->cdb_len);
		if (unchecked || !op || !t->block_size)
			continue;
		implied = cdb_block_size(op, cdb_of(cmd), cmd->bytes);
		/* Eight more bytes per block are protection information. */
		if (!implied || implied == t->block_size || implied == t->block_size + 8)
			continue;
		warnx("%s:%u: BYTES means blocks of %u bytes, %s has %u%s", file->name, cmd->line,
		      implied, t->dev->given, t->block_size, UNCHECKED_HINT);
		return EXIT_USAGE;
	}
	return 0;
}

static bool any_changes(const struct run *run, const struct target *t)
{
	const struct cmdfile *file = run->file;
	size_t i;

	for (i = 0; i < file->nr; i++)
		if (is_for(run, &file->cmds[i], t) &&
		    cdb_changes_medium(cdb_of(&file->cmds[i]), file->cmds[i].cdb_len,
				       file->cmds[i].dir))
			return true;
	return false;
}

int run_prepare(struct run *run, const struct run_options *opt,
		const struct cmdfile *file, struct device *devs, int *taken_fds)
{
	unsigned int i, room;
	int ret;

	run->file = file;
	run->depth = opt->depth;
	run->batch = opt->batch;
	run->nr_jobs = opt->jobs;
	run->poll = opt->poll;
	run->time_ns = opt->time * NS_PER_S;
	run->warm_up_ns = opt->warm_up * NS_PER_S;
	if (opt->rate)
		run->interval_ns = NS_PER_S / opt->rate * opt->nr_devs;
	sched_getaffinity(0, sizeof(run->cpus), &run->cpus);

	ret = check_order(opt, file);
	if (!ret)
		ret = find_devices(run, opt, devs);
	if (!ret)
		ret = check_cpus(run, opt->fold_cpus);
	if (ret)
		return ret;
	if (opt->poll && !run->engine->polls) {
		warnx("--poll: only --via smq, block and, on a smqsg node, bsg-uring can poll");
		return EXIT_USAGE;
	}

	room = run->depth * (run->engine->batch_each ? 1 : opt->nr_devs);
	if (!run->engine->sync && run->batch > room)
		warnx("--batch %u: only %u commands are in flight (--depth), so groups have %u",
		      run->batch, room, room);
	run->targets = calloc(opt->nr_devs, sizeof(*run->targets));
	if (!run->targets) {
		warnx("no memory");
		return EXIT_DEVICE;
	}
	run->nr_targets = opt->nr_devs;
	run->by_device = opt->replay;
	for (i = 0; i < opt->nr_devs; i++) {
		ret = init_target(run, &run->targets[i], &devs[i], opt);
		if (!ret)
			ret = check_commands(run, &run->targets[i], opt->unchecked);
		if (!ret && any_changes(run, &run->targets[i])) {
			run->writes = true;
			if (take_disk(&devs[i], opt->force, &taken_fds[i]))
				ret = EXIT_DEVICE;
		}
		if (ret)
			return ret;
	}
	return 0;
}
