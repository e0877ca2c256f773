// SPDX-License-Identifier: GPL-2.0
/*
 * --via smq: slots of /dev/smqsgN.
 *
 * Of a run, each command of the file has at least one slot, prepared before the run; a short file
 * has several slots for each, so that --depth commands can be in flight.
 *
 * A replay, and a run that checks data-in, use slots for shapes of commands: those that differ only
 * in LBA and buffer, which each run of a slot sets, share slots. A slot gets another shape when it
 * is needed. So the number of slots does not depend on the file. A run uses such a slot, too, when
 * the slot of a command is still in flight.
 */
#include <err.h>
#include <errno.h>
#include <libsmq.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "issue/cmdfile/dataset.h"
#include "paths.h"

#define CHUNK		1024	/* slots prepared by one call */
#define MAX_EVENTS	256	/* fetched at a time */
#define SHAPED_MIN	512	/* slots for shapes, so that most shapes keep theirs */
#define PROBES		4	/* slots in which a shape can be, if none of them is in flight */
#define ORWRITE		0x8b

/* A batch that is being filled, in flight or unused. */
struct batch {
	struct batch *next;		/* in the list of unused batches */
	unsigned int nr;
	struct request **requests;	/* room for run.batch */
	/* What the kernel reads. */
	union {
		__u32 *list;		/* their slots */
		struct smq_sg_run *runs;	/* if runs set something: smq_path.sets */
	};
};

struct smq_target {
	struct smq_device *dev;
	struct batch *open;		/* the batch being filled, or NULL */
	__u8 *busy;			/* by slot: 1 while in flight */
	/* By slot from p->prepared on: LBA 0, and buffer 0 if each run has its own. */
	struct smq_sg_slot *shapes;
};

struct smq_path {
	struct smq_ring *ring;
	struct smq_target *targets;
	unsigned int nr;		/* targets that are open */
	unsigned int copies;		/* slots for each command of the file */
	__u32 prepared;			/* slots prepared at start; slots for shapes follow */
	__u32 nr_shaped;
	bool sets;			/* runs set LBAs, and buffers of slots for shapes */
	struct smq_sg_run *taken;	/* by request: its slot, and what it sets */
	struct batch *unused;
	struct data_region *regions;
	unsigned int nr_regions;
	struct smq_event events[MAX_EVENTS];
};

static struct smq_target *target_of(const struct worker *w, const struct request *rq)
{
	const struct smq_path *p = w->priv;

	return &p->targets[rq->target - w->targets];
}

/* Buffers 0 to depth - 1 are those of the requests. The regions with data-out follow. */
static void locate_data(const struct worker *w, const struct command *cmd, unsigned int place,
			struct smq_sg_slot *s)
{
	const struct smq_path *p = w->priv;
	const struct data_region *r = p->regions;
	unsigned int low = 0, high = p->nr_regions, mid;

	s->direction = cmd->dir == DIR_IN ? SMQ_SG_IN : SMQ_SG_OUT;
	if (cmd->dir == DIR_IN || w->run->any_target) {
		s->buffer = place;
		return;
	}
	/* Find the last region that begins at or before the data. */
	while (high - low > 1) {
		mid = (low + high) / 2;
		if ((const char *)r[mid].base <= (const char *)cmd->data)
			low = mid;
		else
			high = mid;
	}
	s->buffer = w->run->depth + low;
	s->offset = (const char *)cmd->data - (const char *)r[low].base;
}

static void describe(const struct worker *w, const struct command *cmd, unsigned int place,
		     struct smq_sg_slot *s)
{
	*s = (struct smq_sg_slot){ .cdb_len = cmd->cdb_len, .timeout_ms = cmd->timeout_ms };
	memcpy(s->cdb, cdb_of(cmd), cmd->cdb_len);
	if (cmd->dir == DIR_NONE || !cmd->bytes)
		return;
	s->length = cmd->bytes;
	locate_data(w, cmd, place, s);
}

