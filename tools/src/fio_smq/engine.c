// SPDX-License-Identifier: GPL-2.0
/*
 * A fio I/O engine on libsmq: reads and writes as SCSI commands through /dev/smqsgN.
 * docs/fio.md says how to use it.
 */
#include "engine.h"

#include <optgroup.h>
#include <verify.h>

#define MAX_RING	32768U	/* the most entries of an io_uring */
#define MAX_TIMEOUT	3600000	/* ms */

static struct fio_option options[] = {
	{
		.name = "smq_mode",
		.lname = "How commands are sent",
		.type = FIO_OPT_STR,
		.off1 = offsetof(struct engine_options, mode),
		.help = "How commands are sent",
		.def = "prepared",
		.posval = {
			{ .ival = "prepared", .oval = MODE_PREPARED,
			  .help = "Slots prepared before the job begins" },
			{ .ival = "held", .oval = MODE_HELD,
			  .help = "Another name of prepared, whose slots gain as much now" },
			{ .ival = "adhoc", .oval = MODE_ADHOC,
			  .help = "Each I/O sends a whole command; nothing is prepared" },
		},
		.category = FIO_OPT_C_ENGINE,
		.group = FIO_OPT_G_INVALID,
	},
	{
		.name = "smq_batch",
		.lname = "One ring entry for a batch",
		.type = FIO_OPT_BOOL,
		.off1 = offsetof(struct engine_options, batch),
		.help = "Submit iodepth_batch I/Os as one entry of the ring, with one completion",
		.def = "1",
		.category = FIO_OPT_C_ENGINE,
		.group = FIO_OPT_G_INVALID,
	},
	{
		.name = "smq_timeout",
		.lname = "Timeout of a command in milliseconds",
		.type = FIO_OPT_INT,
		.off1 = offsetof(struct engine_options, timeout_ms),
		.help = "Milliseconds until the kernel begins error handling",
		.minval = 1,
		.maxval = MAX_TIMEOUT,
		.def = "60000",
		.category = FIO_OPT_C_ENGINE,
		.group = FIO_OPT_G_INVALID,
	},
	/* The names below are those of fio's own engines for NVMe and bsg. */
	{
		.name = "cdb_len",
		.lname = "Bytes of a CDB",
		.type = FIO_OPT_INT,
		.off1 = offsetof(struct engine_options, cdb_len),
		.help = "10, 16 or 32 bytes; 0: 10, or 16 if the disk or the block needs it",
		.def = "0",
		.category = FIO_OPT_C_ENGINE,
		.group = FIO_OPT_G_INVALID,
	},
	{
		.name = "write_mode",
		.lname = "What a write becomes",
		.type = FIO_OPT_STR,
		.off1 = offsetof(struct engine_options, write_mode),
		.help = "The command that a write becomes",
		.def = "write",
		.posval = {
			{ .ival = "write", .oval = WRITES_WRITE, .help = "WRITE" },
			{ .ival = "verify", .oval = WRITES_VERIFY,
			  .help = "VERIFY, which writes nothing" },
		},
		.category = FIO_OPT_C_ENGINE,
		.group = FIO_OPT_G_INVALID,
	},
	{
		.name = "verify_bytchk",
		.lname = "BYTCHK of VERIFY",
		.type = FIO_OPT_INT,
		.off1 = offsetof(struct engine_options, verify_bytchk),
		.help = "What VERIFY compares: 0: nothing, 1: all data, 3: each block with one",
		.def = "0",
		.category = FIO_OPT_C_ENGINE,
		.group = FIO_OPT_G_INVALID,
	},
	{
		.name = "read_mode",
		.lname = "What a read becomes",
		.type = FIO_OPT_STR,
		.off1 = offsetof(struct engine_options, read_mode),
		.help = "The command that a read becomes",
		.def = "read",
		.posval = {
			{ .ival = "read", .oval = READS_READ, .help = "READ" },
			{ .ival = "prefetch", .oval = READS_PREFETCH,
			  .help = "PRE-FETCH, which moves no data to the host" },
		},
		.category = FIO_OPT_C_ENGINE,
		.group = FIO_OPT_G_INVALID,
	},
	{
		.name = "readfua",
		.lname = "FUA of READ",
		.type = FIO_OPT_BOOL,
		.off1 = offsetof(struct engine_options, read_fua),
		.help = "Set FUA in each READ",
		.def = "0",
		.category = FIO_OPT_C_ENGINE,
		.group = FIO_OPT_G_INVALID,
	},
	{
		.name = "writefua",
		.lname = "FUA of WRITE",
		.type = FIO_OPT_BOOL,
		.off1 = offsetof(struct engine_options, write_fua),
		.help = "Set FUA in each WRITE",
		.def = "0",
		.category = FIO_OPT_C_ENGINE,
		.group = FIO_OPT_G_INVALID,
	},
	{ .name = NULL },
};

