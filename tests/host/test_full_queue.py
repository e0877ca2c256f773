# SPDX-License-Identifier: GPL-2.0
"""Commands that wait for room in their hardware queue, in every interleaving, without a policy and
with several. This exploration must also find each planted mistake. With timer=0 no timer tries
again, so the layer must notice the room that a completion or an abort makes."""

import core_world
import pytest

WAIT, WAIT_H = "drivers/core/wait.c", "drivers/core/wait.h"
CMD, EH, VERDICT = "drivers/core/cmd.c", "drivers/core/eh.c", "drivers/core/policy_path.c"
FULL = "policy=none ring=1 timer=0 "


# See core_world.c.
@pytest.mark.parametrize("words, least", [
    (FULL + "s1 s1", 500),
    (FULL + "s1 s1 s1", 10000),
    (FULL + "s2 s1", 5000),
    ("policy=none ring=2 timer=0 s1 s1 s1", 10000),
    (FULL + "at_once=1 waited=1 s1 s1 s1", 10000),  # waiting commands end inside queue_cmd
    (FULL + "s1 s1 abort=0", 1000),
    (FULL + "s1 s1 reset", 1000),
    (FULL + "s1 s1 scan", 1000),
    ("policy=none alone=2 s1", 10),                 # room comes without a completion
    ("policy=none busy=2 s1 s1", 1000),
    ("policy=steer hwqs=2 threshold=4 ring=1 timer=0 s1@0 s1@0 s1@1", 1000),
    ("policy=steer hwqs=2 threshold=0 on=1 ring=1 timer=0 s2@0 s1@0", 1000),
    ("policy=hold depth=2 ring=1 timer=0 s1 s1", 1000),
    ("policy=hold depth=2 ring=1 s1 s1 switch", 1000),
    ("later=1 depth=2 ring=1 s1 s1 choose", 1000),     # waiting commands are not yet counted
    ("depth=2 ring=1 timer=0 s2 s1", 1000)])
def test_every_interleaving(words, least):
    """In every interleaving no command is left behind or issued twice, and the LLD gets commands in
    the order in which they found the queue full."""
    assert core_world.holds(words) > least


STRANDED, ORDER = "holds[i]->nr", "before[nr]"
# See test_depth.py.
PLANTED = {
    "no timer tries a full queue again": (WAIT, """
    /* Start the timer, because room may appear without a completion of this queue. */
    smq_hold_wait(hold, SMQ_HOLD_RETRY_NS);
""", "", "policy=none alone=2 s1", STRANDED),
    "no try after the queue is marked as full": (WAIT, """
    if (began)
        smq_hold_kick(hold);
""", "", FULL + "s1 s1", STRANDED),
    "commands without room in the inner depth are issued": (WAIT, """
        smq_wait_hold_uncounted(hold->host, &list);
""", """
        ;
""", "later=1 depth=2 ring=1 s1 s1 choose", "world.counting"),
    "a completion does not check for waiting commands": (CMD, """
    smq_wait_room(cmd->hwq);
""", "", FULL + "s1 s1", STRANDED),
    "an abort does not check for waiting commands": (EH, """
        smq_wait_room(cmd->hwq);
""", """
        ;
""", FULL + "s1 s1 abort=0", STRANDED),
    "the mark is cleared outside the lock": (WAIT, """
    nr = hold->nr;
    if (!nr)
        clear_bit(SMQ_DETOUR_FULL, &core->hwq->detour);
    spin_unlock_irqrestore(&hold->lock, flags);
""", """
    nr = hold->nr;
    spin_unlock_irqrestore(&hold->lock, flags);
    if (!nr)
        clear_bit(SMQ_DETOUR_FULL, &core->hwq->detour);
""", FULL + "s1 s1 s1", STRANDED),
    "the mark is not checked under the lock": (WAIT, """
    full = smq_hwq_is_full(hwq);
    if (full) {
""", """
    full = true;
    if (full) {
""", FULL + "s1 s1 s1", STRANDED),
    "commands that came during the dispatch are left behind": (WAIT, """
    if (nr && took && room)
        smq_hold_kick(hold);
""", "", FULL + "at_once=1 waited=1 s1 s1 s1", STRANDED),
    "the mark is cleared while waiting commands are issued": (WAIT, """
        took = true;
""", """
        took = true;
        clear_bit(SMQ_DETOUR_FULL, &core->hwq->detour);
""", FULL + "s1 s1 s1", ORDER),
    "a new command is added at the front": (WAIT, """
        smq_hold_add(hold, cmd, false);
        smq_hold_wait(hold, SMQ_HOLD_RETRY_NS);
    }
""", """
        smq_hold_add(hold, cmd, true);
        smq_hold_wait(hold, SMQ_HOLD_RETRY_NS);
    }
""", FULL + "s1 s1 s1", ORDER),
    "a command that is refused again is added at the end": (WAIT, """
    smq_hold_add(hold, cmd, true);
    /* Start the timer""", """
    smq_hold_add(hold, cmd, false);
    /* Start the timer""", FULL + "s1 s1 s1", ORDER),
}


@pytest.mark.parametrize("name", PLANTED)
def test_checks_find_planted_mistakes(name):
    core_world.finds(name, *PLANTED[name])