void smq_explain(const struct run *run, const struct smq_device *dev, const struct target *target,
		 const struct command *cmd, __u32 field, int error)
{
	const char *name = run->file->name, *which = smq_field_name(field);
	struct smq_sg_info info = {};

	smq_info(dev, &info);
	if (error == -EINVAL && info.alignment && cmd->bytes % info.alignment)
		warnx("%s:%u: BYTES %u is no multiple of %u, which prepared commands of %s need; "
		      "--via bsg-uring takes it", name, cmd->line, cmd->bytes, info.alignment,
		      target->dev->node[NODE_SMQ]);
	else if (error == -EMSGSIZE)
		warnx("%s:%u: BYTES %u is over the limits of %s, %u bytes in %u pieces", name,
		      cmd->line, cmd->bytes, target->dev->node[NODE_SMQ], info.max_transfer,
		      info.max_segments);
	else
		warnx("%s:%u: %s: %s%s%s", name, cmd->line, target->dev->node[NODE_SMQ],
		      which ? which : "", which ? ": " : "",
		      smq_strerror(SMQ_CALL_PREPARE, error));
}

static int prepare_all(const struct worker *w, const struct smq_target *t,
		       const struct target *target)
{
	const struct cmdfile *file = w->run->file;
	const struct smq_path *p = w->priv;
	struct smq_sg_slot slots[CHUNK];
	__u32 first, i, n, done, field;
	int ret;

	for (first = 0; first < p->prepared; first += n) {
		n = p->prepared - first < CHUNK ? p->prepared - first : CHUNK;
		for (i = 0; i < n; i++)
			describe(w, &file->cmds[(first + i) % file->nr],
				 (first + i) % w->run->depth, &slots[i]);
		ret = smq_prepare(t->dev, first, slots, n, &done, &field);
		if (ret) {
			smq_explain(w->run, t->dev, target, &file->cmds[(first + done) % file->nr],
				    field, ret);
			return -1;
		}
	}
	return 0;
}

/* FNV-1a */
static __u32 hash(const struct smq_sg_slot *s)
{
	const __u8 *p = (const __u8 *)s;
	__u32 h = 2166136261u;
	size_t i;

	for (i = 0; i < sizeof(*s); i++)
		h = (h ^ p[i]) * 16777619u;
	return h;
}

/*
 * Finds a slot for a shape, as its number among those for shapes: there are more slots than
 * requests, so one is not in flight. Return: whether it has the shape already.
 */
static bool find_shape(const struct smq_path *p, const struct smq_target *t,
		       const struct smq_sg_slot *shape, __u32 *found)
{
	__u32 nth = hash(shape) % p->nr_shaped;
	bool any = false;
	unsigned int i;

	*found = 0;
	for (i = 0; i < PROBES || !any; i++, nth = (nth + 1) % p->nr_shaped) {
		if (t->busy[p->prepared + nth])
			continue;
		if (!any || !t->shapes[nth].cdb_len)
			*found = nth;
		any = true;
		if (memcmp(&t->shapes[nth], shape, sizeof(*shape)))
			continue;
		*found = nth;
		return true;
	}
	return false;
}

/* Whether a run can set the LBA. */
static bool takes_lba(const struct cdb_op *op)
{
	return op && op->size == SIZE_BLOCKS && op->lba_len && op->len < 32 &&
		op->opcode != ORWRITE;
}

/* Finds a free slot for the command's shape, or makes one. Return: 0 or a negative errno. */
static int take_shaped(struct worker *w, const struct command *cmd, unsigned int place,
		       struct smq_target *t, struct smq_sg_run *run, __u32 *field)
{
	const struct cdb_op *op = cdb_find(cdb_of(cmd), cmd->cdb_len);
	const struct smq_path *p = w->priv;
	struct smq_sg_slot shape, with;
	__u32 nth;
	int ret;

