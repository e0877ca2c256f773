// SPDX-License-Identifier: GPL-2.0
/* An open file: its slots, its pinned memory, and the data that slots are prepared for. */
#include "engine.h"

#include <verify.h>

static unsigned int slot_of(const struct engine *e, enum kind k, unsigned int index)
{
	return k * e->depth + index;
}

/*
 * Describes a slot for @length bytes at offset @at in the engine's memory. Its LBA is 0, because
 * each run sets an LBA.
 */
static int describe(const struct engine *e, const struct target *t, enum kind k, uint64_t at,
		    uint32_t length, struct smq_sg_slot *s)
{
	int ret;

	*s = (struct smq_sg_slot){ .timeout_ms = e->options->timeout_ms };
	if (k == KIND_SYNC) {
		ret = cdb_sync(s->cdb);
	} else {
		ret = cdb_transfer(e->options, t, k == KIND_WRITE, 0, length, s->cdb);
		s->length = cdb_data(e->options, t, k == KIND_WRITE, length);
	}
	if (s->length) {
		s->direction = k == KIND_WRITE ? SMQ_SG_OUT : SMQ_SG_IN;
		s->buffer = at / e->chunk;
		s->offset = at % e->chunk;
	}
	if (ret < 0)
		return ret;
	s->cdb_len = ret;
	return 0;
}

static void explain(const struct target *t, const struct smq_sg_slot *s, uint32_t field,
		    int error)
{
	const char *which = smq_field_name(field);

	if (error == -EINVAL && s->offset % t->info.alignment)
		log_err("fio: smq: buffers must be aligned to %u bytes: see iomem_align\n",
			t->info.alignment);
	else if (error == -EINVAL && s->length % t->info.alignment)
		log_err("fio: smq: %u bytes: prepared commands need a multiple of %u bytes\n",
			s->length, t->info.alignment);
	else if (error == -EMSGSIZE)
		log_err("fio: smq: %u bytes are in more than %u pieces of memory, the limit of a "
			"command: try mem=mmaphuge or a smaller bs\n", s->length,
			t->info.max_segments);
	else
		log_err("fio: smq: preparing: %s%s%s\n", which ? which : "", which ? ": " : "",
			smq_strerror(SMQ_CALL_PREPARE, error));
}

int node_slot(const struct engine *e, struct node *n, const struct command *c)
{
	const struct io_u *io_u = c->io_u;
	enum kind kind = io_u->ddir == DDIR_READ ? KIND_READ :
			 io_u->ddir == DDIR_WRITE ? KIND_WRITE : KIND_SYNC;
	unsigned int slot = slot_of(e, kind, c->index);
	struct content *content = &n->contents[slot];
	struct content wanted = { .length = 1 };
	struct smq_sg_slot s;
	uint32_t field;
	int ret;

	if (kind != KIND_SYNC) {
		wanted.at = (char *)io_u->xfer_buf - e->memory;
		wanted.length = io_u->xfer_buflen;
	}
	if (content->length == wanted.length && content->at == wanted.at)
		return slot;
	ret = describe(e, &n->target, kind, wanted.at, wanted.length, &s);
	if (ret)
		return ret;
	ret = smq_prepare(n->target.dev, slot, &s, 1, NULL, &field);
	if (ret) {
		explain(&n->target, &s, field, ret);
		return ret;
	}
	*content = wanted;
	return slot;
}

/* Prepares all slots of one kind for @length: the job's block size, or the largest of several. */
static int prepare_kind(const struct engine *e, struct node *n, enum kind k, uint32_t length,
			size_t stride)
{
	struct smq_sg_slot *slots = calloc(e->depth, sizeof(*slots));
	unsigned int i, first = slot_of(e, k, 0);
	uint32_t done = 0, field;
	int ret = slots ? 0 : -ENOMEM;

	for (i = 0; i < e->depth && !ret; i++)
		ret = describe(e, &n->target, k, i * stride, length, &slots[i]);
	if (ret) {
		log_err("fio: smq: preparing: %s\n", strerror(-ret));
	} else {
		ret = smq_prepare(n->target.dev, first, slots, e->depth, &done, &field);
		if (ret)
			explain(&n->target, &slots[done], field, ret);
	}
	for (i = 0; i < e->depth && !ret; i++)
		n->contents[first + i] = (struct content){ i * stride, length };
	free(slots);
	return ret;
}

