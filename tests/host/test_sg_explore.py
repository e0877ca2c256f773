# SPDX-License-Identifier: GPL-2.0
"""Runs of slots in smq_sg in every interleaving, from the SQE to the CQE: places, waiting and the
dispatcher, held requests, and which context posts the CQE. This exploration must also find each
planted mistake."""

import pytest
from world import World

SG = "drivers/sg/"
RESERVE, DEPTH, KEPT = SG + "reserve.h", SG + "depth.c", SG + "kept.c"
HELD, HELD_C, END = SG + "held.h", SG + "held.c", SG + "end.c"
ISSUE, RUN = SG + "issue.c", SG + "run.c"

WORLD = World("sg", types={
    SG + "slot.h": ["struct smqsg_slot", "struct smqsg_fd_slots"],
    SG + "depth.h": ["struct smqsg_dev_depth", "struct smqsg_fd_depth", "struct smqsg_dev_wait",
                     "struct smqsg_fd_wait", "struct smqsg_waiter"],
    HELD: ["struct smqsg_held", "struct smqsg_dev_held", "struct smqsg_fd_held"],
    SG + "io.h": ["struct smqsg_io", "enum"],
}, functions={
    SG + "slot.h": ["smqsg_slots"],
    SG + "take.h": ["smqsg_status", "smqsg_slot_put_buffer", "smqsg_slot_find", "smqsg_slot_take"],
    SG + "take.c": ["smqsg_slot_set_error", "smqsg_slot_drop"],
    KEPT: ["smqsg_keep_set", "smqsg_unkeep"],
    DEPTH: ["smqsg_limit", "smqsg_yield", "smqsg_kept_wanted", "smqsg_reserve_some",
            "smqsg_add_sharer", "smqsg_del_sharer", "smqsg_enter", "smqsg_reserve_slow",
            "smqsg_contended", "smqsg_kick", "smqsg_still_shares", "smqsg_share",
            "smqsg_enqueue", "smqsg_dequeue", "smqsg_task_ends", "smqsg_wait_error",
            "smqsg_wait_refused", "smqsg_wait_as", "smqsg_wait", "smqsg_wait_first",
            "smqsg_next", "smqsg_dispatch_one", "smqsg_sleep_for_request",
            "smqsg_dispatch_device", "smqsg_dispatch_all", "smqsg_dispatch"],
    RESERVE: ["smqsg_reserve", "smqsg_unreserve", "smqsg_release"],
    HELD: ["smqsg_held_maybe_wanted", "smqsg_held_take", "smqsg_held_may_store",
           "smqsg_held_store"],
    HELD_C: ["smqsg_held_limit", "smqsg_held_set_limits", "smqsg_held_attach",
             "smqsg_held_release", "smqsg_held_free_request", "smqsg_held_wanted",
             "smqsg_held_must_return", "smqsg_held_collect", "smqsg_held_any_wanted",
             "smqsg_held_scan_due", "smqsg_held_look_all", "smqsg_held_give_back_all"],
    SG + "end.h": ["smqsg_slot_pdu", "smqsg_slot_post_cqe"],
    END: ["smqsg_slot_alone_ended", "smqsg_slot_finish", "smqsg_slot_result",
          "smqsg_slot_ended_badly", "smqsg_held_ended_wanted", "smqsg_slot_end",
          "smqsg_slot_end_unsent"],
    SG + "issue.h": ["smqsg_request", "smqsg_slot_request", "smqsg_slot_execute",
                     "smqsg_slot_send", "smqsg_held_issue", "smqsg_slot_issue_as",
                     "smqsg_slot_issue", "smqsg_slot_start"],
    ISSUE: ["smqsg_held_first_end", "smqsg_held_issue_first", "smqsg_slot_issue_plugged",
            "smqsg_slot_issue_direct", "smqsg_request_take_spare"],
    SG + "expire.c": ["smqsg_take_expired", "smqsg_grant_expired", "smqsg_end_waiting_of",
                      "smqsg_cancel_slot", "smqsg_cancel"],
    RUN: ["smqsg_slot_grant", "smqsg_slot_wait", "smqsg_slot_unsent",
          "smqsg_slot_complete_inline", "smqsg_slot_run_as"],
})


# See sg_explore.c. allocs: each slot needs one new request, and one more after its request was
# given back; a run beside give-back may need another one.
@pytest.mark.parametrize("words, least", [
    ("depth=1 r1 r1", 10000),
    ("depth=2 keep=1 r2 r1", 20000),
    ("depth=2 keep=1 taken=1 r1 r1", 10000),        # places that CPUs keep are given back
    ("depth=2 keep=1 taken=1 r2 r1", 100000),
    ("depth=1 files=2 r1 r1@1", 10000),
    ("depth=1 at_once=1 r1 r1", 5000),
    ("depth=1 refuse=1 r1 r1", 5000),
    ("depth=1 r1 r1 cancel=1", 20000),
    ("depth=1 timer=1 r1 r1 contended", 50000),     # block I/O waits for a place
    ("depth=1 taken=1 end r1 r1", 10000),
    ("tags=1 r1 r1", 5000),                         # the dispatcher sleeps for a tag
    ("tags=1 r1 other", 1000),
    ("tags=1 r1 r1 cancel=1", 20000),
    ("hold=1 depth=2 r2 r2 allocs=2", 20000),
    ("hold=1 depth=2 tags=3 r2 r2 bad=1 allocs=3", 50000),
    ("hold=1 depth=2 r2 collect allocs=3", 2000),
    ("hold=1 depth=2 r2 look idle=1 allocs=2", 5000),
    ("hold=1 r3 timeouts allocs=3 tags=2", 2000),
    ("hold=1 depth=2 tags=1 r1 r1", 20000)])
