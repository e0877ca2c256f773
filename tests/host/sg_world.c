// SPDX-License-Identifier: GPL-2.0
/*
 * Explores a slot's run in smq_sg, from the SQE to its CQE, in every interleaving: places, waiting
 * and the dispatcher, idle requests, and which context posts the CQE. cut.py has taken the types
 * and functions out of the module's files, unchanged. io_uring, the block layer, the mid-layer, the
 * device and the workqueue are models. Built and run by test_sg_explore.py.
 *
 * sg_world KEY=VALUE... THREAD...
 *
 * Threads: rN: a task on a CPU of its own that runs a slot of its own N times, each time after the
 * CQE of the run before; rN@F: a slot of file F. cancel=S: cancels the waiting run of slot S at any
 * time. collect: all idle requests are given back, at any time, as for a task that needs a tag.
 * scan: the scan of idle requests, once, at any time. scans: the scan, whenever it is scheduled.
 * ask: a program asks how many requests its file may keep. timeouts: the block layer's scan for
 * commands that are in flight for too long. freeze: the own queue is frozen, at any time, and the
 * scan runs until it is; unfreezes it. freeze-device: the same with the device's queue. block: the
 * device is blocked for a while. other: block I/O has a tag for a while, at any time. contended:
 * block I/O waits for a place, at any time. end: one of the commands of taken=N ends, at any time.
 * Options: depth=N: the queue depth. taken=N: commands that do not end have N of the places.
 * tags=N: how many requests there are; without it as many as tasks. files=N. own=1: the node has
 * a queue of its own. allocs=N: runs may allocate at most N requests. bad=N: the first N
 * commands do not end with GOOD. at_once=N: the first N commands end before queue_rq() returns.
 * refuse=N: the device takes N commands only later. idle=1: every idle request has been idle for
 * too long. migrate=1: after each run its task goes to the other CPU. timer=1: the dispatcher
 * also runs periodically.
 * A thread for each tag ends the commands; one thread runs the dispatcher. If a run may find no
 * tag, one thread is the scan while a task sleeps for a tag.
 */
#include "sg_types.h"

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof(*(a)))
#define MAX_ERRNO	4095
#define ERR_PTR(error)	((void *)(long)(error))
#define PTR_ERR(ptr)	((int)(long)(ptr))
#define IS_ERR(ptr)	((unsigned long)(ptr) >= (unsigned long)-MAX_ERRNO)

static struct explore_rcu *explore_rcu(void)
{
	return &world.rcu;
}

static void scan_once(int unused);
static void scan_worker(int unused);
static void scan_for_sleepers(int unused);
static void asker(int unused);
static void timeouts(int unused);
static void contender(int unused);
static void blocker(int unused);
static void freezer(int of_device);

/* True if no other thread writes the memory, or no other reads it. */
static bool explore_needs_no_step(const void *at)
{
	int f, i;

	for (f = 0; f < FILES; f++) {
		if (IS_IN(at, world.fd[f].slots) || IS_IN(at, world.fd[f].own))
			return true;
		if (IS_IN(at, world.fd[f].pool.limit))
			return !has_thread(scan_once) && !has_thread(scan_worker) &&
			       !has_thread(asker);
	}
	for (i = 0; i < TAGS; i++) {
		if (IS_IN(at, world.tag[i].scmd.jiffies_at_alloc))
			return !has_thread(scan_once) && !has_thread(scan_worker) &&
			       !has_thread(scan_for_sleepers);
		if (IS_IN(at, world.tag[i].rq.state))
			return !has_thread(timeouts);
	}
	if (IS_IN(at, world.sg.depth.yield) || IS_IN(at, world.sg.depth.yield_until) ||
	    IS_IN(at, world.sg.depth.yield_seen) || IS_IN(at, world.sg.depth.restarts))
		return !has_thread(contender);
	return IS_IN(at, world.sdev.queue_depth) || IS_IN(at, world.sg.own.q) ||
	       IS_IN(at, world.sg.depth.claimed) || IS_IN(at, world.hctx) ||
	       IS_IN(at, world.task) || IS_IN(at, world.signal) || IS_IN(at, world.sg.pool.share) ||
	       IS_IN(at, world.sdev.budget_map);
}

/* What explore_kernel.h does not have. */

