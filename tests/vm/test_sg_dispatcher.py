# SPDX-License-Identifier: GPL-2.0
# on: uml sanitize
"""The dispatcher of waiting commands: neither idle files nor files with waiting commands slow it,
however many there are, and it sends nothing while the system is frozen."""
import os
import resource
import time
from pathlib import Path

import pytest
from kit import smqsg
from kit.adhoc import push_adhoc
from kit.memory import Memory
from kit.sanitizing import SANITIZING
from kit.slots import BLOCK, SlotFile, command, read
from kit.uring import SETUP_CQE32, SETUP_SQE128, Ring

COMMANDS = 32
# How many commands wait: all in four files, or each in a file of its own.
WAITERS = 4000


def rate(file, ring):
    """Returns how many commands per second end, while most commands wait."""
    start, rounds = time.monotonic(), 6
    for _ in range(rounds):
        for slot in range(COMMANDS):
            file.push(ring, slot)
        ring.submit()
        assert {result for _, result in ring.wait(COMMANDS, 60)} == {0}
    return rounds * COMMANDS / (time.monotonic() - start)


@pytest.mark.limit(180)
@pytest.mark.skipif(SANITIZING, reason="sanitizers need too much memory for so many files")
def test_idle_files_do_not_slow_the_dispatcher(device):
    """The dispatcher looks only at files that have commands waiting or in flight."""
    opens = 10_000
    resource.setrlimit(resource.RLIMIT_NOFILE, (opens + 1000, opens + 1000))
    with SlotFile(device.path, COMMANDS) as file, Ring() as ring:
        file.prepare([command(bytes(6)) for _ in range(COMMANDS)])
        rate(file, ring)
        for _ in range(4):
            alone = sorted(rate(file, ring) for _ in range(3))[1]
            idle = []
            try:
                for _ in range(opens):
                    idle.append(os.open(device.path, os.O_RDWR))
                beside = sorted(rate(file, ring) for _ in range(3))[1]
            finally:
                for fd in idle:
                    os.close(fd)
            print(f"{alone:.0f} commands/s, beside {opens} idle files {beside:.0f}")
            # If the dispatcher looked at each file, the rate would fall to a tenth each time. A
            # machine that becomes busy between the two measurements may halve it once.
            if beside > alone / 2:
                break
    assert beside > alone / 2


def rate_of(files):
    """Spreads WAITERS commands over @files. Returns how many of them per second are sent."""
    with Ring(WAITERS, SETUP_SQE128 | SETUP_CQE32) as ring:
        keep = [push_adhoc(ring, files[number % len(files)], bytes(6), number)
                for number in range(WAITERS)]
        start = time.monotonic()
        ring.submit()
        assert {result for _, result in ring.wait(WAITERS, 100)} == {0}
        del keep
    return WAITERS / (time.monotonic() - start)


@pytest.mark.limit(180)
@pytest.mark.skipif(SANITIZING, reason="sanitizers need too much memory for so many files")
def test_waiting_files_do_not_slow_the_dispatcher(device):
    """The cost of dispatching a command does not grow with the number of waiting files."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (WAITERS + 1000, WAITERS + 1000))
    many = []
    try:
        many = [os.open(device.path, os.O_RDWR) for _ in range(WAITERS)]
        # At most 1024 commands of a file may wait.
        for _ in range(4):
            few, all_of_them = (sorted(rate_of(files) for _ in range(3))[1]
                                for files in (many[:4], many))
            print(f"{few:.0f} commands/s of four files, {all_of_them:.0f} of {WAITERS}")
            # A machine that becomes busy between the two measurements may lower the rate once.
            if all_of_them > few / 3:
                break
    finally:
        for fd in many:
            os.close(fd)
    assert all_of_them > few / 3


PM_TEST = Path("/sys/power/pm_test")


@pytest.mark.skipif(not PM_TEST.exists(), reason="a kernel without CONFIG_PM_SLEEP_DEBUG")
def test_nothing_is_sent_while_the_system_is_frozen(device):
    """After a hibernation image is written, and before power-off, no waiting command may be sent.
    In the image it still waits, so the resumed system would send it again."""
    delay = Path("/sys/module/suspend/parameters/pm_test_delay")
    count, was = 48, delay.read_text(encoding="ascii")
    with SlotFile(device.path, count) as file, Ring() as ring:
        assert file.lend(0, Memory(BLOCK)) == 0
        file.prepare([read(lba) for lba in range(count)])
        # In the two seconds for which the system is frozen, the device could execute all commands
        # twice.
        device.slow(80_000_000)
        for slot in range(count):
            file.push(ring, slot)
        ring.submit()
        before = smqsg.attr(device.path, "waiting")
        delay.write_text("2", encoding="ascii")
        PM_TEST.write_text("freezer", encoding="ascii")
        try:
            Path("/sys/power/state").write_text("freeze", encoding="ascii")
            after = smqsg.attr(device.path, "waiting")
        finally:
            PM_TEST.write_text("none", encoding="ascii")
            delay.write_text(was, encoding="ascii")
        print(f"{before} waited before, {after} after")
        device.slow(0)
        assert {result for _, result in ring.wait(count)} == {0}
        assert before > count / 2 and after > before / 2
