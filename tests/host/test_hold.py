# SPDX-License-Identifier: GPL-2.0
"""Lists of held commands in every interleaving: add, take, take back by abort and reset, return.
This exploration must also find each planted mistake."""

import core_world
import pytest

HOLD, WAIT, SCAN = "drivers/core/hold.c", "drivers/core/wait.c", "drivers/core/hold_scan.c"
EH, CMD, USE = "drivers/core/eh.c", "drivers/core/cmd.c", "drivers/core/policy_use.c"
OBJECTS = "include/smq/objects.h"


# See core_world.c. "hold": a policy that holds each command for a work item, as batch does.
@pytest.mark.parametrize("words, least", [
    ("policy=hold depth=2 s1 s1 s1", 50000),
    ("policy=hold depth=1 s2 s1", 10000),
    ("policy=hold s1 abort=0", 200),
    ("policy=hold depth=2 s1 s1 abort=0", 10000),
    ("policy=hold s1 abort=0 reset", 5000),
    ("policy=hold depth=2 s1 s1 reset", 20000),
    ("policy=hold depth=2 s1 s1 reset=other", 10000),
    ("policy=hold s1 scan abort=0", 1000),
    ("policy=hold s1 scan reset", 5000),
    ("policy=hold depth=2 s1 s1 scan", 10000),
    ("policy=hold busy=1 depth=2 s1 s1 abort=1", 10000),    # the command is held in a second list
    ("policy=hold device_busy=1 depth=2 s1 s1 abort=1", 10000),
    ("policy=hold full=1 s1 abort=0", 500),
    ("policy=listed s1 s1 abort=1", 10000),
    ("policy=listed s1 s1 scan", 10000),
    ("policy=listed inactive=1 s1 s1 scan", 5000),
    ("policy=listed inactive=1 s1 s1 scan abort=1", 50000),
    ("policy=listed inactive=1 depth=2 s1 s1 scan reset", 20000),
    ("s1 s1 abort=1", 10000),
    ("s1 abort=0 reset scan", 5000),
    ("policy=hold depth=2 s1 s1 switch", 5000),
    ("enter=1 depth=2 s1 s1", 500),                 # commands end before queue_cmd returns
    ("enter=1 s1 abort=0", 200),
    ("enter=1 full=1 depth=2 s1 s1", 5000),
    ("enter=1 policy=hold s1 abort=0 reset", 2000),
    # A batch of two commands, of which the policy sees only the last.
    ("policy=away later=1 hwqs=2 batch=1 depth=2 s2 choose", 1000),
    ("policy=away later=1 hwqs=2 batch=1 depth=2 s2 choose reset=other", 10000),
    ("policy=hold later=1 batch=1 depth=2 s2 choose abort=1", 10000),
    # The same of smq_sg, whose doorbell comes later.
    ("batch=1 plug=1 depth=2 s2 reset=other", 1000),
    ("policy=hold batch=1 plug=1 depth=2 s2 reset=other", 10000),
    ("policy=away later=1 hwqs=2 batch=1 plug=1 depth=2 s2 choose reset=other", 50000)])
def test_every_interleaving(words, least):
    """In every interleaving no command is left behind or issued twice; no command is
    issued while error handling has it, or during a reset; and the doorbell rings for each
    command."""
    assert core_world.holds(words) > least


