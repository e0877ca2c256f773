/* SPDX-License-Identifier: GPL-2.0 */
/* Properties of a CDB that are known before it is sent: length, direction, LBA, bytes. */
#ifndef SG_IO_CDB_H
#define SG_IO_CDB_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

#define CDB_MAX		32	/* what sg, bsg and the mid-layer take */
#define DATA_MAX	(256u << 20)	/* bytes of one command, sg's own limit */

enum cdb_dir {
	DIR_NONE,
	DIR_IN,
	DIR_OUT,
};

/* Where the size of the data comes from. */
enum cdb_size {
	SIZE_ZERO,	/* no data at all */
	SIZE_FIXED,	/* the command defines it */
	SIZE_BYTES,	/* an allocation or parameter list length in the CDB */
	SIZE_BLOCKS,	/* the transfer length in blocks */
	SIZE_2BLOCKS,	/* COMPARE AND WRITE: data to compare, then data to write */
	SIZE_BLOCK,	/* one block whatever the length field says */
};

enum cdb_flag {
	CDB_READ	= 1 << 0,	/* plain READ: the block layer has it too */
	CDB_WRITE	= 1 << 1,	/* plain WRITE */
	CDB_BYTCHK	= 1 << 2,	/* VERIFY: data only when BYTCHK asks */
	CDB_NDOB	= 1 << 3,	/* WRITE SAME: the NDOB bit drops the data */
	CDB_CHANGES	= 1 << 4,	/* destructive although no data goes out */
};

/**
 * struct cdb_op - one opcode of SPC or SBC
 * @gen: its name for "gen --op", NULL when gen does not make it
 * @name: the name in the standards
 * @opcode: CDB byte 0
 * @len: bytes of the CDB
 * @sa: service action, when the opcode is shared (-1: not looked at)
 * @dir: data direction, DIR_NONE when @size is SIZE_ZERO
 * @size: rule for BYTES
 * @lba_at: offset of the LBA, 0 when there is none
 * @lba_len: bytes of the LBA field
 * @len_at: offset of the length field
 * @len_len: bytes of the length field
 * @bytes: data length for SIZE_FIXED; for gen the allocation length
 * @flags: enum cdb_flag
 */
struct cdb_op {
	const char *gen;
	const char *name;
	__u8 opcode;
	__u8 len;
	__s32 sa;
	enum cdb_dir dir;
	enum cdb_size size;
	__u8 lba_at;
	__u8 lba_len;
	__u8 len_at;
	__u8 len_len;
	__u32 bytes;
	unsigned int flags;
};

const char *cdb_dir_name(enum cdb_dir dir);

/* The table entry of a CDB of @len bytes, NULL when the opcode is not known. */
const struct cdb_op *cdb_find(const __u8 *cdb, unsigned int len);
const struct cdb_op *cdb_find_gen(const char *name);
/* All names for gen, one call each until NULL. */
const char *cdb_gen_name(unsigned int i);

/**
 * cdb_check_length() - whether a CDB of this opcode has this many bytes
 * @cdb: at least one byte
 * @len: bytes given
 * @why: reason when it does not
 * @size: of @why
 *
 * Return: true when the length fits the opcode's group (SPC: byte 0, bits 7-5).
 */
bool cdb_check_length(const __u8 *cdb, unsigned int len, char *why, size_t size);

/**
 * cdb_check_data() - whether direction and byte count agree with a known CDB Unknown opcodes always
 * pass; known ones are read as a disk's (SBC).
 */
bool cdb_check_data(const __u8 *cdb, unsigned int len, enum cdb_dir dir,
		    __u32 bytes, char *why, size_t size);

__u64 cdb_lba(const struct cdb_op *op, const __u8 *cdb);
__u64 cdb_blocks(const struct cdb_op *op, const __u8 *cdb);
__u64 cdb_max_lba(const struct cdb_op *op);
__u64 cdb_max_blocks(const struct cdb_op *op);

/**
 * cdb_transfer() - the data that a known CDB moves on a device with blocks of @block_size
 * @cdb: the command
 * @len: its bytes
 * @block_size: of the device
 * @dir: where the data goes
 * @bytes: how much of it
 *
 * Return: false if the opcode is not known.
 */
bool cdb_transfer(const __u8 *cdb, unsigned int len, __u32 block_size, enum cdb_dir *dir,
		  __u64 *bytes);

/*
 * Whether the command has one block of data for all its blocks: WRITE SAME, VERIFY with BYTCHK 3.
 */
bool cdb_repeats_block(const struct cdb_op *op, const __u8 *cdb);

/* Bytes per block that follow from BYTES; 0 if the command does not determine them. */
__u32 cdb_block_size(const struct cdb_op *op, const __u8 *cdb, __u32 bytes);

/* Whether a command may change data on the medium. Unknown commands with data-out may. */
bool cdb_changes_medium(const __u8 *cdb, unsigned int len, enum cdb_dir dir);

/* Writes the CDB of @op; the caller has checked the values against the limits. */
void cdb_build(const struct cdb_op *op, __u64 lba, __u64 length, __u8 *cdb);

#endif
