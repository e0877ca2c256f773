// SPDX-License-Identifier: GPL-2.0
/* The engine and the threads of a replay by timed batches. */
#include <err.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "build.h"
#include "collect.h"
#include "issue/paths/paths.h"
#include "timed.h"
#include "util.h"

/* How often results are taken while no chunk ends. */
#define LOOK_NS		5000000
/* From the start of a later pass to its first command. */
#define LEAD_NS		(NS_PER_S / 50)
#define SHAPES		1024	/* commands that were tried and are remembered */
#define SENDER_NICE	-10

__u64 timed_bytes(const struct cmdfile *file)
{
	__u64 in = (file->max_in + CHUNK_PAGE - 1) & ~(CHUNK_PAGE - 1);

	return in + CHUNKS * chunk_measure(file, NULL);
}

/* The file on which all batches are submitted. Its slot makes the user their owner. */
static int open_leader(struct timed *t)
{
	const char *node = t->w->run->targets[0].dev->node[NODE_SMQ];
	struct smq_sg_slot slot = { .cdb_len = 6 };
	int ret = smq_open(node, &t->leader);

	if (!ret)
		ret = smq_setup(t->leader, 1, 0);
	if (!ret)
		ret = smq_prepare(t->leader, 0, &slot, 1, NULL, NULL);
	if (ret)
		warnx("%s: %s", node, smq_strerror(SMQ_CALL_OPEN, ret));
	return ret;
}

static int open_target(struct timed *t, unsigned int nth)
{
	const struct device *dev = t->w->run->targets[nth].dev;
	struct timed_target *g = &t->targets[nth];
	const char *node = dev->node[NODE_SMQ];
	char state[DEVICE_STATE];
	struct smq_sg_info info;
	int ret;

	g->slots = calloc(g->room, sizeof(*g->slots));
	g->which = calloc(g->room, sizeof(*g->which));
	if (!g->slots || !g->which) {
		warnx("no memory");
		return -1;
	}
	ret = smq_open(node, &g->dev) ?: smq_info(g->dev, &info);
	if (ret) {
		warnx("%s: %s%s", node, ret == -EACCES ? device_strerror(EACCES) :
		      smq_strerror(SMQ_CALL_OPEN, ret), device_state(dev, state));
		return -1;
	}
	if (!(info.features & SMQ_SG_FEATURE_TIMED)) {
		warnx("%s: this smq_sg has no timed batches: use --pace user", node);
		return -1;
	}
	t->fds[nth] = smq_fd(g->dev);
	ret = smq_setup(g->dev, CHUNKS * (g->room ?: 1), 0);
	if (ret) {
		warnx("%s: %u slots: %s", node, CHUNKS * g->room,
		      smq_strerror(SMQ_CALL_SETUP, ret));
		return -1;
	}
	if (t->in_bytes + t->chunk_bytes)
		ret = smq_lend(g->dev, 0, t->memory, t->in_bytes + CHUNKS * t->chunk_bytes, 0);
	if (ret)
		warnx("%s: lending it memory for data: %s", node,
		      smq_strerror(SMQ_CALL_LEND, ret));
	return ret;
}

/* Whether the node takes a command, for one of each kind: the first is not sent otherwise. */
static int try_all(struct timed *t)
{
	const struct cmdfile *file = t->w->run->file;
	const struct command **seen = calloc(SHAPES, sizeof(*seen)), *cmd, *like;
	struct smq_sg_slot slot;
	__u32 field;
	int ret = seen ? 0 : -ENOMEM;
	size_t i, at;

	for (i = 0; !ret && i < file->nr; i++) {
		cmd = &file->cmds[i];
		at = prng_mix(cmd->bytes ^ (__u64)cdb_of(cmd)[0] << 32 ^ (__u64)cmd->dev << 40) %
			SHAPES;
		like = seen[at];
		if (like && like->bytes == cmd->bytes && like->dev == cmd->dev &&
		    like->dir == cmd->dir && like->cdb_len == cmd->cdb_len &&
		    !memcmp(cdb_of(like), cdb_of(cmd), 2))
			continue;
		seen[at] = cmd;
		slot = (struct smq_sg_slot){ .cdb_len = cmd->cdb_len };
		memcpy(slot.cdb, cdb_of(cmd), cmd->cdb_len);
		if (cmd->dir != DIR_NONE && cmd->bytes) {
			slot.direction = cmd->dir == DIR_IN ? SMQ_SG_IN : SMQ_SG_OUT;
			slot.length = cmd->bytes;
			slot.offset = cmd->dir == DIR_IN ? 0 : t->in_bytes;
		}
		ret = smq_prepare(t->targets[cmd->dev].dev, 0, &slot, 1, NULL, &field);
		if (ret)
			smq_explain(t->w->run, t->targets[cmd->dev].dev,
				    &t->w->run->targets[cmd->dev], cmd, field, ret);
	}
	free(seen);
	return ret;
}

