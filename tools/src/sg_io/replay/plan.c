// SPDX-License-Identifier: GPL-2.0
#include <stdlib.h>
#include <string.h>

#include "flight.h"
#include "level.h"
#include "plan.h"
#include "util.h"

#define UNMAP		0x42
#define WINDOW		4096	/* the most commands that one check looks at */
#define FAR_NS		(1ULL << 62)	/* more than a century: a later due time is cut to this */

const char * const plan_modes[] = {
	[PLAN_TIME] = "time", [PLAN_MAX] = "max", [PLAN_LOAD] = "load", [PLAN_DEPEND] = "depend",
	NULL
};

bool plan_find_mode(const char *name, enum plan_mode *mode)
{
	unsigned int i;

	for (i = 0; plan_modes[i]; i++) {
		if (strcmp(plan_modes[i], name))
			continue;
		*mode = i;
		return true;
	}
	return false;
}

static bool is_flush(const struct command *cmd)
{
	return cdb_of(cmd)[0] == 0x35 || cdb_of(cmd)[0] == 0x91;
}

static bool is_prefetch(const struct command *cmd)
{
	return cdb_of(cmd)[0] == 0x34 || cdb_of(cmd)[0] == 0x90;
}

static struct blocks unmapped_blocks(const struct command *cmd)
{
	struct blocks b = { .first = ~0ULL };
	__u64 lba, blocks, last;
	unsigned int i;

	for (i = 0; cdb_unmap_range(cmd->data, cmd->bytes, i, &lba, &blocks); i++) {
		if (!blocks)
			continue;
		last = blocks - 1 > ~0ULL - lba ? ~0ULL : lba + blocks - 1;
		b.use = USE_WRITE;
		b.first = lba < b.first ? lba : b.first;
		b.last = last > b.last ? last : b.last;
	}
	return b;
}

/* At its own time a flush is issued whatever has ended, as in the recording. */
static bool flushes_wait(const struct plan *p)
{
	return p->opt.mode != PLAN_TIME || p->opt.speed != 1;
}

struct blocks plan_blocks(const struct plan *p, const struct command *cmd)
{
	const struct cdb_op *op = cdb_find(cdb_of(cmd), cmd->cdb_len);
	struct blocks b = { .last = ~0ULL };
	__u64 n;

	if (op && cdb_of(cmd)[0] == UNMAP && cmd->data)
		return unmapped_blocks(cmd);
	if (!op || !op->lba_len) {
		/* It may use any block, or none. */
		if (!op || cdb_changes_medium(cdb_of(cmd), cmd->cdb_len, cmd->dir))
			b.use = USE_WRITE;
		return b;
	}
	if (is_prefetch(cmd) || (is_flush(cmd) && !flushes_wait(p)))
		return b;
	b.first = cdb_lba(op, cdb_of(cmd));
	n = cdb_blocks(op, cdb_of(cmd));
	if (n && n - 1 <= ~0ULL - b.first)
		b.last = b.first + n - 1;
	if (is_flush(cmd))
		b.use = USE_FLUSH;
	else if (op->dir == DIR_OUT && !(op->flags & CDB_BYTCHK))
		b.use = USE_WRITE;
	else
		b.use = USE_READ;
	/* Of no blocks: WRITE SAME and a flush reach to the end of the medium, others use none. */
	if (!n && !is_flush(cmd) && !cdb_repeats_block(op, cdb_of(cmd)) && !(op->flags & CDB_NDOB))
		b.use = USE_NONE;
	return b;
}

bool plan_conflict(const struct blocks *earlier, const struct blocks *later)
{
	if (earlier->first > later->last || later->first > earlier->last)
		return false;
	if (earlier->use == USE_WRITE)
		return later->use != USE_NONE;
	return earlier->use == USE_READ && later->use == USE_WRITE;
}

__u64 plan_end(const struct plan *p, size_t cmd)
{
	return p->file->cmds[cmd].at_us * 1000 + cmdfile_took(p->file, cmd);
}

/* Whether @earlier had ended when @later was issued, but not longer ago than the window. */
static bool depends(const struct plan *p, size_t earlier, size_t later)
{
	__u64 end, now = p->file->cmds[later].at_us * 1000;

	if (p->opt.mode != PLAN_DEPEND)
		return false;
	end = plan_end(p, earlier);
	return end <= now && now - end < p->opt.window_ns;
}

/* @b: the blocks of @later. */
static bool waits(const struct plan *p, size_t earlier, size_t later, const struct blocks *b)
{
	const struct command *cmd = &p->file->cmds[earlier];
	struct blocks before;

	if (depends(p, earlier, later))
		return true;
	if (b->use == USE_NONE || cmd->dev != p->file->cmds[later].dev)
		return false;
	before = plan_blocks(p, cmd);
	return plan_conflict(&before, b);
}

/*
 * The latest commands that use the blocks of a device, as index + 1; 0: none. Blocks share cells
 * with others, by a hash. So what is found may be later than the last conflict, but is not before
 * it: plan_hold() compares the commands themselves.
 */