static void cleanup(struct thread_data *td)
{
	struct engine *e = td->io_ops_data;

	if (!e)
		return;
	smq_ring_free(e->ring);
	entry_free_all(e);
	free(e->queued);
	free(e->done);
	free(e->events);
	free(e);
}

/* Whether the job's options are possible, alone and together. Prints the reason if not. */
static bool options_fit(const struct thread_data *td, const struct engine_options *o)
{
	if (o->cdb_len && o->cdb_len != 10 && o->cdb_len != 16 && o->cdb_len != 32) {
		log_err("fio: smq: cdb_len=%u is not 0, 10, 16 or 32\n", o->cdb_len);
		return false;
	}
	if (o->verify_bytchk > 3 || o->verify_bytchk == 2) {
		log_err("fio: smq: verify_bytchk=%u is not 0, 1 or 3\n", o->verify_bytchk);
		return false;
	}
	if (o->cdb_len == 32 && o->read_mode == READS_PREFETCH && td_read(td)) {
		log_err("fio: smq: there is no PRE-FETCH with cdb_len=32\n");
		return false;
	}
	if (td->o.verify != VERIFY_NONE &&
	    (o->write_mode != WRITES_WRITE || o->read_mode != READS_READ)) {
		log_err("fio: smq: verify= needs write_mode=write and read_mode=read\n");
		return false;
	}
	return true;
}

static int init(struct thread_data *td)
{
	const struct engine_options *o = td->eo;
	unsigned int flags = 0;
	struct engine *e;
	int ret;

	if (td->o.iodepth > SMQ_SG_MAX_SLOTS / KINDS) {
		log_err("fio: smq: iodepth=%u is over the limit, %u\n", td->o.iodepth,
			SMQ_SG_MAX_SLOTS / KINDS);
		return 1;
	}
	/* If a later chunk has a larger block, fio allocates new buffers, which are not lent. */
	if (td->o.read_iolog_chunked && o->mode != MODE_ADHOC) {
		log_err("fio: smq: read_iolog_chunked needs smq_mode=adhoc, because fio may move "
			"its buffers\n");
		return 1;
	}
	if (!options_fit(td, o))
		return 1;
	e = calloc(1, sizeof(*e));
	if (!e)
		return 1;
	td->io_ops_data = e;
	e->options = o;
	e->depth = td->o.iodepth;
	e->room = o->batch ? min(max(td->o.iodepth_batch, 1U), e->depth) : 1;
	e->queued = calloc(e->depth, sizeof(*e->queued));
	e->done = calloc(e->depth, sizeof(*e->done));
	e->events = calloc(e->depth, sizeof(*e->events));
	if (!e->queued || !e->done || !e->events)
		return 1;
	/* UNMAP is always sent ad hoc: its data is too short for a prepared command. */
	if (o->mode == MODE_ADHOC || td_trim(td) || cdb_needs_adhoc(o, false) ||
	    cdb_needs_adhoc(o, true))
		flags = SMQ_RING_COMMANDS;
	ret = smq_ring_new(min(e->depth, MAX_RING), flags, &e->ring);
	if (ret)
		log_err("fio: smq: io_uring: %s\n", smq_strerror(SMQ_CALL_RING, ret));
	return ret ? 1 : 0;
}

static int init_io_u(struct thread_data *td, struct io_u *io_u)
{
	struct command *c = calloc(1, sizeof(*c));

	if (!c)
		return 1;
	/* io_u->index and io_u->engine_data share their memory. */
	c->index = io_u->index;
	c->io_u = io_u;
	io_u->engine_data = c;
	return 0;
}

static void free_io_u(struct thread_data *td, struct io_u *io_u)
{
	free(io_u->engine_data);
	io_u->engine_data = NULL;
}

static int check(const struct node *n, const struct io_u *io_u)
{
	unsigned int block = n->target.block;

	if (ddir_sync(io_u->ddir) || !((io_u->offset | io_u->xfer_buflen) & (block - 1)))
		return 0;
	log_err("fio: smq: %s: %llu bytes at %llu are no multiples of its logical blocks, %u bytes\n",
		io_u->file->file_name, io_u->xfer_buflen, io_u->offset, block);
	return -ERANGE;
}

