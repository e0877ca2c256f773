# SPDX-License-Identifier: GPL-2.0
"""Commands that wait for room in their hardware queue, in every interleaving, with no policy and
with some; and mistakes that are found in that. Without a timer, the room that a completion or an
abort makes must be noticed."""

import core_world
import pytest

WAIT, WAIT_H = "drivers/core/wait.c", "drivers/core/wait.h"
CMD, EH, VERDICT = "drivers/core/cmd.c", "drivers/core/eh.c", "drivers/core/verdict.c"
FULL = "policy=none ring=1 timer=0 "


# See core_explore.c.
@pytest.mark.parametrize("words, least", [
    (FULL + "s1 s1", 500),
    (FULL + "s1 s1 s1", 10000),
    (FULL + "s2 s1", 5000),
    ("policy=none ring=2 timer=0 s1 s1 s1", 10000),
    (FULL + "at_once=1 waited=1 s1 s1 s1", 10000),  # the LLD ends one that waited as it gets it
    (FULL + "s1 s1 abort=0", 1000),
    (FULL + "s1 s1 reset", 1000),
    (FULL + "s1 s1 look", 1000),
    ("policy=none alone=2 s1", 10),                 # room comes without a completion
    ("policy=none busy=2 s1 s1", 1000),
    ("policy=steer hwqs=2 threshold=4 ring=1 timer=0 s1@0 s1@0 s1@1", 1000),
    ("policy=steer hwqs=2 threshold=0 on=1 ring=1 timer=0 s2@0 s1@0", 1000),
    ("policy=hold depth=2 ring=1 timer=0 s1 s1", 1000),
    ("policy=hold depth=2 ring=1 s1 s1 switch", 1000),
    ("later=1 depth=2 ring=1 s1 s1 choose", 1000),     # what waits is not counted yet
    ("depth=2 ring=1 timer=0 s2 s1", 1000)])
def test_every_interleaving(words, least):
    """In every interleaving no command is left behind or issued twice, and commands go in the order
    in which they found the queue full."""
    assert core_world.holds(words) > least


STRANDED, ORDER = "holds[i]->nr", "before[nr]"
PLANTED = {
    "not tried again unless a command ends": (WAIT, """
    /* Room may appear without a completion of this queue. */
    smq_hold_wait(hold, SMQ_HOLD_RETRY_NS);
""", "", "policy=none alone=2 s1", STRANDED),
    "no try behind the mark": (WAIT, """
    if (began)
        smq_hold_kick(hold);
""", "", FULL + "s1 s1", STRANDED),
    "what was not counted goes uncounted": (WAIT, """
        smq_wait_hold_uncounted(hold->host, &list);
""", """
        ;
""", "later=1 depth=2 ring=1 s1 s1 choose", "world.counting"),
    "a completion that does not look": (CMD, """
    smq_wait_room(cmd->hwq);
""", "", FULL + "s1 s1", STRANDED),
    "an abort that does not look": (EH, """
        smq_wait_room(cmd->hwq);
""", """
        ;
""", FULL + "s1 s1 abort=0", STRANDED),
    "the mark goes unseen": (WAIT, """
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
    "the mark is not looked at under the lock": (WAIT, """
    full = smq_hwq_is_full(hwq);
    if (full) {
""", """
    full = true;
    if (full) {
""", FULL + "s1 s1 s1", STRANDED),
    "what has come meanwhile is left": (WAIT, """
    if (nr && took && room)
        smq_hold_kick(hold);
""", "", FULL + "at_once=1 waited=1 s1 s1 s1", STRANDED),
    "not full while what waited is on its way": (WAIT, """
        took = true;
""", """
        took = true;
        clear_bit(SMQ_DETOUR_FULL, &core->hwq->detour);
""", FULL + "s1 s1 s1", ORDER),
    "what comes goes in front": (WAIT, """
        smq_hold_add(hold, cmd, false);
        smq_hold_wait(hold, SMQ_HOLD_RETRY_NS);
    }
""", """
        smq_hold_add(hold, cmd, true);
        smq_hold_wait(hold, SMQ_HOLD_RETRY_NS);
    }
""", FULL + "s1 s1 s1", ORDER),
    "what is refused again goes behind": (WAIT, """
    smq_hold_add(hold, cmd, true);
    /* Room may appear""", """
    smq_hold_add(hold, cmd, false);
    /* Room may appear""", FULL + "s1 s1 s1", ORDER),
}


@pytest.mark.parametrize("name", PLANTED)
def test_checks_find_planted_mistakes(name):
    core_world.finds(name, *PLANTED[name])
