// SPDX-License-Identifier: GPL-2.0
#include <scsi/sg_lib.h>
#include <scsi/sg_unaligned.h>
#include <stdio.h>
#include <string.h>

#include "cdb.h"
#include "util.h"

#define NO_SA	-1

/* Direction, size rule, LBA field and length field of common formats. */
#define NODATA		.dir = DIR_NONE, .size = SIZE_ZERO
#define ANSWER(at, n)	.dir = DIR_IN, .size = SIZE_BYTES, .len_at = (at), .len_len = (n)
#define ALLOC(at, n)	ANSWER(at, n), .flags = CDB_SAFE
#define PARAMS(at, n)	.dir = DIR_OUT, .size = SIZE_BYTES, .len_at = (at), .len_len = (n)
#define AT_6		.lba_at = 1, .lba_len = 3, .len_at = 4, .len_len = 1
#define AT_10		.lba_at = 2, .lba_len = 4, .len_at = 7, .len_len = 2
#define AT_12		.lba_at = 2, .lba_len = 4, .len_at = 6, .len_len = 4
#define AT_16		.lba_at = 2, .lba_len = 8, .len_at = 10, .len_len = 4
#define AT_32		.lba_at = 12, .lba_len = 8, .len_at = 28, .len_len = 4
#define READ		.dir = DIR_IN, .size = SIZE_BLOCKS, .flags = CDB_READ | CDB_SAFE
#define WRITE		.dir = DIR_OUT, .size = SIZE_BLOCKS, .flags = CDB_WRITE
#define VERIFY		.dir = DIR_OUT, .size = SIZE_BLOCKS, .flags = CDB_BYTCHK | CDB_SAFE
#define WRITE_VERIFY	.dir = DIR_OUT, .size = SIZE_BLOCKS
#define WRITE_SAME	.dir = DIR_OUT, .size = SIZE_BLOCK
#define MAY_NDOB	.flags = CDB_NDOB
#define SAFE		.flags = CDB_SAFE

