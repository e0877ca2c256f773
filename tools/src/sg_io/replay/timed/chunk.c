// SPDX-License-Identifier: GPL-2.0
#include "chunk.h"
#include "util.h"

#define MEMORY	(16ULL << 20)	/* of a chunk, unless a single command needs more */

__u64 chunk_own_bytes(const struct cmdfile *file, const struct command *cmd)
{
	if (cmd->dir == DIR_NONE || (cmd->dir == DIR_IN && !file->expects_data))
		return 0;
	return (cmd->bytes + CHUNK_PAGE - 1) & ~(CHUNK_PAGE - 1);
}

__u64 chunk_measure(const struct cmdfile *file, struct timed *t)
{
	unsigned int counts[FILE_DEVICES] = {};
	__u64 bytes = 0, each, largest = 0, most = 0;
	const struct command *cmd;
	size_t i;

	for (i = 0; i < file->nr; i++) {
		if (i >= CHUNK_COMMANDS) {
			cmd = &file->cmds[i - CHUNK_COMMANDS];
			bytes -= chunk_own_bytes(file, cmd);
			counts[cmd->dev]--;
		}
		cmd = &file->cmds[i];
		each = chunk_own_bytes(file, cmd);
		bytes += each;
		largest = each > largest ? each : largest;
		most = bytes > most ? bytes : most;
		if (t && ++counts[cmd->dev] > t->targets[cmd->dev].room)
			t->targets[cmd->dev].room = counts[cmd->dev];
	}
	if (most > MEMORY)
		return largest > MEMORY ? largest : MEMORY;
	return most;
}

struct smq_sg_timed_entry *chunk_add_entry(struct timed *t, struct part *p, __u64 due, __u32 after)
{
	struct smq_sg_timed_entry *e;

	if (!array_make_room(&p->entries, sizeof(*p->entries), p->nr, &p->entries_room) ||
	    !array_make_room(&p->results, sizeof(*p->results), p->nr, &p->results_room))
		return NULL;
	e = &p->entries[p->nr];
	*e = (struct smq_sg_timed_entry){
		.run.flags = SMQ_SG_TIMED_NOTHING | SMQ_SG_TIMED_NUMBER |
			     (after ? SMQ_SG_TIMED_AFTER : 0),
		.due = due, .number = ++t->number, .after = after,
	};
	t->ends[t->number % SMQ_SG_TIMED_WINDOW] = 0;
	/* The kernel writes 0, see timed_collect(). */
	p->results[p->nr++] = (struct smq_sg_timed_result){ .reserved = ~0u };
	return e;
}
