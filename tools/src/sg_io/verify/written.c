// SPDX-License-Identifier: GPL-2.0
#include <err.h>
#include <stdlib.h>
#include <string.h>

#include "util.h"
#include "written.h"

#define UNMAP		0x42
#define EXTENDED_COPY	0x83	/* also WRITE USING TOKEN */
#define COMPARE_AND_WRITE	0x89
#define ORWRITE		0x8b
#define WRITE_SAME_UNMAP	0x08
#define WRITE_SAME_NDOB		0x01
#define MAX_BLOCK	(1u << 20)

static const __u8 no_data[MAX_BLOCK];

struct build {
	struct written *w;
	__u64 last_lba;
	size_t room;
};

static bool add(struct build *b, __u64 lba, __u64 blocks, size_t cmd, bool known)
{
	struct written *w = b->w;

	if (!blocks)
		return true;
	if (blocks - 1 > ~0ULL - lba)
		blocks = ~0ULL - lba + 1;
	if (!array_make_room(&w->extents, sizeof(*w->extents), w->nr, &b->room)) {
		warnx("no memory for what %zu commands wrote", cmd);
		return false;
	}
	w->extents[w->nr++] = (struct extent){
		.lba = lba, .blocks = blocks, .cmd = cmd, .known = known,
	};
	return true;
}

/* The byte with the option bits. */
static __u8 bits_of(const struct command *cmd)
{
	return cmd->cdb_len == 32 ? cdb_of(cmd)[10] : cdb_of(cmd)[1];
}

static bool add_unmap(struct build *b, size_t i)
{
	const struct command *cmd = &b->w->file->cmds[i];
	unsigned int nth;
	__u64 lba, blocks;

	for (nth = 0; cdb_unmap_range(cmd->data, cmd->bytes, nth, &lba, &blocks); nth++)
		if (!add(b, lba, blocks, i, false))
			return false;
	return true;
}

static bool add_same(struct build *b, const struct cdb_op *op, size_t i)
{
	const struct command *cmd = &b->w->file->cmds[i];
	__u64 lba = cdb_lba(op, cdb_of(cmd)), n = cdb_blocks(op, cdb_of(cmd));

	/* 0 blocks mean: to the end of the medium; if that is not known, to the greatest LBA. */
	if (!n && b->last_lba >= lba)
		n = b->last_lba - lba < ~0ULL ? b->last_lba - lba + 1 : ~0ULL;
	return add(b, lba, n, i, !(bits_of(cmd) & WRITE_SAME_UNMAP));
}

/* For commands after which the contents of no block are known. */
static bool add_all(struct build *b, size_t i)
{
	return add(b, 0, ~0ULL, i, false);
}

static bool check_size(const struct build *b, const struct cdb_op *op, const struct command *cmd)
{
	__u32 implied = cdb_block_size(op, cdb_of(cmd), cmd->bytes);

	if (!implied || implied == b->w->block_size)
		return true;
	warnx("%s:%u: BYTES means blocks of %u bytes, the device's blocks have %u",
	      b->w->file->name, cmd->line, implied, b->w->block_size);
	return false;
}

static bool add_command(struct build *b, size_t i)
{
	const struct command *cmd = &b->w->file->cmds[i];
	const struct cdb_op *op = cdb_find(cdb_of(cmd), cmd->cdb_len);

	if (!cdb_changes_medium(cdb_of(cmd), cmd->cdb_len, cmd->dir))
		return true;
	if (cdb_of(cmd)[0] == UNMAP)
		return add_unmap(b, i);
	/* FORMAT UNIT, SANITIZE, FORMAT WITH PRESET. */
	if (cdb_of(cmd)[0] == 0x04 || cdb_of(cmd)[0] == 0x48 || cdb_of(cmd)[0] == 0x38)
		return add_all(b, i);
	/* START STOP UNIT changes no blocks. */
	if (cdb_of(cmd)[0] == 0x1b)
		return true;
	if (!op || cdb_of(cmd)[0] == EXTENDED_COPY) {
		b->w->unclear++;
		return true;
	}
	/* Parameters do not go to the medium; the data of VERIFY is only compared. */
	if (!op->lba_len || (op->flags & CDB_BYTCHK))
		return true;
	if (!check_size(b, op, cmd))
		return false;
	if (cdb_repeats_block(op, cdb_of(cmd)) || (op->flags & CDB_NDOB))
		return add_same(b, op, i);
	/* ORWRITE adds bits to data that may not be known. */
	return add(b, cdb_lba(op, cdb_of(cmd)), cdb_blocks(op, cdb_of(cmd)), i,
		   cdb_of(cmd)[0] != ORWRITE);
}

static int by_lba(const void *a, const void *b)
{
	const struct extent *x = a, *y = b;

	return (x->lba > y->lba) - (x->lba < y->lba);
}

static __u64 end_of(const struct extent *e)
{
	/* If the extent ends with the greatest possible LBA, this returns that LBA. */
	return e->blocks > ~0ULL - e->lba ? ~0ULL : e->lba + e->blocks;
}

/*
 * A heap of extents that may overlap. The extent of the last command is on top, because that
 * command overwrote the others.
 */
struct heap {
	const struct extent **e;
	size_t nr;
};

