// SPDX-License-Identifier: GPL-2.0
/* CDBs for fio's directions (SBC-4). */
#include "engine.h"

#include <scsi/sg_unaligned.h>

#define SYNCHRONIZE_CACHE_10	0x35
#define UNMAP			0x42
#define VARIABLE_LENGTH		0x7f
#define ADDITIONAL_LENGTH	0x18	/* of a 32-byte CDB */
#define FUA			0x08
#define BYTCHK(n)		((n) << 1)

/* A command in all its lengths: opcodes, and the service action of the 32-byte CDB, 0: none. */
struct command_set {
	uint8_t op10;
	uint8_t op16;
	uint8_t action32;
};

static const struct command_set read_set = { 0x28, 0x88, 0x09 };
static const struct command_set write_set = { 0x2a, 0x8a, 0x0b };
static const struct command_set verify_set = { 0x2f, 0x8f, 0x0a };
static const struct command_set prefetch_set = { 0x34, 0x90, 0 };

static const struct command_set *set_of(const struct engine_options *o, bool write)
{
	if (write)
		return o->write_mode == WRITES_VERIFY ? &verify_set : &write_set;
	return o->read_mode == READS_PREFETCH ? &prefetch_set : &read_set;
}

bool cdb_needs_adhoc(const struct engine_options *o, bool write)
{
	return o->cdb_len == 32 || set_of(o, write) == &prefetch_set;
}

uint32_t cdb_data(const struct engine_options *o, const struct target *t, bool write,
		  uint32_t length)
{
	const struct command_set *set = set_of(o, write);

	if (set == &prefetch_set || (set == &verify_set && !o->verify_bytchk))
		return 0;
	return set == &verify_set && o->verify_bytchk == 3 ? t->block : length;
}

/* What is the same in all lengths: FUA and BYTCHK. */
static uint8_t flags_of(const struct engine_options *o, const struct command_set *set)
{
	if (set == &verify_set)
		return BYTCHK(o->verify_bytchk);
	return (set == &read_set && o->read_fua) || (set == &write_set && o->write_fua) ? FUA : 0;
}

static bool is_short(const struct target *t, uint64_t blocks)
{
	return t->blocks <= 1ULL << 32 && blocks <= UINT16_MAX;
}

bool cdb_reaches(const struct engine_options *o, const struct target *t, uint64_t bytes)
{
	return o->cdb_len != 10 || is_short(t, bytes / t->block);
}

int cdb_transfer(const struct engine_options *o, const struct target *t, bool write,
		 uint64_t offset, uint64_t length, uint8_t *cdb)
{
	uint64_t lba = offset / t->block, blocks = length / t->block;
	const struct command_set *set = set_of(o, write);
	unsigned int len = o->cdb_len;

	/*
	 * Use the 10-byte commands if they can address the whole disk: some disks support no
	 * others.
	 */
	if (!len)
		len = is_short(t, blocks) ? 10 : 16;
	if (blocks > UINT32_MAX || (len == 10 && !is_short(t, blocks)))
		return -ERANGE;
	memset(cdb, 0, len);
	switch (len) {
	case 10:
		cdb[0] = set->op10;
		cdb[1] = flags_of(o, set);
		sg_put_unaligned_be32(lba, cdb + 2);
		sg_put_unaligned_be16(blocks, cdb + 7);
		break;
	case 16:
		cdb[0] = set->op16;
		cdb[1] = flags_of(o, set);
		sg_put_unaligned_be64(lba, cdb + 2);
		sg_put_unaligned_be32(blocks, cdb + 10);
		break;
	case 32:
		cdb[0] = VARIABLE_LENGTH;
		cdb[7] = ADDITIONAL_LENGTH;
		cdb[9] = set->action32;
		cdb[10] = flags_of(o, set);
		sg_put_unaligned_be64(lba, cdb + 12);
		/* The expected reference tag of a disk with protection information of type 2. */
		sg_put_unaligned_be32(lba, cdb + 20);
		sg_put_unaligned_be32(blocks, cdb + 28);
		break;
	}
	return len;
}

/* LBA 0 and 0 blocks mean the whole disk. */
int cdb_sync(uint8_t *cdb)
{
	memset(cdb, 0, 10);
	cdb[0] = SYNCHRONIZE_CACHE_10;
	return 10;
}

int cdb_unmap(const struct target *t, uint64_t offset, uint64_t length, uint8_t *cdb,
	      uint8_t parameters[24])
{
	uint64_t blocks = length / t->block;

	if (blocks > UINT32_MAX)
		return -ERANGE;
	memset(cdb, 0, 10);
	cdb[0] = UNMAP;
	sg_put_unaligned_be16(24, cdb + 7);
	/* One block descriptor follows the header. */
	memset(parameters, 0, 24);
	sg_put_unaligned_be16(22, parameters);
	sg_put_unaligned_be16(16, parameters + 2);
	sg_put_unaligned_be64(offset / t->block, parameters + 8);
	sg_put_unaligned_be32(blocks, parameters + 16);
	return 10;
}
