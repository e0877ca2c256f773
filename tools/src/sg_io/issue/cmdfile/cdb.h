/* SPDX-License-Identifier: GPL-2.0 */
/* Properties of a CDB that are known before it is sent: length, direction, LBA, bytes. */
#ifndef SG_IO_CDB_H
#define SG_IO_CDB_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

#define CDB_MAX		32	/* bytes of the longest CDB that sg, bsg and the mid-layer take */
#define DATA_MAX	(256u << 20)	/* bytes of one command, sg's own limit */

enum cdb_dir {
	DIR_NONE,
	DIR_IN,
	DIR_OUT,
};

/* Where the size of the data comes from. */
enum cdb_size {
	SIZE_ZERO,	/* no data */
	SIZE_FIXED,	/* always the same for this command */
	SIZE_BYTES,	/* an allocation or parameter list length in the CDB */
	SIZE_BLOCKS,	/* the transfer length in blocks */
	SIZE_2BLOCKS,	/* COMPARE AND WRITE: data to compare, then data to write */
	SIZE_BLOCK,	/* one block, whatever the length field says */
};

enum cdb_flag {
	CDB_READ	= 1 << 0,	/* plain READ, which block I/O can also do */
	CDB_WRITE	= 1 << 1,	/* plain WRITE, which block I/O can also do */
	CDB_BYTCHK	= 1 << 2,	/* VERIFY: data-out only if BYTCHK is set */
	CDB_NDOB	= 1 << 3,	/* WRITE SAME: no data-out if the NDOB bit is set */
	/* Changes neither the medium nor what other users of the disk depend on. */
	CDB_SAFE	= 1 << 4,
};

/**
 * struct cdb_op - one opcode of SPC or SBC
 * @gen: its name for cdb_find_gen(), that of "gen --op" in judge/gen.py; NULL if it has none
 * @name: the name in the standards
 * @opcode: CDB byte 0
 * @len: bytes of the CDB
 * @sa: service action, if several commands share the opcode; -1: not checked
 * @dir: data direction, DIR_NONE if @size is SIZE_ZERO
 * @size: what determines how much data the command moves
 * @lba_at: offset of the LBA, 0 if there is none
 * @lba_len: bytes of the LBA field
 * @len_at: offset of the length field
 * @len_len: bytes of the length field
 * @bytes: for SIZE_FIXED the size of the data; for SIZE_BYTES the allocation length that gen writes
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

/**
 * cdb_set_type() - tell cdb_find() for which type of device the CDBs are
 * @type: the peripheral device type; -1: not known. Until it is set, CDBs are read as those of a
 *	disk (SBC)
 *
 * Return: whether CDBs are still read as those of a disk. If not, only the opcodes that all types
 * of devices have in common (SPC) are known.
 */
bool cdb_set_type(int type);

/* The table entry of a CDB of @len bytes, NULL if the opcode is not known. */
const struct cdb_op *cdb_find(const __u8 *cdb, unsigned int len);
const struct cdb_op *cdb_find_gen(const char *name);

/**
 * cdb_check_length() - check the length of a CDB
 * @cdb: at least one byte
 * @len: its length in bytes
 * @why: receives the reason if the length is wrong
 * @size: of @why
 *
 * Return: true if the length is that of the opcode's group (SPC: byte 0, bits 7-5).
 */
bool cdb_check_length(const __u8 *cdb, unsigned int len, char *why, size_t size);

/*
 * Returns true if direction and byte count agree with the CDB, or if the opcode is not known. If
 * they do not agree, returns false and writes the reason to @why, of @size bytes.
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
 * @len: its length in bytes
 * @block_size: of the device
 * @dir: receives the direction of the data
 * @bytes: receives the size of the data
 *
 * Return: false if the opcode is not known.
 */
bool cdb_transfer(const __u8 *cdb, unsigned int len, __u32 block_size, enum cdb_dir *dir,
		  __u64 *bytes);

/* Whether the command uses one block of data for all its blocks: WRITE SAME, BYTCHK 3. */
bool cdb_repeats_block(const struct cdb_op *op, const __u8 *cdb);

/* The @nth range of UNMAP's parameter list, of @bytes bytes; false if there is none. */
bool cdb_unmap_range(const __u8 *list, __u32 bytes, unsigned int nth, __u64 *lba, __u64 *blocks);

/* The block size that follows from @bytes of data; 0 if the CDB does not determine it. */
__u32 cdb_block_size(const struct cdb_op *op, const __u8 *cdb, __u32 bytes);

/*
 * Whether a command may change data on the medium, or how the disk behaves: all may but those that
 * are known to read only.
 */
bool cdb_changes_medium(const __u8 *cdb, unsigned int len, enum cdb_dir dir);

/* Writes the CDB of @op; the caller has checked the values against the limits. */
void cdb_build(const struct cdb_op *op, __u64 lba, __u64 length, __u8 *cdb);

/*
 * Sets LBA and number of blocks in a CDB of @op, and leaves the rest. Return: false if a field has
 * no room for the value.
 */
bool cdb_set_blocks(const struct cdb_op *op, __u64 lba, __u64 blocks, __u8 *cdb);

#endif
