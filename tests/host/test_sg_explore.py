# SPDX-License-Identifier: GPL-2.0
"""Runs of slots in smq_sg in every interleaving, from the SQE to the CQE: places, waiting and the
dispatcher, idle requests, and which context posts the CQE. This exploration must also find each
planted mistake."""

import pytest
from world import World

SG = "drivers/sg/"
PLACE, DEPTH = SG + "place.h", SG + "depth.c"
POOL, POOL_C, STRAIGHT = SG + "pool.h", SG + "pool.c", SG + "straight.c"
ISSUE, ISSUE_H, RUN = SG + "issue.c", SG + "issue.h", SG + "run.c"

WORLD = World("sg", types={
    SG + "slot.h": ["struct smqsg_slot", "struct smqsg_fd_slots"],
    SG + "depth.h": ["struct smqsg_own_count", "struct smqsg_dev_depth", "struct smqsg_fd_depth",
                     "struct smqsg_dev_wait", "struct smqsg_fd_wait", "struct smqsg_waiter"],
    "include/smq/kept.h": ["struct smq_kept_scan"],
    POOL: ["struct smqsg_idle", "struct smqsg_dev_pool", "struct smqsg_fd_pool"],
    POOL_C: ["struct smqsg_tags"],
    SG + "order.h": ["struct smqsg_timed_io"],
    SG + "io.h": ["struct smqsg_origin", "struct smqsg_io"],
    ISSUE_H: ["struct smqsg_send"],
}, functions={
    SG + "slot.h": ["smqsg_slots", "smqsg_slot_try", "smqsg_slot_give_back"],
    SG + "io.h": ["smqsg_slot_put_buffer"],
    SG + "count.c": ["smqsg_sum_sent", "smqsg_inflight_own", "smqsg_count_for_device"],
    DEPTH: ["smqsg_limit", "smqsg_inflight", "smqsg_inflight_of", "smqsg_reserve_some",
            "smqsg_set_shares", "smqsg_reserve", "smqsg_contended", "smqsg_kick", "smqsg_share",
            "smqsg_enqueue", "smqsg_dequeue",
            "smqsg_task_ends", "smqsg_wait_error", "smqsg_wait_refused", "smqsg_wait",
            "smqsg_next", "smqsg_dispatch_one",
            "smqsg_sleep_for_request", "smqsg_dispatch_device", "smqsg_dispatch_all",
            "smqsg_dispatch"],
    PLACE: ["smqsg_is_open", "smqsg_count_sent", "smqsg_count_ended", "smqsg_kick_waiting",
            "smqsg_count_out", "smqsg_count_places", "smqsg_unreserve", "smqsg_release",
            "smqsg_token_take", "smqsg_straight_ended"],
    "include/smq/straight.h": ["smq_token_again", "smq_token_spread", "smq_rq_use_again",
                               "smq_straight_completes", "smq_straight_completed"],
    POOL: ["smqsg_idle_take", "smqsg_idle_keep"],
    "include/smq/kept.h": ["smq_kept_scan_due"],
    POOL_C: ["smqsg_pool_scan_later", "smqsg_pool_scan_soon", "smqsg_pool_set_limits",
             "smqsg_tags_count", "smqsg_tags_hwq", "smqsg_idle_unlist", "smqsg_idle_list",
             "smqsg_idle_enter", "smqsg_idle_new",
             "smqsg_idle_uncount", "smqsg_idle_forget", "smqsg_idle_drop",
             "smqsg_idle_must_return", "smqsg_pool_collect",
             "smqsg_pool_scan_file", "smqsg_pool_give_back",
             "smqsg_pool_scan", "smqsg_pool_give_back_all", "smqsg_pool_limit",
             "smqsg_pool_open"],
    STRAIGHT: ["smqsg_token_find", "smqsg_token_put", "smqsg_straight_enter",
               "smqsg_straight_by_mid_layer", "smqsg_straight_issue"],
    SG + "own.c": ["smqsg_own_complete"],
    ISSUE_H: ["smqsg_status", "smqsg_slot_find", "smqsg_slot_take",
              "smqsg_request_give_back", "smqsg_request_good",
              "smqsg_request_ended", "smqsg_slot_pdu", "smqsg_slot_post_cqe",
              "smqsg_request", "smqsg_own_request", "smqsg_send_maps", "smqsg_send_own",
              "smqsg_send_plain", "smqsg_send_placed", "smqsg_send_slowly", "smqsg_slot_op",
              "smqsg_slot_how", "smqsg_slot_send", "smqsg_slot_start"],
    ISSUE: ["smqsg_slot_set_error", "smqsg_slot_drop", "smqsg_slot_alone_ended",
            "smqsg_slot_finish", "smqsg_slot_good", "smqsg_slot_end", "smqsg_slot_end_unsent",
            "smqsg_io_wait", "smqsg_io_granted", "smqsg_own_unsent",
            "smqsg_slot_send_slowly", "smqsg_slot_send_placed", "smqsg_slot_send_alone",
            "smqsg_request_take_spare"],
    SG + "expire.c": ["smqsg_take_expired", "smqsg_grant_expired", "smqsg_end_waiting_of",
                      "smqsg_cancel_slot", "smqsg_cancel"],
    RUN: ["smqsg_slot_send_granted", "smqsg_slot_grant", "smqsg_slot_unsent",
          "smqsg_slot_complete_inline", "smqsg_slot_run_as"],
})


