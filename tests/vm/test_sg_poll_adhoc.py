# SPDX-License-Identifier: GPL-2.0
# on: uml sanitize 7.2
"""Ad hoc commands of polled rings: a command's data is in the memory of the submitting process.
Another process may find the command by a poll, or the submitting process may have ended."""
import os
import random
import signal
import time
from pathlib import Path

import pytest
from kit import cdb, smqsg, uring
from kit.adhoc import push_adhoc
from kit.child import ended, running, spawn
from kit.host import wait_for
from kit.memory import PAGE, Memory
from kit.slots import BLOCK, write
from kit.slowdisk import DEPTH, SLOW, opened
from kit.uring import SETUP_CQE32, SETUP_IOPOLL, SETUP_SQE128, Ring

FLAGS = SETUP_IOPOLL | SETUP_SQE128 | SETUP_CQE32
KINDS = {"plain": FLAGS, "sqpoll": FLAGS | uring.SETUP_SQPOLL,
         "defer": FLAGS | uring.SETUP_SINGLE_ISSUER | uring.SETUP_DEFER_TASKRUN}
pytestmark = pytest.mark.usefixtures("sg_module")
READ_10 = 0x28
REFERENCES = Path("/sys/module/smq_sg/refcnt")


@pytest.mark.smoke
@pytest.mark.parametrize("at", (0, 13), ids=("", "copied"))
def test_adhoc_data_and_sense_reach_the_caller(polled, at):
    """Data and sense data reach the caller's memory, even if there are more commands than the
    queue depth allows. Data at an odd address is copied."""
    data = random.Random(5).randbytes(40 * BLOCK)
    with opened(polled.path) as file, Ring(64, FLAGS) as ring:
        file.prepare([write(slot, offset=slot * BLOCK) for slot in range(40)])
        file.memory[:len(data)] = data
        assert file.run(range(40)) == (0, 0)
        area, sense = Memory(41 * BLOCK), Memory(PAGE)
        for turn in range(3):
            area[:] = bytes(41 * BLOCK)
            keep = [push_adhoc(ring, file.fd, cdb.blocks(READ_10, block, 1), block, area,
                               at + block * BLOCK, BLOCK) for block in range(40)]
            ring.submit()
            assert sorted(ring.wait(40, spin=turn == 1)) == [(block, 0) for block in range(40)]
            assert area[at:at + 40 * BLOCK] == data
        keep = push_adhoc(ring, file.fd, bytes((0xff,)) * 6, 99, sense=sense)
        ring.submit()
        assert ring.wait(1) == [(99, 0)] and sense[2] & 0xf == 5 and sense[12] == 0x20
        del keep


def test_data_reaches_the_submitter_when_another_process_polls(polled):
    """Two processes use one file, each with its own ring. Data gets into the memory of the process
    that submitted the command."""
    stop = Memory(PAGE, 1 | 0x20)
    with opened(polled.path) as file:
        data = random.Random(6).randbytes(BLOCK)
        file.prepare([write(0)])
        file.memory[:BLOCK] = data
        assert file.run([0]) == (0, 0)
        area = Memory(2 * PAGE)

        def work():
            """Polls in a child process, which has its own copy of @area at the same address. The
            parent's data must not get into that copy."""
            with Ring(64, SETUP_IOPOLL) as ring:
                while not stop[0]:
                    for slot in range(1, 33):
                        file.push(ring, slot)
                    ring.submit()
                    ring.wait(32, 30, spin=True)
            return int(area[:] != bytes(2 * PAGE))
        with running(work) as (_, status), Ring(64, FLAGS) as ring:
            for _ in range(100):
                area[:] = bytes(2 * PAGE)
                keep = push_adhoc(ring, file.fd, cdb.blocks(READ_10, 0, 1), 0, area, 13, BLOCK)
                ring.submit()
                # Meanwhile the other process probably finds the command.
                time.sleep(0.002)
                assert ring.wait(1) == [(0, 0)]
                assert area[13:13 + BLOCK] == data
                del keep
            stop[0:1] = b"x"
            assert status(30) == 0


# In the tests below the ring is closed or its process ends. Then another task polls for the
# commands, and the submitter's task work no longer runs.

def push_some(ring, file, count):
    """Pushes READs, of which DEPTH are in flight at a time. Returns their memory and other objects
    that the caller must keep alive."""
    area = Memory(count * BLOCK)
    return area, [push_adhoc(ring, file.fd, cdb.blocks(READ_10, n, 1), n, area, n * BLOCK, BLOCK)
                  for n in range(count)]


def all_done_and_closed(polled):
    """Waits until no command is in flight or waits, and no file is open."""
    polled.idle()
    wait_for("the files to be closed", lambda: REFERENCES.read_text(encoding="ascii") == "0\n")


@pytest.mark.smoke
@pytest.mark.parametrize("count", (1, 3 * DEPTH), ids=("one", "waiting"))
@pytest.mark.parametrize("kind", KINDS)
def test_commands_end_after_their_ring_is_closed(polled, kind, count):
    """All commands end, even those in flight or waiting when the ring is closed. The process lives
    on."""
    with opened(polled.path) as file:
        ring = Ring(64, KINDS[kind])
        polled.slow(SLOW // 4)
        keep = push_some(ring, file, count)
        ring.submit()
        wait_for("commands in flight", lambda: smqsg.attr(polled.path, "inflight"))
        ring.close()
        polled.idle()
        polled.slow(0)
        assert file.run(range(8)) == (0, 0)
        del keep
    all_done_and_closed(polled)


@pytest.mark.smoke
@pytest.mark.parametrize("how", ("SIGKILL", "exit", "exec"))
@pytest.mark.parametrize("kind", KINDS)
def test_commands_end_after_their_process_has_ended(polled, kind, how):
    """When the process ends with commands in flight and waiting, soon no command is left and no
    file is open."""
    ready, told = os.pipe()

    def work():
        with opened(polled.path) as file, Ring(64, KINDS[kind]) as ring:
            polled.slow()
            keep = push_some(ring, file, 3 * DEPTH)
            ring.submit()
            os.write(told, b"x")
            wait_for("commands waiting", lambda: smqsg.attr(polled.path, "waiting"))
            if how == "SIGKILL":
                ring.wait(99, 60)
            elif how == "exec":
                os.execv("/bin/true", ["true"])
            os._exit(0)
            del keep
    pid = spawn(work)
    assert os.read(ready, 1) == b"x"
    if how == "SIGKILL":
        wait_for("commands waiting", lambda: smqsg.attr(polled.path, "waiting"))
        os.kill(pid, signal.SIGKILL)
    assert ended(pid) == (-signal.SIGKILL if how == "SIGKILL" else 0)
    os.close(ready)
    os.close(told)
    all_done_and_closed(polled)