	describe(w, cmd, place, &shape);
	*run = (struct smq_sg_run){};
	if (p->sets && takes_lba(op)) {
		run->flags |= SMQ_SG_RUN_LBA;
		run->lba = cdb_lba(op, cdb_of(cmd));
		cdb_set_blocks(op, 0, cdb_blocks(op, shape.cdb), shape.cdb);
	}
	with = shape;
	if (p->sets && shape.length && shape.buffer < w->run->depth) {
		run->flags |= SMQ_SG_RUN_BUFFER;
		run->buffer = shape.buffer;
		shape.buffer = 0;
	}
	if (!find_shape(p, t, &shape, &nth)) {
		t->shapes[nth].cdb_len = 0;
		ret = smq_prepare(t->dev, p->prepared + nth, &with, 1, NULL, field);
		if (ret)
			return ret;
		t->shapes[nth] = shape;
	}
	run->slot = p->prepared + nth;
	return 0;
}

/*
 * Prepares a slot for each shape of a lane's commands, and gives it away when the next one needs
 * it: the node refuses a command that it cannot take now, not when it is due.
 */
static int try_shapes(struct worker *w)
{
	const struct cmdfile *file = w->run->file;
	const struct smq_path *p = w->priv;
	const struct command *cmd;
	struct smq_sg_run run;
	__u32 field = 0;
	int ret;

	for (cmd = file->cmds; w->lane && cmd < file->cmds + file->nr; cmd++) {
		if (cmd->cpu != w->home)
			continue;
		ret = take_shaped(w, cmd, 0, &p->targets[cmd->dev], &run, &field);
		if (!ret)
			continue;
		smq_explain(w->run, p->targets[cmd->dev].dev, &w->run->targets[cmd->dev], cmd,
			    field, ret);
		return -1;
	}
	return 0;
}

static int lend_memory(const struct worker *w, const struct smq_target *t,
		       const struct target *target)
{
	size_t each = worker_request_bytes(w->run);
	const struct smq_path *p = w->priv;
	const struct run *run = w->run;
	const struct request *rq;
	unsigned int i;
	int ret = 0;

	if (run->depth + p->nr_regions > SMQ_SG_MAX_BUFFERS) {
		warnx("%s: data-in and data-out need %u buffers, the limit is %u",
		      run->file->name, run->depth + p->nr_regions, SMQ_SG_MAX_BUFFERS);
		return -1;
	}
	for (i = 0; each && i < w->nr_requests && !ret; i++) {
		rq = &w->requests[i];
		if (run->any_target || rq->target == target)
			ret = smq_lend(t->dev, rq->place, rq->buffer, each, 0);
	}
	for (i = 0; i < p->nr_regions && !ret; i++)
		ret = smq_lend(t->dev, run->depth + i, p->regions[i].base, p->regions[i].bytes,
			       SMQ_SG_BUFFER_READONLY);
	if (ret)
		warnx("%s: lending it memory for data: %s", target->dev->node[NODE_SMQ],
		      smq_strerror(SMQ_CALL_LEND, ret));
	return ret;
}

static int open_target(struct worker *w, struct smq_target *t, struct target *target)
{
	const char *node = target->dev->node[NODE_SMQ];
	struct smq_path *p = w->priv;
	__u32 slots = p->prepared + p->nr_shaped;
	char state[DEVICE_STATE];
	int ret;

	ret = smq_open(node, &t->dev);
	if (ret) {
		warnx("%s: %s%s", node, ret == -EACCES ? device_strerror(EACCES) :
		      smq_strerror(SMQ_CALL_OPEN, ret), device_state(target->dev, state));
		return -1;
	}
	p->nr++;
	t->busy = calloc(slots, 1);
	t->shapes = calloc(p->nr_shaped, sizeof(*t->shapes));
	ret = t->busy && t->shapes ? smq_setup(t->dev, slots, SENSE_BYTES) : -ENOMEM;
	if (ret) {
		warnx("%s: %u slots: %s", node, slots, smq_strerror(SMQ_CALL_SETUP, ret));
		return -1;
	}
	/* Errors do not matter: a registered file only saves some instructions. */
	smq_ring_add(p->ring, t->dev);
	return lend_memory(w, t, target) || prepare_all(w, t, target) ? -1 : 0;
}

