# SPDX-License-Identifier: GPL-2.0
# on: uml sanitize 7.2
"""Commands of smq_sg for a driver with a doorbell. They go straight to the driver, and the doorbell
rings once for all commands of a plug.

smq_hold with in_commit=1 starts no command before the doorbell has rung.
"""
import itertools
from concurrent.futures import ThreadPoolExecutor

import pytest
from kit import cdb, smqsg
from kit.adhoc import push_adhoc
from kit.debugfs import state
from kit.hold import get_param, set_param, with_params
from kit.host import settle, wait_for
from kit.memory import PAGE
from kit.missing import Missing
from kit.pool import on_cpus
from kit.probe import calls
from kit.slots import BLOCK, read
from kit.slowdisk import left_alone, opened
from kit.uring import SETUP_CQE32, SETUP_SQE128, Ring

DEPTH = 32
# Data that is not copied: the submitter sleeps while the kernel finds its pages.
SIZE = 2 * PAGE
pytestmark = pytest.mark.usefixtures("sg_module")
SHARED = with_params(in_commit=1, depth=DEPTH)


@pytest.fixture(name="file")
def file_fixture(hold):
    """A file with DEPTH slots that read."""
    lun, = hold.luns()
    left_alone(lun)
    with opened(smqsg.node(lun), DEPTH) as file:
        # The mid-layer prepares the first command of each tag.
        assert file.run(range(DEPTH)) == (0, 0)
        yield file


@pytest.mark.smoke
@SHARED
def test_one_doorbell_for_the_commands_of_a_plug(file):
    """16 SQEs of one system call, or the slots of a batch, go straight to the driver, and share a
    doorbell."""
    file.prepare([read(slot, offset=slot * BLOCK) for slot in range(DEPTH)])
    # A submitter that is moved to another CPU on its way uses two hardware queues.
    with Ring() as ring, calls("", "blk_mq_dispatch_rq_list") as dispatched, on_cpus({0}):
        for _ in range(3):      # The first run gets new requests.
            set_param("commits", 0)
            before = dispatched()
            for slot in range(16):
                file.push(ring, slot)
            ring.submit()
            assert {res for _, res in ring.wait(16)} == {0}
        assert get_param("commits") == 1 and dispatched() == before
        set_param("commits", 0)
        file.push_batch(ring, range(DEPTH))
        ring.submit()
        assert ring.wait(1)[0][1] == 0 and get_param("commits") == 1


def push_with_a_sleeper(file, ring, memory):
    """Pushes four slots, and a READ that sleeps for its memory."""
    for slot in range(4):
        file.push(ring, slot)
    return push_adhoc(ring, file.fd, cdb.blocks(cdb.READ_10, 0, SIZE // BLOCK), 4, memory, 0, SIZE)


@pytest.mark.smoke
@SHARED
def test_the_doorbell_rings_when_the_submitter_sleeps(file):
    """A later SQE of the same system call sleeps for the caller's memory."""
    before = file.status(0).runs
    with Ring(DEPTH, SETUP_SQE128 | SETUP_CQE32) as ring, Missing(SIZE) as memory, \
            ThreadPoolExecutor(1) as pool:
        alive = push_with_a_sleeper(file, ring, memory)
        job = pool.submit(ring.submit)
        memory.wait_asleep(1)
        wait_for("commands to end", lambda: all(file.status(slot).runs > before
                                                for slot in range(4)))
        assert not job.done()
        memory.come()
        job.result(20)
        assert {res for _, res in ring.wait(5)} == {0}
        del alive


@with_params(in_commit=1, depth=DEPTH, ring=4)
def test_the_doorbell_rings_when_the_driver_has_no_room(file):
    """The driver starts the commands that it has before the plug is flushed."""
    with Ring() as ring:
        set_param("commits", 0)
        for slot in range(16):
            file.push(ring, slot)
        ring.submit()
        assert {res for _, res in ring.wait(16)} == {0}
        assert get_param("commits") > 1


@SHARED
def test_commands_of_a_plug_end_under_each_policy(hold, file):
    """A policy that collects the commands of a batch gets to know its end by the doorbell. The
    policy changes while the doorbell is due."""
    policies = itertools.cycle(("batch", "bucket", "prio", "steer", "direct"))
    effective = set()
    before = settle(hold)["errors"]
    with Ring(DEPTH) as ring, ThreadPoolExecutor(1) as pool:
        change = pool.submit(lambda: None)
        for number in range(1000):
            if number % 20 == 0 and change.done():
                change.result()
                change = pool.submit((hold.sysfs / "smq/policy").write_text, next(policies))
            for slot in range(DEPTH):
                file.push(ring, slot)
            ring.submit()
            assert {res for _, res in ring.wait(DEPTH)} == {0}
            if number % 20 == 10:
                effective.add(state(hold)["effective"])
        change.result(20)
        (hold.sysfs / "smq/policy").write_text("direct", encoding="ascii")
    assert {"bucket", "batch"} <= effective
    # The layer would return a command that stayed with a policy, and count it as an error.
    assert settle(hold)["errors"] == before


@SHARED
def test_removal_while_a_doorbell_is_due(hold, file):
    """The LUN is removed while commands wait for their doorbell in the plug of a task that sleeps.
    All commands end."""
    with Ring(DEPTH, SETUP_SQE128 | SETUP_CQE32) as ring, Missing(SIZE) as memory, \
            ThreadPoolExecutor(2) as pool:
        set_param("delay_us", 100000)
        alive = push_with_a_sleeper(file, ring, memory)
        submitted = pool.submit(ring.submit)
        memory.wait_asleep(1)
        removed = pool.submit((hold.luns()[0].sysfs / "delete").write_text, "1")
        removed.result(30)
        memory.come()
        submitted.result(20)
        assert len(ring.wait(5, 20)) == 5
        del alive