static int lend_memory(const struct engine *e, struct node *n, const char *name)
{
	size_t at, length;
	int ret = 0;

	for (at = 0; at < e->memory_size && !ret; at += length) {
		length = min(e->chunk, e->memory_size - at);
		ret = smq_lend(n->target.dev, at / e->chunk, e->memory + at, length, 0);
	}
	if (ret)
		log_err("fio: smq: %s: lending %zu bytes of buffers: %s\n", name,
			e->memory_size, smq_strerror(SMQ_CALL_LEND, ret));
	return ret;
}

static int prepare_node(struct thread_data *td, struct node *n, const char *name)
{
	const struct engine *e = td->io_ops_data;
	const struct thread_options *o = &td->o;
	unsigned long long reads = td_read(td) ? o->max_bs[DDIR_READ] :
				   o->verify != VERIFY_NONE ? o->max_bs[DDIR_WRITE] : 0;
	int ret;

	n->contents = calloc(e->depth, KINDS * sizeof(*n->contents));
	ret = n->contents ? smq_setup(n->target.dev, e->depth * KINDS, SENSE_BYTES) : -ENOMEM;
	if (ret) {
		log_err("fio: smq: %s: %u slots: %s\n", name, e->depth * KINDS,
			smq_strerror(SMQ_CALL_SETUP, ret));
		return ret;
	}
	if (!e->memory)
		return 0;
	ret = lend_memory(e, n, name);
	if (!ret && reads && !cdb_needs_adhoc(e->options, false))
		ret = prepare_kind(e, n, KIND_READ, reads, td_max_bs(td));
	if (!ret && td_write(td) && !cdb_needs_adhoc(e->options, true))
		ret = prepare_kind(e, n, KIND_WRITE, o->max_bs[DDIR_WRITE], td_max_bs(td));
	return ret;
}

/* fio has allocated the buffers of all io_us by now, as one piece of memory. */
static void find_memory(struct thread_data *td)
{
	struct engine *e = td->io_ops_data;
	size_t each = td_max_bs(td);

	e->memory = td->io_u_all.io_us[0]->buf;
	e->memory_size = each * e->depth;
	e->chunk = SMQ_SG_MAX_BUFFER / each * each;
}

static void free_node(struct node *n)
{
	target_close(&n->target);
	free(n->contents);
	free(n);
}

int node_open(struct thread_data *td, struct fio_file *f)
{
	struct engine *e = td->io_ops_data;
	struct node *n = calloc(1, sizeof(*n));
	int ret = -ENOMEM;

	if (n)
		ret = target_open(f->file_name, &n->target);
	if (!ret) {
		ret = !target_takes(td, f->file_name, &n->target) ? -ENOTSUP :
		      !target_may_write(td, f->file_name) ? -EBUSY : 0;
		if (ret)
			target_close(&n->target);
	}
	if (ret) {
		free(n);
		td_verror(td, -ret, "smq open");
		return 1;
	}
	find_memory(td);
	if (e->options->mode != MODE_ADHOC) {
		ret = prepare_node(td, n, f->file_name);
		if (ret) {
			free_node(n);
			/* For EINVAL fio prints a misleading hint about O_DIRECT. */
			td_verror(td, ret == -EINVAL ? ENOTSUP : -ret, "smq open");
			return 1;
		}
	}
	/* An error does no harm: a registered file only saves some instructions. */
	smq_ring_add(e->ring, n->target.dev);
	n->next = e->nodes;
	e->nodes = n;
	FILE_SET_ENG_DATA(f, n);
	return 0;
}

int node_close(struct thread_data *td, struct fio_file *f)
{
	struct engine *e = td->io_ops_data;
	struct node *n = FILE_ENG_DATA(f), **at;

	for (at = &e->nodes; *at && *at != n; at = &(*at)->next)
		;
	if (!*at)
		return 0;
	*at = n->next;
	smq_ring_remove(e->ring, n->target.dev);
	free_node(n);
	FILE_SET_ENG_DATA(f, NULL);
	return 0;
}