STRANDED = "holds[i]->nr"
# See test_depth.py.
PLANTED = {
    "a command is taken back from a list that it has left": (HOLD, """
    held = seen->held_in == hold;
""", """
    held = true;
""", "policy=hold s1 scan", "list_empty"),
    "a command is taken although error handling has it": (HOLD, """
        if (smq_cmd_in_eh(cmd))
            continue;
""", "", "policy=hold s1 abort=0", ""),
    "a command is taken during a reset": (HOLD, """
    if (READ_ONCE(hold->host->frozen))
        return 0;
""", "", "policy=hold depth=2 s1 s1 reset=other", "world.quiet"),
    "a held command is not marked as held": (HOLD, """
    atomic_set_release(&cmd->state, SMQ_HELD);
""", "", "policy=hold s1 abort=0", ""),
    "commands are dispatched outside an RCU read-side section": (HOLD, """
    rcu_read_lock();
    hold->dispatch(hold);
    rcu_read_unlock();
""", """
    hold->dispatch(hold);
""", "policy=hold s1", "nested"),
    "an abort does not wait for queue_cmd": (EH, """
    synchronize_rcu();
    rcu_read_lock();
    held = smq_hold_take_back""", """
    rcu_read_lock();
    held = smq_hold_take_back""", "policy=hold s1 abort=0", ""),
    "an abort does not wait for a completion": (EH, """
        synchronize_rcu();
        cancel_work_sync(&cmd->work);
""", "", "policy=hold s1 abort=0", ""),
    "an abort does not take back a held command": (EH, """
    held = smq_hold_take_back(cmd, SMQ_FREE);
""", """
    held = false;
""", "policy=hold s1 abort=0", ""),
    "a reset marks the host as frozen too late": (EH, """
    WRITE_ONCE(host->frozen, true);
    synchronize_rcu();
""", """
    synchronize_rcu();
    WRITE_ONCE(host->frozen, true);
""", "policy=hold depth=2 s1 s1 reset=other", "world.quiet"),
    "a reset does not wait for dispatch": (EH, """
    WRITE_ONCE(host->frozen, true);
    synchronize_rcu();
""", """
    WRITE_ONCE(host->frozen, true);
""", "policy=hold depth=2 s1 s1 reset=other", "world.quiet"),
    "a reset does not start dispatch again": (EH, """
    smq_hold_kick_all(reset->host);
""", "", "policy=hold depth=2 s1 s1 reset=other", STRANDED),
    "a reset does not ring the doorbells": (EH, """
    smq_use_commit_all(host, true);
""", "", "policy=away later=1 hwqs=2 batch=1 depth=2 s2 choose reset=other", "world.uncommitted"),
    "a reset does not ring the doorbell that smq_sg rings later": (EH, """
    smq_use_commit_all(host, true);
""", "", "batch=1 plug=1 depth=2 s2 reset=other", "world.uncommitted"),
    "the doorbell rings during a reset": (USE, """
        if (reset || !READ_ONCE(host->frozen))
            smq_policy_commit(host->hwq[i]);
""", """
        smq_policy_commit(host->hwq[i]);
""", "policy=away later=1 hwqs=2 batch=1 depth=2 s2 choose reset=other", "world.quiet"),
    "no doorbell for a batch during which the policy changes": (USE, """
            smq_policy_commit(host->hwq[i]);
""", """
            (void)i;
""", "policy=away later=1 hwqs=2 batch=1 depth=2 s2 choose", "world.ended"),
    "a command that moves to its LUN's list finds no room, which is then given back": (WAIT, """
        if (READ_ONCE(depth->wait.nr))
            smq_hold_kick(&depth->wait);
""", "", "policy=listed inactive=1 s1 s1 scan", STRANDED),
    "a command that the scan returns is not marked": (SCAN, """
        smq_hold_take_back(cmd, SMQ_RETURNING)) {
""", """
        smq_hold_take_back(cmd, SMQ_OWNED)) {
""", "policy=hold s1 scan reset", ""),
    "a command that error handling owns is returned": (SCAN, """
    if (!smq_cmd_in_eh(cmd) && smq_wait_is_over(cmd, scan) &&
        smq_hold_take_back(cmd, SMQ_RETURNING)) {
""", """
    if (smq_wait_is_over(cmd, scan)) {
""", "policy=hold s1 scan abort=0", ""),
    "a command is held again although error handling has it": (WAIT, """
    held = !smq_cmd_in_eh(cmd);
""", """
    held = true;
""", "policy=hold full=1 s1 abort=0", ""),
    "an end while queue_cmd returns is missed": (CMD, """
        if (state != SMQ_SUBMITTING && state != SMQ_OWNED)
""", """
        if (state != SMQ_SUBMITTING)
""", "enter=1 s1", "world.ended"),
    "an end before queue_cmd has returned is forgotten": (OBJECTS, """
    smp_acquire__after_ctrl_dep();
    return SMQ_DONE;
""", """
    return SMQ_QUEUED;
""", "enter=1 s1", ""),
    "ownership is tested and then taken, not atomically": (CMD, """
    return atomic_cmpxchg(&cmd->state, SMQ_OWNED, SMQ_FREE) == SMQ_OWNED;
""", """
    if (atomic_read(&cmd->state) != SMQ_OWNED)
        return false;
    atomic_set(&cmd->state, SMQ_FREE);
    return true;
""", "policy=hold s1 reset", ""),
}


@pytest.mark.parametrize("name", PLANTED)
def test_checks_find_planted_mistakes(name):
    core_world.finds(name, *PLANTED[name])