# See sg_world.c. allocs: each task needs one new request, and one more after its request was
# given back; a run beside give-back may need another one.
@pytest.mark.parametrize("words, least", [
    ("depth=1 r1 r1", 2000),
    ("own=1 depth=1 r1 r1", 5000),
    ("own=1 depth=2 taken=1 r1 r1", 5000),
    ("depth=1 files=2 r1 r1@1", 2000),
    ("own=1 depth=1 at_once=1 r1 r1", 5000),
    ("own=1 depth=1 refuse=1 r1 r1", 5000),
    ("depth=1 r1 r1 cancel=1", 5000),
    ("depth=1 timer=1 r1 r1 contended", 50000),     # block I/O waits for a place
    ("own=1 depth=1 timer=1 r2 contended", 5000),
    ("depth=1 taken=1 end r1 r1", 10000),
    ("tags=1 r1 r1", 5000),                         # the dispatcher sleeps for a tag
    ("tags=1 r1 other", 500),
    ("tags=1 r1 r1 cancel=1", 20000),
    ("own=1 depth=2 r2 r2 allocs=2", 10000),
    ("own=1 depth=2 r2 r1 bad=1 allocs=3", 20000),
    ("own=1 depth=2 r3 r1 bad=3 allocs=4", 20000),      # the list has commands without a request
    ("own=1 depth=2 r3 migrate=1", 100),
    ("own=1 depth=2 tags=2 r2 collect", 500),
    ("own=1 depth=2 tags=2 r3 scan idle=1 migrate=1", 10000),
    ("own=1 depth=2 tags=2 r2 scans freeze", 20000),    # the own queue can be frozen
    ("own=1 depth=2 r2 ask", 500),
    ("own=1 depth=2 r1 freeze-device", 200),
    ("own=1 depth=2 r1 block", 200),
    ("own=1 r3 timeouts allocs=3 tags=2", 1000),
    ("own=1 depth=2 tags=1 r1 r1", 10000)])
def test_every_interleaving(words, least):
    """In every interleaving each run ends once, with one CQE; the device never has more commands
    than the depth; no command waits for ever; all places and requests are given back; and no
    context judges or frees a request that another one runs."""
    assert WORLD.holds(words) > least


