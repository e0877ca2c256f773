# SPDX-License-Identifier: GPL-2.0
# vm: --cpus 4
# on: uml sanitize
"""Polled rings under load, while faults, resets, kills, changes of the depth and removals end
commands or make them wait."""
import errno
import os
import random
import signal
import time
from contextlib import ExitStack

import pytest
from kit import sgio, smqsg
from kit.child import ended, running, spawn
from kit.fiojob import load_on
from kit.host import settle, wait_for
from kit.memory import PAGE, Memory
from kit.ramdir import ram_host
from kit.sanitizing import UML
from kit.slots import BLOCK, SlotFile, read, write
from kit.uring import SETUP_DEFER_TASKRUN, SETUP_IOPOLL, SETUP_SINGLE_ISSUER, SETUP_SQPOLL, Ring

SLOTS = 32
SECONDS = 8
# The setup flags of the workers' rings. All rings are polled except the last.
KINDS = (0, 0, SETUP_SINGLE_ISSUER | SETUP_DEFER_TASKRUN, SETUP_SQPOLL, None)
# mmap flags of memory that a process shares with its children.
SHARED = 1 | 0x20


def data_of(worker: int, turn: int, block: int) -> bytes:
    """Returns the data that a worker writes to a block in a turn."""
    return b"%8d%8d%8d........" % (worker, turn, block) * (BLOCK // 32)


class Worker:
    """Writes its own blocks and reads them back, through one ring, by a random mix of single runs
    and batches."""

    def __init__(self, number: int, file: SlotFile, ring: Ring, polled: bool):
        self.number, self.file, self.ring, self.polled = number, file, ring, polled
        self.rand = random.Random(number)
        self.memory = Memory(SLOTS * BLOCK)
        assert file.lend(0, self.memory) == 0
        first = 1024 + number * SLOTS
        file.prepare([write(first + at, offset=at * BLOCK, timeout_ms=3000)
                      for at in range(SLOTS)])
        file.prepare([read(first + at, offset=at * BLOCK, timeout_ms=3000)
                      for at in range(SLOTS)], SLOTS)

    def run(self, first: int) -> list[bool]:
        """Runs SLOTS slots from @first on, each once. Returns which of them ended GOOD."""
        before = [self.file.status(first + at).runs for at in range(SLOTS)]
        at, sent = 0, 0
        while at < SLOTS:
            count = min(self.rand.choice((1, 1, 2, 16)), SLOTS - at)
            if count == 1:
                self.file.push(self.ring, first + at)
            else:
                self.file.push_batch(self.ring, range(first + at, first + at + count), 1000)
            at, sent = at + count, sent + 1
            if self.rand.random() < 0.3:
                self.ring.submit()
        self.ring.submit()
        self.ring.wait(sent, 60, spin=self.polled and self.rand.random() < 0.7)
        states = [self.file.status(first + at) for at in range(SLOTS)]
        for old, state in zip(before, states, strict=True):
            assert state.result >= 0 and state.runs == old + 1, (old, state)
        return [state.result == 0 for state in states]

    def turn(self, turn: int) -> None:
        """Writes and reads all blocks. Compares those whose write and read both ended GOOD."""
        for at in range(SLOTS):
            self.memory[at * BLOCK:(at + 1) * BLOCK] = data_of(self.number, turn, at)
        written = self.run(0)
        self.memory[:] = bytes(self.memory.size)
        for at, good in enumerate(self.run(SLOTS)):
            if good and written[at]:
                assert self.memory[at * BLOCK:(at + 1) * BLOCK] == data_of(self.number, turn, at)


def work(number: int, path: str, stop: Memory, least: int) -> int:
    """Runs a worker until @stop is set, but for at least @least turns. A process does only this;
    the returned value is its exit status."""
    kind = KINDS[number % len(KINDS)]
    flags = 0 if kind is None else kind | SETUP_IOPOLL
    with SlotFile(path, 2 * SLOTS) as file, Ring(64, flags) as ring:
        worker, turn = Worker(number, file, ring, bool(flags)), 0
        while not stop[0] or turn < least:
            worker.turn(turn)
            turn += 1
    return 0


def trouble(rand: random.Random, host_dir, lun, path: str, seconds: float) -> int:
    """Makes trouble for @seconds: each time changes the depth, arms a fault, resets the LUN or does
    none of these; then starts another worker and kills it. Returns how often."""
    end, count, stop = time.monotonic() + seconds, 0, Memory(PAGE, SHARED)
    while time.monotonic() < end:
        what = count % 5
        if what == 0:
            (lun.sysfs / "queue_depth").write_text(str(rand.choice((1, 2, 7, 16))),
                                                   encoding="ascii")
        elif what == 1:
            host_dir.arm("lost", count=1)
        elif what == 2:
            with sgio.SgDev(lun.sg) as dev:
                dev.reset(sgio.SG_SCSI_RESET_DEVICE)
        elif what == 3:
            host_dir.arm("task_set_full", count=3)
        pid = spawn(lambda: work(10 + rand.randrange(3), path, stop, 10000))
        time.sleep(rand.uniform(0.1, 0.5))
        os.kill(pid, signal.SIGKILL)
        assert ended(pid) == -signal.SIGKILL
        count += 1
    host_dir.set("fault/kind", "none")
    return count


@pytest.mark.limit(180)
@pytest.mark.parametrize("service_ns", (0, 100_000), ids=("ready", "served"))
def test_each_command_is_reported_once_under_faults_resets_and_kills(sg_module, service_ns):
    """Each command is reported once, with its data. At the end no command waits or is in flight."""
    stop = Memory(PAGE, SHARED)
    with ram_host(depth=16, poll_queues=2, timeout=20) as (host_dir, host), ExitStack() as stack:
        lun = host.luns()[0]
        path = smqsg.node(lun)
        host_dir.set("model/service_ns", service_ns)
        load = {"rw": "randread", "bs": 4096, "iodepth": 8, "size": "256k", "time_based": True,
                "runtime": 120, "ok": False}
        # On two CPUs that the host shares, still more programs would keep each other waiting.
        block = [] if UML else [
            stack.enter_context(load_on(lun.sd, ioengine="libaio", **load)),
            stack.enter_context(load_on(lun.sd, ioengine="io_uring", hipri=True, **load))]
        jobs = [stack.enter_context(running(lambda at=at: work(at, path, stop, 1)))[1]
                for at in range(len(KINDS))]
        count = trouble(random.Random(service_ns), host_dir, lun, path, SECONDS)
        stop[0:1] = b"x"
        assert [status(60) for status in jobs] == [0] * len(jobs)
        print(f"{count} troubles, {host.stats()['timeouts']} timeouts")
        for job in block:
            job.kill()
        wait_for("an idle node", lambda: not smqsg.attr(path, "waiting") and
                 not smqsg.attr(path, "inflight"))
        # A lost command of block I/O ends when its timeout expires.
        stats = settle(host, 40)
        assert stats["polled"] > 500
        smqsg.clear_attentions(lun.sg)
        # Slots still work.
        with SlotFile(path, 2 * SLOTS) as file, Ring(64, SETUP_IOPOLL) as ring:
            Worker(20, file, ring, True).turn(0)


@pytest.mark.limit(120)
def test_devices_are_removed_under_polled_load(sg_module):
    """Devices are removed while two processes run slots. One process polls all the time, the other
    sleeps until its commands end."""
    with ram_host(depth=16, poll_queues=2) as (host_dir, host):
        host_dir.set("model/service_ns", 300_000)
        for turn in range(6):
            host_dir.add_lun(1, size_mb=8)
            lun = host.wait_luns(2)[1]
            path, opened = smqsg.node(lun), Memory(PAGE, SHARED)

            def until_gone(spin, where=path, opened=opened):
                with SlotFile(where, SLOTS) as file, Ring(64, SETUP_IOPOLL) as ring:
                    opened[spin] = 1
                    memory = Memory(SLOTS * BLOCK)
                    assert file.lend(0, memory) == 0
                    file.prepare([read(at, offset=at * BLOCK) for at in range(SLOTS)])
                    while True:
                        for at in range(SLOTS):
                            file.push(ring, at)
                        ring.submit()
                        results = {res for _, res in ring.wait(SLOTS, 40, spin)}
                        if -errno.ENODEV in results:
                            return 0
                        assert all(res >= 0 for res in results), results
            with running(lambda: until_gone(True)) as (_, spinning), \
                    running(lambda: until_gone(False)) as (_, sleeping):
                wait_for("both processes to open the node",
                         lambda opened=opened: opened[:2] == b"\1\1")
                time.sleep(0.3)
                began = time.monotonic()
                if turn % 2:
                    host_dir.remove_lun(1)
                else:
                    (lun.sysfs / "delete").write_text("1", encoding="ascii")
                took = time.monotonic() - began
                assert spinning(40) == 0 and sleeping(40) == 0
            print(f"gone in {took * 1000:.0f} ms")
            if not turn % 2:
                host_dir.remove_lun(1)
