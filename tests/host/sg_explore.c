// SPDX-License-Identifier: GPL-2.0
/*
 * Explores a slot's run in smq_sg, from the SQE to its CQE, in every interleaving: places, waiting
 * and the dispatcher, held requests, and which context posts the CQE. cut.py has taken the types
 * and functions out of the module's files, unchanged. io_uring, the block layer, the mid-layer, the
 * device and the workqueue are models. Built and run by test_sg_explore.py.
 *
 * sg_explore KEY=VALUE... THREAD...
 *
 * Threads: rN: a task on a CPU of its own that runs a slot of its own N times, each time after the
 * CQE of the run before; rN@F: a slot of file F. cancel=S: cancels the waiting run of slot S at any
 * time. collect: all idle requests are given back, at any time, as for a task that needs a tag.
 * look: the periodic look, at any time. timeouts: the block layer's scan for commands that are in
 * flight for too long. other: block I/O has a tag for a while, at any time. contended: block I/O
 * waits for a place, at any time. end: one of the commands of taken=N ends, at any time.
 * Options: depth=N: the queue depth. taken=N: commands that do not end have N of the places.
 * keep=1: CPUs keep places. tags=N: how many requests there are; without it as many as tasks.
 * files=N. hold=1: slots hold their requests. allocs=N: runs may allocate at most N requests.
 * bad=N: the first N commands do not end with GOOD. at_once=N: the first N commands end before
 * queue_rq() returns. refuse=N: N commands are not taken by a straight issue. idle=1: every idle
 * request has been idle for too long. timer=1: the dispatcher also runs periodically.
 * A thread for each tag ends the commands; one thread runs the dispatcher. If a run may find no
 * tag, one thread is the look while a task sleeps for a tag.
 */
#include "sg_types.h"

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof(*(a)))
#define MAX_ERRNO	4095
#define ERR_PTR(error)	((void *)(long)(error))
#define PTR_ERR(ptr)	((int)(long)(ptr))
#define IS_ERR(ptr)	((unsigned long)(ptr) >= (unsigned long)-MAX_ERRNO)

static struct explore_rcu *explore_rcu(void)
{
	static struct explore_rcu none;

	return &none;
}

static void looker(int unused);
static void looker_for_sleepers(int unused);
static void scanner(int unused);
static void contender(int unused);

/* True if no other thread writes the memory, or no other reads it. */
static bool explore_needs_no_step(const void *at)
{
	int f, i;

	for (f = 0; f < FILES; f++) {
		if (IS_IN(at, world.fd[f].slots) || IS_IN(at, world.fd[f].held.limit))
			return true;
	}
	for (i = 0; i < TAGS; i++) {
		if (IS_IN(at, world.tag[i].scmd.jiffies_at_alloc))
			return !has_thread(looker) && !has_thread(looker_for_sleepers);
		if (IS_IN(at, world.tag[i].rq.state))
			return !has_thread(scanner);
	}
	if (IS_IN(at, world.sg.depth.yield) || IS_IN(at, world.sg.depth.yield_until) ||
	    IS_IN(at, world.sg.depth.yield_seen) || IS_IN(at, world.sg.depth.restarts))
		return !has_thread(contender);
	return IS_IN(at, world.sdev.queue_depth) || IS_IN(at, world.sg.depth.keep) ||
	       IS_IN(at, world.sg.depth.claimed) || IS_IN(at, world.hctx.state) ||
	       IS_IN(at, world.task) || IS_IN(at, world.signal);
}

/* What explore_kernel.h does not have. */

