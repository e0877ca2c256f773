# SPDX-License-Identifier: GPL-2.0
"""The protocol of the policy "bucket" in every interleaving. The explorer also finds mistakes that
are planted in the protocol."""

import functools
import re
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
OUT = HERE.parents[1] / "build/tests/host"
CHOICE = HERE.parents[1] / "drivers/policy/bucket_choice.h"


def gcc(*args):
    """Compiles with -Os, because at other levels the explorer counts more states twice."""
    subprocess.run(["gcc", "-std=gnu11", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror",
                    "-Os", *args], check=True, timeout=60)


@functools.cache
def explorer():
    """Builds the object that all programs link."""
    OUT.mkdir(parents=True, exist_ok=True)
    gcc("-c", "-o", OUT / "explore.o", HERE / "explore.c")
    return OUT / "explore.o"


def build(name, choice=CHOICE):
    """Builds the program with the header @choice."""
    gcc(f'-DCHOICE="{choice}"', "-o", OUT / name, explorer(), HERE / "bucket_explore.c")
    return OUT / name


@functools.cache
def right():
    """The program with the unchanged header."""
    return build("bucket_explore")


def explore(program, words):
    """Runs one exploration; returns its exit status and output."""
    done = subprocess.run([program, *words.split()], capture_output=True, text=True, timeout=120,
                          check=False)
    return done.returncode, done.stdout + done.stderr


# BUDGET WORKERS ABORT MOVE PATTERN...: see bucket_explore.c.
@pytest.mark.parametrize("words", [
    "9 0 -1 0 lll lll lll",     # three CPUs, three commands each
    "2 1 -1 0 ll ll ll",        # a budget, and the worker
    "1 1 -1 0 lll lll",
    "1 1 -1 0 nnl nnl",         # batches
    "1 1 -1 0 ne nl l",         # a batch that ends without a last command
    "1 2 -1 0 ll l l",          # workers on two CPUs
    "9 0 -1 1 nnl nnl ne",      # tasks that move to another CPU
    "1 1 3 1 nl ne l",
    "1 1 0 0 ll ll l",          # an abort
    "9 0 4 0 nnl nnl l",
    "1 1 1 0 nl ne l",          # an abort of a batch's last command
    "9 0 1 1 nl nl nl"])
def test_every_interleaving_keeps_the_promises(words):
    """In every interleaving each command is issued once, a CPU's commands keep their order, there
    is one dispatcher at a time, and it does not exceed its budget."""
    status, out = explore(right(), words)
    assert status == 0, out
    # The exploration must have many states: it is useful only if CPUs interleave.
    assert int(out.split()[0]) > 10000