static const struct cdb_op ops[] = {
	{ "tur", "TEST UNIT READY", 0x00, 6, NO_SA, NODATA, SAFE },
	{ NULL, "REZERO UNIT", 0x01, 6, NO_SA, NODATA },
	{ "reqsense", "REQUEST SENSE", 0x03, 6, NO_SA, ALLOC(4, 1) },
	{ "read6", "READ(6)", 0x08, 6, NO_SA, READ, AT_6 },
	{ "write6", "WRITE(6)", 0x0a, 6, NO_SA, WRITE, AT_6 },
	{ "inquiry", "INQUIRY", 0x12, 6, NO_SA, ALLOC(3, 2) },
	{ NULL, "MODE SELECT(6)", 0x15, 6, NO_SA, PARAMS(4, 1) },
	{ NULL, "RESERVE(6)", 0x16, 6, NO_SA, NODATA },
	{ NULL, "RELEASE(6)", 0x17, 6, NO_SA, NODATA },
	{ "modesense6", "MODE SENSE(6)", 0x1a, 6, NO_SA, ALLOC(4, 1) },
	{ NULL, "START STOP UNIT", 0x1b, 6, NO_SA, NODATA },
	{ NULL, "RECEIVE DIAGNOSTIC RESULTS", 0x1c, 6, NO_SA, ALLOC(3, 2) },
	{ NULL, "SEND DIAGNOSTIC", 0x1d, 6, NO_SA, PARAMS(3, 2) },
	{ NULL, "PREVENT ALLOW MEDIUM REMOVAL", 0x1e, 6, NO_SA, NODATA },
	{ "readcap10", "READ CAPACITY(10)", 0x25, 10, NO_SA,
	  .dir = DIR_IN, .size = SIZE_FIXED, .bytes = 8, SAFE },
	{ "read10", "READ(10)", 0x28, 10, NO_SA, READ, AT_10 },
	{ "write10", "WRITE(10)", 0x2a, 10, NO_SA, WRITE, AT_10 },
	{ NULL, "WRITE AND VERIFY(10)", 0x2e, 10, NO_SA, WRITE_VERIFY, AT_10 },
	{ "verify10", "VERIFY(10)", 0x2f, 10, NO_SA, VERIFY, AT_10 },
	{ NULL, "PRE-FETCH(10)", 0x34, 10, NO_SA, NODATA, AT_10, SAFE },
	{ "sync10", "SYNCHRONIZE CACHE(10)", 0x35, 10, NO_SA, NODATA, AT_10, SAFE },
	{ NULL, "READ DEFECT DATA(10)", 0x37, 10, NO_SA, ALLOC(7, 2) },
	{ NULL, "WRITE BUFFER", 0x3b, 10, NO_SA, PARAMS(6, 3) },
	{ NULL, "READ BUFFER(10)", 0x3c, 10, NO_SA, ALLOC(6, 3) },
	{ "writesame10", "WRITE SAME(10)", 0x41, 10, NO_SA, WRITE_SAME, AT_10 },
	{ NULL, "UNMAP", 0x42, 10, NO_SA, PARAMS(7, 2) },
	{ NULL, "LOG SELECT", 0x4c, 10, NO_SA, PARAMS(7, 2) },
	{ NULL, "LOG SENSE", 0x4d, 10, NO_SA, ALLOC(7, 2) },
	{ NULL, "MODE SELECT(10)", 0x55, 10, NO_SA, PARAMS(7, 2) },
	{ "modesense10", "MODE SENSE(10)", 0x5a, 10, NO_SA, ALLOC(7, 2) },
	{ NULL, "PERSISTENT RESERVE IN", 0x5e, 10, NO_SA, ALLOC(7, 2) },
	{ NULL, "PERSISTENT RESERVE OUT", 0x5f, 10, NO_SA, PARAMS(5, 4) },
	{ "read32", "READ(32)", 0x7f, 32, 0x0009, READ, AT_32 },
	{ NULL, "VERIFY(32)", 0x7f, 32, 0x000a, VERIFY, AT_32 },
	{ "write32", "WRITE(32)", 0x7f, 32, 0x000b, WRITE, AT_32 },
	{ NULL, "WRITE AND VERIFY(32)", 0x7f, 32, 0x000c, WRITE_VERIFY, AT_32 },
	{ NULL, "WRITE SAME(32)", 0x7f, 32, 0x000d, WRITE_SAME, AT_32, MAY_NDOB },
	{ NULL, "EXTENDED COPY", 0x83, 16, NO_SA, PARAMS(10, 4) },
	{ NULL, "RECEIVE COPY RESULTS", 0x84, 16, NO_SA, ALLOC(10, 4) },
	{ "read16", "READ(16)", 0x88, 16, NO_SA, READ, AT_16 },
	{ NULL, "COMPARE AND WRITE", 0x89, 16, NO_SA,
	  .dir = DIR_OUT, .size = SIZE_2BLOCKS,
	  .lba_at = 2, .lba_len = 8, .len_at = 13, .len_len = 1 },
	{ "write16", "WRITE(16)", 0x8a, 16, NO_SA, WRITE, AT_16 },
	{ NULL, "ORWRITE(16)", 0x8b, 16, NO_SA, .dir = DIR_OUT, .size = SIZE_BLOCKS, AT_16 },
	{ NULL, "WRITE AND VERIFY(16)", 0x8e, 16, NO_SA, WRITE_VERIFY, AT_16 },
	{ "verify16", "VERIFY(16)", 0x8f, 16, NO_SA, VERIFY, AT_16 },
	{ NULL, "PRE-FETCH(16)", 0x90, 16, NO_SA, NODATA, AT_16, SAFE },
	{ "sync16", "SYNCHRONIZE CACHE(16)", 0x91, 16, NO_SA, NODATA, AT_16, SAFE },
	{ "writesame16", "WRITE SAME(16)", 0x93, 16, NO_SA, WRITE_SAME, AT_16, MAY_NDOB },
	{ NULL, "WRITE ATOMIC(16)", 0x9c, 16, NO_SA,
	  .dir = DIR_OUT, .size = SIZE_BLOCKS,
	  .lba_at = 2, .lba_len = 8, .len_at = 12, .len_len = 2 },
	{ "readcap16", "READ CAPACITY(16)", 0x9e, 16, 0x10, ALLOC(10, 4) },
	{ NULL, "SERVICE ACTION IN(16)", 0x9e, 16, NO_SA, ANSWER(10, 4) },
	{ NULL, "FORMAT WITH PRESET", 0x38, 10, NO_SA, NODATA },
	{ "reportluns", "REPORT LUNS", 0xa0, 12, NO_SA, ALLOC(6, 4) },
	{ NULL, "MAINTENANCE IN", 0xa3, 12, NO_SA, ANSWER(6, 4) },
	{ NULL, "MAINTENANCE OUT", 0xa4, 12, NO_SA, PARAMS(6, 4) },
	{ "read12", "READ(12)", 0xa8, 12, NO_SA, READ, AT_12 },
	{ "write12", "WRITE(12)", 0xaa, 12, NO_SA, WRITE, AT_12 },
	{ NULL, "WRITE AND VERIFY(12)", 0xae, 12, NO_SA, WRITE_VERIFY, AT_12 },
	{ "verify12", "VERIFY(12)", 0xaf, 12, NO_SA, VERIFY, AT_12 },
};

