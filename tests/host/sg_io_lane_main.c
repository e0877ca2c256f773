// SPDX-License-Identifier: GPL-2.0
/*
 * sg_io_lane COMMANDS DEPTH ROOM TARGETS PASSES: runs a lane of sg_io replay on a path that takes
 * ROOM commands.
 * Results come in the worst order: first the refusals of all commands that found no room, then the
 * end of another command, after which all refused commands seem to have room again.
 */
#include <err.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "issue/workers/engine.h"
#include "replay/lane.h"

static struct request **sent;	/* first the commands that have room, then those to be refused */
static unsigned int nr_sent;
static unsigned int room;
static unsigned int misplaced;	/* commands that another target got */
static unsigned int *ended;	/* how often each command has ended */

static void queue(struct worker *w, struct request *rq)
{
	(void)w;
	sent[nr_sent++] = rq;
}

/* Refuses the commands that found no room. At every second call it also ends a command. */
static void reap(struct worker *w, unsigned int min, __u64 wait_ns)
{
	unsigned int i, nr = nr_sent;
	static unsigned int calls;
	struct request *rq = sent[0];

	(void)min;
	(void)wait_ns;
	if (nr_sent > room)
		nr_sent = room;
	for (i = nr_sent; i < nr; i++)
		worker_failed(w, sent[i], EAGAIN);
	if (calls++ % 2)
		return;
	nr_sent--;
	memmove(sent, sent + 1, nr_sent * sizeof(struct request *));
	ended[rq->sequence]++;
	misplaced += rq->cmd->dev != rq->target - w->run->targets;
	rq->out = (struct outcome){};
	worker_done(w, rq);
}

int main(int argc, char **argv)
{
	static const struct engine engine = { .name = "little", .queue = queue, .reap = reap };
	static struct run run = { .engine = &engine };
	static struct worker w;
	static struct target targets[64];
	static struct share shares[64];
	struct plan_options opt = { .mode = PLAN_MAX };
	struct cmdfile file = {};
	struct plan *plan;
	unsigned int i, wrong = 0, nr;

	if (argc != 6)
		errx(2, "COMMANDS DEPTH ROOM TARGETS PASSES");
	file.nr = strtoul(argv[1], NULL, 10);
	run.depth = strtoul(argv[2], NULL, 10);
	room = strtoul(argv[3], NULL, 10);
	file.cmds = calloc(file.nr, sizeof(*file.cmds));
	ended = calloc(file.nr, sizeof(*ended));
	nr = strtoul(argv[4], NULL, 10);
	run.targets = targets;
	run.nr_targets = nr;
	srandom(1);
	sent = calloc(run.depth * nr, sizeof(struct request *));
	if (!file.cmds || !ended || !sent)
		errx(2, "no memory");
	for (i = 0; i < file.nr; i++)
		file.cmds[i] = (struct command){
			.cdb_len = 6, .cpu = CPU_ANY, .line = i + 1, .dev = random() % nr,
		};
	run.file = &file;
	run.passes = strtoul(argv[5], NULL, 10);
	run.any_target = true;
	plan = plan_new(&file, &opt);
	run.lanes = plan ? lanes_new(plan, &run.nr_lanes) : NULL;
	if (!run.lanes || worker_init(&w, &run, 0))
		errx(2, "no memory");
	w.lane = run.lanes;
	w.shares = shares;
	lane_work(&w);

	for (i = 0; i < file.nr; i++)
		wrong += ended[i] != run.passes;
	wrong += misplaced;
	printf("good %llu wrong %u overtaken %llu\n", w.tally.good, wrong, run.lanes->overtaken);
	worker_exit(&w);
	lanes_free(run.lanes, run.nr_lanes);
	plan_free(plan);
	free(file.cmds);
	free(ended);
	free(sent);
	return 0;
}