STRANDED, TWO, ORDER, BUDGET = "world.nr[cpu]", "world.dispatcher", "world.issued", "world.by_other"
RUNG = "world.unrung"
# Mistakes: text to replace, its replacement, the exploration that finds it, and the broken promise.
PLANTED = {
    # The first published version: after the dispatcher has looked at the bits for the last time,
    # another CPU adds a command. That CPU does not become the dispatcher: there still is one.
    "a command is added after the last look": ("""
        if (!rest && atomic_cmpxchg(&b->word, SMQ_BUCKET_HELD, 0) == SMQ_BUCKET_HELD)
            return;
""", """
        if (!rest && !(atomic_read(&b->word) & ~SMQ_BUCKET_HELD)) {
            atomic_fetch_andnot(SMQ_BUCKET_HELD, &b->word);
            return;
        }
""", "9 0 -1 0 ll l", STRANDED),
    "the bits are not checked after a passed command": ("""
    if (atomic_cmpxchg(&b->word, SMQ_BUCKET_HELD, 0) != SMQ_BUCKET_HELD)
        smq_bucket_run(b, SMQ_BUCKET_NONE, budget);
""", """
    atomic_fetch_andnot(SMQ_BUCKET_HELD, &b->word);
""", "9 0 -1 0 l l", STRANDED),
    "bits are cleared after the buckets were emptied": ("""
        rest = atomic_xchg(&b->word, SMQ_BUCKET_HELD) & ~SMQ_BUCKET_HELD;
        commit = rest & SMQ_BUCKET_COMMIT;
        rest = smq_bucket_round(b, rest & ~SMQ_BUCKET_COMMIT, own, &left);
""", """
        rest = atomic_read(&b->word) & ~SMQ_BUCKET_HELD;
        commit = rest & SMQ_BUCKET_COMMIT;
        rest = smq_bucket_round(b, rest & ~SMQ_BUCKET_COMMIT, own, &left);
        atomic_xchg(&b->word, SMQ_BUCKET_HELD);
""", "9 0 -1 0 l ll", STRANDED),
    "the bit is not set while there is a dispatcher": ("""
    return !(atomic_fetch_or(all, &b->word) & SMQ_BUCKET_HELD);
""", """
    return atomic_cmpxchg(&b->word, 0, all) == 0;
""", "9 0 -1 0 l l", STRANDED),
    "the bucket's own bit is not checked": ("""
    if ((atomic_read(&b->word) & all) == all)
""", """
    if (atomic_read(&b->word) & SMQ_BUCKET_HELD)
""", "9 0 -1 0 l l", STRANDED),
    "the bit is set before the command is added": ("""
    smq_bucket_add(b, own, cmd);
""", """
    if (last && !smq_bucket_enter(b, own, 0)) {
        smq_bucket_add(b, own, cmd);
        return;
    }
    smq_bucket_add(b, own, cmd);
    if (last) {
        smq_bucket_run(b, own, budget);
        return;
    }
""", "9 0 -1 0 l l", STRANDED),
    "no bit is set within a batch": ("""
        smq_bucket_mark(b, own);
""", """
        ;
""", "9 0 -1 1 nl nl", STRANDED),
    "the right is tested and taken in two steps": ("""
    return !(atomic_fetch_or(all, &b->word) & SMQ_BUCKET_HELD);
""", """
    if (atomic_read(&b->word) & SMQ_BUCKET_HELD)
        return !(atomic_fetch_or(all, &b->word) & SMQ_BUCKET_HELD);
    atomic_or(all, &b->word);
    return true;
""", "9 0 -1 0 nl nl", TWO),
    "the result of taking the right is ignored": ("""
        atomic_cmpxchg(&b->word, 0, SMQ_BUCKET_HELD) != 0)
""", """
        atomic_fetch_or(SMQ_BUCKET_HELD, &b->word) < 0)
""", "9 0 -1 0 l l", TWO),
    "a command overtakes others in its own bucket": ("""
    if (atomic_read(&b->word) || !smq_bucket_is_empty(b, own) ||
        atomic_cmpxchg(&b->word, 0, SMQ_BUCKET_HELD) != 0)
""", """
    if ((smq_bucket_is_empty(b, own) && false) ||
        atomic_fetch_or(SMQ_BUCKET_HELD, &b->word) & SMQ_BUCKET_HELD)
""", "1 1 -1 0 nnl nl", ORDER),
    "passed commands are not committed": ("""
        smq_bucket_issue(b, commit);
""", """
        smq_bucket_issue(b, commit && false);
""", "9 0 1 0 nl ne", RUNG),
    "the doorbell is not asked for": ("""
    else if (smq_bucket_enter(b, own, uncommitted ? SMQ_BUCKET_COMMIT : 0))
""", """
    else if (smq_bucket_enter(b, own, 0))
""", "9 0 1 0 nl ne", RUNG),
    "the doorbell's bit is checked instead of the bucket's": ("""
    if ((atomic_read(&b->word) & all) == all)
""", """
    if (atomic_read(&b->word) & (commit ? commit : all))
""", "9 0 -1 0 nl nl", STRANDED),
    "there is no budget": ("""
    unsigned int left = budget, rest;
""", """
    unsigned int left = budget | UINT_MAX, rest;
""", "1 1 -1 0 ll ll l", BUDGET),
    "one command more than the budget is taken": ("""
        unsigned int taken = smq_bucket_take(b, bucket, *left);
""", """
        unsigned int taken = smq_bucket_take(b, bucket, *left + 1);
""", "1 1 -1 0 ll ll l", BUDGET),
    "bits beyond the budget are not set again": ("""
    if (rest)
        atomic_or(rest, &b->word);
""", """
""", "1 1 -1 0 l l l", STRANDED),
    "no worker is started": ("""
    smq_bucket_kick(b, rest & ~(SMQ_BUCKET_HELD | SMQ_BUCKET_COMMIT));
""", """
    smq_bucket_kick(b, rest & 0);
""", "1 1 -1 0 l l l", STRANDED),
    "the worker is started before the right is given back": ("""
    rest = atomic_fetch_andnot(SMQ_BUCKET_HELD, &b->word);
    smq_bucket_kick(b, rest & ~(SMQ_BUCKET_HELD | SMQ_BUCKET_COMMIT));
""", """
    smq_bucket_kick(b, rest & ~(SMQ_BUCKET_HELD | SMQ_BUCKET_COMMIT));
    atomic_fetch_andnot(SMQ_BUCKET_HELD, &b->word);
""", "1 1 -1 0 l l l", STRANDED),
}


@pytest.mark.parametrize("name", PLANTED)
def test_checks_find_planted_mistakes(name):
    """With a planted mistake the explorer reports the broken promise, and the steps to it."""
    old, new, words, says = PLANTED[name]
    source = CHOICE.read_text(encoding="ascii").expandtabs(4)
    assert source.count(old) == 1
    slug = "bucket_" + re.sub(r"\W", "_", name)
    header = OUT / f"{slug}.h"
    program = right()
    header.write_text(source.replace(old, new), encoding="ascii")
    assert explore(program, words)[0] == 0
    status, out = explore(build(slug, header), words)
    assert status == 1 and says in out.splitlines()[0] and "after these steps" in out, out