/* More that is CDB_SAFE, of opcodes whose data is not checked. */
static const struct {
	__u8 opcode;
	__s32 sa;
} harmless[] = {
	{ 0x3e, NO_SA },	/* READ LONG(10) */
	{ 0x7f, 0x0012 },	/* GET LBA STATUS(32) */
	{ 0x8c, NO_SA },	/* READ ATTRIBUTE */
	{ 0x95, NO_SA },	/* ZBC IN: REPORT ZONES and others */
	{ 0x9e, 0x11 },		/* READ LONG(16) */
	{ 0x9e, 0x12 },		/* GET LBA STATUS(16) */
	{ 0x9e, 0x13 },		/* REPORT REFERRALS */
	{ 0x9e, 0x16 },		/* GET STREAM STATUS */
	{ 0x9e, 0x17 },		/* GET PHYSICAL ELEMENT STATUS */
	{ 0xa2, NO_SA },	/* SECURITY PROTOCOL IN */
	{ 0xa3, 0x05 },		/* REPORT IDENTIFYING INFORMATION */
	{ 0xa3, 0x0a },		/* REPORT TARGET PORT GROUPS */
	{ 0xa3, 0x0b },		/* REPORT ALIASES */
	{ 0xa3, 0x0c },		/* REPORT SUPPORTED OPERATION CODES */
	{ 0xa3, 0x0d },		/* REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS */
	{ 0xa3, 0x0e },		/* REPORT PRIORITY */
	{ 0xa3, 0x0f },		/* REPORT TIMESTAMP */
	{ 0xb7, NO_SA },	/* READ DEFECT DATA(12) */
};

/* Opcodes that mean the same for all types of devices (SPC). */
static const __u8 common_opcodes[] = {
	0x00, 0x03, 0x12, 0x15, 0x1a, 0x1c, 0x1d, 0x1e, 0x3b, 0x3c, 0x4c, 0x4d, 0x55, 0x5a, 0x5e,
	0x5f, 0x83, 0x84, 0xa0, 0xa3, 0xa4,
};

/* The device is no disk: only the opcodes above are known. */
static bool only_common;

const char *cdb_dir_name(enum cdb_dir dir)
{
	static const char * const names[] = {
		[DIR_NONE] = "none", [DIR_IN] = "in", [DIR_OUT] = "out",
	};

	return names[dir];
}

static __s32 service_action(const __u8 *cdb)
{
	return cdb[0] == 0x7f ? sg_get_unaligned_be16(cdb + 8) : cdb[1] & 0x1f;
}

bool cdb_set_type(int type)
{
	/* The READs and WRITEs of MMC and of optical memory have the formats of SBC. */
	static const int like_disk[] = {
		-1, PDT_DISK, PDT_WO, PDT_MMC, PDT_OPTICAL, PDT_RBC, PDT_ZBC,
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(like_disk); i++)
		if (type == like_disk[i])
			return true;
	only_common = true;
	return false;
}

/* The first entry of each opcode in @ops, plus 1; 0: none. */
static __u8 first_op[256];

static void __attribute__((constructor)) index_ops(void)
{
	unsigned int i;

	for (i = ARRAY_SIZE(ops); i--;)
		first_op[ops[i].opcode] = i + 1;
}

static const struct cdb_op *find_op(const __u8 *cdb, unsigned int len)
{
	unsigned int i = first_op[cdb[0]] - 1u;

	for (; i < ARRAY_SIZE(ops) && ops[i].opcode == cdb[0]; i++)
		if (ops[i].len == len &&
		    (ops[i].sa == NO_SA || ops[i].sa == service_action(cdb)))
			return &ops[i];
	return NULL;
}