static int open_smq(struct worker *w)
{
	struct smq_path *p = calloc(1, sizeof(*p));
	struct run *run = w->run;
	unsigned int i;
	__u64 wanted;
	int ret;

	if (!p)
		goto nomem;
	w->priv = p;
	/* Slots for twice the depth of all jobs: then a slot is seldom in flight when it is due. */
	wanted = 2ULL * run->depth * run->nr_jobs;
	p->copies = (wanted + run->file->nr - 1) / run->file->nr;
	while (p->copies > 1 && p->copies * run->file->nr + run->depth + 1 > SMQ_SG_MAX_SLOTS)
		p->copies--;
	/* Data-in that is to be checked must be stored in the buffer of the request. */
	if (!run->any_target && !run->check && !run->file->expects_data)
		p->prepared = p->copies * run->file->nr;
	p->sets = run->moving || !p->prepared;
	p->nr_shaped = p->prepared || run->depth + 1 > SHAPED_MIN ? run->depth + 1 : SHAPED_MIN;
	p->taken = calloc(w->nr_requests, sizeof(*p->taken));
	p->targets = calloc(run->nr_targets, sizeof(*p->targets));
	p->regions = dataset_regions(run->file->data, &p->nr_regions);
	if (!p->taken || !p->targets || !p->regions)
		goto nomem;
	ret = smq_ring_new(engine_ring_entries(w),
			   run->poll ? SMQ_RING_POLL : 0, &p->ring);
	if (ret) {
		warnx("io_uring: %s", smq_strerror(SMQ_CALL_RING, ret));
		return -1;
	}
	for (i = 0; i < run->nr_targets; i++)
		if (open_target(w, &p->targets[i], &run->targets[i]))
			return -1;
	return try_shapes(w);
nomem:
	warnx("no memory");
	return -1;
}

static void free_batch(struct batch *b)
{
	if (b) {
		free(b->requests);
		free(b->list);
	}
	free(b);
}

static void close_smq(struct worker *w)
{
	struct smq_path *p = w->priv;
	struct batch *b;
	unsigned int i;

	smq_ring_free(p->ring);
	for (i = 0; i < p->nr; i++) {
		smq_close(p->targets[i].dev);
		free_batch(p->targets[i].open);
		free(p->targets[i].busy);
		free(p->targets[i].shapes);
	}
	while ((b = p->unused)) {
		p->unused = b->next;
		free_batch(b);
	}
	free(p->targets);
	free(p->regions);
	free(p->taken);
	free(p);
}

/* Ends a command, as worker_done() does: the request is then free for the next command. */
static void finish(struct worker *w, struct request *rq, int result)
{
	struct smq_path *p = w->priv;
	const struct smq_target *t = target_of(w, rq);
	__u32 taken = p->taken[rq->index].slot;
	struct outcome *out = &rq->out;
	struct smq_outcome got;

	t->busy[taken] = 0;
	if (result < 0) {
		worker_failed(w, rq, -result);
		return;
	}
	*out = (struct outcome){ .resid = smq_status(t->dev, taken)->resid };
	if (result) {
		smq_slot_outcome(t->dev, taken, &got);
		out->error = got.error;
		out->status = got.status;
		out->host = got.host;
		out->resid = got.resid;
		out->sense_len = got.sense_len < SENSE_BYTES ? got.sense_len : SENSE_BYTES;
		if (got.sense)
			memcpy(out->sense, got.sense, out->sense_len);
	}
	worker_done(w, rq);
}

/* Chooses a slot. Return: 0 or a negative errno. */
static int take_slot(struct worker *w, struct request *rq)
{
	struct smq_path *p = w->priv;
	struct smq_target *t = target_of(w, rq);
	struct smq_sg_run *run = &p->taken[rq->index];
	__u32 slot = p->prepared ? rq->sequence % p->prepared : 0;
	int ret;

	if (p->prepared && !t->busy[slot]) {
		*run = w->run->moving ? smq_run_at(slot, rq->lba) :
			(struct smq_sg_run){ .slot = slot };
	} else {
		ret = take_shaped(w, rq->cmd, rq->place, t, run, NULL);
		if (ret)
			return ret;
	}
	t->busy[run->slot] = 1;
	return 0;
}