struct latest {
	__u32 use;
	__u32 write;
};

#define CELL_SHIFT	3	/* blocks of a cell, as a power of two */
#define CELLS_MIN	(1u << 10)
#define CELLS_MAX	(1u << 22)
#define WIDE		256	/* cells of a command that counts as one of all blocks */

struct finder {
	struct latest *cells;
	__u32 mask;
	struct latest any[FILE_DEVICES];	/* of all blocks, by device */
	struct latest wide[FILE_DEVICES];	/* only commands of more than WIDE cells */
};

static void note_latest(struct latest *l, enum use how, __u32 nth)
{
	if (how == USE_READ || how == USE_WRITE)
		l->use = nth;
	if (how == USE_WRITE)
		l->write = nth;
}

static __u32 get_latest(const struct latest *l, enum use how)
{
	return how == USE_WRITE ? l->use : l->write;
}

static __u32 greater(__u32 a, __u32 b)
{
	return a > b ? a : b;
}

/* Return: the index + 1 of the last command that @nth may conflict with; 0: there is none. */
static __u32 find_conflict(struct finder *f, const struct blocks *b, unsigned int dev, __u32 nth)
{
	__u64 cell = b->first >> CELL_SHIFT, last = b->last >> CELL_SHIFT;
	struct latest *l;
	__u32 after;

	if (b->use == USE_NONE)
		return 0;
	if (last - cell >= WIDE) {
		after = get_latest(&f->any[dev], b->use);
		note_latest(&f->wide[dev], b->use, nth + 1);
	} else {
		after = get_latest(&f->wide[dev], b->use);
		for (; cell <= last; cell++) {
			l = &f->cells[prng_mix(cell ^ (__u64)dev << 56) & f->mask];
			/* Two of its own cells may be the same one. */
			if (get_latest(l, b->use) != nth + 1)
				after = greater(after, get_latest(l, b->use));
			note_latest(l, b->use, nth + 1);
		}
	}
	note_latest(&f->any[dev], b->use, nth + 1);
	return after;
}

static bool find_conflicts(struct plan *p)
{
	struct finder *f = calloc(1, sizeof(*f));
	const struct command *cmd;
	struct blocks b;
	__u32 nr = CELLS_MIN, i;

	if (!f)
		return false;
	while (nr < CELLS_MAX && nr / 4 < p->file->nr)
		nr *= 2;
	f->mask = nr - 1;
	f->cells = calloc(nr, sizeof(*f->cells));
	for (i = 0; f->cells && i < p->file->nr; i++) {
		cmd = &p->file->cmds[i];
		b = plan_blocks(p, cmd);
		p->after[i] = find_conflict(f, &b, cmd->dev, i);
	}
	free(f->cells);
	free(f);
	return i == p->file->nr;
}

/* Finds how many commands were in flight in the recording. */
static bool find_load(struct plan *p)
{
	struct level_means m;
	bool ok = level_means_begin(&m, p->file->nr);
	size_t i;

	for (i = 0; ok && i < p->file->nr; i++)
		ok = level_means_add(&m, p->file->cmds[i].at_us * 1000, plan_end(p, i));
	level_means_end(&m);
	p->means = m.means;
	p->most = m.most;
	return ok;
}

/* Finds what had ended when each command was issued in the recording. */
static bool find_ends(struct plan *p)
{
	struct flight f = {};
	__u32 last = 0, i;
	bool ok = true;
	__u64 now;

	for (i = 0; ok && i < p->file->nr; i++) {
		now = p->file->cmds[i].at_us * 1000;
		for (; f.nr && f.ends[0].ns <= now; flight_remove(&f))
			last = greater(last, f.ends[0].cmd + 1);
		p->after[i] = greater(p->after[i], last);
		ok = flight_add(&f, (struct flight_end){ plan_end(p, i), i });
	}
	free(f.ends);
	return ok;
}

struct plan *plan_new(const struct cmdfile *file, const struct plan_options *opt)
{
	struct plan *p = calloc(1, sizeof(*p));
	size_t i;

	if (!p)
		return NULL;
	p->file = file;
	p->opt = *opt;
	p->opt.counts |= opt->mode == PLAN_LOAD;
	p->first_us = ~0ULL;
	for (i = 0; i < file->nr; i++)
		if (file->cmds[i].at_us < p->first_us)
			p->first_us = file->cmds[i].at_us;
	p->after = calloc(file->nr, sizeof(*p->after));
	if (!p->after || !find_conflicts(p))
		goto fail;
	if (opt->mode == PLAN_LOAD && !find_load(p))
		goto fail;
	if (opt->streamed)
		return p;
	p->ended = shared_alloc(file->nr);
	p->state = shared_alloc(sizeof(*p->state));
	if (!p->ended || !p->state || (opt->mode == PLAN_DEPEND && !find_ends(p)))
		goto fail;
	p->state->limit = 1;
	return p;
fail:
	plan_free(p);
	return NULL;
}

