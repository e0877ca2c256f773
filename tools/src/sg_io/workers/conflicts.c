// SPDX-License-Identifier: GPL-2.0
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "conflicts.h"
#include "util.h"

#define UNMAP		0x42
#define WINDOW		4096	/* the most commands that one check looks at */

enum use {
	USE_NONE,
	USE_READ,
	USE_FLUSH,	/* waits for writes; nothing waits for it */
	USE_WRITE,
};

/* The blocks that a command uses, from the first to the last. */
struct blocks {
	__u64 first;
	__u64 last;
	__u32 after;	/* its last conflict is the command before this place; 0: it has none */
	__u8 use;	/* enum use */
	__u8 dev;
};

struct conflicts {
	size_t nr;
	struct blocks *cmds;	/* in the order in which conflicts are resolved: by place */
	__u32 *place;		/* of each command of the file; NULL: the same as its index */
	/*
	 * By place: the command has ended. Each is written once, by the process that issued the
	 * command: the release in conflicts_ended() pairs with the acquire in has_ended(). So what
	 * comes after a command that was held also comes after the end of its conflicts.
	 */
	atomic_uchar *ended;
};

/*
 * The places of the latest commands that use the blocks, plus 1; 0: none. A tree whose leaves are
 * the pieces of the medium between two boundaries of commands. A place that is set for all pieces
 * under a node is in the node's @all. @max is the greatest place in or under the node.
 */
struct node {
	__u32 max;
	__u32 all;
};

struct latest {
	__u64 *bounds;		/* the first block of each piece, ascending */
	size_t nr;
	struct node *writes;	/* 2 * @nr nodes; the children of node i are 2i and 2i + 1 */
	struct node *uses;	/* the same for reads and writes */
};

static bool is_flush(const struct command *cmd)
{
	return cmd->cdb[0] == 0x35 || cmd->cdb[0] == 0x91;
}