def test_every_interleaving(words, least):
    """In every interleaving each run ends once, with one CQE; the device never has more commands
    than the depth; no command waits for ever; all places and requests are given back; and no
    context judges or frees a request that another one runs."""
    assert WORLD.holds(words) > least


# Mistakes: file, text to replace, its replacement, arguments of the exploration that finds the
# mistake, and text of the check that fails.
WAITS, LOST, ALLOCS = "waits for ever", "inflight.counter == kept", "world.allocs"
PLANTED = {
    # One pause, or one command that fails, and slots took entries from each other for ever.
    "a slot takes the request of another slot": (HELD, """
    if (unlikely(READ_ONCE(held->slot) != number))
        return NULL;
""", "", "hold=1 depth=2 tags=3 r3 r2 bad=1 allocs=3", ALLOCS),
    "a request is run while the scan for timeouts has it": (HELD, """
           atomic_read(&rq->ref) == 1)) {
""", """
           true)) {
""", "hold=1 r3 timeouts allocs=3 tags=2", "world.runs[i] == run"),
    "a slot can be run again before its request is stored": (END, """
    smqsg_held_store(held, rq);
    smqsg_slot_finish(io, fd, batch, slot, 0);
    return RQ_END_IO_NONE;
""", """
    smqsg_slot_finish(io, fd, batch, slot, 0);
    smqsg_held_store(held, rq);
    return RQ_END_IO_NONE;
""", "hold=1 depth=2 r2 r2 allocs=2", ""),
    "an idle request is read and then taken, not atomically": (HELD_C, """
        rq = xchg(&held->rq, NULL);
        if (rq)
""", """
        WRITE_ONCE(held->rq, NULL);
        if (rq)
""", "hold=1 depth=2 r2 collect allocs=3", ""),
    "a command that fails keeps its entry": (END, """
    if (io->held)
        smqsg_held_release(io->fd, io->held);
""", "", "hold=1 depth=2 tags=3 r2 r2 bad=1 allocs=3", ""),
    "which context posts the CQE is read and then written, not atomically": (ISSUE, """
    return atomic_xchg(&io->cqe_by, SMQSG_CQE_SUBMITTED) != SMQSG_CQE_UNDECIDED;
""", """
    if (atomic_read(&io->cqe_by) != SMQSG_CQE_UNDECIDED)
        return 1;
    atomic_set(&io->cqe_by, SMQSG_CQE_SUBMITTED);
    return 0;
""", "depth=1 r1 r1", WAITS),
    "no check for a place after a command is queued": (DEPTH, """
        if (!first && atomic_read(&sg->depth.inflight) < (int)smqsg_limit(sg, fd->sdev))
""", """
        if (0)
""", "depth=1 r1 r1", WAITS),
    "the check for waiters comes before the place is given back": (RESERVE, """
    atomic_sub(count, &fd->depth.inflight);
    atomic_sub(count, &sg->depth.inflight);
    /* Pairs with the barrier of smqsg_wait(): at least one sees what the other wrote. */
    smp_mb__after_atomic();
    if (unlikely(atomic_read(&sg->depth.waiting)))
        smqsg_kick(sg);
""", """
    bool waits = atomic_read(&sg->depth.waiting);

    atomic_sub(count, &fd->depth.inflight);
    atomic_sub(count, &sg->depth.inflight);
    if (waits)
        smqsg_kick(sg);
""", "depth=1 r1 r1", WAITS),
    "a CPU keeps a place although a command waits": (RESERVE, """
    if (unlikely(READ_ONCE(sg->depth.slow_path)))
        smqsg_kept_wanted(sg);
""", "", "depth=2 keep=1 taken=1 r1 r1", WAITS),
    "kept places are read and then taken, not atomically": (KEPT, """
        kept = atomic_xchg(here, 0);
""", """
        kept = atomic_read(here);
        atomic_set(here, 0);
""", "depth=2 keep=1 taken=1 r1 r1", ""),
    "a place is checked and then taken, not atomically": (DEPTH, """
    } while (!atomic_try_cmpxchg(&sg->depth.inflight, &old, old + got));
""", """
    } while (atomic_add_return(got, &sg->depth.inflight) == INT_MAX);
""", "depth=1 taken=1 end r1 r1", "world.inflight <= set.depth"),
    "a grant without a request keeps the place": (RUN, """
        smqsg_unreserve(io->fd, 1);
        if (ret == -EAGAIN)
""", """
        if (ret == -EAGAIN)
""", "tags=1 r1 r1", ""),
    "a spare request is not freed": (DEPTH, """
    if (sg->wait.spare)
        blk_mq_free_request(sg->wait.spare);
""", "", "tags=1 r1 r1 cancel=1", ""),
}


@pytest.mark.parametrize("name", PLANTED)
def test_checks_find_planted_mistakes(name):
    WORLD.finds(name, *PLANTED[name])