#define BUILD_BUG_ON(cond)		((void)sizeof(char[1 - 2 * !!(cond)]))
/* A step, like a plain write. */
#define smp_store_release(at, value)	WRITE_ONCE(*(at), value)
#define xchg(at, value)						\
	({							\
		__typeof__(*(at)) __old;			\
								\
		explore_step("xchg " #at);			\
		__old = *(at);					\
		*(at) = (value);				\
		__old;						\
	})
#define test_and_set_bit_lock(nr, word)	test_and_set_bit(nr, word)
#define clear_bit_unlock(nr, word)	clear_bit(nr, word)
#define array_index_nospec(i, size)	(i)
#define cond_resched()			((void)0)
#define raw_smp_processor_id()		((u32)explore_self())
#define raw_cpu_ptr(kept)		(&(kept)[explore_self() & 1])
#define per_cpu_ptr(kept, cpu)		(&(kept)[cpu])
#define for_each_possible_cpu(cpu)	for ((cpu) = 0; (cpu) < 2; (cpu)++)
#define num_online_cpus()		(set.keep ? 1 : 1024)
#define percpu_ref_is_dying(ref)	((ref)->dying)
#define scsi_target(sdev)		(&(struct scsi_target){ false })
#define delayed_work_pending(work)	((work)->due || (work)->later)
#define smqsg_wq			0
#define smqsg_send_wq			1
#define IS_DUE(delay)			((delay) < SMQSG_LOOK)

static void queue_delayed_work(int wq, struct delayed_work *work, unsigned long delay)
{
	if (!work->due && !work->later)
		*(IS_DUE(delay) ? &work->due : &work->later) = true;
}

static void mod_delayed_work(int wq, struct delayed_work *work, unsigned long delay)
{
	explore_step("mod_delayed_work");
	work->due = IS_DUE(delay);
	work->later = !work->due;
}

static struct tag *tag_of(struct request *rq)
{
	return container_of(rq, struct tag, rq);
}

#define blk_mq_rq_to_pdu(request)	(&tag_of(request)->scmd)

static int tag_number(struct request *rq)
{
	return tag_of(rq) - world.tag;
}

/* The block layer: requests. */

static struct request *find_tag(blk_opf_t opf)
{
	int i;

	for (i = 0; i < set.tags; i++) {
		struct tag *tag = &world.tag[i];

		if (world.allocated[i])
			continue;
		world.allocated[i] = true;
		*tag = (struct tag){ .rq = { .q = &world.queue, .mq_hctx = &world.hctx,
			.internal_tag = -1, .cmd_flags = opf, .ref.counter = 1,
			.rq_flags = SMQ_RQF_OF_TAG } };
		return &tag->rq;
	}
	return NULL;
}

static bool tag_is_free(long unused)
{
	int i;

	for (i = 0; i < set.tags && world.allocated[i]; i++)
		;
	return i < set.tags;
}

static struct request *scsi_alloc_request(struct request_queue *q, blk_opf_t opf,
					  blk_mq_req_flags_t flags)
{
	struct request *rq;

	if (!(flags & BLK_MQ_REQ_NOWAIT)) {
		explore_step("look for a tag");
		world.tags.bitmap_tags.ws_active.counter++;
		explore_wait(tag_is_free, 0, "sleep for a tag");
		world.tags.bitmap_tags.ws_active.counter--;
		return find_tag(opf);
	}
	explore_step("allocate a request");
	rq = find_tag(opf);
	if (!rq)
		return ERR_PTR(-EAGAIN);
	/* The promise that this number of new requests is enough. */
	EXPLORE_EXPECT(++world.allocs <= set.allocs);
	return rq;
}

static void put_request(struct request *rq)
{
	if (!atomic_dec_return(&rq->ref)) {
		EXPLORE_EXPECT(world.allocated[tag_number(rq)]);
		EXPLORE_EXPECT(!world.with_device[tag_number(rq)]);
		world.allocated[tag_number(rq)] = false;
	}
}

static void blk_mq_free_request(struct request *rq)
{
	EXPLORE_EXPECT(world.allocated[tag_number(rq)]);
	WRITE_ONCE(rq->state, MQ_RQ_IDLE);
	put_request(rq);
}

/* The device has the command. */
static void start_request(struct request *rq)
{
	struct scsi_cmnd *scmd = blk_mq_rq_to_pdu(rq);
	int nr = tag_number(rq);

	WRITE_ONCE(rq->state, MQ_RQ_IN_FLIGHT);
	world.runs[nr]++;
	world.sdev.iorequest_cnt.counter++;
	explore_step("queue_rq");
	EXPLORE_EXPECT(world.allocated[nr] && !world.with_device[nr]);
	/* Places bound the commands of this module with the device. */
	EXPLORE_EXPECT(++world.inflight <= set.depth - set.taken + world.given_back);
	scmd->result = 0;
	if (world.bad) {
		world.bad--;
		scmd->result = 2;
	}
	world.with_device[nr] = true;
}

/* The mid-layer ends the command. */
static void end_request(struct request *rq)
{
	int nr = tag_number(rq);

	world.with_device[nr] = false;
	world.inflight--;
	if (rq->end_io(rq, 0) == RQ_END_IO_FREE)
		blk_mq_free_request(rq);
}

static bool direct_issue(struct request *rq)
{
	if (world.refusals) {
		world.refusals--;
		return false;
	}
	start_request(rq);
	if (world.at_once) {
		world.at_once--;
		end_request(rq);
	}
	return true;
}

static bool smqsg_direct_issue(struct request *rq, int *token)
{
	return direct_issue(rq);
}

static bool smqsg_direct_issue_fresh(struct request *rq, int *token)
{
	return direct_issue(rq);
}

static void blk_execute_rq_nowait(struct request *rq, bool at_head)
{
	start_request(rq);
}

#define blk_mq_run_hw_queue(hctx, async)	((void)0)
#define queue_for_each_hw_ctx(q, at, i)		\
	for ((i) = 0, (at) = &world.hctx; !(i); (i)++)
#define percpu_ref_tryget(ref)			true
#define percpu_ref_put(ref)			((void)(ref))

struct blk_plug {
	int unused;
};

static struct {
	struct blk_plug *plug;
} task_on_cpu = { (void *)1 }, *current = &task_on_cpu;

#define blk_start_plug(plug)		((void)0)
#define blk_finish_plug(plug)		((void)0)

/* io_uring, and what is not explored. */

#define smq_uring_task(ioucmd)		(&world.task)
#define smq_uring_polled(ioucmd)	false
#define IO_URING_F_IOPOLL		1
#define smqsg_poll_on(polled, ioucmd, rq)	true
#define smqsg_poll_ended(ended, ioucmd)	((void)0)
#define smqsg_buffer_put(buffer)	((void)0)
#define smqsg_slot_vary(io, run)	(-EINVAL)
#define smqsg_held_arm(held, rq)	((void)0)
#define smqsg_held_vary(io, held, rq)	((held)->as_slot = true)
#define smqsg_slot_failed(io, status, scmd, error)	((scmd)->result)
#define smqsg_batch_end(batch, io, result)	((void)0)
#define smqsg_held_look_later(sg)	((void)0)
#define scsi_prot_sg_count(scmd)	0
#define scsi_device_get(sdev)		0
#define scsi_device_put(sdev)		((void)0)
#define smqsg_io_put(io)		((void)(io))

static void smqsg_slot_fill_request(struct smqsg_io *io, struct request *rq,
				    struct smqsg_slot *slot, struct bio *bio, u32 varied)
{
	rq->end_io_data = io;
}

static void post_cqe(struct io_uring_cmd *ioucmd, int result)
{
	int nr = ioucmd - world.ioucmd;

	world.cqes[nr]++;
	world.cqe[nr] = result;
}

static void smq_uring_done(struct io_uring_cmd *ioucmd, int result, unsigned int issue_flags)
{
	post_cqe(ioucmd, result);
}

static void smqsg_slot_task_work(struct io_uring_cmd *ioucmd, unsigned int issue_flags);

static void io_uring_cmd_complete_in_task(struct io_uring_cmd *ioucmd,
					  void (*fn)(struct io_uring_cmd *ioucmd,
						     unsigned int issue_flags))
{
	explore_step("task work");
	EXPLORE_EXPECT(!world.task_work[ioucmd - world.ioucmd]);
	world.task_work[ioucmd - world.ioucmd] = true;
}

#include FUNCTIONS

static void smqsg_slot_task_work(struct io_uring_cmd *ioucmd, unsigned int issue_flags)
{
	smqsg_slot_post_cqe(ioucmd, issue_flags);
}

static bool has_task_work(long slot)
{
	return world.task_work[slot];
}

/* A task that runs a slot: @arg: bits 0-3: the slot, 4-7: how often, 8 and up: the file. */
static void runner(int arg)
{
	int nr = arg & 15, times = arg >> 4 & 15, ret;
	struct smqsg_fd *fd = &world.fd[arg >> 8];
	struct smqsg_io *io = &world.io[nr];
	struct io_uring_cmd *ioucmd = &world.ioucmd[nr];

	for (; times; times--) {
		int cqes = world.cqes[nr];

		/* As smqsg_slot_run(). */
		explore_step("SQE");
		io->fd = fd;
		io->batch = NULL;
		io->ioucmd = ioucmd;
		io->cqe_by.counter = SMQSG_CQE_TASK_WORK;
		*smqsg_slot_pdu(ioucmd) = io;
		ret = smqsg_slot_run_as(io, fd, nr, NULL, 0);
		if (ret != -EIOCBQUEUED) {
			post_cqe(ioucmd, ret);
		} else if (world.cqes[nr] == cqes) {
			explore_wait(has_task_work, nr, "run task work");
			world.task_work[nr] = false;
			smqsg_slot_task_work(ioucmd, 0);
		}
		/* One CQE for each SQE, and the slot can be run again. */
		EXPLORE_EXPECT(world.cqes[nr] == cqes + 1);
		EXPLORE_EXPECT(!(world.busy[arg >> 8] >> nr & 1));
	}
}

static bool device_has(long nr)
{
	return world.with_device[nr];
}

/* The device: ends the commands of a tag. */
static void device(int nr)
{
	for (;;) {
		explore_wait(device_has, nr, "completion");
		end_request(&world.tag[nr].rq);
	}
}

static bool has_work(long unused)
{
	const struct delayed_work *dispatch = &world.sg.wait.dispatch;

	return dispatch->due || (dispatch->later && set.timer);
}

static void worker(int unused)
{
	for (;;) {
		explore_wait(has_work, 0, "work");
		world.sg.wait.dispatch.due = false;
		world.sg.wait.dispatch.later = false;
		smqsg_dispatch(&world.sg.wait.dispatch.work);
	}
}

static void canceller(int slot)
{
	int i;

	for (i = 0; i < what.nr; i++) {
		int arg = what.threads[i].arg;

		if (what.threads[i].run == runner && (arg & 15) == slot) {
			explore_step("cancel");
			smqsg_cancel(&world.fd[arg >> 8], slot);
		}
	}
}

static void looker(int unused)
{
	explore_step("look");
	smqsg_held_look_all(&world.sg);
}

static bool tag_is_wanted(long unused)
{
	return world.tags.bitmap_tags.ws_active.counter && !tag_is_free(0);
}

/* The look, which comes again and again while a task sleeps for a tag. */
static void looker_for_sleepers(int unused)
{
	for (;;) {
		explore_wait(tag_is_wanted, 0, "look");
		smqsg_held_look_all(&world.sg);
	}
}

static void collector(int unused)
{
	explore_step("collect");
	smqsg_held_give_back_all(&world.sg);
}

/* The block layer's scan for commands that are in flight for too long. */
static void scanner(int unused)
{
	int i, run;

	for (i = 0; i < set.tags; i++) {
		struct request *rq = &world.tag[i].rq;

		explore_step("scan: get a reference");
		if (!world.allocated[i])
			continue;
		rq->ref.counter++;
		run = READ_ONCE(rq->state) == MQ_RQ_IN_FLIGHT ? world.runs[i] : 0;
		if (run) {
			/* The scan judges the run that it has seen, not a later one. */
			explore_step("scan: compare the deadline");
			EXPLORE_EXPECT(rq->state != MQ_RQ_IN_FLIGHT || world.runs[i] == run);
		}
		put_request(rq);
	}
}

static bool device_is_idle(long unused)
{
	return !world.inflight;
}

/* Block I/O finds no place, and gets one when the device is idle. */
static void contender(int unused)
{
	atomic_inc(&world.sdev.restarts);
	explore_wait(device_is_idle, 0, "block I/O is sent");
	world.sdev.iorequest_cnt.counter++;
	world.sdev.restarts.counter = 0;
}

/* A command ends that has had a place from the beginning. */
static void ender(int unused)
{
	explore_step("a command ends");
	world.given_back = true;
	smqsg_unreserve(&world.fd[0], 1);
}

/* Block I/O has a tag for a while. */
static void other_user(int unused)
{
	struct request *rq;

	explore_wait(tag_is_free, 0, "block I/O gets a tag");
	rq = find_tag(REQ_OP_DRV_IN);
	explore_step("block I/O ends");
	put_request(rq);
}

static void begin_file(struct smqsg_fd *fd, int nr)
{
	int i;

	fd->sg = &world.sg;
	fd->sdev = &world.sdev;
	fd->q = &world.queue;
	fd->slots = (struct smqsg_fd_slots){ .array = world.slot[nr], .busy = &world.busy[nr],
		.status = world.status[nr], .status_stride = sizeof(struct smq_sg_status),
		.nr = SLOTS };
	for (i = 0; i < SLOTS; i++) {
		world.slot[nr][i].cdb_len = 1;
		world.slot[nr][i].timeout = 1000;
		world.slot[nr][i].bioless = true;
		world.slot[nr][i].hold = set.hold;
	}
	INIT_LIST_HEAD(&fd->wait.queue);
	fd->wait.turn = SMQSG_NO_SLOT;
	for (i = 0; i <= ENTRIES; i++) {
		world.entries[nr][i].slot = SMQSG_HELD_FREE;
		world.entries[nr][i].next = i && i < ENTRIES ? i + 1 : 0;
	}
	fd->held.entries = world.entries[nr];
	fd->held.nr = ENTRIES;
	fd->held.share = 100;
	fd->held.limit = min(set.depth / set.files, ENTRIES);
	fd->held.free = 1;
	list_add_tail(&fd->held.sibling, &world.sg.held.files);
}

static void begin(void)
{
	int i;

	world.sg.sdev = &world.sdev;
	world.sg.depth.kept = world.kept;
	INIT_LIST_HEAD(&world.sg.wait.files);
	INIT_LIST_HEAD(&world.sg.wait.scans);
	INIT_LIST_HEAD(&world.sg.wait.sharers);
	INIT_LIST_HEAD(&world.sg.held.files);
	world.sg.held.share = 100;
	world.shost.starved_list.next = &world.shost.starved_list;
	world.sdev.host = &world.shost;
	world.sdev.request_queue = &world.queue;
	world.sdev.queue_depth = set.depth;
	world.hctx.tags = &world.tags;
	world.task.signal = &world.signal;
	for (i = 0; i < set.files; i++)
		begin_file(&world.fd[i], i);
	world.sg.depth.inflight.counter = set.taken;
	world.fd[0].depth.inflight.counter = set.taken;
	smqsg_keep_set(&world.sg, &world.sdev);
	world.bad = set.bad;
	world.at_once = set.at_once;
	world.refusals = set.refuse;
}

/* Checks what must be true when all threads have ended or wait for ever. */
static void end(void)
{
	int i, f, held = 0, kept = world.kept[0].counter + world.kept[1].counter;

	/* All places are free, or kept by CPUs; none is lost. */
	EXPLORE_EXPECT(world.sg.depth.inflight.counter == kept + set.taken - world.given_back);
	EXPLORE_EXPECT(kept >= 0 && kept <= set.depth);
	EXPLORE_EXPECT(!world.sg.depth.waiting.counter && !world.inflight);
	EXPLORE_EXPECT(!world.sg.wait.spare);
	for (i = 0; i < what.nr; i++) {
		if (what.threads[i].run == runner)
			EXPLORE_EXPECT(world.cqes[what.threads[i].arg & 15] ==
				       (what.threads[i].arg >> 4 & 15));
	}
	for (f = 0; f < set.files; f++) {
		u32 used = 0;

		EXPLORE_EXPECT(world.fd[f].depth.inflight.counter ==
			       (f ? 0 : set.taken - world.given_back));
		EXPLORE_EXPECT(!world.fd[f].wait.queued && !world.busy[f]);
		/* A used entry has the idle request of its slot. */
		for (i = 1; i <= ENTRIES; i++) {
			const struct smqsg_held *entry = &world.entries[f][i];

			EXPLORE_EXPECT((entry->slot != SMQSG_HELD_FREE) == !!entry->rq);
			used += !!entry->rq;
			if (entry->rq)
				EXPLORE_EXPECT(world.allocated[tag_number(entry->rq)]);
		}
		EXPLORE_EXPECT(used == world.fd[f].held.used);
		held += used;
	}
	/* All other requests are free. */
	for (i = 0; i < set.tags; i++)
		held -= world.allocated[i];
	EXPLORE_EXPECT(!held);
}

static const struct explore_option options[] = {
	{ "depth", &set.depth }, { "tags", &set.tags }, { "hold", &set.hold }, { "bad", &set.bad },
	{ "at_once", &set.at_once }, { "refuse", &set.refuse }, { "keep", &set.keep },
	{ "allocs", &set.allocs }, { "timer", &set.timer }, { "files", &set.files },
	{ "idle", &set.idle }, { "taken", &set.taken },
};

static bool parse_thread(const char *word)
{
	int nr, file = 0;

	if (sscanf(word, "r%d@%d", &nr, &file) >= 1)
		thread(runner, nr_slots++ | nr << 4 | file << 8);
	else if (sscanf(word, "cancel=%d", &nr) == 1)
		thread(canceller, nr);
	else if (!strcmp(word, "collect"))
		thread(collector, 0);
	else if (!strcmp(word, "look"))
		thread(looker, 0);
	else if (!strcmp(word, "timeouts"))
		thread(scanner, 0);
	else if (!strcmp(word, "end"))
		thread(ender, 0);
	else if (!strcmp(word, "other"))
		thread(other_user, 0);
	else if (!strcmp(word, "contended"))
		thread(contender, 0);
	else
		return false;
	return true;
}

int main(int argc, char **argv)
{
	int i;

	what.shared = &world;
	what.size = sizeof(world);
	what.begin = begin;
	what.end = end;
	for (i = 1; i < argc; i++) {
		if (!set_option(argv[i], options, ARRAY_SIZE(options)) && !parse_thread(argv[i])) {
			fprintf(stderr, "%s is unknown\n", argv[i]);
			return 2;
		}
	}
	set.tags = set.tags ?: nr_slots;
	for (i = 0; i < set.tags; i++)
		thread(device, i)->idle = true;
	thread(worker, 0)->idle = true;
	if (set.tags < nr_slots || has_thread(other_user))
		thread(looker_for_sleepers, 0)->idle = true;
	explore(&what);
	printf("%lu states, %lu steps\n", what.states, what.steps);
	return 0;
}