static enum fio_q_status queue(struct thread_data *td, struct io_u *io_u)
{
	struct engine *e = td->io_ops_data;
	struct node *n = FILE_ENG_DATA(io_u->file);
	int ret;

	fio_ro_check(td, io_u);
	ret = check(n, io_u);
	if (!ret) {
		if (e->options->mode == MODE_ADHOC || io_u->ddir == DDIR_TRIM ||
		    (!ddir_sync(io_u->ddir) &&
		     cdb_needs_adhoc(e->options, io_u->ddir == DDIR_WRITE)))
			ret = entry_add_command(e, n, io_u->engine_data);
		else
			ret = entry_add_run(e, n, io_u->engine_data);
	}
	if (ret) {
		/* For EINVAL fio prints a misleading hint about O_DIRECT. */
		io_u->error = ret == -EINVAL ? ENOTSUP : -ret;
		return FIO_Q_COMPLETED;
	}
	e->queued[e->nr_queued++] = io_u;
	return FIO_Q_QUEUED;
}

static int submit(struct thread_data *td)
{
	struct engine *e = td->io_ops_data;
	struct timespec now;
	unsigned int i;
	int ret;

	if (!e->nr_queued)
		return 0;
	ret = entry_submit(e);
	io_u_mark_submit(td, e->nr_queued);
	if (fio_fill_issue_time(td)) {
		fio_gettime(&now, NULL);
		/* Only the replay of an I/O log uses last_issue. */
		if (td->o.read_iolog_file)
			td->last_issue = now;
		for (i = 0; i < e->nr_queued; i++) {
			e->queued[i]->issue_time = now;
			io_u_queued(td, e->queued[i]);
		}
	}
	e->nr_queued = 0;
	return ret;
}

/*
 * fio calls this before each wait, even for a single new I/O. While there are completions that fio
 * has not taken, that wait returns at once: so submit only when the batch is full.
 */
static int commit(struct thread_data *td)
{
	struct engine *e = td->io_ops_data;

	if (e->nr_done && e->nr_queued < min(td->o.iodepth_batch, e->depth))
		return 0;
	return submit(td);
}

static int getevents(struct thread_data *td, unsigned int least, unsigned int most,
		     const struct timespec *t)
{
	int64_t wait = t ? t->tv_sec * 1000000000LL + t->tv_nsec : -1;
	struct engine *e = td->io_ops_data;
	unsigned int i, missing;
	int ret;

	while (e->nr_done < most) {
		missing = e->nr_done < least ? least - e->nr_done : 0;
		/* smq_reap() also submits, but only submit() tells fio the issue time. */
		if (e->nr_queued && !missing)
			break;
		ret = submit(td);
		if (ret)
			return ret;
		/* An entry may have several I/Os: wait for one entry, then count again. */
		ret = entry_reap(e, e->room > 1 ? !!missing : missing, wait);
		if (ret < 0)
			return ret;
		if (e->nr_done >= least || (t && !ret))
			break;
	}
	most = min(most, e->nr_done);
	for (i = 0; i < most; i++) {
		e->events[i] = e->done[e->first_done];
		e->first_done = (e->first_done + 1) % e->depth;
	}
	e->nr_done -= most;
	return most;
}

static struct io_u *event(struct thread_data *td, int number)
{
	const struct engine *e = td->io_ops_data;

	return e->events[number];
}

/* fio frees the text. */
static char *errdetails(struct io_u *io_u)
{
	const struct command *c = io_u->engine_data;
	char text[512];

	return strdup(smq_outcome_text(&c->outcome, text, sizeof(text)));
}

/* fio looks up this symbol. */
struct ioengine_ops ioengine = {
	.name = "smq",
	.version = FIO_IOOPS_VERSION,
	.flags = FIO_RAWIO | FIO_NODISKUTIL | FIO_NO_OFFLOAD | FIO_ASYNCIO_SETS_ISSUE_TIME,
	.setup = target_setup,
	.init = init,
	.cleanup = cleanup,
	.io_u_init = init_io_u,
	.io_u_free = free_io_u,
	.open_file = node_open,
	.close_file = node_close,
	.queue = queue,
	.commit = commit,
	.getevents = getevents,
	.event = event,
	.errdetails = errdetails,
	.options = options,
	.option_struct_size = sizeof(struct engine_options),
};
