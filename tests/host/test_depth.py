# SPDX-License-Identifier: GPL-2.0
"""The inner depth in every interleaving. This exploration must also find each planted mistake."""

import core_world
import pytest

DEPTH, WAIT = "drivers/core/depth.h", "drivers/core/wait.c"
VERDICT, SEEN = "drivers/core/policy_path.c", "drivers/core/policy_cmd.h"


# See core_world.c. "listed": a policy that chooses the command that gets room, as prio does.
@pytest.mark.parametrize("words, least", [
    ("depth=1 s1 s1 s1", 50000),
    ("depth=2 s1 s1 s1", 10000),
    ("depth=1 s2 s1", 10000),
    ("policy=listed depth=1 s1 s1 s1", 100000),
    ("at_once=1 depth=1 s1 s1 s1", 50000),          # a command ends inside queue_cmd
    ("full=1 depth=2 s1 s1", 1000),                 # TASK SET FULL
    ("full=1 grow=1 depth=2 s1 s1", 1000),          # then the depth grows again
    ("full=1 depth=2 policy=listed s1 s1", 1000),
    ("full=2 depth=2 s1 s1", 1000),
    ("learn=1 depth=2 s1 s1", 1000),                # another depth with each completion
    ("learn=1 depth=2 policy=listed s1 s1", 1000),
    ("device_busy=1 depth=2 s1 s1 s1", 10000),      # the LLD refuses
    ("busy=1 depth=2 s2 s1", 5000),
    ("busy=1 depth=2 policy=listed s1 s1", 500),
    ("depth=1 s1 s1 reset", 10000),                 # dispatching stops and resumes
    ("policy=listed depth=1 s1 s1 reset", 50000),
    ("depth=1 s1 s1 switch", 5000),                 # the host drops the policy
    ("policy=listed depth=1 s1 s1 switch", 10000),
    ("full=1 depth=2 s1 s1 abort=0", 10000)])
def test_every_interleaving(words, least):
    """In every interleaving no command is left behind or issued twice, the LLD never has more
    commands than the depth, and all room is released at the end."""
    assert core_world.holds(words) > least


STRANDED, DEEP, LEFT = "holds[i]->nr", "nr_lld < set.depth", "inflight.counter"
# Mistakes: file, text to replace, its replacement, arguments of the exploration that finds the
# mistake, and text of the check that fails.
PLANTED = {
    # The mistake of the first published version: a waiting command is added after the last check
    # for room.
    "no check for room after the add": (WAIT, """
    if (atomic_read(&depth->inflight) < smq_depth_now(depth))
        smq_wait_dispatch_lun(&depth->wait);
""", "", "depth=1 s1 s1", STRANDED),
    "the check for room comes before the add": (WAIT, """
    smq_wait_for_room(cmd, depth);
    /*
""", """
    if (atomic_read(&depth->inflight) < smq_depth_now(depth))
        smq_wait_dispatch_lun(&depth->wait);
    smq_wait_for_room(cmd, depth);
    return false;
    /*
""", "depth=1 s1 s1", STRANDED),
    "room is checked and then taken, not atomically": (DEPTH, """
    } while (!atomic_try_cmpxchg(&depth->inflight, &old, old + 1));
""", """
    } while (atomic_inc_return(&depth->inflight) == INT_MAX);
""", "depth=1 s1 s1", DEEP),
    "one command too many gets room": (DEPTH, "old >= limit", "old > limit", "depth=1 s1 s1", DEEP),
    "released room does not start a dispatch": (DEPTH, """
        smq_hold_kick(&depth->wait);
    else if""", """
        ;
    else if""", "depth=1 s1 s1", STRANDED),
    "the check for a waiter comes before the release of room": (DEPTH, """
    int left = atomic_dec_return(&depth->inflight);

    if (unlikely(smq_depth_has_waiting(depth)))
""", """
    bool waits = smq_depth_has_waiting(depth);
    int left = atomic_dec_return(&depth->inflight);

    if (waits)
""", "depth=1 s1 s1", STRANDED),
    "waiting commands are issued without room": (WAIT, """
        room = smq_depth_get(depth);
""", """
        atomic_inc(&depth->inflight);
""", "depth=1 s1 s1 s1", DEEP),
    "the policy is asked for a command only once": (WAIT, """
    if (!atomic_xchg(&depth->listed, 0))
        return NULL;
    cmd = lun->policy->ops->next(lun, drain);
    if (cmd)
        atomic_set(&depth->listed, 1);
    return cmd;
""", """
    atomic_set(&depth->listed, 0);
    return NULL;
""", "policy=listed depth=1 s1 s1 s1", STRANDED),
    "the mark is set before the command is listed": (WAIT, """
    ops->wait(cmd->seen->lun, cmd);
    atomic_set(&depth->listed, 1);
""", """
    atomic_set(&depth->listed, 1);
    ops->wait(cmd->seen->lun, cmd);
""", "policy=listed depth=1 s1 s1", STRANDED),
    "room is kept although the policy has no command": (WAIT, """
         */
        atomic_dec_return(&depth->inflight);
""", """
         */
""", "policy=listed depth=1 s1 s1", LEFT),
    "no timer tries a full device again": (WAIT, """
        smq_hold_add(hold, cmd, true);
        /* Start the timer, because the LUN may have nothing in flight. */
        smq_hold_wait(hold, SMQ_HOLD_RETRY_NS);
""", """
        smq_hold_add(hold, cmd, true);
""", "full=1 depth=2 s1 s1", STRANDED),
    "room is released twice after TASK SET FULL": (VERDICT, """
        seen->flags &= ~SMQ_SEEN_COUNTED;
        smq_depth_full""", """
        smq_depth_full""", "full=1 depth=2 s1 s1 abort=0", LEFT),
    "a refused command keeps its room": (WAIT, """
        seen->flags &= ~SMQ_SEEN_COUNTED;
        /* Start no dispatch before this command is the first of the list. */
        atomic_dec_return(&depth->inflight);
""", """
        seen->flags &= ~SMQ_SEEN_COUNTED;
""", "device_busy=1 depth=2 s1 s1", LEFT),
    "a command that error handling takes keeps its room": (WAIT, """
    if (counted)
        smq_depth_put(&smq_cmd_lun(cmd)->depth);
""", """
    (void)counted;
""", "full=1 depth=2 s1 s1 abort=0", STRANDED),
    "waiting commands are dispatched during a reset": (WAIT, """
    if (READ_ONCE(hold->host->frozen))
        return;
""", "", "depth=1 s1 s1 reset", ""),
    "a dropped policy leaves commands in its list": (WAIT, """
        smq_wait_inherit(&core->depth, lun);
    else
""", """
        ;
    else
""", "policy=listed depth=1 s1 s1 switch", STRANDED),
    "one reference to the policy too few": (SEEN, """
    percpu_ref_get(&policy->refs);
""", "", "depth=1 s1 s1", "->count"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_checks_find_planted_mistakes(name):
    core_world.finds(name, *PLANTED[name])