static bool is_prefetch(const struct command *cmd)
{
	return cmd->cdb[0] == 0x34 || cmd->cdb[0] == 0x90;
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

static struct blocks blocks_of(const struct command *cmd, double speed)
{
	const struct cdb_op *op = cdb_find(cmd->cdb, cmd->cdb_len);
	struct blocks b = { .last = ~0ULL };
	__u64 n;

	if (op && cmd->cdb[0] == UNMAP && cmd->data)
		return unmapped_blocks(cmd);
	if (!op || !op->lba_len) {
		/* It may use any block, or none. */
		if (!op || cdb_changes_medium(cmd->cdb, cmd->cdb_len, cmd->dir))
			b.use = USE_WRITE;
		return b;
	}
	if (is_prefetch(cmd) || (is_flush(cmd) && speed == 1))
		return b;
	b.first = cdb_lba(op, cmd->cdb);
	n = cdb_blocks(op, cmd->cdb);
	if (n && n - 1 <= ~0ULL - b.first)
		b.last = b.first + n - 1;
	if (is_flush(cmd))
		b.use = USE_FLUSH;
	else if (op->dir == DIR_OUT && !(op->flags & CDB_BYTCHK))
		b.use = USE_WRITE;
	else
		b.use = USE_READ;
	/* Of no blocks: WRITE SAME and a flush reach to the end of the medium, others use none. */
	if (!n && !is_flush(cmd) && !cdb_repeats_block(op, cmd->cdb) && !(op->flags & CDB_NDOB))
		b.use = USE_NONE;
	return b;
}

static bool do_conflict(const struct blocks *earlier, const struct blocks *later)
{
	if (earlier->dev != later->dev || earlier->first > later->last ||
	    later->first > earlier->last)
		return false;
	if (earlier->use == USE_WRITE)
		return later->use != USE_NONE;
	return earlier->use == USE_READ && later->use == USE_WRITE;
}

static __u32 place_of(const struct conflicts *c, size_t cmd)
{
	return c->place ? c->place[cmd] : cmd;
}

static int by_time(const void *a, const void *b, void *arg)
{
	const struct command *cmds = arg;
	__u32 x = *(const __u32 *)a, y = *(const __u32 *)b;

	if (cmds[x].at_us != cmds[y].at_us)
		return cmds[x].at_us < cmds[y].at_us ? -1 : 1;
	return x < y ? -1 : 1;
}

/* Sets the places if times matter and do not ascend. Return: false if there is no memory. */
static bool set_places(struct conflicts *c, const struct cmdfile *file, double speed)
{
	__u32 *order;
	size_t i;

	for (i = 1; i < c->nr; i++)
		if (file->cmds[i].at_us < file->cmds[i - 1].at_us)
			break;
	if (!speed || i >= c->nr)
		return true;
	order = calloc(c->nr, sizeof(*order));
	c->place = calloc(c->nr, sizeof(*c->place));
	if (!order || !c->place) {
		free(order);
		return false;
	}
	for (i = 0; i < c->nr; i++)
		order[i] = i;
	qsort_r(order, c->nr, sizeof(*order), by_time, file->cmds);
	for (i = 0; i < c->nr; i++)
		c->place[order[i]] = i;
	free(order);
	return true;
}

static int compare_u64(const void *a, const void *b)
{
	const __u64 *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Return: false if there is no memory. */
static bool latest_init(struct latest *t, const struct conflicts *c, unsigned int dev)
{
	size_t i, nr = 0;

	t->bounds = calloc(2 * c->nr + 1, sizeof(*t->bounds));
	if (!t->bounds)
		return false;
	for (i = 0; i < c->nr; i++) {
		if (c->cmds[i].use == USE_NONE || c->cmds[i].dev != dev)
			continue;
		t->bounds[nr++] = c->cmds[i].first;
		if (c->cmds[i].last != ~0ULL)
			t->bounds[nr++] = c->cmds[i].last + 1;
	}
	qsort(t->bounds, nr, sizeof(*t->bounds), compare_u64);
	for (i = 0; i < nr; i++)
		if (!i || t->bounds[i] != t->bounds[t->nr - 1])
			t->bounds[t->nr++] = t->bounds[i];
	t->writes = calloc(2 * t->nr + 1, sizeof(*t->writes));
	t->uses = calloc(2 * t->nr + 1, sizeof(*t->uses));
	return t->writes && t->uses;
}

static void latest_free(struct latest *t)
{
	free(t->bounds);
	free(t->writes);
	free(t->uses);
}

/* The index of the piece that begins with @block, which is one of the bounds. */
static size_t piece_of(const struct latest *t, __u64 block)
{
	size_t low = 0, high = t->nr - 1, middle;

	while (low < high) {
		middle = (low + high) / 2;
		if (t->bounds[middle] < block)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static __u32 greater(__u32 a, __u32 b)
{
	return a > b ? a : b;
}

/* The greatest value of the pieces from @from up to, but not including, @to. */
static __u32 get_max(const struct node *nodes, size_t nr, size_t from, size_t to)
{
	size_t low = from + nr, high = to + nr, i;
	__u32 max = 0;

	for (i = low / 2; i; i /= 2)
		max = greater(max, nodes[i].all);
	for (i = (high - 1) / 2; i; i /= 2)
		max = greater(max, nodes[i].all);
	for (; low < high; low /= 2, high /= 2) {
		if (low & 1)
			max = greater(max, nodes[low++].max);
		if (high & 1)
			max = greater(max, nodes[--high].max);
	}
	return max;
}

/* Sets the pieces from @from up to, but not including, @to. No value so far is greater. */
static void set_all(struct node *nodes, size_t nr, size_t from, size_t to, __u32 value)
{
	const struct node set = { .max = value, .all = value };
	size_t low = from + nr, high = to + nr, i;

	for (i = low / 2; i; i /= 2)
		nodes[i].max = value;
	for (i = (high - 1) / 2; i; i /= 2)
		nodes[i].max = value;
	for (; low < high; low /= 2, high /= 2) {
		if (low & 1)
			nodes[low++] = set;
		if (high & 1)
			nodes[--high] = set;
	}
}

static void find_conflicts(struct conflicts *c, struct latest *t, unsigned int dev)
{
	size_t i, from, to;
	struct blocks *b;

	for (i = 0; i < c->nr; i++) {
		b = &c->cmds[i];
		if (b->use == USE_NONE || b->dev != dev)
			continue;
		from = piece_of(t, b->first);
		to = b->last == ~0ULL ? t->nr : piece_of(t, b->last + 1);
		b->after = get_max(b->use == USE_WRITE ? t->uses : t->writes, t->nr, from, to);
		if (b->use == USE_FLUSH)
			continue;
		set_all(t->uses, t->nr, from, to, i + 1);
		if (b->use == USE_WRITE)
			set_all(t->writes, t->nr, from, to, i + 1);
	}
}

struct conflicts *conflicts_new(const struct cmdfile *file, double speed)
{
	struct conflicts *c = calloc(1, sizeof(*c));
	unsigned int nr_devs = 0, dev;
	struct blocks *b;
	bool ok = false;
	struct latest t;
	size_t i;

	if (!c)
		return NULL;
	c->nr = file->nr;
	c->cmds = calloc(c->nr + 1, sizeof(*c->cmds));
	c->ended = shared_alloc(c->nr + 1);
	if (c->cmds && c->ended && set_places(c, file, speed)) {
		for (i = 0; i < c->nr; i++) {
			b = &c->cmds[place_of(c, i)];
			*b = blocks_of(&file->cmds[i], speed);
			b->dev = file->cmds[i].dev;
			nr_devs = b->dev >= nr_devs ? b->dev + 1u : nr_devs;
		}
		ok = true;
	}
	for (dev = 0; ok && dev < nr_devs; dev++) {
		t = (struct latest){};
		ok = latest_init(&t, c, dev);
		if (ok && t.nr)
			find_conflicts(c, &t, dev);
		latest_free(&t);
	}
	if (ok)
		return c;
	conflicts_free(c);
	return NULL;
}

void conflicts_free(struct conflicts *c)
{
	if (!c)
		return;
	free(c->cmds);
	free(c->place);
	shared_free(c->ended, c->nr + 1);
	free(c);
}

static bool has_ended(const struct conflicts *c, __u32 place)
{
	return atomic_load_explicit(&c->ended[place], memory_order_acquire);
}

bool conflicts_hold(const struct conflicts *c, struct conflict_view *view, size_t cmd)
{
	const struct blocks *b = &c->cmds[place_of(c, cmd)];
	__u32 i;

	if (b->after <= view->ended)
		return false;
	if (view->checked && !has_ended(c, view->checked - 1))
		return true;
	while (view->ended < b->after && has_ended(c, view->ended))
		view->ended++;
	i = greater(view->checked, view->ended);
	/* Too many to look at all: wait for the first. */
	if (b->after > view->ended + WINDOW) {
		view->checked = view->ended + 1;
		return true;
	}
	for (; i < b->after; i++) {
		if (has_ended(c, i) || !do_conflict(&c->cmds[i], b))
			continue;
		view->checked = i + 1;
		return true;
	}
	view->checked = 0;
	return false;
}

void conflicts_ended(struct conflicts *c, size_t cmd)
{
	atomic_store_explicit(&c->ended[place_of(c, cmd)], 1, memory_order_release);
}