const struct cdb_op *cdb_find(const __u8 *cdb, unsigned int len)
{
	if (only_common && !memchr(common_opcodes, cdb[0], sizeof(common_opcodes)))
		return NULL;
	return find_op(cdb, len);
}

const struct cdb_op *cdb_find_gen(const char *name)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(ops); i++)
		if (ops[i].gen && !strcmp(ops[i].gen, name))
			return &ops[i];
	return NULL;
}

bool cdb_check_length(const __u8 *cdb, unsigned int len, char *why, size_t size)
{
	static const __u8 by_group[8] = { 6, 10, 10, 0, 16, 12, 0, 0 };
	unsigned int want = by_group[cdb[0] >> 5];

	if (cdb[0] == 0x7f) {
		if (len < 12 || len % 4) {
			snprintf(why, size,
				 "a variable length CDB (7Fh) has 12 to %d bytes in steps of 4, not %u",
				 CDB_MAX, len);
			return false;
		}
		want = 8 + cdb[7];
	} else if (cdb[0] >> 5 == 3) {
		snprintf(why, size, "opcode %02Xh: group 3 is reserved, no CDB length is defined",
			 cdb[0]);
		return false;
	} else if (!want && len != 6 && len != 10 && len != 12 && len != 16) {
		snprintf(why, size,
			 "opcode %02Xh: a vendor specific CDB has 6, 10, 12 or 16 bytes, not %u",
			 cdb[0], len);
		return false;
	}
	if (want && len != want) {
		snprintf(why, size, "opcode %02Xh needs a CDB of %u bytes, not %u",
			 cdb[0], want, len);
		return false;
	}
	return true;
}

static __u64 get_field(const __u8 *cdb, unsigned int at, unsigned int len)
{
	return len ? sg_get_unaligned_be(len, cdb + at) : 0;
}

__u64 cdb_lba(const struct cdb_op *op, const __u8 *cdb)
{
	return get_field(cdb, op->lba_at, op->lba_len) & cdb_max_lba(op);
}

__u64 cdb_blocks(const struct cdb_op *op, const __u8 *cdb)
{
	__u64 n = get_field(cdb, op->len_at, op->len_len);

	/* In the 6-byte commands a length of 0 means 256 blocks, so they always move data. */
	if (!n && op->size == SIZE_BLOCKS && op->len == 6)
		n = 256;
	return n;
}

__u64 cdb_max_lba(const struct cdb_op *op)
{
	if (op->lba_len == 3)
		return 0x1fffff;
	return op->lba_len == 8 ? ~0ULL : (1ULL << (8 * op->lba_len)) - 1;
}

__u64 cdb_max_blocks(const struct cdb_op *op)
{
	if (op->len == 6 && op->size == SIZE_BLOCKS)
		return 256;
	return (1ULL << (8 * op->len_len)) - 1;
}

/* The rule for the size of the data of this CDB, which depends on its option bits. */
static enum cdb_size size_rule(const struct cdb_op *op, const __u8 *cdb)
{
	__u8 bits = op->len == 32 ? cdb[10] : cdb[1];

	if (op->flags & CDB_BYTCHK) {
		switch ((bits >> 1) & 3) {
		case 0:
		case 2:	/* reserved: the device has to refuse it */
			return SIZE_ZERO;
		case 3:
			return SIZE_BLOCK;
		}
	}
	if ((op->flags & CDB_NDOB) && (bits & 1))
		return SIZE_ZERO;
	return op->size;
}

__u32 cdb_block_size(const struct cdb_op *op, const __u8 *cdb, __u32 bytes)
{
	enum cdb_size rule = size_rule(op, cdb);
	__u64 n = cdb_blocks(op, cdb);

	if (rule == SIZE_2BLOCKS)
		n *= 2;
	else if (rule == SIZE_BLOCK)
		n = 1;
	else if (rule != SIZE_BLOCKS)
		return 0;
	return n && !(bytes % n) ? bytes / n : 0;
}

bool cdb_unmap_range(const __u8 *list, __u32 bytes, unsigned int nth, __u64 *lba, __u64 *blocks)
{
	__u32 at = 8 + 16 * nth;

	if (at + 16 > bytes || at + 16 > 8u + sg_get_unaligned_be16(list + 2))
		return false;
	*lba = sg_get_unaligned_be64(list + at);
	*blocks = sg_get_unaligned_be32(list + at + 8);
	return true;
}

