// SPDX-License-Identifier: GPL-2.0
/*
 * sg_io_plan SEED COMMANDS LANES BLOCKS MODE SPEED DEVICES: issues and ends random commands in a
 * random order, as the lanes of a replay could, and checks each answer of plan_hold() by comparing
 * the command with all earlier ones, and those of plan_admits(). Prints how many commands were
 * issued too early, how many never could be issued, and how many answers held a command without
 * need.
 *
 * sg_io_plan ... stream: asks a struct stream instead, some commands ahead of those that have
 * ended. A command was issued too early if it did not wait for one that it must wait for, and held
 * without need by each command that it need not wait for.
 *
 * sg_io_plan far COMMANDS: a WRITE and a READ of the same block after COMMANDS others, the first of
 * which ends last. Prints whether the READ is held: at first, after the WRITE has ended, and after
 * all have ended.
 */
#include <err.h>
#include <scsi/sg_unaligned.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replay/level.h"
#include "replay/stream.h"

#define DEPTH		8
#define MAX_LANES	8
#define WINDOW_NS	60000
#define GAP_US		20
#define TOOK_NS		100000

enum uses { NOTHING, READS, FLUSHES, WRITES };

/* The truth about a command, known because this program makes it. */
struct truth {
	__u64 first;
	__u64 last;
	enum uses uses;
	unsigned int dev;
	bool ended;
};

struct world {
	struct cmdfile file;
	struct truth *truth;	/* as the file's commands */
	unsigned int lanes;
	unsigned int devs;
	__u64 blocks;
	struct plan_options opt;
	unsigned int in_flight;
	size_t issued;
	__u64 now;
	/* What each lane has to issue, and its commands in flight. */
	__u32 *todo[MAX_LANES];
	size_t nr[MAX_LANES];
	size_t next[MAX_LANES];
	__u32 flight[MAX_LANES][DEPTH];
	unsigned int nr_flight[MAX_LANES];
	struct plan_view view[MAX_LANES];
	size_t wrong;
	size_t needless;
	size_t told;
};

static const struct {
	const char *gen;
	enum uses uses;
	unsigned int weight;
} kinds[] = {
	{ "read6", READS, 5 }, { "read10", READS, 30 }, { "read12", READS, 5 },
	{ "read16", READS, 10 }, { "read32", READS, 5 }, { "verify10", READS, 4 },
	{ "verify16", READS, 4 }, { "write6", WRITES, 3 }, { "write10", WRITES, 12 },
	{ "write12", WRITES, 3 }, { "write16", WRITES, 5 }, { "write32", WRITES, 3 },
	{ "writesame16", WRITES, 1 }, { "sync10", FLUSHES, 3 }, { "sync16", FLUSHES, 1 },
	{ "tur", NOTHING, 3 }, { "inquiry", NOTHING, 2 },
};

static void make_unmap(struct command *cmd, struct truth *t, const struct world *w)
{
	unsigned int ranges = random() % 4, i;
	__u8 *list = calloc(1, 8 + 16 * 4);
	__u64 lba, blocks;

	if (!list)
		errx(2, "no memory");
	*t = (struct truth){ .first = ~0ULL };
	cmd->cdb[0] = 0x42;
	cmd->cdb_len = 10;
	cmd->dir = DIR_OUT;
	cmd->bytes = 8 + 16 * ranges;
	cmd->data = list;
	sg_put_unaligned_be16(16 * ranges, list + 2);
	for (i = 0; i < ranges; i++) {
		lba = random() % w->blocks;
		blocks = random() % 3;
		sg_put_unaligned_be64(lba, list + 8 + 16 * i);
		sg_put_unaligned_be32(blocks, list + 16 + 16 * i);
		if (!blocks)
			continue;
		t->uses = WRITES;
		t->first = lba < t->first ? lba : t->first;
		t->last = lba + blocks - 1 > t->last ? lba + blocks - 1 : t->last;
	}
}