# Mistakes: file, text to replace, its replacement, arguments of the exploration that finds the
# mistake, and text of the check that fails.
WAITS, USED = "waits for ever", "fd->pool.used.counter"
PLANTED = {
    "a request is run while the scan for timeouts has it": (POOL, """
 atomic_read(&rq->ref) != 1 ||
""".strip("\n"), " 0 ||", "own=1 r3 timeouts allocs=3 tags=2", "world.runs[i] == run"),
    "a request is run on another CPU than its hctx's": (POOL, """
idle->cpu != raw_smp_processor_id() ||
""".strip("\n"), "0 ||", "own=1 depth=2 r3 migrate=1", "hctx =="),
    "a slot can be run again before its request is stored": (ISSUE, """
    smqsg_request_good(io, fd, rq);
    smqsg_slot_finish(io, fd, 0, resid, polled);
""", """
    smqsg_slot_finish(io, fd, 0, resid, polled);
    smqsg_request_good(io, fd, rq);
""", "own=1 depth=2 r2 r2 allocs=2", ""),
    "an idle request is read and then taken, not atomically": (POOL_C, """
        rq = xchg(&idle->rq, NULL);
""", """
        WRITE_ONCE(idle->rq, NULL);
""", "own=1 depth=2 tags=2 r2 collect", ""),
    "a command in flight is taken out of the list": (POOL_C, """
        if (!rq)
            continue;
        /* If its next run has begun, that waits for the lock before it keeps a request. */
        smqsg_idle_unlist(&fd->pool, idle);
        smqsg_idle_drop(fd, rq);
""", """
        smqsg_idle_unlist(&fd->pool, idle);
        if (rq)
            smqsg_idle_drop(fd, rq);
""", "own=1 depth=2 tags=2 r2 collect", USED),
    "the list still counts a command that has left it": (POOL_C, """
    pool->listed--;
""", "", "own=1 depth=2 tags=2 r2 collect", "fd->pool.listed"),
    "a command that fails still counts its request": (ISSUE_H, """
        smqsg_idle_forget(&io->idle, fd, rq);
        ret = RQ_END_IO_FREE;
""", """
        ret = RQ_END_IO_FREE;
""", "own=1 depth=2 r2 r1 bad=1 allocs=3", USED),
    "the scan ends before commands that end are counted": (POOL_C, """
    more |= smqsg_count_for_device(sg);
""", """
    smqsg_count_for_device(sg);
""", "own=1 depth=1 files=2 r1 scans", "pool.scan.due"),
    "a command is counted after the scan for it": (ISSUE_H, """
    smqsg_count_sent(fd);
    rq = smqsg_own_request(io, fd, own, send->opf);
    if (unlikely(!rq))
        goto out_count;
""", """
    rq = smqsg_own_request(io, fd, own, send->opf);
    if (unlikely(!rq))
        goto out_count;
    smqsg_count_sent(fd);
""", "own=1 depth=1 files=2 r1 scans", "pool.scan.due"),
    "the share of no file": (POOL_C, """
max(files + !atomic_read(&fd->pool.used), 1U)
""".strip(), "(files + !atomic_read(&fd->pool.used))", "own=1 depth=2 r2 ask", "division by zero"),
    "the end of a command keeps the device's queue": (ISSUE_H, """
    smqsg_straight_ended(fd);
    smqsg_request_give_back(io, fd, rq);
""", """
    smqsg_request_give_back(io, fd, rq);
""", "own=1 depth=2 r1 freeze-device", WAITS),
    "a refused command keeps the device's queue": (STRAIGHT, """
    blk_mq_cleanup_rq(rq);
    percpu_ref_put(&q->q_usage_counter);
""", """
    blk_mq_cleanup_rq(rq);
""", "own=1 depth=1 refuse=1 r1 r1", "q_usage_counter.count"),
    "a refused command keeps its token": (STRAIGHT, """
        smqsg_token_put(fd->sdev, token);
        return false;
""", """
        return false;
""", "own=1 depth=2 r1 freeze-device", WAITS),
    "a command has a token before it is counted": (ISSUE_H, """
    smqsg_count_sent(fd);
    rq = smqsg_own_request(io, fd, own, send->opf);
    if (unlikely(!rq))
        goto out_count;
    token = smqsg_token_take(fd->sdev, io->token);
""", """
    rq = smqsg_own_request(io, fd, own, send->opf);
    if (unlikely(!rq))
        goto out_count;
    token = smqsg_token_take(fd->sdev, io->token);
    smqsg_count_sent(fd);
""", "own=1 depth=1 r1 r1", "world.plain"),
    "a refused command still counts as sent": (ISSUE_H, """
    this_cpu_inc(fd->depth.own->sent_slowly);
    smqsg_count_out(fd);
""", """
    this_cpu_inc(fd->depth.own->sent_slowly);
""", "own=1 depth=1 refuse=1 r1 r1", ""),
    "the end of a command starts no dispatcher": (ISSUE_H, """
    smqsg_request_give_back(io, fd, rq);
    smqsg_kick_waiting(fd->sg);
""", """
    smqsg_request_give_back(io, fd, rq);
""", "own=1 depth=1 r1 r1", WAITS),
    "a command is sent outside the RCU section": (STRAIGHT, """
        status = smq_straight_queue(rq, last);
""", """
    {
        rcu_read_unlock();
        status = smq_straight_queue(rq, last);
        rcu_read_lock();
    }
""", "own=1 depth=2 r1 block", "!world.quiet"),
    "a frozen device gets commands": (STRAIGHT, """
    if (unlikely(!percpu_ref_tryget_live_rcu(&q->q_usage_counter)))
        return false;
""", """
    q->q_usage_counter.count++;
""", "own=1 depth=2 r1 freeze-device", "!world.inflight"),
    "a context that is not the submitter leaves the CQE to it": (ISSUE, """
    else if (READ_ONCE(io->submitter) == current && in_task())
""", """
    else if (READ_ONCE(io->submitter))
""", "depth=1 r1 r1", WAITS),
    "no check for a place after a command is queued": (DEPTH, """
        if (!first && (int)smqsg_inflight(sg) < (int)smqsg_limit(sg, fd->sdev))
""", """
        if (0)
""", "depth=1 r1 r1", WAITS),
    "the check for waiters comes before the place is given back": (PLACE, """
    smqsg_count_places(fd, -(int)count);
    /* Pairs with smqsg_wait(). */
    smp_mb__after_atomic();
    smqsg_kick_waiting(fd->sg);
""", """
    bool waits = atomic_read(&fd->sg->depth.waiting);

    smqsg_count_places(fd, -(int)count);
    if (waits)
        smqsg_kick(fd->sg);
""", "depth=1 r1 r1", WAITS),
    "a place is checked and then taken, not atomically": (DEPTH, """
    } while (!atomic_try_cmpxchg(&sg->depth.places, &old, old + got));
""", """
    } while (atomic_add_return(got, &sg->depth.places) == INT_MAX);
""", "depth=1 taken=1 end r1 r1", "world.plain"),
    "a grant without a request keeps the place": (ISSUE, """
    smqsg_unreserve(io->fd, 1);
    return ret == -EAGAIN ? smqsg_wait(&io->waiter, true) : ret;
""", """
    return ret == -EAGAIN ? smqsg_wait(&io->waiter, true) : ret;
""", "tags=1 r1 r1", ""),
    "a spare request is not freed": (DEPTH, """
    if (sg->wait.spare)
        blk_mq_free_request(sg->wait.spare);
""", "", "tags=1 r1 r1 cancel=1", ""),
}


@pytest.mark.parametrize("name", PLANTED)
def test_checks_find_planted_mistakes(name):
    WORLD.finds(name, *PLANTED[name])
