/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The fio engine "smq": what its files share.
 *
 * Each job, thread or process, has a struct engine with a ring of its own, a struct node for
 * each file that it has open, and a struct command for each of fio's io_us. Nothing is shared
 * between jobs but the claims of target.c.
 */
#ifndef FIO_SMQ_ENGINE_H
#define FIO_SMQ_ENGINE_H

#include <fio.h>
#include <libsmq.h>

#define SENSE_BYTES	96
#define MAX_EVENTS	256U	/* fetched at a time */
#define HELD_SHARE	50U	/* percent of the depth that MODE_HELD asks for */

enum mode {
	MODE_PREPARED,
	MODE_HELD,
	MODE_ADHOC,
};

/* What the user may set. fio takes an offset of 0 for none. */
struct engine_options {
	void *unused;
	unsigned int mode;
	unsigned int batch;
	unsigned int timeout_ms;
};

/* The slots of an io_u in each node. */
enum kind {
	KIND_READ,
	KIND_WRITE,
	KIND_SYNC,
	KINDS,
};

/**
 * struct command - what an io_u has beside fio's; from io_u_init to io_u_free
 * @io_u: whose
 * @index: of the io_u in its job
 * @outcome: how it ended, once it did not end well
 * @sent: ad hoc: the command, which points to what follows
 */
struct command {
	struct io_u *io_u;
	unsigned int index;
	struct smq_outcome outcome;
	struct smq_sg_uring_cmd sent;
	uint8_t cdb[16];
	uint8_t parameters[24];
	uint8_t sense[SENSE_BYTES];
};

/**
 * struct entry - one of the ring's: a whole command, or slots to be run
 * @next: of the unused or the refused ones
 * @node: where it goes
 * @adhoc: it is a whole command
 * @nr: its commands
 * @commands: they, engine.room at most
 * @runs: what the kernel reads until it is done
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
 * struct target - what a file of fio's is
 * @dev: open
 * @info: limits
 * @block: bytes of a logical block
 * @blocks: how many it has
 */
struct target {
	struct smq_device *dev;
	struct smq_sg_info info;
	unsigned int block;
	uint64_t blocks;
};

/**
 * struct node - an open file; from open_file to close_file
 * @next: of the engine's
 * @target: what it is
 * @contents: by slot: which data it was prepared for
 * @filling: the entry to which runs are being added, or NULL
 */
struct node {
	struct node *next;
	struct target target;
	struct content {
		uint64_t at;		/* in the engine's memory */
		uint32_t length;	/* 0: not prepared */
	} *contents;
	struct entry *filling;
};

/**
 * struct engine - a job's; from init to cleanup
 * @ring: for all of its nodes
 * @options: what the user has set
 * @depth: io_us that there are
 * @room: commands of one entry at most
 * @memory: begin of the io_us' buffers, NULL where they have none
 * @memory_size: their bytes
 * @chunk: bytes of it that are lent as one buffer
 * @nodes: open files
 * @unused: entries for the next
 * @refused: entries with commands that found too many waiting, or no room in the ring; they go when
 *	others have ended
 * @in_flight: entries queued and not reaped
 * @queued: io_us of which fio wants to know when they were submitted, and their number
 * @done: io_us that have ended and fio has not asked for: a ring of @depth, from @first_done on
 * @events: io_us that fio is taking
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
 * Opens and looks at a node. Return: 0, or a negative errno after one message.
 */
int target_open(const char *name, struct target *t);
void target_close(struct target *t);

/*
 * Are the job's blocks within the limits, and is the disk free for what it writes? That is asked at
 * setup, where nothing is known of a job that has its I/O from a log. Return: false after one
 * message.
 */
bool target_takes(struct thread_data *td, const char *name, const struct target *t);
bool target_may_write(const struct thread_data *td, const char *name);

/* fio's setup: sizes, and whether the job fits its files. Return: 0, or 1 after one message. */
int target_setup(struct thread_data *td);

/* Return: 0, or 1 after one message; the job's error is set. */
int node_open(struct thread_data *td, struct fio_file *f);
int node_close(struct thread_data *td, struct fio_file *f);

/* Sees to it that a slot moves the io_u's data. Return: its number, or a negative errno. */
int node_slot(const struct engine *e, struct node *n, const struct command *c);

/* Give an io_u to the ring, prepared or as it is. Return: 0 or a negative errno. */
int entry_add_run(struct engine *e, struct node *n, struct command *c);
int entry_add_command(struct engine *e, struct node *n, struct command *c);

/* Close all entries that are being filled, and submit. Return: 0 or a negative errno. */
int entry_submit(struct engine *e);

/* Fetch what has ended, @least of it. Return: entries, or a negative errno. */
int entry_reap(struct engine *e, unsigned int least, int64_t wait_ns);

void entry_free_all(struct engine *e);

/* CDBs. Return: bytes, or a negative errno. */
int cdb_transfer(const struct target *t, bool write, uint64_t offset, uint64_t length,
		 uint8_t *cdb);
int cdb_sync(uint8_t *cdb);
int cdb_unmap(const struct target *t, uint64_t offset, uint64_t length, uint8_t *cdb,
	      uint8_t parameters[24]);

#endif
