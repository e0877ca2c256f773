# SPDX-License-Identifier: GPL-2.0
# on: uml sanitize 7.2
"""When a process ends, its waiting commands are not sent, even if something keeps the file open.
Neither idle files nor files with waiting commands slow the dispatcher, however many there are."""
import mmap
import os
import resource
import signal
import struct
import time
from pathlib import Path

import pytest
from kit import cdb, smqsg
from kit.adhoc import push_adhoc
from kit.child import ended, spawn
from kit.host import wait_for
from kit.memory import Memory
from kit.sanitizing import TIME_FACTOR, SANITIZING
from kit.sgio import SgDev
from kit.slots import (BLOCK, URING_BATCH, URING_RUN, SlotFile, command, read, run_of,
                       write)
from kit.slowdisk import DEPTH
from kit.uring import (SETUP_CQE32, SETUP_DEFER_TASKRUN, SETUP_IOPOLL, SETUP_SINGLE_ISSUER,
                       SETUP_SQE128, SETUP_SQPOLL, SQE_ASYNC, SQE_FIXED_FILE, Ring)

COMMANDS = 32
SERVICE = 1.0       # seconds
# Timeout of waiting commands: far longer than a test.
TIMEOUT_MS = 600_000
# How many seconds may pass from the end of a process's last command in flight until the process is
# reaped.
LATE = 4.0
DATA = b"\x77" * BLOCK
# How many commands wait: all in four files, or each in a file of its own.
WAITERS = 4000
SETUPS = {"sqpoll": SETUP_SQPOLL, "defer": SETUP_SINGLE_ISSUER | SETUP_DEFER_TASKRUN,
          "iopoll": SETUP_IOPOLL}
WAYS = [
    pytest.param("descriptor", "SIGKILL"), pytest.param("descriptor", "exec"),
    pytest.param("registered", "SIGKILL", marks=pytest.mark.smoke),
    pytest.param("registered", "exec", marks=pytest.mark.smoke),
    pytest.param("registered", "exit"),
    pytest.param("sqpoll", "SIGKILL", marks=pytest.mark.smoke), pytest.param("sqpoll", "exec"),
    pytest.param("sqpoll", "exit"),
    pytest.param("defer", "SIGKILL"), pytest.param("async", "SIGKILL"),
    pytest.param("batch", "SIGKILL"), pytest.param("batch", "exec"),
    pytest.param("iopoll", "SIGKILL"), pytest.param("iopoll", "exec"),
]


def submit_writes(path, entry):
    """Submits writes of one block each, of which DEPTH are in flight at a time. @entry is the kind
    of ring or SQE that submits them. Returns objects that the caller must keep alive."""
    file, ring = SlotFile(path, COMMANDS), Ring(64, SETUPS.get(entry, 0))
    memory = Memory(BLOCK)
    memory[:] = DATA
    assert file.lend(0, memory) == 0
    file.prepare([write(lba, timeout_ms=TIMEOUT_MS) for lba in range(COMMANDS)])
    fd, flags = file.fd, 0
    if entry in ("registered", "batch"):
        ring.register_file(file.fd)
        fd, flags = 0, SQE_FIXED_FILE
    if entry == "async":
        flags = SQE_ASYNC
    if entry == "batch":
        ring.push(fd, URING_BATCH, file.batch(range(COMMANDS)), flags=flags)
    else:
        for slot in range(COMMANDS):
            ring.push(fd, URING_RUN, run_of(slot), slot, flags)
    ring.submit()
    if fd == 0:
        file.close()
    return file, ring, memory


def written(path):
    """Returns how many of the blocks have been written. No command may be in flight."""
    with SgDev(path) as dev:
        data = dev.cmd(cdb.blocks(cdb.READ_10, 0, COMMANDS), din=COMMANDS * BLOCK).data
    return sum(data[at:at + BLOCK] == DATA for at in range(0, len(data), BLOCK))


@pytest.mark.limit(90)
@pytest.mark.timing
@pytest.mark.parametrize("entry, how", WAYS)
def test_waiting_commands_of_an_ended_process_are_not_sent(request, entry, how):
    """While some of its commands are in flight and others wait, a process exits, is killed or
    executes another program. The waiting commands are not sent."""
    device = request.getfixturevalue("polled" if entry == "iopoll" else "device")
    device.slow(round(SERVICE * 1e9))
    died = mmap.mmap(-1, mmap.PAGESIZE)

    def work():
        keep = submit_writes(device.path, entry)
        wait_for("commands waiting", lambda: smqsg.attr(device.path, "waiting"))
        struct.pack_into("<d", died, 0, time.monotonic())
        if how == "exec":
            os.execv("/bin/true", ["true"])
        if how == "SIGKILL":
            os.kill(os.getpid(), signal.SIGKILL)
        os._exit(len(keep) - 3)
    began = time.monotonic()
    pid = spawn(work)
    assert ended(pid, 60) == (-signal.SIGKILL if how == "SIGKILL" else 0)
    # The process is reaped only after its commands in flight have ended.
    assert time.monotonic() - struct.unpack_from("<d", died)[0] < SERVICE + LATE * TIME_FACTOR
    rounds = 1 + (time.monotonic() - began) // SERVICE
    wait_for("nothing waiting", lambda: not smqsg.attr(device.path, "waiting"), LATE)
    # In each round of SERVICE seconds DEPTH commands are sent. At worst the last of these rounds
    # began just before the process ended.
    most = round(DEPTH * rounds)
    start = time.monotonic()
    device.idle()
    assert time.monotonic() - start < SERVICE + LATE * TIME_FACTOR
    device.slow(0)
    assert DEPTH <= written(device.path) <= most < COMMANDS


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