static void make_command(struct command *cmd, struct truth *t, const struct world *w)
{
	unsigned int pick, all = 0, i;
	const struct cdb_op *op;
	__u64 lba, blocks;

	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		all += kinds[i].weight;
	pick = random() % (all + 2);
	if (pick == all) {
		make_unmap(cmd, t, w);
		return;
	}
	if (pick == all + 1) {	/* a vendor's command, or TEST UNIT READY */
		cmd->cdb[0] = 0xc1;
		cmd->cdb_len = 10;
		*t = (struct truth){ .last = ~0ULL, .uses = random() % 40 ? NOTHING : WRITES };
		if (t->uses == NOTHING) {
			cmd->cdb[0] = 0;
			cmd->cdb_len = 6;
		}
		return;
	}
	for (i = 0; pick >= kinds[i].weight; i++)
		pick -= kinds[i].weight;
	op = cdb_find_gen(kinds[i].gen);
	lba = random() % w->blocks;
	blocks = random() % 50 ? 1 + random() % 8 : 1 + random() % 200;
	if (kinds[i].uses == FLUSHES || !strcmp(kinds[i].gen, "writesame16"))
		blocks = random() % 10 ? blocks : 0;
	cmd->cdb_len = op->len;
	if (op->len > CDB_INLINE)
		cmd->long_cdb = calloc(1, CDB_MAX);
	cdb_build(op, lba, kinds[i].uses ? blocks : 0, cdb_of(cmd));
	cmd->dir = op->dir;
	*t = (struct truth){
		.first = lba, .last = blocks ? lba + blocks - 1 : ~0ULL, .uses = kinds[i].uses,
	};
	if (t->uses == FLUSHES && w->opt.mode == PLAN_TIME && w->opt.speed == 1)
		t->uses = NOTHING;
}

static bool conflict(const struct truth *a, const struct truth *b)
{
	if (a->dev != b->dev || a->first > b->last || b->first > a->last)
		return false;
	return (a->uses == WRITES && b->uses != NOTHING) || (a->uses == READS && b->uses == WRITES);
}

static void make_world(struct world *w)
{
	unsigned int lane;
	__u64 at = 0;
	size_t i;

	w->file.cmds = calloc(w->file.nr, sizeof(*w->file.cmds));
	w->file.took = calloc(w->file.nr, sizeof(*w->file.took));
	w->truth = calloc(w->file.nr, sizeof(*w->truth));
	for (lane = 0; lane < w->lanes; lane++)
		w->todo[lane] = calloc(w->file.nr, sizeof(__u32));
	for (i = 0; i < w->file.nr; i++) {
		lane = random() % w->lanes;
		at += random() % GAP_US;
		make_command(&w->file.cmds[i], &w->truth[i], w);
		w->truth[i].dev = random() % w->devs;
		w->file.cmds[i].dev = w->truth[i].dev;
		w->file.cmds[i].cpu = lane;
		w->file.cmds[i].at_us = at;
		w->file.took[i] = 1 + random() % TOOK_NS;
		w->todo[lane][w->nr[lane]++] = i;
	}
}

/* Whether @a had ended in the recording when @b was issued. */
static bool ended_before(const struct world *w, size_t a, size_t b)
{
	return 1000 * w->file.cmds[a].at_us + w->file.took[a] <= 1000 * w->file.cmds[b].at_us;
}

/* Whether @b may not be issued before @a has ended. */
static bool must_wait(const struct world *w, size_t a, size_t b)
{
	if (w->opt.mode == PLAN_DEPEND && ended_before(w, a, b) &&
	    1000 * (w->file.cmds[b].at_us - w->file.cmds[a].at_us) - w->file.took[a] < WINDOW_NS)
		return true;
	return conflict(&w->truth[a], &w->truth[b]);
}

/*
 * Whether plan_admits() may give this answer. With PLAN_LOAD it may not if it is not the command's
 * turn or far too many are in flight, and must if it is its turn and none is.
 */
static bool may_admit(const struct world *w, const struct plan *c, size_t cmd, bool admits)
{
	bool turn = w->issued == cmd;

	if (w->opt.mode != PLAN_LOAD)
		return admits;
	return admits ? turn && w->in_flight < level_most(c->most) : !turn || w->in_flight;
}

