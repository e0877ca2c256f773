// SPDX-License-Identifier: GPL-2.0
/* The ring: submission and completion of entries. */
#include "engine.h"

#define DID_NO_CONNECT	0x01
#define DID_TIME_OUT	0x03

static struct entry *new_entry(struct engine *e, struct node *n)
{
	struct entry *entry = e->unused;

	if (entry) {
		e->unused = entry->next;
	} else {
		entry = malloc(sizeof(*entry) + e->room * sizeof(entry->runs[0]));
		if (!entry)
			return NULL;
		entry->commands = calloc(e->room, sizeof(*entry->commands));
		if (!entry->commands) {
			free(entry);
			return NULL;
		}
	}
	entry->next = NULL;
	entry->node = n;
	entry->adhoc = false;
	entry->nr = 0;
	return entry;
}

static void put_entry(struct engine *e, struct entry *entry)
{
	entry->next = e->unused;
	e->unused = entry;
}

static void free_list(struct entry *entry)
{
	struct entry *next;

	for (; entry; entry = next) {
		next = entry->next;
		free(entry->commands);
		free(entry);
	}
}

void entry_free_all(struct engine *e)
{
	free_list(e->unused);
	free_list(e->refused);
}

static int queue_entry(struct engine *e, struct entry *entry)
{
	struct smq_device *dev = entry->node->target.dev;
	uintptr_t tag = (uintptr_t)entry;

	if (entry->adhoc)
		return smq_queue_command(e->ring, dev, &entry->commands[0]->sent, tag);
	if (entry->nr == 1)
		return smq_queue_run_with(e->ring, dev, &entry->runs[0], tag);
	return smq_queue_batch(e->ring, dev, smq_runs(entry->runs, entry->nr), tag);
}

static int error_of(const struct smq_outcome *o)
{
	if (o->error)
		return o->error;
	if (smq_good(o))
		return 0;
	return o->host == DID_NO_CONNECT ? ENODEV : o->host == DID_TIME_OUT ? ETIMEDOUT : EIO;
}

/* Sets the result of an io_u, and adds it to those that fio can take. */
static void command_done(struct engine *e, struct command *c)
{
	unsigned long long resid = c->outcome.resid;
	struct io_u *io_u = c->io_u;

	io_u->error = error_of(&c->outcome);
	/* fio treats a residual larger than the request as an error. */
	io_u->resid = min(resid, io_u->xfer_buflen);
	e->done[(e->first_done + e->nr_done++) % e->depth] = io_u;
}

static void run_done(struct engine *e, const struct node *n, struct command *c, uint32_t slot,
		     int result)
{
	const struct smq_sg_status *status = smq_status(n->target.dev, slot);

	/* If the whole entry failed, its errno may be missing in the slot's status. */
	if (result < 0)
		c->outcome = (struct smq_outcome){ .error = -result };
	else if (!status->result)
		c->outcome = (struct smq_outcome){ .resid = status->resid };
	else
		smq_slot_outcome(n->target.dev, slot, &c->outcome);
	command_done(e, c);
}

/*
 * Whether the kernel refused the entry's command @i because too many commands wait. If the entry is
 * a batch, the result of each command is in the status of its slot.
 */
static bool was_refused(const struct entry *entry, unsigned int i, const struct smq_event *event)
{
	if (entry->adhoc || event->result < 0)
		return event->result == -EAGAIN;
	return smq_status(entry->node->target.dev, entry->runs[i].slot)->result == -EAGAIN;
}

/*
 * Whether to send the refused commands of an entry again. Returns true only if other commands are
 * in flight, or have ended in the same batch: these make room for the refused ones.
 */
static bool should_retry(const struct engine *e, const struct entry *entry,
			 const struct smq_event *event)
{
	unsigned int i, refused = 0;

	for (i = 0; event->result && i < entry->nr; i++)
		refused += was_refused(entry, i, event);
	return refused && (e->in_flight || refused < entry->nr);
}

/*
 * Completes the commands of an entry. With @again, keeps the refused ones in the entry. Return:
 * whether any were kept.
 */
static bool finish_entry(struct engine *e, struct entry *entry, const struct smq_event *event,
			 bool again)
{
	unsigned int i, left = 0;

	for (i = 0; i < entry->nr; i++) {
		struct command *c = entry->commands[i];

		if (again && was_refused(entry, i, event)) {
			entry->commands[left] = c;
			entry->runs[left++] = entry->runs[i];
		} else if (entry->adhoc) {
			smq_command_outcome(event, &c->sent, &c->outcome);
			command_done(e, c);
		} else {
			run_done(e, entry->node, c, entry->runs[i].slot, event->result);
		}
	}
	entry->nr = left;
	if (!left)
		put_entry(e, entry);
	return left;
}

