# SPDX-License-Identifier: GPL-2.0
# not on uml: needs Fibre Channel
# not on sanitize: Fibre Channel is not in that kernel
"""Prepared commands of one io_uring on ten Fibre Channel LUNs: the LUNs' shares, and the results of
commands when the port bounces, stays blocked or is removed, when LUNs are unmapped and mapped
again, and when the target has no room.

In each case every command ends once, its result fits the case, and a GOOD READ has the right data.
WRITEs are sent only in tests in which the link stays up: tcm_fc waits for ever for the data of a
WRITE whose initiator has disconnected.
"""
import random
from contextlib import ExitStack

import pytest
from kit import smqsg
from kit.host import counted, find_hosts, load, unload, wait_for
from kit.lanes import FIRST, KNOWN_SIZE, Lanes, jain
from kit.lio import iblock
from kit.memory import Memory
from kit.paths import PIECE, SECONDS, write_by_sg
from kit.sgio import SgDev
from kit.slots import BLOCK, SlotFile, read
from kit.softfc import need, soft_fc
from kit.uring import Ring

LUNS, MIB = 10, 4
# The number of one more LUN. A test sets how slow its backstore is.
SLOW_LUN = LUNS
FAIR = 0.95
# The shares are measured for at least this many seconds and commands.
MEASURE_SECONDS, MEASURE_COMMANDS = 1.5, 1500
# The slow LUN takes SLOW_TAKES commands at a time. When it is full, tcm_fc's worker waits, and
# commands of the other LUNs fill the 512 tags that the target has for an initiator
# (TCM_FC_DEFAULT_TAGS). The target answers further commands with BUSY.
SLOW_TAKES, SLOW_COMMANDS, SLOW_SECONDS, DEEP = 16, 96, 0.2, 64

pytestmark = pytest.mark.limit(3 * SECONDS)


@pytest.fixture(scope="module")
def link():
    """The link to the LUNs."""
    need()
    load("scsi_debug", dev_size_mb=8, delay=0, max_queue=SLOW_TAKES)
    disk = wait_for("scsi_debug", lambda: next(iter(find_hosts("scsi_debug")), None)).wait_luns(1)
    with iblock("slow", disk[0].sd) as store, smqsg.module(), soft_fc(MIB, LUNS, [store]) as found:
        yield found
    unload("scsi_debug")


def ten(link):
    """Returns the ten LUNs, without the slow one."""
    return link.luns()[:LUNS]


@pytest.fixture(scope="module")
def known(link):
    """Writes data to each disk, from block FIRST on. Returns each disk's data."""
    data = [random.Random(number).randbytes(KNOWN_SIZE) for number in range(LUNS)]
    for lun, part in zip(ten(link), data, strict=True):
        smqsg.clear_attentions(lun.sg)
        with SgDev(lun.sg) as plain:
            write_by_sg(plain, FIRST, part)
    return data


def check_fair(lanes, what, writing=False):
    """Checks that all LUNs have the same share."""
    counts = lanes.go(MEASURE_SECONDS, writing)
    while sum(counts) < MEASURE_COMMANDS:
        counts = [sum(pair) for pair in zip(counts, lanes.go(1, writing), strict=True)]
    index = jain(counts)
    print(f"{what}: {sum(counts)} commands, {min(counts)} to {max(counts)} a LUN, "
          f"Jain {index:.3f}")
    assert min(counts) > 0 and index >= FAIR, counts


def check_ended(lanes, what, *words):
    """Checks that all commands have ended, some with each of these results: GOOD and @words."""
    found = lanes.stop()
    print(f"{what}: " + ", ".join(f"{word} {count}" for word, count in sorted(found.items())))
    assert set(found) == {"GOOD", *words}, found
    lanes.written()
    return found


def test_luns_get_equal_shares(fc, known):
    """Each LUN has more READs and WRITEs than its queue depth. The LUNs' shares are equal."""
    with Lanes(ten(fc), known) as lanes:
        check_fair(lanes, "reads and writes", writing=True)
        check_ended(lanes, "all")


def test_waiting_commands_run_after_a_bounce(fc, known):
    """Commands that are in flight at a bounce end with DID_TRANSPORT_DISRUPTED. Commands that wait,
    or are submitted while the port is blocked, run afterwards."""
    with Lanes(ten(fc), known) as lanes:
        check_fair(lanes, "before")
        with fc.silent():
            lanes.go(0.5)
            fc.down()
        lanes.go(0.5)
        fc.up()
        check_fair(lanes, "after a bounce")
        found = check_ended(lanes, "bounce", "DID_TRANSPORT_DISRUPTED")
        # At most 32 commands of each LUN were in flight.
        assert 0 < found["DID_TRANSPORT_DISRUPTED"] <= LUNS * 32


