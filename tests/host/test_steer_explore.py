# SPDX-License-Identifier: GPL-2.0
"""Commands that the policy "steer" moves, in every interleaving. This exploration must also find
each planted mistake."""

import core_world
import pytest

STEER, MOVE = "drivers/policy/steer.c", "drivers/core/policy_move.c"
VERDICT = "drivers/core/policy_path.c"
ON = "policy=steer hwqs=2 threshold=0 on=1 "


# See core_world.c. threshold=0: a hardware queue with one command is busy. on=1: steer moves
# commands. trying=N: steer may move N commands as a trial.
@pytest.mark.parametrize("words, least", [
    (ON + "s2@0 s1@1", 5000),
    (ON + "s1@0 s1@0 s1@1", 10000),
    (ON + "busy=1 s2@0 s1@1", 10000),       # the other hardware queue is full
    (ON + "busy=2 s2@0 s1@1", 10000),
    (ON + "s2@0 s1@1 abort=1", 10000),
    (ON + "busy=1 s2@0 abort=1", 1000),
    (ON + "s2@0 reset", 1000),
    (ON + "s2@0 s1@0 offline", 10000),
    (ON + "busy=1 s2@0 offline", 1000),
    (ON + "busy=1 s2@0 abort=1 offline", 10000),
    (ON + "s2@0 show=1", 500),
    (ON + "busy=1 s2@0 show=1", 1000),
    ("policy=steer hwqs=2 threshold=0 s2@0 s1@0", 5000),
    ("policy=steer hwqs=2 threshold=0 trying=1 s1@0 s1@0 s1@0", 10000),
    (ON + "s2@0 switch", 500)])
def test_every_interleaving(words, least):
    """In every interleaving no command is lost or issued twice, the counters agree, and a hardware
    queue without a CPU has no command."""
    assert core_world.holds(words) > least


COUNTS, FOREIGN = "queued.counter == steer->done", "foreign.counter"
# See test_depth.py.
PLANTED = {
    "a foreign command is not counted": (MOVE, """
        atomic_inc(&to->core->move.foreign);
""", "", ON + "s2@0 offline", ""),
    "a foreign command that has ended stays counted": (MOVE, """
    atomic_dec_return_release(&cmd->hwq->core->move.foreign);
""", "", ON + "busy=1 s2@0", FOREIGN),
    "the CPU goes offline without a grace period": (MOVE, """
    synchronize_rcu();
""", "", ON + "s2@0 offline", ""),
    "the CPU goes offline before foreign commands end": (MOVE, """
    while (atomic_read_acquire(&move->foreign))
        msleep(SMQ_MOVE_POLL_MS);
""", "", ON + "s2@0 offline", "->index != 1"),
    "a closed hardware queue counts as open": (STEER, """
        q.open = smq_hwq_is_open(host->hwq[own->next]);
""", """
        q.open = true;
""", ON + "s2@0 offline", "index"),
    "a refused command that goes home stays foreign": (VERDICT, """
        policy->ops->refused(policy, hwq, cmd);
    smq_move(cmd, hwq);
""", """
        policy->ops->refused(policy, hwq, cmd);
""", ON + "busy=1 s2@0", "cmd->hwq == hwq"),
    "a refused command that goes home stays counted": (STEER, """
    atomic_dec(&sc->at->queued);
""", "", ON + "busy=1 s2@0", COUNTS),
    "the two counts are read in the wrong order": (STEER, """
    unsigned int done = atomic_read_acquire(&s->done);

    return atomic_read(&s->queued) - done;
""", """
    unsigned int queued = atomic_read(&s->queued);

    return queued - atomic_read_acquire(&s->done);
""", ON + "s2@0 show=0", "nr_cmds"),
    "an end is counted for the wrong queue": (STEER, """
    struct steer_hwq *at = sc->at;
""", """
    struct steer_hwq *at = sc->own ? sc->own : sc->at;
""", ON + "s2@0", COUNTS),
    "a moved command is not judged": (STEER, """
    if (unlikely(sc->own))
        steer_judge""", """
    if (0)
        steer_judge""", ON + "s2@0", "choice.judged"),
    "a moved command is judged twice": (STEER, """
    sc->at = sc->own;
    sc->own = NULL;
""", """
    sc->at = sc->own;
""", ON + "busy=1 s2@0", "choice.judged"),
    "two CPUs choose at the same time": (STEER, """
    if (smq_steer_wants(&own->choice))
        to = steer_find(policy, hwq, own, threshold);
""", """
    if (smq_steer_wants(&own->choice)) {
        spin_unlock_irqrestore(&own->lock, flags);
        spin_lock_irqsave(&own->lock, flags);
        to = steer_find(policy, hwq, own, threshold);
    }
""", "policy=steer hwqs=2 threshold=0 trying=1 s1@0 s1@0 s1@0", "judged"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_checks_find_planted_mistakes(name):
    core_world.finds(name, *PLANTED[name])
