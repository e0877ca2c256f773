// SPDX-License-Identifier: GPL-2.0
#include <err.h>
#include <string.h>

#include "written.h"

#define UNMAP		0x42
#define EXTENDED_COPY	0x83	/* also WRITE USING TOKEN */
#define COMPARE_AND_WRITE	0x89
#define ORWRITE		0x8b
#define WRITE_SAME_UNMAP	0x08
#define MAX_BLOCK	(1u << 20)

static const __u8 no_data[MAX_BLOCK];

static void add(struct written *w, size_t cmd, __u64 lba, __u64 blocks, __u8 flags)
{
	const struct command *c = &w->file->cmds[cmd];
	struct extent e = {
		.lba = lba, .end = blocks > ~0ULL - lba ? ~0ULL : lba + blocks,
		.cmd = cmd, .line = c->line, .dev = c->dev, .flags = flags,
	};

	if (!blocks)
		return;
	w->nr++;
	if (w->out)
		fwrite_unlocked(&e, sizeof(e), 1, w->out);
}

/* The byte with the option bits. */
static __u8 bits_of(const struct command *cmd)
{
	return cmd->cdb_len == 32 ? cdb_of(cmd)[10] : cdb_of(cmd)[1];
}

static void add_unmap(struct written *w, size_t i)
{
	const struct command *cmd = &w->file->cmds[i];
	unsigned int nth;
	__u64 lba, blocks;

	for (nth = 0; cdb_unmap_range(cmd->data, cmd->bytes, nth, &lba, &blocks); nth++)
		add(w, i, lba, blocks, 0);
}

static void add_same(struct written *w, const struct cdb_op *op, size_t i)
{
	const struct command *cmd = &w->file->cmds[i];
	__u64 lba = cdb_lba(op, cdb_of(cmd)), n = cdb_blocks(op, cdb_of(cmd));
	__u64 last = w->disks[cmd->dev].last_lba;

	/* 0 blocks mean: to the end of the medium; if that is not known, to the greatest LBA. */
	if (!n && last >= lba)
		n = last - lba < ~0ULL ? last - lba + 1 : ~0ULL;
	add(w, i, lba, n, bits_of(cmd) & WRITE_SAME_UNMAP ? 0 : EXTENT_KNOWN | EXTENT_SAME);
}

static bool check_size(const struct written *w, const struct cdb_op *op,
		       const struct command *cmd)
{
	__u32 implied = cdb_block_size(op, cdb_of(cmd), cmd->bytes);
	__u32 size = w->disks[cmd->dev].block_size;

	if (!implied || implied == size)
		return true;
	warnx("%s:%u: BYTES means blocks of %u bytes, the device's blocks have %u", w->file->name,
	      cmd->line, implied, size);
	return false;
}

static bool add_command(struct written *w, size_t i)
{
	const struct command *cmd = &w->file->cmds[i];
	const struct cdb_op *op = cdb_find(cdb_of(cmd), cmd->cdb_len);
	__u8 flags = EXTENT_KNOWN;

	if (!cdb_changes_medium(cdb_of(cmd), cmd->cdb_len, cmd->dir))
		return true;
	switch (cdb_of(cmd)[0]) {
	case UNMAP:
		add_unmap(w, i);
		return true;
	case 0x04:	/* FORMAT UNIT, SANITIZE, FORMAT WITH PRESET */
	case 0x48:
	case 0x38:
		add(w, i, 0, ~0ULL, 0);
		return true;
	case 0x1b:	/* START STOP UNIT changes no blocks */
		return true;
	}
	if (!op || cdb_of(cmd)[0] == EXTENDED_COPY) {
		w->disks[cmd->dev].unclear++;
		return true;
	}
	/* Parameters do not go to the medium; the data of VERIFY is only compared. */
	if (!op->lba_len || (op->flags & CDB_BYTCHK))
		return true;
	if (!check_size(w, op, cmd))
		return false;
	if (cdb_repeats_block(op, cdb_of(cmd)) || (op->flags & CDB_NDOB)) {
		add_same(w, op, i);
		return true;
	}
	if (cdb_of(cmd)[0] == ORWRITE)	/* adds bits to data that may not be known */
		flags = 0;
	else if (cdb_of(cmd)[0] == COMPARE_AND_WRITE)
		flags |= EXTENT_SECOND;
	add(w, i, cdb_lba(op, cdb_of(cmd)), cdb_blocks(op, cdb_of(cmd)), flags);
	return true;
}

bool written_find(struct written *w)
{
	unsigned int t;
	size_t i;

	w->nr = 0;
	for (t = 0; t < FILE_DEVICES; t++)
		w->disks[t].unclear = 0;
	for (i = 0; i < w->file->nr; i++)
		if (!add_command(w, i))
			return false;
	return true;
}

/* The data-out of a command. */
static const char *data_of(struct written *w, const struct command *cmd)
{
	if (!cmd->made)
		return cmd->data;
	if (w->made_of != cmd)
		cmdfile_fill(cmd, w->made);
	w->made_of = cmd;
	return w->made;
}

const void *written_block(struct written *w, const struct command *cmd, __u64 lba)
{
	const struct cdb_op *op = cdb_find(cdb_of(cmd), cmd->cdb_len);
	const char *data = data_of(w, cmd);
	__u64 nth = lba - cdb_lba(op, cdb_of(cmd));

	if (!data)	/* WRITE SAME without a data-out buffer */
		return no_data;
	if (cdb_repeats_block(op, cdb_of(cmd)))
		return data;
	/* The data to write comes after the data to compare with. */
	if (cdb_of(cmd)[0] == COMPARE_AND_WRITE)
		nth += cdb_blocks(op, cdb_of(cmd));
	return data + nth * w->disks[cmd->dev].block_size;
}