#define BUILD_BUG_ON(cond)		((void)sizeof(char[1 - 2 * !!(cond)]))
/* A step, like a plain write. */
#define smp_store_release(at, value)	WRITE_ONCE(*(at), value)
/* Two steps: what the caller then does with plain accesses comes later. */
#define xchg(at, value)						\
	({							\
		__typeof__(*(at)) __old;			\
								\
		explore_step("xchg " #at);			\
		__old = *(at);					\
		*(at) = (value);				\
		explore_step("after xchg");			\
		__old;						\
	})
/* All accesses are in order here. */
#define smp_rmb()			((void)0)
/* likewise */
#define smp_wmb()			((void)0)
/* likewise */
#define smp_mb()			((void)0)
#define in_task()			true
#define current				(&world.task[explore_self()])
#define array_index_nospec(i, size)	(i)
#define cond_resched()			((void)0)
#define raw_smp_processor_id()		((u32)world.cpu[explore_self()])
/* All CPUs share a counter: what is explored is when it is read, not where it lies. */
#define per_cpu_ptr(counter, cpu)	(&(counter)[cpu])
#define for_each_possible_cpu(cpu)	for ((cpu) = 0; (cpu) < 1; (cpu)++)
#undef this_cpu_add
#define this_cpu_add(counter, n) \
	(explore_step("this_cpu " #counter), (void)((counter) += (n)))
#undef this_cpu_inc
#define this_cpu_inc(counter)		this_cpu_add(counter, 1)
#undef this_cpu_dec
#define this_cpu_dec(counter)		this_cpu_add(counter, -1)
#define this_cpu_sub(counter, n)	this_cpu_add(counter, -(n))
#define raw_cpu_write(at, value)	((void)0)
#define __clear_bit(nr, word)		((void)0)
#define scsi_host_in_recovery(shost)	false
#define percpu_ref_is_dying(ref)	((ref)->dying)
#define percpu_ref_tryget_live_rcu(ref)	percpu_ref_tryget_live(ref)
#define blk_queue_pm_only(q)		false
#define blk_queue_quiesced(q)		false
#define smqsg_own_limits_match(own, q)	true
#define smq_straight_new(rq)		((void)0)
#define blk_mq_cleanup_rq(rq)		((void)0)
#define blk_mq_end_request(rq, status)	EXPLORE_EXPECT(0)
#define smqsg_bell_is_due(rq)		false
/* Both ways to the LLD check the same states, and give a token back alike. */
#define smq_straight_may_queue(rq, sdev, traces)	true
#define smq_straight_queue(rq, is_last)	\
	queue_rq((rq)->mq_hctx, &(struct blk_mq_queue_data){ rq, is_last })
#define smq_straight_needs_mid_layer(scmd, sdev)	((scmd)->result)
#define smq_straight_run_others(sdev)	((void)0)
#define spin_lock_init(lock)		((void)(lock))
#define list_del_init_careful(entry)	list_del_init(entry)
#define scsi_target(sdev)		(&(struct scsi_target){ false })
#define smqsg_wq			0
#define smqsg_send_wq			1
#define IS_DUE(delay)			((delay) < SMQSG_LOOK)

static void queue_delayed_work(int wq, struct delayed_work *work, unsigned long delay)
{
	if (!work->due && !work->later)
		*(IS_DUE(delay) ? &work->due : &work->later) = true;
}

static bool delayed_work_pending(const struct delayed_work *work)
{
	explore_step("delayed_work_pending");
	return work->due || work->later;
}

static bool percpu_ref_tryget_live(struct percpu_ref *ref)
{
	explore_step("percpu_ref_tryget_live");
	if (ref->dying)
		return false;
	ref->count++;
	return true;
}

static void percpu_ref_put(struct percpu_ref *ref)
{
	EXPLORE_EXPECT(ref->count > 0);
	ref->count--;
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

static struct request *find_tag(struct request_queue *q, blk_opf_t opf)
{
	int i;

	for (i = 0; i < set.tags; i++) {
		struct tag *tag = &world.tag[i];

		if (world.allocated[i])
			continue;
		world.allocated[i] = true;
		q->q_usage_counter.count++;
		*tag = (struct tag){ .rq = { .q = q, .cmd_flags = opf, .ref.counter = 1,
			.mq_hctx = &world.hctx[world.cpu[explore_self()] % HWQS],
			.rq_flags = SMQ_RQF_OF_TAG }, .scmd.device = &world.sdev };
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

static bool request_is_free(long unused)
{
	return tag_is_free(0) && !world.queue.q_usage_counter.dying;
}

static struct request *scsi_alloc_request(struct request_queue *q, blk_opf_t opf,
					  blk_mq_req_flags_t flags)
{
	struct request *rq;

	if (!(flags & BLK_MQ_REQ_NOWAIT)) {
		explore_step("look for a tag");
		world.tags.bitmap_tags.ws_active.counter++;
		explore_wait(request_is_free, 0, "sleep for a tag");
		world.tags.bitmap_tags.ws_active.counter--;
		return find_tag(q, opf);
	}
	explore_step("allocate a request");
	rq = q->q_usage_counter.dying ? NULL : find_tag(q, opf);
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
		percpu_ref_put(&rq->q->q_usage_counter);
	}
}

static void blk_mq_free_request(struct request *rq)
{
	EXPLORE_EXPECT(world.allocated[tag_number(rq)]);
	WRITE_ONCE(rq->state, MQ_RQ_IDLE);
	put_request(rq);
}

/* The budget: its tokens are all alike here. */
static int sbitmap_get(struct sbitmap *map)
{
	explore_step("sbitmap_get");
	if (world.tokens == set.depth)
		return -1;
	world.tokens++;
	return 0;
}

static void sbitmap_put(struct sbitmap *map, unsigned int token)
{
	explore_step("sbitmap_put");
	EXPLORE_EXPECT(world.tokens-- > 0);
}

/* The device has the command, which has a token. */
static void start_request(struct request *rq)
{
	struct scsi_cmnd *scmd = blk_mq_rq_to_pdu(rq);
	int nr = tag_number(rq);

	WRITE_ONCE(rq->state, MQ_RQ_IN_FLIGHT);
	world.runs[nr]++;
	world.sdev.iorequest_cnt.counter++;
	explore_step("queue_rq");
	EXPLORE_EXPECT(world.allocated[nr] && !world.with_device[nr] && !world.quiet);
	EXPLORE_EXPECT(++world.inflight <= world.tokens);
	world.inflight_own += rq->q == &world.own;
	scmd->result = 0;
	if (world.bad) {
		world.bad--;
		scmd->result = 2;
	}
	world.with_device[nr] = true;
}

static void smqsg_own_complete(struct request *rq);

/* The mid-layer ends the command, of the own queue if it has to. */
static void smqsg_own_complete_slowly(struct request *rq)
{
	sbitmap_put(&world.sdev.budget_map, 0);
	if (rq->end_io(rq, 0) == RQ_END_IO_FREE)
		blk_mq_free_request(rq);
}

static void end_request(struct request *rq)
{
	int nr = tag_number(rq);

	world.with_device[nr] = false;
	world.inflight--;
	if (rq->q == &world.own) {
		world.inflight_own--;
		smqsg_own_complete(rq);
		return;
	}
	world.plain--;
	smqsg_own_complete_slowly(rq);
}

/* Both ways for straight.c: state of the device, then queuecommand. */
static blk_status_t queue_rq(struct blk_mq_hw_ctx *hctx, const struct blk_mq_queue_data *bd)
{
	/* An idle request is used only on the CPU whose hctx it has. */
	EXPLORE_EXPECT(hctx == &world.hctx[world.cpu[explore_self()] % HWQS]);
	if (has_thread(blocker)) {
		explore_step("state of the device");
		if (world.blocked) {
			world.tokens--;
			return BLK_STS_RESOURCE;
		}
	}
	if (world.refusals) {
		world.refusals--;
		world.tokens--;
		return BLK_STS_RESOURCE;
	}
	start_request(bd->rq);
	if (world.at_once) {
		world.at_once--;
		end_request(bd->rq);
	}
	return BLK_STS_OK;
}

static const struct blk_mq_ops mq_ops = { .queue_rq = queue_rq };

/* Whether the own queue may refuse a command that has a token. */
static int may_refuse(void)
{
	return set.refuse || has_thread(blocker) || has_thread(freezer);
}

static bool can_be_dispatched(int nr)
{
	return world.queued[nr] && world.tokens < set.depth && !world.blocked;
}

static void dispatch(int nr)
{
	world.queued[nr] = false;
	world.tokens++;
	start_request(&world.tag[nr].rq);
}

/* The block layer sends a request later if there is no token, or if the device is blocked. */
static void blk_execute_rq_nowait(struct request *rq, bool at_head)
{
	explore_step("insert");
	/*
	 * Places bound the commands of this module that are in flight, and those on the device's
	 * queue. There may be one more for a moment, for a command that the own queue has refused.
	 */
	world.plain++;
	EXPLORE_EXPECT(world.plain + world.inflight_own <= set.depth - set.taken +
		       world.given_back + may_refuse());
	world.queued[tag_number(rq)] = true;
	if (can_be_dispatched(tag_number(rq)))
		dispatch(tag_number(rq));
}

#define queue_for_each_hw_ctx(q, at, i)		\
	for ((i) = 0; (at) = &world.hctx[(i) % HWQS], (i) < HWQS; (i)++)

/* io_uring, and what is not explored. */

#define smq_uring_task(ioucmd)		((ioucmd)->task)
#define smq_uring_polled(ioucmd)	false
#define IO_URING_F_IOPOLL		1
#define smqsg_poll_on(polled, ioucmd, rq)	true
#define smqsg_poll_ended(ended, ioucmd)	((void)0)
#define smqsg_buffer_put(buffer)	((void)0)
#define smqsg_slot_vary(io, varied)	(-EINVAL)
#define smqsg_lba_fits(bits, lba)	(-EINVAL)
#define smqsg_slot_failed(io, status, scmd, error)	((scmd)->result)
#define smqsg_batch_end(batch, io, result, resid)	((void)0)
#define scsi_device_get(sdev)		0
#define scsi_device_put(sdev)		((void)0)
#define smqsg_io_put(io)		((void)(io))

static void smqsg_slot_fill_request(struct smqsg_io *io, struct request *rq,
				    const struct smqsg_send *send)
{
	rq->end_io_data = io;
}

void smqsg_slot_good(struct smqsg_io *io, struct request *rq);
SMQ_END_IO(smqsg_slot_end, rq, error);

static const struct smqsg_origin smqsg_slot_origin = {
	.fill = smqsg_slot_fill_request,
	.good = smqsg_slot_good,
	.end = smqsg_slot_end,
};

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
		io->waiter.fd = fd;
		io->batch = NULL;
		io->ioucmd = ioucmd;
		ioucmd->task = current;
		*smqsg_slot_pdu(ioucmd) = io;
		ret = smqsg_slot_run_as(io, fd, nr, 0, 0);
		if (ret != -EIOCBQUEUED) {
			post_cqe(ioucmd, ret);
		} else if (world.cqes[nr] == cqes) {
			explore_wait(has_task_work, nr, "run task work");
			world.task_work[nr] = false;
			smqsg_slot_task_work(ioucmd, 0);
		}
		/* One CQE for each SQE, and the slot can be run again. */
		EXPLORE_EXPECT(world.cqes[nr] == cqes + 1);
		EXPLORE_EXPECT(!world.busy[arg >> 8][nr]);
		if (set.migrate)
			world.cpu[explore_self()] ^= 1;
	}
}

static bool device_has(long nr)
{
	return world.with_device[nr] || can_be_dispatched(nr);
}

/* The block layer and the device: dispatch and end the commands of a tag. */
static void device(int nr)
{
	for (;;) {
		explore_wait(device_has, nr, "dispatch or completion");
		if (world.with_device[nr])
			end_request(&world.tag[nr].rq);
		else
			dispatch(nr);
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

static void scan_once(int unused)
{
	explore_step("scan");
	smqsg_pool_give_back(&world.sg);
}

/* Whether the scan is scheduled, and something can still come of it. */
static bool scan_is_due(long unused)
{
	const struct delayed_work *scan = &world.sg.pool.scan;
	int i;

	if (!scan->due && !scan->later)
		return false;
	if (world.own.q_usage_counter.dying)
		return true;
	for (i = 0; i < what.nr; i++) {
		if (what.threads[i].run == runner &&
		    world.cqes[what.threads[i].arg & 15] < (what.threads[i].arg >> 4 & 15))
			return true;
	}
	return false;
}

static void scan_worker(int unused)
{
	for (;;) {
		explore_wait(scan_is_due, 0, "work: scan");
		world.sg.pool.scan.due = false;
		world.sg.pool.scan.later = false;
		smqsg_pool_scan(&world.sg.pool.scan.work);
	}
}

static bool tag_is_wanted(long unused)
{
	return world.tags.bitmap_tags.ws_active.counter && !tag_is_free(0);
}

/* The scan, which comes again and again while a task sleeps for a tag. */
static void scan_for_sleepers(int unused)
{
	for (;;) {
		explore_wait(tag_is_wanted, 0, "scan");
		smqsg_pool_give_back(&world.sg);
	}
}

static void asker(int unused)
{
	explore_step("ask");
	smqsg_pool_limit(&world.fd[0]);
}

static bool is_frozen(long of)
{
	return !((struct percpu_ref *)of)->count;
}

static void freezer(int of_device)
{
	struct request_queue *q = of_device ? &world.queue : &world.own;

	explore_step("freeze");
	q->q_usage_counter.dying = true;
	explore_wait(is_frozen, (long)&q->q_usage_counter, "is frozen");
	explore_step("unfreeze");
	/* No command of this module is with the device while its queue is frozen. */
	EXPLORE_EXPECT(!of_device || !world.inflight);
	q->q_usage_counter.dying = false;
}

/* As scsi_internal_device_block(): no command is sent after the grace period. */
static void blocker(int unused)
{
	explore_step("block");
	world.blocked = true;
	synchronize_rcu();
	world.quiet = true;
	explore_step("unblock");
	world.quiet = false;
	world.blocked = false;
}

static void collector(int unused)
{
	explore_step("collect");
	smqsg_pool_give_back_all(&world.sg);
}

/* The block layer's scan for commands that are in flight for too long. */
static void timeouts(int unused)
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
	world.tokens--;
	smqsg_unreserve(&world.fd[0], 1);
}

/* Block I/O has a tag for a while. */
static void other_user(int unused)
{
	struct request *rq;

	explore_wait(tag_is_free, 0, "block I/O gets a tag");
	rq = find_tag(&world.queue, REQ_OP_DRV_IN);
	explore_step("block I/O ends");
	put_request(rq);
}

static void begin_file(struct smqsg_fd *fd, int nr)
{
	int i;

	fd->sg = &world.sg;
	fd->sdev = &world.sdev;
	fd->q = &world.queue;
	fd->own = set.own ? &world.own : NULL;
	fd->plain = true;
	fd->depth.own = world.count;
	fd->depth.inflight = world.inflight_of[nr];
	fd->slots = (struct smqsg_fd_slots){ .array = world.slot[nr], .busy = world.busy[nr],
		.status = world.status[nr], .status_stride = sizeof(struct smq_sg_status),
		.nr = SLOTS };
	for (i = 0; i < SLOTS; i++) {
		world.slot[nr][i].cdb_len = 1;
		world.slot[nr][i].timeout = 1000;
		world.slot[nr][i].bioless = true;
	}
	INIT_LIST_HEAD(&fd->wait.queue);
	fd->wait.turn = SMQSG_NO_SLOT;
	smqsg_pool_open(fd);
	fd->pool.limit = set.depth / set.files;
	list_add_tail(&fd->sibling, &world.sg.files);
}

static void begin(void)
{
	int i;

	world.sg.sdev = &world.sdev;
	world.sg.depth.own = world.count;
	world.sg.own.q = set.own ? &world.own : NULL;
	INIT_LIST_HEAD(&world.sg.wait.files);
	INIT_LIST_HEAD(&world.sg.wait.scans);
	INIT_LIST_HEAD(&world.sg.files);
	world.sg.pool.share = 100;
	world.sg.pool.tags = &world.kept_tags.tags;
	world.kept_tags.tags.set = &world.tag_set;
	world.kept_tags.tags.nr = HWQS;
	world.tag_set.queue_depth = set.depth;
	world.queue.mq_ops = &mq_ops;
	world.own.mq_ops = &mq_ops;
	world.shost.starved_list.next = &world.shost.starved_list;
	world.sdev.host = &world.shost;
	world.sdev.request_queue = &world.queue;
	world.sdev.queue_depth = set.depth;
	for (i = 0; i < HWQS; i++)
		world.hctx[i] = (struct blk_mq_hw_ctx){ .queue_num = i, .tags = &world.tags };
	for (i = 0; i < EXPLORE_THREADS; i++)
		world.cpu[i] = i;
	/* As smqsg_io_init(). */
	for (i = 0; i < SLOTS; i++) {
		INIT_LIST_HEAD(&world.io[i].idle.entry);
		INIT_LIST_HEAD(&world.io[i].waiter.entry);
		world.io[i].token = -1;
	}
	for (i = 0; i < EXPLORE_THREADS; i++)
		world.task[i].signal = &world.signal;
	for (i = 0; i < set.files; i++)
		begin_file(&world.fd[i], i);
	world.sg.depth.places.counter = set.taken;
	world.inflight_of[0][0] = set.taken;
	world.tokens = set.taken;
	world.bad = set.bad;
	world.at_once = set.at_once;
	world.refusals = set.refuse;
}

/* Checks that a file's idle requests, and only these, are counted. Returns how many there are. */
static int end_pool(struct smqsg_fd *fd, int kept[HWQS])
{
	struct smqsg_idle *idle;
	unsigned int listed = 0;
	int count = 0;

	list_for_each_entry(idle, &fd->pool.idle, entry) {
		listed++;
		if (!idle->rq)
			continue;
		EXPLORE_EXPECT(world.allocated[tag_number(idle->rq)]);
		kept[idle->rq->mq_hctx->queue_num]++;
		count++;
	}
	EXPLORE_EXPECT(count == fd->pool.used.counter);
	EXPLORE_EXPECT(listed == fd->pool.listed);
	return count;
}

/* Checks what must be true when all threads have ended or wait for ever. */
static void end(void)
{
	int i, f, idle = 0, hwqs[HWQS] = { 0 };
	int taken = set.taken - world.given_back;

	/* All places and tokens are free. */
	EXPLORE_EXPECT(world.sg.depth.places.counter == taken && world.tokens == taken);
	EXPLORE_EXPECT(world.count[0].sent == world.count[0].ended);
	EXPLORE_EXPECT(!world.sg.depth.waiting.counter && !world.inflight);
	EXPLORE_EXPECT(!world.sg.wait.spare);
	for (i = 0; i < what.nr; i++) {
		if (what.threads[i].run == runner)
			EXPLORE_EXPECT(world.cqes[what.threads[i].arg & 15] ==
				       (what.threads[i].arg >> 4 & 15));
	}
	for (f = 0; f < set.files; f++) {
		EXPLORE_EXPECT(world.inflight_of[f][0] == (f ? 0 : taken));
		EXPLORE_EXPECT(!world.fd[f].wait.queued);
		for (i = 0; i < SLOTS; i++)
			EXPLORE_EXPECT(!world.busy[f][i]);
		idle += end_pool(&world.fd[f], hwqs);
	}
	for (i = 0; i < HWQS; i++)
		EXPLORE_EXPECT(hwqs[i] == world.kept_tags.tags.used[i].counter);
	/* While requests are kept, the scan is scheduled. */
	EXPLORE_EXPECT(!idle || world.sg.pool.scan.due || world.sg.pool.scan.later);
	/* While commands are to be counted for the device, too. */
	EXPLORE_EXPECT((world.count[0].sent - world.count[0].sent_slowly ==
			world.sg.depth.requests &&
			world.count[0].ended - world.count[0].ended_slowly ==
			world.sg.depth.done) ||
		       world.sg.pool.scan.due || world.sg.pool.scan.later);
	/* All other requests are free, and the device's queue has no reference. */
	EXPLORE_EXPECT(world.own.q_usage_counter.count == idle);
	EXPLORE_EXPECT(!world.queue.q_usage_counter.count);
	for (i = 0; i < set.tags; i++)
		idle -= world.allocated[i];
	EXPLORE_EXPECT(!idle);
}

static const struct explore_option options[] = {
	{ "depth", &set.depth }, { "tags", &set.tags }, { "own", &set.own }, { "bad", &set.bad },
	{ "at_once", &set.at_once }, { "refuse", &set.refuse },
	{ "allocs", &set.allocs }, { "timer", &set.timer }, { "files", &set.files },
	{ "idle", &set.idle }, { "taken", &set.taken }, { "migrate", &set.migrate },
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
	else if (!strcmp(word, "scan"))
		thread(scan_once, 0);
	else if (!strcmp(word, "scans"))
		thread(scan_worker, 0)->idle = true;
	else if (!strcmp(word, "ask"))
		thread(asker, 0);
	else if (!strcmp(word, "timeouts"))
		thread(timeouts, 0);
	else if (!strcmp(word, "freeze"))
		thread(freezer, 0);
	else if (!strcmp(word, "freeze-device"))
		thread(freezer, 1);
	else if (!strcmp(word, "block"))
		thread(blocker, 0);
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

static bool parse(const char *word)
{
	return set_option(word, options, ARRAY_SIZE(options)) || parse_thread(word);
}

int main(int argc, char **argv)
{
	int i;

	what.shared = &world;
	what.size = sizeof(world);
	what.begin = begin;
	what.end = end;
	read_words(argc, argv, parse);
	set.tags = set.tags ?: nr_slots;
	for (i = 0; i < set.tags; i++)
		thread(device, i)->idle = true;
	thread(worker, 0)->idle = true;
	if (set.tags < nr_slots || has_thread(other_user))
		thread(scan_for_sleepers, 0)->idle = true;
	return explore_all();
}