/* Issues a lane's next command if it is not held. Return: whether it was issued. */
static bool issue(struct world *w, struct plan *c, unsigned int lane)
{
	__u32 cmd = w->todo[lane][w->next[lane]];
	bool must = false, held;
	size_t i;

	w->wrong += !may_admit(w, c, cmd, plan_admits(c, cmd));
	if (!plan_admits(c, cmd))
		return false;
	held = plan_hold(c, &w->view[lane], cmd);
	for (i = 0; i < cmd && !must; i++)
		must = !w->truth[i].ended && must_wait(w, i, cmd);
	w->wrong += must && !held;
	w->needless += held && !must;
	if (held)
		return false;
	w->flight[lane][w->nr_flight[lane]++] = cmd;
	w->next[lane]++;
	w->issued++;
	w->in_flight++;
	plan_issued(c, cmd, w->now += random() % GAP_US * 1000);
	return true;
}

static void end_one(struct world *w, struct plan *c, unsigned int lane)
{
	unsigned int nth = random() % w->nr_flight[lane];
	__u32 cmd = w->flight[lane][nth];

	w->flight[lane][nth] = w->flight[lane][--w->nr_flight[lane]];
	w->truth[cmd].ended = true;
	w->in_flight--;
	plan_ended(c, cmd, w->now += random() % GAP_US * 1000);
}

/* Return: how many commands could not be issued. */
static size_t run_world(struct world *w, struct plan *c)
{
	unsigned int lane, idle = 0, favoured = 0;
	size_t left = w->file.nr, steps = 0;

	while (left && idle < 100000) {
		/* For long times one lane runs ahead of the others. */
		if (!(steps++ % 3000))
			favoured = random() % w->lanes;
		lane = random() % 8 ? favoured : random() % w->lanes;
		idle++;
		if (w->nr_flight[lane] && (random() % 2 || w->nr_flight[lane] == DEPTH)) {
			end_one(w, c, lane);
			left--;
			idle = 0;
		} else if (w->next[lane] < w->nr[lane] && w->nr_flight[lane] < DEPTH &&
			   issue(w, c, lane)) {
			idle = 0;
		}
	}
	return left;
}

/* What the stream said about a command. */
struct told {
	__u32 *waits;
	unsigned int nr;
};

static void tell(struct world *w, struct stream *s, struct told *told)
{
	__u32 cmd = s->next;
	struct told *t = &told[cmd];

	if (!stream_next(s, w->file.cmds[cmd].cpu))
		errx(2, "no memory");
	t->nr = s->nr_waits;
	w->told += t->nr;
	t->waits = calloc(t->nr + 1, sizeof(*t->waits));
	if (!t->waits)
		errx(2, "no memory");
	memcpy(t->waits, s->waits, t->nr * sizeof(*t->waits));
}

/* @first, @end: the first command that has not ended, and the first that was not told. */
static bool issue_told(struct world *w, const struct told *told, __u32 first, __u32 end,
		       unsigned int lane)
{
	__u32 cmd = w->todo[lane][w->next[lane]], i;

	if (cmd >= end || (w->opt.mode == PLAN_LOAD && w->issued != cmd))
		return false;
	for (i = 0; i < told[cmd].nr; i++)
		if (!w->truth[told[cmd].waits[i]].ended)
			return false;
	for (i = 0; i < told[cmd].nr; i++)
		w->needless += !must_wait(w, told[cmd].waits[i], cmd);
	for (i = first; i < cmd; i++)
		w->wrong += !w->truth[i].ended && must_wait(w, i, cmd);
	w->flight[lane][w->nr_flight[lane]++] = cmd;
	w->next[lane]++;
	w->issued++;
	return true;
}