bool cdb_repeats_block(const struct cdb_op *op, const __u8 *cdb)
{
	return size_rule(op, cdb) == SIZE_BLOCK;
}

bool cdb_transfer(const __u8 *cdb, unsigned int len, __u32 block_size, enum cdb_dir *dir,
		  __u64 *bytes)
{
	const struct cdb_op *op = cdb_find(cdb, len);

	if (!op)
		return false;
	switch (size_rule(op, cdb)) {
	case SIZE_ZERO:
		*bytes = 0;
		break;
	case SIZE_FIXED:
		*bytes = op->bytes;
		break;
	case SIZE_BYTES:
		*bytes = cdb_blocks(op, cdb);
		break;
	case SIZE_BLOCKS:
		*bytes = cdb_blocks(op, cdb) * block_size;
		break;
	case SIZE_2BLOCKS:
		*bytes = cdb_blocks(op, cdb) * 2 * block_size;
		break;
	case SIZE_BLOCK:
		*bytes = block_size;
		break;
	}
	*dir = *bytes ? op->dir : DIR_NONE;
	return true;
}

bool cdb_check_data(const __u8 *cdb, unsigned int len, enum cdb_dir dir,
		    __u32 bytes, char *why, size_t size)
{
	const struct cdb_op *op = cdb_find(cdb, len);
	enum cdb_dir want_dir;
	enum cdb_size rule;
	__u64 want;

	if (!op)
		return true;
	/* If BYTES is not divisible, what is wanted is the number of blocks. */
	cdb_transfer(cdb, len, cdb_block_size(op, cdb, bytes) ?: 1, &want_dir, &want);
	if (dir == want_dir && bytes == want)
		return true;
	rule = size_rule(op, cdb);
	if (dir != want_dir)
		snprintf(why, size, "%s with this CDB moves data '%s', not '%s'",
			 op->name, cdb_dir_name(want_dir), cdb_dir_name(dir));
	else if (rule == SIZE_FIXED || rule == SIZE_BYTES)
		snprintf(why, size, "BYTES is %u but the %s CDB says %llu", bytes, op->name, want);
	else
		snprintf(why, size, "BYTES %u is not divisible by the %llu blocks %s moves",
			 bytes, want, op->name);
	return false;
}

bool cdb_changes_medium(const __u8 *cdb, unsigned int len, enum cdb_dir dir)
{
	const struct cdb_op *op = find_op(cdb, len);
	bool safe = op && (op->flags & CDB_SAFE);
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(harmless) && !safe; i++)
		safe = harmless[i].opcode == cdb[0] &&
			(harmless[i].sa == NO_SA || harmless[i].sa == service_action(cdb));
	/* The data-out of VERIFY is only compared. */
	return !safe ||
		(dir == DIR_OUT && (only_common || !op || !(op->flags & CDB_BYTCHK)));
}

static void put_field(__u8 *cdb, unsigned int at, unsigned int len, __u64 val)
{
	while (len--) {
		cdb[at + len] = val & 0xff;
		val >>= 8;
	}
}

void cdb_build(const struct cdb_op *op, __u64 lba, __u64 length, __u8 *cdb)
{
	memset(cdb, 0, op->len);
	cdb[0] = op->opcode;
	if (op->opcode == 0x7f) {
		cdb[7] = op->len - 8;
		put_field(cdb, 8, 2, op->sa);
	} else if (op->sa != NO_SA) {
		cdb[1] = op->sa;
	}
	put_field(cdb, op->lba_at, op->lba_len, lba);
	/* READ(6) and WRITE(6) get only the lowest byte: for 256 blocks that is 0, as in SBC. */
	put_field(cdb, op->len_at, op->len_len, length);
}

bool cdb_set_blocks(const struct cdb_op *op, __u64 lba, __u64 blocks, __u8 *cdb)
{
	__u64 other = get_field(cdb, op->lba_at, op->lba_len) & ~cdb_max_lba(op);

	if (lba > cdb_max_lba(op) || blocks > cdb_max_blocks(op))
		return false;
	put_field(cdb, op->lba_at, op->lba_len, other | lba);
	put_field(cdb, op->len_at, op->len_len, blocks);
	return true;
}