/* Sends a lane's part of every CHUNKS-th chunk. */
static void *send_parts(void *arg)
{
	struct part *p = arg;
	struct timed *t = p->t;
	cpu_set_t set;

	CPU_ZERO(&set);
	if (p->lane->cpu != CPU_ANY)
		CPU_SET(p->lane->cpu, &set);
	else
		set = t->w->run->cpus;
	pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
	/* Before the thread that fills the chunks; without permission, beside it. */
	setpriority(PRIO_PROCESS, 0, SENDER_NICE);
	pthread_mutex_lock(&t->lock);
	while (!t->quit) {
		if (p->state != PART_READY) {
			pthread_cond_wait(&p->changed, &t->lock);
			continue;
		}
		p->error = -ECANCELED;
		if (!t->stop) {
			pthread_mutex_unlock(&t->lock);
			p->error = smq_execute(t->leader, smq_timed(&p->head, p->nr), NULL);
			pthread_mutex_lock(&t->lock);
		}
		p->state = PART_SENT;
		p->chunk->running--;
		pthread_cond_signal(&t->ended_cond);
	}
	pthread_mutex_unlock(&t->lock);
	return NULL;
}

static int start_threads(struct timed *t)
{
	const struct run *run = t->w->run;
	unsigned int i, lane;
	struct part *p;
	int ret;

	for (i = 0; i < CHUNKS; i++) {
		for (lane = 0; lane < run->nr_lanes; lane++) {
			p = &t->chunks[i].parts[lane];
			p->t = t;
			p->chunk = &t->chunks[i];
			p->lane = &run->lanes[lane];
			pthread_cond_init(&p->changed, NULL);
			ret = pthread_create(&p->thread, NULL, send_parts, p);
			if (ret) {
				warnx("thread %u of %u: %s", i * run->nr_lanes + lane + 1,
				      CHUNKS * run->nr_lanes, strerror(ret));
				return -1;
			}
			p->has_thread = true;
		}
	}
	return 0;
}

