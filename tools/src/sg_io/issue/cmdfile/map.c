// SPDX-License-Identifier: GPL-2.0
#include <stdio.h>
#include <string.h>

#include "map.h"

/* @n times the scale, and plus or minus the offset; returns false if the result does not fit. */
static bool move(const struct map *map, __u64 n, __u64 *out)
{
	unsigned __int128 v = (unsigned __int128)n * map->scale / SCALE_1;

	if (map->minus ? v < map->offset : v + map->offset > ~0ULL)
		return false;
	*out = map->minus ? v - map->offset : v + map->offset;
	return true;
}

/* Moves and scales the blocks of a command that has an LBA. */
static bool move_blocks(const struct map *map, const struct map_target *t,
			const struct cdb_op *op, struct command *cmd, char *why, size_t size)
{
	__u64 lba = cdb_lba(op, cdb_of(cmd)), blocks = cdb_blocks(op, cdb_of(cmd));
	__u64 first, end, n, bytes;
	__u32 block_size = cdb_block_size(op, cdb_of(cmd), cmd->bytes);

	if (block_size && t->block_size && block_size != t->block_size &&
	    block_size != t->block_size + 8) {
		snprintf(why, size, "BYTES means blocks of %u bytes, %s has %u", block_size,
			 t->name, t->block_size);
		return false;
	}
	if (blocks > ~0ULL - lba || !move(map, lba, &first) || !move(map, lba + blocks, &end)) {
		snprintf(why, size, "LBA %llu: there is no such block after offset= and scale=",
			 lba);
		return false;
	}
	/* Neighbours stay neighbours, and a command with blocks keeps at least one. */
	n = blocks && end == first ? 1 : end - first;
	if (t->blocks && (first > t->blocks || n > t->blocks - first)) {
		snprintf(why, size, "LBA %llu, %llu block%s: %s has %llu blocks", first, n,
			 n == 1 ? "" : "s", t->name, t->blocks);
		return false;
	}
	if (!cdb_set_blocks(op, first, n, cdb_of(cmd))) {
		snprintf(why, size, "LBA %llu, %llu block%s: beyond what %s can have", first, n,
			 n == 1 ? "" : "s", op->name);
		return false;
	}
	if (n == blocks || !blocks || (op->size != SIZE_BLOCKS && op->size != SIZE_2BLOCKS))
		return true;
	bytes = cmd->bytes / blocks * n;
	if (bytes > DATA_MAX) {
		snprintf(why, size, "%llu bytes are over the limit of %u", bytes, DATA_MAX);
		return false;
	}
	cmd->bytes = bytes;
	return true;
}

enum map_result map_command(const struct maps *m, const char *dev, struct command *cmd,
			    char *why, size_t size)
{
	const struct cdb_op *op = cdb_find(cdb_of(cmd), cmd->cdb_len);
	unsigned int i;

	if (cmd->at_us < m->from_us || cmd->at_us >= m->to_us)
		return MAP_DROP;
	if (!m->nr)
		return MAP_KEEP;
	/* A recording of one device need not name it. */
	for (i = 0; i < m->nr && (dev || m->nr > 1); i++)
		if (dev && !strcmp(m->maps[i].old, dev))
			break;
	if (i == m->nr) {
		if (dev)
			snprintf(why, size, "dev=%s: no --map says where its commands go: add "
				 "--map %s=%s, or another device after the =", dev, dev, dev);
		else
			snprintf(why, size, "no dev=: no --map says where its commands go");
		return MAP_FAIL;
	}
	cmd->dev = m->maps[i].target;
	if (op && op->lba_len &&
	    !move_blocks(&m->maps[i], &m->targets[cmd->dev], op, cmd, why, size))
		return MAP_FAIL;
	return MAP_KEEP;
}
