# SPDX-License-Identifier: GPL-2.0
# vm: --cpus 4
# on: uml sanitize 7.2
"""New requests of the node's own queue, which go straight to a driver. The block layer finds such a
request in any tag when it times out, and these requests do not exceed the queue depth.

Commands on one CPU leave nothing behind that a command on another CPU would have to wait for.
"""
import os
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest
from kit import cdb, sgio, smqsg
from kit.child import ended, spawn
from kit.pool import without_elevator
from kit.host import loaded, wait_for
from kit.probe import calls
from kit.slots import BLOCK, SlotFile, command
from kit.slowdisk import left_alone, opened
from kit.uring import Ring
from kit.ways import WAYS, Cmd, End

TAGS = 32
LONG = 0.4      # seconds
TUR = cdb.plain(cdb.TEST_UNIT_READY)
SENT = "run", "batch", "adhoc", "v3"
IGNORES = 4     # a bit of scsi_debug's "opts": ignore the commands that "every_nth" selects

pytestmark = [pytest.mark.usefixtures("sg_module")]


@contextmanager
def disks(luns: int = 1, **params):
    """Yields LUNs of scsi_debug whose disks no other program uses."""
    with loaded("scsi_debug", names=("add_host", "max_luns"), luns=luns, max_queue=TAGS, delay=0,
                submit_queues=1, dev_size_mb=8, **params) as (host,):
        found = host.wait_luns(luns)
        without_elevator(*found)
        for lun in found:
            left_alone(lun)
        yield found


@contextmanager
def ignored():
    """During the block scsi_debug never completes a command."""
    (smqsg.SCSI_DEBUG / "opts").write_text(str(IGNORES), encoding="ascii")
    (smqsg.SCSI_DEBUG / "every_nth").write_text("-1", encoding="ascii")
    try:
        yield
    finally:
        (smqsg.SCSI_DEBUG / "every_nth").write_text("0", encoding="ascii")
        (smqsg.SCSI_DEBUG / "opts").write_text("0", encoding="ascii")


@pytest.mark.smoke
@pytest.mark.parametrize("way", SENT)
def test_command_times_out_with_any_tag(way):
    """The block layer's scan for timeouts finds commands in tags that it has never dispatched."""
    with disks() as (lun,), WAYS[way](smqsg.node(lun), [Cmd(TUR)] * TAGS, timeout_ms=1000) as sent:
        with ignored():
            sent.send()
            wait_for("all commands to be sent",
                     lambda: smqsg.attr(smqsg.node(lun), "inflight") == TAGS)
        # The device must answer the commands that error handling sends.
        assert {end.outcome for end in sent.ends(40)} == {sgio.DID_TIME_OUT << 8}
        smqsg.clear_attentions(lun.sg)
        sent.send()
        assert {end.outcome for end in sent.ends()} == {0}


def run_one(way: str, path: str) -> None:
    """Sends TEST UNIT READY."""
    with WAYS[way](path, [Cmd(TUR)]) as sent:
        sent.send()
        assert sent.ends()[0].outcome == 0


@pytest.mark.parametrize("way", SENT)
def test_requests_bypass_the_dispatch_lists(way):
    """On the node's own queue a request does not go through the block layer's dispatch lists, with
    any elevator. On the device's queue under an elevator it does."""
    with disks() as (lun,), calls("", "blk_mq_dispatch_rq_list") as so_far:
        if so_far() is None:
            pytest.skip("this kernel has no kprobes")
        path = smqsg.node(lun)
        mode = smqsg.CLASS / Path(path).name / "own_queue"
        for own, elevator in (("on", "none"), ("on", "mq-deadline"), ("off", "mq-deadline")):
            (lun.queue / "scheduler").write_text(elevator, encoding="ascii")
            mode.write_text(own, encoding="ascii")
            # The command asks for the queue; it is created only while a file is open.
            with sgio.SgDev(path) if own == "on" else nullcontext():
                run_one("v3", path)
                wait_for(f"own_queue {own}",
                         lambda want=own == "on": smqsg.attr(path, "own_queue_exists") == want)
            counts = []
            for _ in range(3):
                before = so_far()
                run_one(way, path)
                counts.append(so_far() - before)
            assert (min(counts) > 0) == (own == "off"), (own, elevator, counts)


@pytest.mark.parametrize("way", SENT)
def test_new_request_shows_no_earlier_result(way):
    """The result of a new request has no residual and no sense data of an earlier command that used
    the same tag or memory."""
    with disks() as (lun,), WAYS[way](smqsg.node(lun), [Cmd(TUR)] * TAGS) as sent, \
            WAYS["batch"](sent.path, [Cmd(cdb.inquiry(252), 252)] * TAGS) as short, \
            WAYS["v3"](sent.path, [Cmd(cdb.blocks(cdb.READ_10, 2 ** 31, 1), BLOCK)] * TAGS) as bad:
        for _ in range(3):      # The mid-layer prepares the first command of each tag.
            for before in (short, bad):
                before.send()
                assert all(end.resid or end.sense[0] for end in before.ends())
                sent.send()
                assert set(sent.ends()) == {End(0)}


# Many CPUs.

def run_on(path: str, cpu: int, commands: int) -> None:
    """Runs commands on a CPU."""
    os.sched_setaffinity(0, {cpu})
    with SlotFile(path, commands) as file:
        file.prepare([command(TUR)] * commands)
        for _ in range(3):
            assert file.run(range(commands)) == (0, 0)


@pytest.mark.smoke
@pytest.mark.parametrize("way", ("alone", "batch", "sg_io"))
def test_commands_of_other_cpus_take_no_places(way):
    """Commands of other CPUs that have ended do not count as commands in flight, and a submitter
    that needs the whole depth gets it without waiting."""
    with disks() as (lun,):
        path = smqsg.node(lun)
        for cpu in sorted(os.sched_getaffinity(0)):
            assert ended(spawn(lambda at=cpu: run_on(path, at, TAGS))) == 0
            assert not smqsg.attr(path, "inflight")
        with smqsg.slow(LONG), opened(path, TAGS) as file, Ring() as ring:
            if way == "batch":
                file.push_batch(ring, range(TAGS))
            else:
                for slot in range(TAGS - (way == "sg_io")):
                    file.push(ring, slot)
            ring.submit()
            assert not smqsg.attr(path, "waiting")
            assert smqsg.attr(path, "inflight") == TAGS - (way == "sg_io")
            if way == "sg_io":
                with sgio.SgDev(path) as dev:
                    assert dev.cmd(TUR).good
            assert {res for _, res in ring.wait(1 if way == "batch" else
                                                TAGS - (way == "sg_io"))} == {0}
        assert not smqsg.attr(path, "inflight")


def test_lower_depth_is_not_exceeded():
    """A new depth is not exceeded, also by commands whose last token is beyond it."""
    with disks() as (lun,):
        path = smqsg.node(lun)
        for cpu in sorted(os.sched_getaffinity(0)):
            assert ended(spawn(lambda at=cpu: run_on(path, at, TAGS))) == 0
        for depth in (3, 1, 2):
            with smqsg.depth(lun, depth), smqsg.slow(0.2), opened(path, TAGS) as file, \
                    Ring() as ring:
                for slot in range(8):
                    file.push(ring, slot)
                ring.submit()
                assert smqsg.attr(path, "inflight") == depth
                assert smqsg.attr(path, "waiting") == 8 - depth
                assert {res for _, res in ring.wait(8)} == {0}
