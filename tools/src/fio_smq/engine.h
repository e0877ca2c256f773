/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The fio engine "smq": declarations for all its files.
 *
 * Each job, a thread or a process, has a struct engine with a ring of its own, a struct node for
 * each file that it has open, and a struct command for each of fio's io_us. Jobs share nothing
 * except the exclusive opens of target.c.
 */
#ifndef FIO_SMQ_ENGINE_H
#define FIO_SMQ_ENGINE_H

#include <fio.h>
#include <libsmq.h>

#define SENSE_BYTES	96
#define MAX_EVENTS	256U	/* fetched at a time */

enum mode {
	MODE_PREPARED,
	MODE_HELD,	/* another name of MODE_PREPARED */
	MODE_ADHOC,
};

/* The options. @unused fills offset 0, which fio takes to mean that an option has no variable. */
struct engine_options {
	void *unused;
	unsigned int mode;
	unsigned int batch;
	unsigned int timeout_ms;
	unsigned int cdb_len;		/* 0: 10 bytes, or 16 if these do not suffice */
	unsigned int write_mode;	/* enum write_mode */
	unsigned int verify_bytchk;
	unsigned int read_mode;		/* enum read_mode */
	unsigned int read_fua;
	unsigned int write_fua;
};

/* What a write of fio becomes. */
enum write_mode {
	WRITES_WRITE,
	WRITES_VERIFY,
};

/* What a read of fio becomes. */
enum read_mode {
	READS_READ,
	READS_PREFETCH,
};

/* In each node an io_u has one slot of each kind. */
enum kind {
	KIND_READ,
	KIND_WRITE,
	KIND_SYNC,
	KINDS,
};

/**
 * struct command - the engine's part of an io_u; from io_u_init to io_u_free
 * @io_u: the io_u
 * @index: index of the io_u in its job
 * @outcome: how the command ended
 * @sent: the command, if it is sent ad hoc; it points to the fields below
 */
struct command {
	struct io_u *io_u;
	unsigned int index;
	struct smq_outcome outcome;
	struct smq_sg_uring_cmd sent;
	uint8_t cdb[32];
	uint8_t parameters[24];
	uint8_t sense[SENSE_BYTES];
};

/**
 * struct entry - an entry of the ring: one ad hoc command, or slots to be run
 * @next: in the list of unused or refused entries
 * @node: the node that its commands go to
 * @adhoc: the entry is an ad hoc command
 * @nr: number of its commands
 * @commands: its commands, at most engine.room
 * @runs: the slots to run; the kernel reads this memory until the entry ends
 */
struct entry {
	struct entry *next;
	struct node *node;
	bool adhoc;
	unsigned int nr;
	struct command **commands;
	struct smq_sg_run runs[];
};

/**
 * struct target - the disk behind a file of fio
 * @dev: the open node
 * @info: the node's limits
 * @block: bytes of a logical block
 * @blocks: number of blocks
 */
struct target {
	struct smq_device *dev;
	struct smq_sg_info info;
	unsigned int block;
	uint64_t blocks;
};

/**
 * struct node - an open file; from open_file to close_file
 * @next: in the engine's list
 * @target: its disk
 * @contents: indexed by slot: the data for which the slot was prepared
 * @filling: the entry to which runs are being added, or NULL
 */
struct node {
	struct node *next;
	struct target target;
	struct content {
		uint64_t at;		/* offset in engine.memory */
		uint32_t length;	/* 0: not prepared */
	} *contents;
	struct entry *filling;
};

/**
 * struct engine - the engine's state of a job; from init to cleanup
 * @ring: the ring, for all nodes of the job
 * @options: the user's options
 * @depth: number of io_us
 * @room: the most commands in one entry
 * @memory: start of the io_us' buffers, NULL if they have none
 * @memory_size: length of that memory, in bytes
 * @chunk: bytes of that memory that are pinned as one buffer
 * @nodes: open files
 * @unused: entries that can be used next
 * @refused: entries with commands that the kernel refused because too many commands wait, and
 *	entries for which the ring had no room; both are sent again when other commands have ended
 * @in_flight: number of entries that are queued and not reaped
 * @queued: @nr_queued io_us for which fio has not been told the time of submission
 * @done: @nr_done io_us that have ended and that fio has not taken: a ring buffer of @depth entries
 *	that begins at @first_done
 * @events: io_us that getevents() has handed to fio
 */
struct engine {
	struct smq_ring *ring;
	const struct engine_options *options;
	unsigned int depth;
	unsigned int room;
	char *memory;
	size_t memory_size;
	size_t chunk;
	struct node *nodes;
	struct entry *unused;
	struct entry *refused;
	unsigned int in_flight;
	struct io_u **queued;
	unsigned int nr_queued;
	struct io_u **done;
	unsigned int first_done;
	unsigned int nr_done;
	struct io_u **events;
	struct smq_event got[MAX_EVENTS];
};

/*
 * Opens a node and reads its limits. Return: 0, or a negative errno after one message.
 */
int target_open(const char *name, struct target *t);
void target_close(struct target *t);

/*
 * target_takes() checks that the job's blocks are within the limits. target_may_write() checks that
 * the disk is not in use, if the job writes to it. Return: false after one message. Setup makes
 * both checks. Each open makes them again, because a job may read its I/O from a log: then setup
 * does not know the I/O yet.
 */
bool target_takes(struct thread_data *td, const char *name, const struct target *t);
bool target_may_write(const struct thread_data *td, const char *name);

/*
 * fio's setup: finds the sizes of the files, and checks that the job can run on them. Return: 0, or
 * 1 after one message.
 */
int target_setup(struct thread_data *td);

/* Return: 0, or 1 after one message, with the job's error set. */
int node_open(struct thread_data *td, struct fio_file *f);
int node_close(struct thread_data *td, struct fio_file *f);

/* Makes sure that a slot is prepared for the io_u. Return: its number, or a negative errno. */
int node_slot(const struct engine *e, struct node *n, const struct command *c);

/*
 * Give an io_u to the ring: entry_add_run() runs its slot, entry_add_command() sends its command
 * ad hoc. Return: 0 or a negative errno.
 */
int entry_add_run(struct engine *e, struct node *n, struct command *c);
int entry_add_command(struct engine *e, struct node *n, struct command *c);

/* Queue all entries that are being filled, and submit. Return: 0 or a negative errno. */
int entry_submit(struct engine *e);

/* Reap at least @least entries. Return: their number, or a negative errno. */
int entry_reap(struct engine *e, unsigned int least, int64_t wait_ns);

void entry_free_all(struct engine *e);

/*
 * Whether a read or write has no slot, because a run cannot set the LBA of its CDB: it is sent ad
 * hoc.
 */
bool cdb_needs_adhoc(const struct engine_options *o, bool write);
/* How many bytes of fio's buffer the command for a read or write moves. */
uint32_t cdb_data(const struct engine_options *o, const struct target *t, bool write,
		  uint32_t length);
/* Whether the CDBs of --cdb_len can have all LBAs of the disk, and @bytes. */
bool cdb_reaches(const struct engine_options *o, const struct target *t, uint64_t bytes);

/* Build a CDB. Return: its length in bytes, or a negative errno. */
int cdb_transfer(const struct engine_options *o, const struct target *t, bool write,
		 uint64_t offset, uint64_t length, uint8_t *cdb);
int cdb_sync(uint8_t *cdb);
int cdb_unmap(const struct target *t, uint64_t offset, uint64_t length, uint8_t *cdb,
	      uint8_t parameters[24]);

#endif
