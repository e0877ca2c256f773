// SPDX-License-Identifier: GPL-2.0
/* Random commands for slots, most of them valid, and SMQ_SG_PREPARE. */
#include <string.h>
#include <sys/ioctl.h>

#include "slot.h"
#include "steps.h"
#include "tally.h"

#define MOST_PREPARED	8
#define REQUEST_SENSE		0x03
#define INQUIRY		0x12
#define VENDOR		0xc1

/* lba_end, length_end: index of the last byte of the LBA and of the transfer length in the CDB. */
static const struct {
	unsigned char opcode, cdb_len, lba_end, length_end;
	unsigned char direction;
} media[] = {
	/* MEDIA_KINDS commands that read, as many that write, and VERIFY. */
	{ 0x08, 6, 3, 4, SMQ_SG_IN }, { 0x28, 10, 5, 8, SMQ_SG_IN },
	{ 0xa8, 12, 5, 9, SMQ_SG_IN }, { 0x88, 16, 9, 13, SMQ_SG_IN },
	{ 0x0a, 6, 3, 4, SMQ_SG_OUT }, { 0x2a, 10, 5, 8, SMQ_SG_OUT },
	{ 0xaa, 12, 5, 9, SMQ_SG_OUT }, { 0x8a, 16, 9, 13, SMQ_SG_OUT },
	{ 0x2f, 10, 5, 8, SMQ_SG_NONE },
};

uint64_t shared_lba(struct rnd *r)
{
	static const uint64_t beyond[] = { 0x1000000, 0xffffffffULL, 1ULL << 40, ~0ULL };

	if (once_in(r, 30))
		return beyond[rnd(r, 4)];
	return rnd(r, SHARED_BLOCKS - 4 * MOST_BLOCKS);
}

void media_command(struct smq_sg_slot *slot, unsigned int kind, uint32_t lba, unsigned int blocks)
{
	unsigned int end = media[kind].lba_end;

	slot->cdb[0] = media[kind].opcode;
	slot->cdb_len = media[kind].cdb_len;
	slot->cdb[end] = lba;
	slot->cdb[end - 1] = lba >> 8;
	slot->cdb[end - 2] |= lba >> 16;
	slot->cdb[media[kind].length_end] = blocks;
	slot->direction = media[kind].direction;
	if (slot->direction != SMQ_SG_NONE)
		slot->length = blocks * BLOCK;
}

static void slot_media(struct smq_sg_slot *slot, struct rnd *r)
{
	unsigned int blocks = 1 << rnd(r, 7);

	media_command(slot, rnd(r, sizeof(media) / sizeof(media[0])),
		      rnd(r, SHARED_BLOCKS - 4 * MOST_BLOCKS), blocks);
	if (slot->direction == SMQ_SG_NONE)
		return;
	slot->buffer = rnd(r, BUFFERS);
	slot->offset = BLOCK * rnd(r, BUFFER_SIZE / BLOCK - blocks + 1);
}

static void slot_inquiry(struct smq_sg_slot *slot, struct rnd *r)
{
	slot->cdb[0] = INQUIRY;
	slot->cdb[4] = 96;
	slot->cdb_len = 6;
	slot->direction = SMQ_SG_IN;
	slot->length = BLOCK;
	slot->buffer = rnd(r, BUFFERS);
	slot->offset = BLOCK * rnd(r, BUFFER_SIZE / BLOCK);
}

/*
 * Sets one field to a random value, which may be invalid. Does not change the LBA in the CDB: the
 * command must not write to a task's own blocks.
 */
static void slot_spoil(struct smq_sg_slot *slot, struct rnd *r)
{
	switch (rnd(r, 10)) {
	case 0:
		slot->flags = rnd64(r);
		break;
	case 1:
		slot->buffer = rnd64(r);
		break;
	case 2:
		slot->offset = rnd64(r) >> rnd(r, 64);
		break;
	case 3:
		slot->length = rnd64(r) >> rnd(r, 64);
		break;
	case 4:
		slot->direction = rnd64(r);
		break;
	case 5:
		slot->cdb_len = rnd64(r);
		break;
	case 6:
		slot->reserved = 1;
		break;
	case 7:
		slot->cdb[SMQ_SG_MAX_CDB - 1] = 1;
		break;
	case 8:
		slot->cdb_len = 0;
		break;
	default:
		slot->timeout_ms = rnd64(r) | 0x1000;
	}
}

static void slot_random(struct smq_sg_slot *slot, struct rnd *r)
{
	unsigned int kind = rnd(r, 12);

	memset(slot, 0, sizeof(*slot));
	if (!kind)
		return;		/* an empty command empties the slot */
	if (kind == 1)
		slot_inquiry(slot, r);
	else if (kind > 3)
		slot_media(slot, r);
	else
		slot->cdb_len = kind == 2 ? 6 : 10;	/* 2: TEST UNIT READY; 3: see below */
	if (kind == 3)
		slot->cdb[0] = once_in(r, 2) ? VENDOR : REQUEST_SENSE;
	slot->flags = once_in(r, 2) ? SMQ_SG_SLOT_HELD : 0;
	slot->timeout_ms = once_in(r, 4) ? 5000 + rnd(r, 5000) : 0;
	if (once_in(r, 10))
		slot_spoil(slot, r);
}

void step_prepare(struct task *task, struct rnd *r)
{
	struct smq_sg_slot slots[MOST_PREPARED];
	struct smq_sg_prepare arg = { .slots = ADDRESS(slots) };
	unsigned int i;
	int ret;

	arg.count = 1 + rnd(r, MOST_PREPARED);
	arg.first = rnd(r, SLOTS - arg.count + 1);
	for (i = 0; i < arg.count; i++)
		slot_random(&slots[i], r);
	if (once_in(r, 20))
		arg.slots = once_in(r, 2) ? 0 : 16;
	if (once_in(r, 20))
		arg.first += SLOTS;
	if (once_in(r, 30))
		arg.count = once_in(r, 2) ? 0 : ~0U;
	if (once_in(r, 30))
		arg.flags = rnd64(r);
	if (once_in(r, 30))
		arg.reserved = rnd64(r);
	ret = result_of(ioctl(task->fd, SMQ_SG_PREPARE, &arg));
	tally_field(OP_PREPARE, ret, arg.field);
	if (!ret && arg.done != arg.count)
		report("PREPARE returned 0 with %u of %u slots done", arg.done, arg.count);
}