/* Return: how many commands could not be issued. */
static size_t run_stream(struct world *w, const struct plan *p, __u32 ahead)
{
	struct told *told = calloc(w->file.nr, sizeof(*told));
	struct stream *s = stream_new(p, w->lanes);
	unsigned int lane, idle = 0, nth;
	size_t left = w->file.nr, i;
	__u32 first = 0;

	if (!told || !s)
		errx(2, "no memory");
	while (left && idle++ < 100000) {
		for (; first < w->file.nr && w->truth[first].ended; first++)
			;
		stream_forget(s, first);
		while (stream_has_next(s) && s->next < first + ahead)
			tell(w, s, told);
		lane = random() % w->lanes;
		if (w->nr_flight[lane] && (random() % 2 || w->nr_flight[lane] == DEPTH)) {
			nth = random() % w->nr_flight[lane];
			w->truth[w->flight[lane][nth]].ended = true;
			w->flight[lane][nth] = w->flight[lane][--w->nr_flight[lane]];
			left--;
			idle = 0;
		} else if (w->next[lane] < w->nr[lane] && w->nr_flight[lane] < DEPTH &&
			   issue_told(w, told, first, s->next, lane)) {
			idle = 0;
		}
	}
	for (i = 0; i < w->file.nr; i++)
		free(told[i].waits);
	free(told);
	stream_free(s);
	return left;
}

static void make_one(struct world *w, size_t nth, const char *gen, __u64 lba)
{
	struct command *cmd = &w->file.cmds[nth];
	const struct cdb_op *op = cdb_find_gen(gen);

	cdb_build(op, lba, 1, cmd->cdb);
	cmd->cdb_len = op->len;
	cmd->dir = op->dir;
}

static void print_far(struct world *w)
{
	size_t i, far = w->file.nr;
	struct plan *c;

	w->file.nr += 2;
	w->file.cmds = calloc(w->file.nr, sizeof(*w->file.cmds));
	for (i = 0; i < far; i++)
		make_one(w, i, "read10", 8 + i);
	make_one(w, far, "write10", 1);
	make_one(w, far + 1, "read10", 1);
	c = plan_new(&w->file, &w->opt);
	if (!c)
		errx(2, "no memory");
	for (i = 1; i < far; i++)
		plan_ended(c, i, 0);
	printf("%d ", plan_hold(c, &w->view[0], far + 1));
	plan_ended(c, far, 0);
	printf("%d ", plan_hold(c, &w->view[0], far + 1));
	plan_ended(c, 0, 0);
	printf("%d\n", plan_hold(c, &w->view[0], far + 1));
	plan_free(c);
	free(w->file.cmds);
}

int main(int argc, char **argv)
{
	static struct world w = { .opt = { .mode = PLAN_MAX, .window_ns = WINDOW_NS } };
	struct plan *c;
	size_t left, i;

	if (argc == 3 && !strcmp(argv[1], "far")) {
		w.file.nr = strtoul(argv[2], NULL, 10);
		print_far(&w);
		return 0;
	}
	w.opt.streamed = argc == 9;
	if ((argc != 8 && argc != 9) || !plan_find_mode(argv[5], &w.opt.mode))
		errx(2, "SEED COMMANDS LANES BLOCKS MODE SPEED DEVICES [stream]");
	srandom(strtoul(argv[1], NULL, 10));
	w.file.nr = strtoul(argv[2], NULL, 10);
	w.lanes = strtoul(argv[3], NULL, 10);
	w.blocks = strtoull(argv[4], NULL, 10);
	w.opt.speed = strtod(argv[6], NULL);
	w.devs = strtoul(argv[7], NULL, 10);
	make_world(&w);
	c = plan_new(&w.file, &w.opt);
	if (!c)
		errx(2, "no memory");
	left = w.opt.streamed ? run_stream(&w, c, 1 + random() % 200) : run_world(&w, c);
	/* A lane need not wait twice for the same command. */
	w.wrong += w.told > w.file.nr * w.lanes;
	printf("wrong %zu left %zu needless %zu\n", w.wrong, left, w.needless);
	plan_free(c);
	for (i = 0; i < w.file.nr; i++)
		free((void *)w.file.cmds[i].data);
	for (i = 0; i < w.file.nr; i++)
		if (w.file.cmds[i].cdb_len > CDB_INLINE)
			free(w.file.cmds[i].long_cdb);
	for (i = 0; i < w.lanes; i++)
		free(w.todo[i]);
	free(w.file.cmds);
	free(w.truth);
	free(w.file.took);
	return 0;
}