void plan_free(struct plan *p)
{
	if (!p)
		return;
	free(p->after);
	free(p->means);
	shared_free(p->ended, p->file->nr);
	shared_free(p->state, sizeof(*p->state));
	free(p);
}

__u64 plan_due(const struct plan *p, size_t cmd)
{
	double ns;

	if (p->opt.mode != PLAN_TIME)
		return 0;
	ns = (p->file->cmds[cmd].at_us - p->first_us) * 1000 / p->opt.speed;
	return ns < FAR_NS ? ns : FAR_NS;
}

static bool has_ended(const struct plan *p, __u32 cmd)
{
	return atomic_load_explicit(&p->ended[cmd], memory_order_acquire);
}

bool plan_hold(const struct plan *p, struct plan_view *view, size_t cmd)
{
	__u32 after = p->after[cmd], i;
	struct blocks b;

	if (after <= view->ended)
		return false;
	if (view->checked && !has_ended(p, view->checked - 1))
		return true;
	while (view->ended < after && has_ended(p, view->ended))
		view->ended++;
	i = greater(view->checked, view->ended);
	/* Too many to look at all: wait for the first. */
	if (after > view->ended + WINDOW) {
		view->checked = view->ended + 1;
		return true;
	}
	b = plan_blocks(p, &p->file->cmds[cmd]);
	for (; i < after; i++) {
		if (has_ended(p, i) || !waits(p, i, cmd, &b))
			continue;
		view->checked = i + 1;
		return true;
	}
	view->checked = 0;
	return false;
}

double plan_load(const struct plan *p, size_t cmd)
{
	return p->means[level_group(p->file->nr, cmd)];
}

#define FLIGHT_ONE	(1LL << 48)

/* How many commands are in flight, by plan_state.flight, whose lower part may be negative. */
static unsigned int in_flight(long long flight)
{
	return (flight + FLIGHT_ONE / 2) / FLIGHT_ONE;
}

bool plan_admits(const struct plan *p, size_t cmd)
{
	if (p->opt.mode != PLAN_LOAD)
		return true;
	/* Only the process whose turn it is issues a command: the number can only go down. */
	return atomic_load_explicit(&p->state->turn, memory_order_acquire) == cmd &&
		in_flight(atomic_load_explicit(&p->state->flight, memory_order_relaxed)) <
		p->state->limit;
}

/*
 * Finds out with how many in flight the command after @cmd may be issued, which is issued at @us.
 * @flight: plan_state.flight before that. If too few were in flight until now, the next ones are
 * issued earlier: one more in flight for the time that a command takes makes up for as much.
 */
static void set_limit(struct plan *p, size_t cmd, long long flight, __u64 us)
{
	struct plan_state *s = p->state;
	unsigned int before = in_flight(flight);
	double area = flight - before * FLIGHT_ONE + (double)us * before, more = 0, wanted;
	/* Since when commands were in flight. */
	__u64 from = s->issued_us, until = before ? us : atomic_load(&s->ended_us);

	if (cmd && until > from)
		s->debt += plan_load(p, cmd - 1) * (until - from) - (area - s->area);
	s->issued_us = us;
	s->area = area;
	wanted = plan_load(p, cmd);
	/* Divided by the mean time that commands took. */
	if (cmd > before && area > 0)
		more = s->debt * (cmd - before) / area;
	if (more > wanted / 2 || more < -wanted / 2)
		more = more > 0 ? wanted / 2 : -wanted / 2;
	s->limit = level_limit(wanted + more, p->most);
}

unsigned int plan_issued(struct plan *p, size_t cmd, __u64 ns)
{
	long long before = 0, us = ns / 1000;

	if (p->opt.counts)
		before = atomic_fetch_add_explicit(&p->state->flight, FLIGHT_ONE - us,
						   memory_order_acquire);
	if (p->opt.mode == PLAN_LOAD) {
		set_limit(p, cmd, before, us);
		atomic_store_explicit(&p->state->turn, cmd + 1, memory_order_release);
	}
	return in_flight(before) + 1;
}

void plan_ended(struct plan *p, size_t cmd, __u64 ns)
{
	long long us = ns / 1000;

	atomic_store_explicit(&p->ended[cmd], 1, memory_order_release);
	if (!p->opt.counts)
		return;
	atomic_store_explicit(&p->state->ended_us, us, memory_order_relaxed);
	/* Release: if no command is in flight, plan_issued() sees when the last one ended. */
	atomic_fetch_sub_explicit(&p->state->flight, FLIGHT_ONE - us, memory_order_release);
}

void plan_again(struct plan *p, __u64 start_ns)
{
	memset((void *)p->ended, 0, p->file->nr);
	atomic_store(&p->state->turn, 0);
	atomic_store(&p->state->flight, 0);
	p->state->limit = 1;
	p->state->debt = 0;
	p->state->start_ns = start_ns;
}