static int allocate(struct timed *t)
{
	const struct run *run = t->w->run;
	unsigned int i;

	t->targets = calloc(run->nr_targets, sizeof(*t->targets));
	t->fds = calloc(run->nr_targets, sizeof(*t->fds));
	t->lanes = calloc(run->nr_lanes, sizeof(*t->lanes));
	t->stream = stream_new(run->lanes[0].plan, run->nr_lanes);
	if (!t->targets || !t->fds || !t->lanes || !t->stream)
		return -ENOMEM;
	for (i = 0; i < CHUNKS; i++) {
		t->chunks[i].parts = calloc(run->nr_lanes, sizeof(*t->chunks[i].parts));
		t->chunks[i].refs = calloc(CHUNK_COMMANDS, sizeof(*t->chunks[i].refs));
		if (!t->chunks[i].parts || !t->chunks[i].refs)
			return -ENOMEM;
	}
	for (i = 0; i < run->nr_lanes; i++)
		t->lane_of[run->lanes[i].cpu - CPU_ANY] = i;
	t->chunk_bytes = chunk_measure(run->file, t);
	t->in_bytes = timed_bytes(run->file) - CHUNKS * t->chunk_bytes;
	t->depth = run->depth * run->nr_lanes < 0xffff ? run->depth * run->nr_lanes : 0xffff;
	if (!timed_bytes(run->file))
		return 0;
	t->memory = mmap(NULL, timed_bytes(run->file), PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (t->memory != MAP_FAILED)
		return 0;
	t->memory = NULL;
	return -ENOMEM;
}

/* Fills all chunks that are free. */
static int build_ahead(struct timed *t)
{
	while (t->built - t->ended < CHUNKS && (t->has_step || stream_has_next(t->stream)))
		if (!timed_build(t))
			return -1;
	return 0;
}

static int open_timed(struct worker *w)
{
	struct timed *t = calloc(1, sizeof(*t));
	pthread_condattr_t attr;
	unsigned int i;

	w->priv = t;
	if (t)
		t->w = w;
	if (!t || allocate(t)) {
		warnx("no memory");
		return -1;
	}
	pthread_mutex_init(&t->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&t->ended_cond, &attr);
	for (i = 0; i < w->run->nr_targets; i++)
		if (open_target(t, i))
			return -1;
	return open_leader(t) || try_all(t) || start_threads(t) || build_ahead(t) ? -1 : 0;
}

static void close_timed(struct worker *w)
{
	struct timed *t = w->priv;
	unsigned int i, lane;
	struct part *p;

	pthread_mutex_lock(&t->lock);
	t->quit = true;
	pthread_mutex_unlock(&t->lock);
	for (i = 0; i < CHUNKS; i++) {
		for (lane = 0; t->chunks[i].parts && lane < w->run->nr_lanes; lane++) {
			p = &t->chunks[i].parts[lane];
			if (p->has_thread) {
				pthread_cond_signal(&p->changed);
				pthread_join(p->thread, NULL);
			}
			free(p->entries);
			free(p->results);
		}
		free(t->chunks[i].parts);
		free(t->chunks[i].refs);
	}
	for (i = 0; t->targets && i < w->run->nr_targets; i++) {
		smq_close(t->targets[i].dev);
		free(t->targets[i].slots);
		free(t->targets[i].which);
	}
	smq_close(t->leader);
	if (t->memory)
		munmap(t->memory, timed_bytes(w->run->file));
	stream_free(t->stream);
	free(t->level.flight.ends);
	free(t->targets);
	free(t->fds);
	free(t->lanes);
	free(t);
}

/* Gives the lanes the chunks that were filled since the last call. */
static void publish(struct timed *t)
{
	const struct run *run = t->w->run;
	struct chunk *c;
	struct part *p;
	unsigned int lane;

	pthread_mutex_lock(&t->lock);
	for (; t->published < t->built; t->published++) {
		c = timed_chunk(t, t->published);
		for (lane = 0; lane < run->nr_lanes; lane++) {
			p = &c->parts[lane];
			if (!p->nr)
				continue;
			p->head = (struct smq_sg_timed){
				.entries = (uintptr_t)p->entries, .results = (uintptr_t)p->results,
				.files = (uintptr_t)t->fds, .nr_files = run->nr_targets,
				.start = t->start_ns, .max_past = ~0ULL >> 1,
				.spin = p->lane->awake_ns < SMQ_SG_MAX_SPIN ? p->lane->awake_ns :
					SMQ_SG_MAX_SPIN,
			};
			p->error = 0;
			p->state = PART_READY;
			c->running++;
			pthread_cond_signal(&p->changed);
		}
	}
	pthread_mutex_unlock(&t->lock);
}

/* Waits until a part was sent, or it is time to look for results. */
static void wait_for_part(struct timed *t)
{
	__u64 until = clock_ns() + LOOK_NS;
	struct timespec ts = { .tv_sec = until / NS_PER_S, .tv_nsec = until % NS_PER_S };

	pthread_mutex_lock(&t->lock);
	if (timed_chunk(t, t->ended)->running)
		pthread_cond_timedwait(&t->ended_cond, &t->lock, &ts);
	pthread_mutex_unlock(&t->lock);
}

static void work_pass(struct timed *t)
{
	struct run *run = t->w->run;

	publish(t);
	while (t->ended < t->built) {
		wait_for_part(t);
		if (atomic_load(&run->stop)) {
			pthread_mutex_lock(&t->lock);
			t->stop = true;
			pthread_mutex_unlock(&t->lock);
			/* A batch may be about to begin, so this is done until all have ended. */
			smq_cancel_all(t->leader);
		}
		timed_collect(t);
		if (t->stop)
			continue;
		if (build_ahead(t)) {
			run->lost = true;
			atomic_store(&run->stop, true);
		}
		publish(t);
	}
}

/* Begins the file anew, with numbers from 1 on. Return: false if that is not possible. */
static bool begin_pass(struct timed *t)
{
	struct run *run = t->w->run;
	unsigned int i;

	smq_close(t->leader);
	t->leader = NULL;
	if (open_leader(t))
		return false;
	stream_again(t->stream);
	t->built = 0;
	t->ended = 0;
	t->published = 0;
	t->number = 0;
	t->level.flight.nr = 0;
	t->level.at = 0;
	for (i = 0; i < run->nr_lanes; i++) {
		t->lanes[i] = (struct timed_lane){};
		run->lanes[i].pass++;
		run->lanes[i].next = 0;
	}
	if (build_ahead(t))
		return false;
	t->start_ns = clock_ns() + LEAD_NS;
	return true;
}

void timed_work(struct worker *w)
{
	struct timed *t = w->priv;
	struct run *run = w->run;
	__u64 pass = 0;

	t->start_ns = run_begin(run);
	do
		work_pass(t);
	while (!atomic_load(&run->stop) && ++pass != run->passes && begin_pass(t));
	if (pass != run->passes && !atomic_load(&run->stop))
		run->lost = true;
}

const struct engine engine_timed = {
	.name = "smq",
	.node = NODE_SMQ,
	.flags = OPENS_ITSELF,
	.open = open_timed,
	.close = close_timed,
};