def test_commands_fail_after_fast_io_fail(fc, known):
    """When fast_io_fail_tmo has expired, I/O fails at once until the port is back."""
    fc.set_loss_timeouts(fast_io_fail=1)
    with Lanes(ten(fc), known) as lanes:
        check_fair(lanes, "before")
        with fc.silent():
            lanes.go(0.5)
            fc.down()
        wait_for("I/O to fail", lambda: lanes.go(0.3) and any(
            word == "DID_NO_CONNECT" for _, word in lanes.ends), SECONDS)
        assert sum(lanes.go(0.5)) == 0
        fc.up()
        lanes.go(0.5)
        check_fair(lanes, "after fast_io_fail")
        check_ended(lanes, "fast_io_fail", "DID_TRANSPORT_DISRUPTED", "DID_NO_CONNECT")


def test_unmapped_luns_do_not_affect_others(fc, known):
    """When the target unmaps two LUNs, their commands end with the target's sense data, and the
    commands of the other LUNs are not affected. When the two LUNs are mapped again, they work as
    before."""
    gone = (3, 7)
    with Lanes(ten(fc), known) as lanes:
        check_fair(lanes, "before", writing=True)
        with ExitStack() as stack:
            for number in gone:
                stack.enter_context(fc.unmapped(number))
            lanes.go(0.5, writing=True)
            counts = lanes.go(1, writing=True)
            assert [number for number in range(LUNS) if not counts[number]] == list(gone), counts
        lanes.go(0.5, writing=True)
        check_fair(lanes, "mapped again", writing=True)
        # LOGICAL UNIT NOT SUPPORTED; REPORTED LUNS DATA HAS CHANGED.
        refused, changed = "CHECK 5/25/00", "CHECK 6/3f/0e"
        check_ended(lanes, "unmapped and mapped", refused, changed)
        assert {lun for lun, word in lanes.ends if word == refused} == set(gone)


def test_commands_are_repeated_while_the_target_is_busy(fc, known):
    """One LUN has so many slow commands that the target has no room for more. The target answers
    BUSY, and the mid-layer repeats those commands: all commands end GOOD."""
    def issued():
        return sum(counted(lun, "iorequest_cnt")[0] for lun in fc.luns())

    slow, count = fc.luns()[SLOW_LUN], SLOW_COMMANDS
    smqsg.clear_attentions(slow.sg)
    with ExitStack() as stack:
        for lun in fc.luns():
            stack.enter_context(smqsg.depth(lun, DEEP))
        lanes = stack.enter_context(Lanes(ten(fc), known))
        file = stack.enter_context(SlotFile(smqsg.node(slow), count))
        ring = stack.enter_context(Ring())
        memory = Memory(PIECE)
        assert file.lend(0, memory) == 0
        file.prepare([read(FIRST, PIECE // BLOCK)] * count)
        check_fair(lanes, "before", writing=True)
        lanes.stop()
        lanes.ends.clear()
        before = issued()
        with smqsg.slow(SLOW_SECONDS):
            file.push_batch(ring, range(count))
            ring.submit()
            lanes.go(1, writing=True)
            found = lanes.stop()
            assert ring.wait(1, SECONDS) == [(0, 0)]
        again = issued() - before - found["GOOD"] - count
        print(f"beyond the target's room: GOOD {found['GOOD'] + count}, sent again {again}")
        assert set(found) == {"GOOD"} and again > 0
        lanes.written()
        check_fair(lanes, "after the target was full", writing=True)
        check_ended(lanes, "all")


def test_all_commands_end_when_the_luns_are_lost(fc, known):
    """When the link is lost for good and the LUNs are removed, all commands of the LUNs' files end.
    When the link is up again, new LUNs take their place."""
    fc.set_loss_timeouts(dev_loss=2, fast_io_fail=1)
    old = ten(fc)
    with Lanes(old, known) as lanes:
        check_fair(lanes, "before")
        with fc.silent():
            lanes.go(0.5)
            fc.down()
        wait_for("the LUNs to disappear", lambda: lanes.go(0.3) and not any(
            lun.sysfs.exists() for lun in old), SECONDS)
        found = lanes.stop()
        print("dev_loss: " + ", ".join(f"{word} {n}" for word, n in sorted(found.items())))
        assert set(found) - {"DID_ERROR"} == {
            "GOOD", "DID_TRANSPORT_DISRUPTED", "DID_NO_CONNECT", "errno 19"}, found
        fc.up()
        with Lanes(ten(fc), known) as again:
            check_fair(again, "after dev_loss, new LUNs")
            check_ended(again, "all")
