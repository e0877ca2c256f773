# SPDX-License-Identifier: GPL-2.0
# on: sanitize 7.2
# not on uml: not measured yet
"""While other LUNs use all tags of the host, a command waits for a tag. The wait ends when the
command times out or is cancelled, when its task is killed, or when its device is removed."""
import errno
import os
import signal
import threading
import time
from contextlib import contextmanager

import pytest
from kit import cdb, smqsg
from kit.adhoc import push_adhoc
from kit.child import ended, spawn
from kit.host import wait_for
from kit.ramdir import ram_host
from kit.slots import SlotFile, command
from kit.slowdisk import DEPTH
from kit.uring import SETUP_CQE32, SETUP_SQE128, Ring

TUR = cdb.plain(cdb.TEST_UNIT_READY)
# For how many seconds the other LUNs' commands keep the tags. On a slow machine the tested command
# begins to wait only after two seconds.
SERVICE = 4.0
WAYS = ("run", "batch", "adhoc")


@contextmanager
def no_tag():
    """For SERVICE seconds, a host's other LUNs use all its tags. Yields the host's last LUN, the
    LUN's node, and a function that returns whether the other LUNs still have all tags."""
    # A host on which a policy may hold commands has twice as many tags as one LUN may use: so two
    # LUNs use all tags.
    with smqsg.module(), ram_host(depth=DEPTH, hw_queues=1, luns=3) as (host_dir, host), \
            Ring() as ring:
        for lun in host.luns():
            # With an elevator a request would get its tag only when it is dispatched.
            (lun.queue / "scheduler").write_text("none", encoding="ascii")
        *others, last = (smqsg.node(lun) for lun in host.luns())
        files = [SlotFile(path, DEPTH) for path in others]
        host_dir.set("model/service_ns", round(SERVICE * 1e9))
        for file in files:
            file.prepare([command(TUR)] * DEPTH)
            file.push_batch(ring, range(DEPTH))
        ring.submit()
        try:
            yield host.luns()[-1], last, lambda: all(
                smqsg.attr(path, "inflight") == DEPTH for path in others)
        finally:
            host_dir.set("model/service_ns", 0)
            assert ring.wait(len(files)) == [(0, 0)] * len(files)
            for file in files:
                file.close()
        if os.path.exists(last):
            smqsg.idle(last)


def send(file, ring, way):
    """Sends one command, or a batch of two. Returns when the command waits for a tag, with objects
    that the caller must keep alive."""
    if way == "adhoc":
        kept = push_adhoc(ring, file.fd, TUR)
    elif way == "run":
        kept = file.push(ring, 0)
    else:
        kept = file.push_batch(ring, range(2), 0)
    ring.submit()
    wait_for("the command to wait", lambda: smqsg.attr(file.path, "waiting") == 1)
    # Give the dispatcher time to go to sleep.
    time.sleep(0.05)
    assert smqsg.attr(file.path, "waiting") == 1 and not smqsg.attr(file.path, "inflight")
    return kept


@contextmanager
def sender(path, timeout_ms=0):
    """Yields a file with two slots, and a ring for all kinds of entries."""
    with SlotFile(path, 2) as file, Ring(8, SETUP_SQE128 | SETUP_CQE32) as ring:
        file.prepare([command(TUR, timeout_ms=timeout_ms)] * 2)
        yield file, ring


@pytest.mark.smoke
def test_command_that_waits_for_a_tag_times_out():
    with no_tag() as (_, path, still), sender(path, 300) as (file, ring):
        start = time.monotonic()
        send(file, ring, "run")
        assert ring.wait(1) == [(0, -errno.ETIMEDOUT)]
        assert time.monotonic() - start > 0.25 and still()


@pytest.mark.parametrize("way", WAYS)
def test_command_that_waits_for_a_tag_is_cancelled(way):
    with no_tag() as (_, path, still), sender(path) as (file, ring):
        kept = send(file, ring, way)
        assert file.cancel(0 if way == "run" else None) == (0, 1)
        assert ring.wait(1) == [(0, 2 if way == "batch" else -errno.ECANCELED)]
        assert still()
        del kept


@pytest.mark.smoke
@pytest.mark.parametrize("way", WAYS)
def test_removal_ends_the_wait_for_a_tag(way):
    with no_tag() as (lun, path, still), sender(path) as (file, ring):
        kept = send(file, ring, way)
        # The removal is in a thread: in the block layer it waits until no task waits for a tag.
        removal = threading.Thread(
            target=lambda: (lun.sysfs / "delete").write_text("1", encoding="ascii"))
        removal.start()
        try:
            assert ring.wait(1) == [(0, 2 if way == "batch" else -errno.ENODEV)]
            assert still()
        finally:
            removal.join(20)
        del kept


@pytest.mark.parametrize("way", WAYS)
def test_kill_ends_the_wait_for_a_tag(way):
    with no_tag() as (_, path, still):
        def work():
            with sender(path) as (file, ring):
                kept = send(file, ring, way)
                os.kill(os.getpid(), signal.SIGKILL)
                return kept
        pid = spawn(work)
        assert ended(pid) == -signal.SIGKILL
        assert still()


@pytest.mark.parametrize("way", WAYS)
def test_waiting_command_is_sent_when_a_tag_is_free(way):
    """A command that waits for a tag is sent when tags are free again."""
    with no_tag() as (_, path, _), sender(path) as (file, ring):
        kept = send(file, ring, way)
        assert ring.wait(1) == [(0, 0)]
        assert file.run(range(2)) == (0, 0)
        del kept