static struct batch *new_batch(struct worker *w)
{
	struct smq_path *p = w->priv;
	struct batch *b = p->unused;
	unsigned int room = w->run->batch;

	if (b) {
		p->unused = b->next;
		return b;
	}
	b = calloc(1, sizeof(*b));
	if (!b)
		return NULL;
	b->requests = calloc(room, sizeof(struct request *));
	b->list = calloc(room, p->sets ? sizeof(*b->runs) : sizeof(*b->list));
	if (!b->requests || !b->list) {
		free_batch(b);
		return NULL;
	}
	return b;
}

static void finish_batch(struct worker *w, struct batch *b, int result)
{
	struct smq_path *p = w->priv;
	const struct smq_sg_status *status;
	const struct smq_device *dev;
	unsigned int i, nr = b->nr;

	dev = target_of(w, b->requests[0])->dev;
	for (i = 0; i < nr; i++) {
		status = smq_status(dev, p->taken[b->requests[i]->index].slot);
		finish(w, b->requests[i], result < 0 ? result : status->result);
	}
	b->nr = 0;
	b->next = p->unused;
	p->unused = b;
}

static void send_batch(struct worker *w, struct smq_target *t)
{
	struct smq_path *p = w->priv;
	struct batch *b = t->open;
	struct smq_sg_batch batch = p->sets ? smq_runs(b->runs, b->nr) : smq_list(b->list, b->nr);
	int ret;

	t->open = NULL;
	ret = smq_queue_batch(p->ring, t->dev, batch, (uintptr_t)b);
	if (ret)
		finish_batch(w, b, ret);
}

static void queue_smq(struct worker *w, struct request *rq)
{
	struct smq_path *p = w->priv;
	struct smq_target *t = target_of(w, rq);
	struct batch *b = t->open;
	int ret = take_slot(w, rq);

	if (ret) {
		worker_failed(w, rq, -ret);
		return;
	}
	if (w->run->batch == 1) {
		ret = smq_queue_run_with(p->ring, t->dev, &p->taken[rq->index], rq->index);
		if (ret)
			finish(w, rq, ret);
		return;
	}
	if (!b) {
		b = new_batch(w);
		t->open = b;
		if (!b) {
			finish(w, rq, -ENOMEM);
			return;
		}
	}
	b->requests[b->nr] = rq;
	if (p->sets)
		b->runs[b->nr++] = p->taken[rq->index];
	else
		b->list[b->nr++] = p->taken[rq->index].slot;
	if (b->nr == w->run->batch)
		send_batch(w, t);
}

static void send_open(struct worker *w)
{
	struct smq_path *p = w->priv;
	unsigned int i;

	for (i = 0; i < p->nr; i++)
		if (p->targets[i].open)
			send_batch(w, &p->targets[i]);
}

static void submit_smq(struct worker *w)
{
	struct smq_path *p = w->priv;

	send_open(w);
	/* An SQE that is refused now is submitted with the next reap. */
	smq_submit(p->ring);
}

static void reap_smq(struct worker *w, unsigned int min, __u64 wait_ns)
{
	struct smq_path *p = w->priv;
	bool batches = w->run->batch > 1;
	int i, n;

	send_open(w);
	/* One completion may end a whole batch: wait for only one. */
	if (batches)
		min = 1;
	if (min > MAX_EVENTS)
		min = MAX_EVENTS;
	n = smq_reap(p->ring, p->events, MAX_EVENTS, min, wait_ns);
	for (i = 0; i < n; i++) {
		if (batches)
			finish_batch(w, (struct batch *)(uintptr_t)p->events[i].tag,
				     p->events[i].result);
		else
			finish(w, &w->requests[p->events[i].tag], p->events[i].result);
	}
}

const struct engine engine_smq = {
	.name = "smq",
	.node = NODE_SMQ,
	.flags = OPENS_ITSELF,
	.polls = true,
	.batch_each = true,
	.open = open_smq,
	.queue = queue_smq,
	.submit = submit_smq,
	.reap = reap_smq,
	.close = close_smq,
};