static void heap_push(struct heap *h, const struct extent *e)
{
	size_t at = h->nr++, up;

	for (; at; at = up) {
		up = (at - 1) / 2;
		if (h->e[up]->cmd > e->cmd)
			break;
		h->e[at] = h->e[up];
	}
	h->e[at] = e;
}

static void heap_pop(struct heap *h)
{
	const struct extent *last = h->e[--h->nr];
	size_t at = 0, down;

	for (; (down = 2 * at + 1) < h->nr; at = down) {
		if (down + 1 < h->nr && h->e[down + 1]->cmd > h->e[down]->cmd)
			down++;
		if (last->cmd > h->e[down]->cmd)
			break;
		h->e[at] = h->e[down];
	}
	h->e[at] = last;
}

/* Appends the blocks from @from up to @to, which no later command covers, to the extents. */
static bool emit(struct build *b, const struct extent *top, __u64 from, __u64 to)
{
	struct extent *last = b->w->nr ? &b->w->extents[b->w->nr - 1] : NULL;

	if (last && last->cmd == top->cmd && last->lba + last->blocks == from) {
		last->blocks += to - from;
		return true;
	}
	return add(b, from, to - from, top->cmd, top->known);
}

/* Replaces extents that may overlap by the parts that no later command covers. */
static bool flatten(struct build *b)
{
	struct written *w = b->w;
	struct extent *all = w->extents;
	size_t nr = w->nr, next = 0;
	struct heap h = {};
	__u64 at = 0, to;
	bool ok = true;

	if (!nr)
		return true;
	w->extents = NULL;
	w->nr = 0;
	b->room = 0;
	h.e = calloc(nr, sizeof(*h.e));
	if (!h.e) {
		warnx("no memory for what the commands wrote");
		free(all);
		return false;
	}
	qsort(all, nr, sizeof(*all), by_lba);
	while (ok && (h.nr || next < nr)) {
		if (!h.nr)
			at = all[next].lba;
		while (next < nr && all[next].lba <= at)
			heap_push(&h, &all[next++]);
		while (h.nr && end_of(h.e[0]) <= at)
			heap_pop(&h);
		if (!h.nr)
			continue;
		to = end_of(h.e[0]);
		if (next < nr && all[next].lba < to)
			to = all[next].lba;
		ok = emit(b, h.e[0], at, to);
		at = to;
	}
	free(h.e);
	free(all);
	return ok;
}

int written_find(const struct cmdfile *file, __u32 block_size, __u64 last_lba, struct written *w)
{
	struct build b = { .w = w, .last_lba = last_lba };
	size_t i;

	*w = (struct written){ .file = file, .block_size = block_size };
	for (i = 0; i < 2; i++) {
		w->made[i].data = malloc(file->max_bytes + 1);
		if (!w->made[i].data) {
			warnx("no memory");
			goto fail;
		}
	}
	for (i = 0; i < file->nr; i++)
		if (!add_command(&b, i))
			goto fail;
	if (!flatten(&b))
		goto fail;
	for (i = 0; i < w->nr; i++)
		if (w->extents[i].known)
			w->blocks += w->extents[i].blocks;
	return 0;
fail:
	written_free(w);
	return -1;
}

void written_free(struct written *w)
{
	free(w->extents);
	free(w->made[0].data);
	free(w->made[1].data);
	*w = (struct written){};
}

/* The data-out of a command; @made keeps that of one. */
static const char *data_of(const struct command *cmd, struct made *made)
{
	if (!cmd->made)
		return cmd->data;
	if (made->cmd != cmd)
		cmdfile_fill(cmd, made->data);
	made->cmd = cmd;
	return made->data;
}

static const void *find_block(const struct written *w, const struct command *cmd, __u64 lba,
			      struct made *made)
{
	const struct cdb_op *op = cdb_find(cdb_of(cmd), cmd->cdb_len);
	const char *data = data_of(cmd, made);
	__u64 nth = lba - cdb_lba(op, cdb_of(cmd));

	if (!data)	/* WRITE SAME without a data-out buffer */
		return no_data;
	if (cdb_repeats_block(op, cdb_of(cmd)))
		return data;
	/* The data to write comes after the data to compare with. */
	if (cdb_of(cmd)[0] == COMPARE_AND_WRITE)
		nth += cdb_blocks(op, cdb_of(cmd));
	return data + nth * w->block_size;
}

const void *written_block(struct written *w, const struct extent *e, __u64 lba)
{
	return find_block(w, &w->file->cmds[e->cmd], lba, &w->made[0]);
}

static int by_line(const void *key, const void *cmd)
{
	__u32 line = *(const __u32 *)key, other = ((const struct command *)cmd)->line;

	return (line > other) - (line < other);
}

bool written_by_line(struct written *w, __u32 line, __u64 lba, const void *block)
{
	const struct cmdfile *file = w->file;
	const struct command *cmd = bsearch(&line, file->cmds, file->nr, sizeof(*cmd), by_line);
	const struct cdb_op *op;

	if (!cmd || cmd->dir != DIR_OUT)
		return false;
	op = cdb_find(cdb_of(cmd), cmd->cdb_len);
	if (!op || !op->lba_len || (op->flags & CDB_BYTCHK) || lba < cdb_lba(op, cdb_of(cmd)) ||
	    lba - cdb_lba(op, cdb_of(cmd)) >= cdb_blocks(op, cdb_of(cmd)))
		return false;
	return !memcmp(block, find_block(w, cmd, lba, &w->made[1]), w->block_size);
}