static void send_entry(struct engine *e, struct entry *entry)
{
	struct smq_event failed = {};
	int ret = queue_entry(e, entry);

	if (ret == -EAGAIN) {
		smq_submit(e->ring);
		ret = queue_entry(e, entry);
	}
	if (!ret) {
		e->in_flight++;
	} else if (ret == -EAGAIN) {
		/*
		 * The ring is still full: keep the entry for later. Do not fail it: its io_us must
		 * not end before fio has submitted them.
		 */
		entry->next = e->refused;
		e->refused = entry;
	} else {
		failed.result = ret;
		finish_entry(e, entry, &failed, false);
	}
}

static void send_refused(struct engine *e)
{
	struct entry *entry = e->refused, *next;

	e->refused = NULL;
	for (; entry; entry = next) {
		next = entry->next;
		send_entry(e, entry);
	}
}

static void send_filling(struct engine *e, struct node *n)
{
	struct entry *entry = n->filling;

	n->filling = NULL;
	if (entry)
		send_entry(e, entry);
}

int entry_add_run(struct engine *e, struct node *n, struct command *c)
{
	struct io_u *io_u = c->io_u;
	struct entry *entry;
	int slot = node_slot(e, n, c);

	if (slot < 0)
		return slot;
	if (!n->filling)
		n->filling = new_entry(e, n);
	entry = n->filling;
	if (!entry)
		return -ENOMEM;
	entry->commands[entry->nr] = c;
	entry->runs[entry->nr] = ddir_sync(io_u->ddir) ? (struct smq_sg_run){ .slot = slot } :
				 smq_run_at(slot, io_u->offset / n->target.block);
	if (++entry->nr == e->room)
		send_filling(e, n);
	return 0;
}

int entry_add_command(struct engine *e, struct node *n, struct command *c)
{
	struct smq_sg_uring_cmd *sent = &c->sent;
	struct io_u *io_u = c->io_u;
	bool write = io_u->ddir == DDIR_WRITE;
	struct entry *entry;
	uint32_t data;
	int ret;

	*sent = (struct smq_sg_uring_cmd){
		.request = (uintptr_t)c->cdb, .timeout_ms = e->options->timeout_ms,
		.response = (uintptr_t)c->sense, .max_response_len = sizeof(c->sense),
	};
	if (io_u->ddir == DDIR_TRIM) {
		ret = cdb_unmap(&n->target, io_u->offset, io_u->xfer_buflen, c->cdb,
				c->parameters);
		sent->dout_xferp = (uintptr_t)c->parameters;
		sent->dout_xfer_len = sizeof(c->parameters);
	} else if (ddir_sync(io_u->ddir)) {
		ret = cdb_sync(c->cdb);
	} else {
		ret = cdb_transfer(e->options, &n->target, write, io_u->offset,
				   io_u->xfer_buflen, c->cdb);
		data = cdb_data(e->options, &n->target, write, io_u->xfer_buflen);
		if (data && write) {
			sent->dout_xferp = (uintptr_t)io_u->xfer_buf;
			sent->dout_xfer_len = data;
		} else if (data) {
			sent->din_xferp = (uintptr_t)io_u->xfer_buf;
			sent->din_xfer_len = data;
		}
	}
	if (ret < 0)
		return ret;
	sent->request_len = ret;
	entry = new_entry(e, n);
	if (!entry)
		return -ENOMEM;
	entry->adhoc = true;
	entry->nr = 1;
	entry->commands[0] = c;
	send_entry(e, entry);
	return 0;
}

/* Whether the same call may succeed later. */
static bool is_temporary(int error)
{
	return error == -EAGAIN || error == -EBUSY || error == -EINTR;
}

int entry_submit(struct engine *e)
{
	struct node *n;
	int ret;

	for (n = e->nodes; n; n = n->next)
		send_filling(e, n);
	ret = smq_submit(e->ring);
	/* After a temporary error the next reap submits the SQEs. */
	return ret < 0 && !is_temporary(ret) ? ret : 0;
}

int entry_reap(struct engine *e, unsigned int least, int64_t wait_ns)
{
	unsigned int done = e->nr_done;
	int i, n;

	n = smq_reap(e->ring, e->got, MAX_EVENTS, min(least, MAX_EVENTS), wait_ns);
	if (n < 0)
		return is_temporary(n) ? 0 : n;
	for (i = 0; i < n; i++) {
		const struct smq_event *event = &e->got[i];
		struct entry *entry = (struct entry *)(uintptr_t)event->tag;

		e->in_flight--;
		if (finish_entry(e, entry, event, should_retry(e, entry, event))) {
			entry->next = e->refused;
			e->refused = entry;
		}
	}
	/* Commands have ended, so there may be room again. */
	if (e->refused && (e->nr_done != done || !e->in_flight))
		send_refused(e);
	return n;
}
