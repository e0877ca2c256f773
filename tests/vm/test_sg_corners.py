# SPDX-License-Identifier: GPL-2.0
# on: uml sanitize 7.2
"""Prepared commands in flight while their slots are prepared again, their process gets a signal,
forks or executes another program; files that are passed on, or opened exclusively.
test_sg_events.py has what happens to commands on each way of sending them."""
import ctypes
import errno
import mmap
import os
import select
import signal
import socket
import sys
import threading

import pytest
from kit import cdb, sgio, smqsg
from kit.child import FAILED, become_nobody, ended, spawn
from kit.host import ModuleError, unload, wait_for
from kit.memory import PAGE, Memory
from kit.slots import BLOCK, SlotFile, command, read, write
from kit.slowdisk import DEPTH, SLOW, opened
from kit.uring import Ring

TUR = cdb.plain(cdb.TEST_UNIT_READY)


# In flight.

@pytest.mark.smoke
def test_slot_in_flight_is_busy(device):
    """A slot in flight can neither be prepared nor run, and its buffer cannot be taken back."""
    with opened(device.path) as file, Ring() as ring:
        device.slow()
        file.push(ring, 3)
        ring.submit()
        wait_for("a command in flight", lambda: smqsg.attr(device.path, "inflight") == 1)
        assert file.try_prepare([read(1), read(2), read(9)], 2) == (errno.EBUSY, 1)
        assert file.try_prepare([command(b"")], 3) == (errno.EBUSY, 0)
        assert file.take_back(0) == errno.EBUSY
        file.push(ring, 3)
        file.push(ring, 5)
        file.push_batch(ring, [3, 6], 100)
        ring.submit()
        assert sorted(ring.wait(4)) == sorted([(3, -errno.EBUSY), (3, 0), (5, 0), (100, 1)])
        assert file.status(3).result == 0 and file.status(3).runs == 1
        file.prepare([read(9)], 3)
        device.slow(0)
        assert file.run_one(3).runs == 2


def test_other_buffer_can_be_taken_back_in_flight(device):
    """A run may use another buffer than its slot does. That other buffer can be taken back during
    the run: its pages stay pinned until the run ends."""
    with opened(device.path) as file, Ring() as ring:
        other = Memory(PAGE)
        other[:] = b"\xa5" * PAGE
        assert file.lend(1, other) == 0
        device.slow()
        file.push(ring, 0, flags=1 << 1, buffer=1)
        ring.submit()
        wait_for("a command in flight", lambda: smqsg.attr(device.path, "inflight") == 1)
        assert file.take_back(1) == 0
        assert ring.wait(1) == [(0, 0)]
        assert other[:BLOCK] == bytes(BLOCK)


def test_slots_use_lent_pages_after_munmap(device):
    """After munmap() slots still use the pages that were lent. They do not touch other memory that
    is mapped at the same address later."""
    with opened(device.path) as file:
        area = Memory(PAGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        area[:BLOCK] = b"\x77" * BLOCK
        assert file.lend(1, area) == 0
        file.prepare([write(9, buffer=1), read(10, buffer=1), read(9)])
        where = area.address
        libc = ctypes.CDLL(None)
        assert libc.munmap(ctypes.c_void_p(where), ctypes.c_size_t(PAGE)) == 0
        libc.mmap.restype = ctypes.c_void_p
        fresh = libc.mmap(ctypes.c_void_p(where), ctypes.c_size_t(PAGE), 3, 0x32, -1,
                          ctypes.c_long(0))
        assert fresh == where
        ctypes.memset(where, 0x11, PAGE)
        assert file.run_one(0).result == 0 and file.run_one(2).result == 0
        assert file.memory[:BLOCK] == b"\x77" * BLOCK
        assert file.run_one(1).result == 0
        assert ctypes.string_at(where, PAGE) == b"\x11" * PAGE


@pytest.mark.smoke
def test_ring_completions_do_not_interrupt_a_run(device):
    """If commands in the same thread's ring complete during SMQ_SG_RUN, that does not interrupt
    it."""
    with opened(device.path) as file, Ring() as ring:
        device.slow(SLOW // 8)
        for what in (range(8, 12), range(8, 24), list(range(8, 24))):
            for slot in range(4):
                file.push(ring, slot)
            ring.submit()
            assert file.run(what) == (0, 0)
            assert sorted(ring.wait(4)) == [(slot, 0) for slot in range(4)]


@pytest.mark.smoke
def test_signal_ends_a_run_with_eintr(device):
    """A signal ends SMQ_SG_RUN with EINTR. Commands in flight complete, and waiting commands are
    not sent."""
    main = threading.main_thread().ident
    before = signal.signal(signal.SIGUSR1, lambda *_: None)
    signal.siginterrupt(signal.SIGUSR1, True)
    try:
        # In turn: all runs are in flight, some wait (first a range, then a list), most wait.
        for what in (range(DEPTH), range(12), list(range(3, 20)), range(64)):
            with opened(device.path) as file:
                # The commands in flight are slower than a busy machine.
                device.slow(4 * SLOW)
                timer = threading.Timer(SLOW / 3e9, signal.pthread_kill, (main, signal.SIGUSR1))
                timer.start()
                assert file.run(what)[0] == errno.EINTR
                timer.join()
                slots = list(what)
                for slot in slots[DEPTH:]:
                    status = file.status(slot)
                    assert (status.result, status.runs) == (-errno.ECANCELED, 0)
                device.idle()
                assert [file.status(slot).runs for slot in slots[:DEPTH]] == [1] * DEPTH
                assert {file.status(slot).result for slot in slots[:DEPTH]} == {0}
                device.slow(0)
                assert file.run(what) == (0, 0)
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_slots_that_a_child_runs_use_its_parents_memory(device):
    """A child process runs its parent's slots: the data gets into the parent's memory. When the
    child has ended, the parent can run the slots as before."""
    with opened(device.path) as file, Ring() as ring:
        assert sgio_write(device, 0, b"\x5a" * BLOCK)
        device.slow()
        file.push(ring, 1)
        ring.submit()

        def work():
            file.memory[:BLOCK] = b"\x01" * BLOCK
            if file.run([0]) != (0, 0) or file.status(0).runs != 1:
                return 1
            return 0 if file.memory[:BLOCK] == b"\x01" * BLOCK else 2
        assert ended(spawn(work)) == 0
        assert ring.wait(1) == [(1, 0)]
        assert file.memory[:BLOCK] == b"\x5a" * BLOCK
        device.slow(0)
        assert file.run(range(64)) == (0, 0)


def sgio_write(device, lba, data):
    """Writes @data by SG_IO of sg's node. Returns true if the command ended GOOD."""
    with sgio.SgDev(device.lun.sg) as dev:
        return dev.cmd(cdb.blocks(cdb.WRITE_10, lba, len(data) // BLOCK), dout=data).good


@pytest.mark.parametrize("kept", (True, False))
def test_new_program_sees_the_status_of_a_kept_file(device, kept):
    """If a file stays open during exec, the new program can read the slots' status from it.
    Otherwise exec closes the file, even with commands in flight."""
    code = ("import mmap, struct, sys; m = mmap.mmap(int(sys.argv[1]), 4096, mmap.MAP_SHARED, "
            "mmap.PROT_READ); sys.exit(40 + struct.unpack_from('<iII', m)[2])")

    def work():
        file = SlotFile(device.path, 8)
        file.memory = Memory(PAGE)
        file.lend(0, file.memory)
        file.prepare([read(slot) for slot in range(8)])
        if file.run(range(1)) != (0, 0):
            return 98
        device.slow(SLOW // 2)
        ring = Ring()
        for slot in range(1, 8):
            file.push(ring, slot)
        ring.submit()
        os.set_inheritable(file.fd, kept)
        if kept:
            os.execv(sys.executable, [sys.executable, "-c", code, str(file.fd)])
        os.execv("/bin/true", ["true"])
        return 97
    # The new program exits with 40 plus the number of runs of slot 0, which is 1.
    assert ended(spawn(work), 30) == (41 if kept else 0)
    device.idle()


# Permissions, and other open files.


def test_slots_of_a_passed_file_keep_their_owner(device):
    """If a file is passed to another user by SCM_RIGHTS, its slots still belong to their owner."""
    ours, theirs = socket.socketpair(socket.AF_UNIX)

    def work():
        become_nobody()
        _, fds, _, _ = socket.recv_fds(theirs, 1, 1)
        file = SlotFile.__new__(SlotFile)
        file.__dict__.update(path="", stride=112, status_map=None, fd=fds[0], _lists=[])
        if file.run(range(1))[0] != errno.EPERM:
            return 1
        if file.try_prepare([command(TUR)])[0] != errno.EPERM:
            return 2
        # The owner's runs may name any buffer, so other users may neither lend nor take back one.
        if file.lend(5, Memory(PAGE)) != errno.EPERM or file.take_back(0) != errno.EPERM:
            return 4
        with Ring() as ring:
            file.push(ring, 0)
            file.push_batch(ring, range(1), 1)
            ring.submit()
            if sorted(ring.wait(2)) != [(0, -errno.EPERM), (1, -errno.EPERM)]:
                return 3
        return 0
    with opened(device.path, 8) as file:
        pid = spawn(work)
        socket.send_fds(ours, [b"x"], [file.fd])
        assert ended(pid) == 0
        assert file.status(0).result == file.status(0).runs == 0
        assert file.run(range(8)) == (0, 0)
    ours.close()
    theirs.close()


def test_exclusive_open_excludes_other_opens(device):
    with SlotFile(device.path):
        with pytest.raises(OSError, match="busy"):
            SlotFile(device.path, flags=os.O_RDWR | os.O_EXCL | os.O_NONBLOCK)
    with SlotFile(device.path, flags=os.O_RDWR | os.O_EXCL):
        for flags in (os.O_RDWR, os.O_RDONLY, os.O_RDWR | os.O_EXCL):
            with pytest.raises(OSError, match="busy"):
                SlotFile(device.path, flags=flags | os.O_NONBLOCK)
    with pytest.raises(PermissionError):
        SlotFile(device.path, flags=os.O_RDONLY | os.O_EXCL)
    SlotFile(device.path).close()


def open_beside(other, flags):
    """Starts a process that opens the node of @other. Returns its pid, and a function that returns
    whether the process has opened the node within some seconds."""
    told, tell = os.pipe()

    def work():
        os.close(told)
        # This process inherited a descriptor of @other, which would keep that file open.
        other.close()
        with SlotFile(other.path, flags=flags):
            os.write(tell, b"x")
        return 0
    pid = spawn(work)
    os.close(tell)
    return pid, lambda seconds: bool(select.select([told], [], [], seconds)[0])


@pytest.mark.smoke
@pytest.mark.parametrize("first, second", ((0, os.O_EXCL), (os.O_EXCL, 0),
                                           (os.O_EXCL, os.O_EXCL)))
def test_exclusive_open_waits_for_close(device, first, second):
    """If one of two opens has O_EXCL, the second one waits until the first file is closed."""
    with SlotFile(device.path, flags=os.O_RDWR | first) as other:
        pid, has_opened = open_beside(other, os.O_RDWR | second)
        assert not has_opened(0.3)
    assert has_opened(5) and ended(pid) == 0
    # A signal ends the wait.
    with SlotFile(device.path, flags=os.O_RDWR | first) as other:
        pid, has_opened = open_beside(other, os.O_RDWR | second)
        assert not has_opened(0.3)
        os.kill(pid, signal.SIGTERM)
        assert ended(pid) == -signal.SIGTERM
    SlotFile(device.path, flags=os.O_RDWR | os.O_EXCL).close()


def test_waiting_open_fails_when_the_device_is_removed(device):
    with SlotFile(device.path, flags=os.O_RDWR | os.O_EXCL) as other:
        pid, has_opened = open_beside(other, os.O_RDWR)
        assert not has_opened(0.3)
        (device.lun.sysfs / "delete").write_text("1", encoding="ascii")
        # In the child ENXIO raises an exception.
        assert ended(pid) == FAILED


def test_modules_cannot_be_unloaded_while_a_file_is_open(device):
    """Neither smq_sg nor the host's module can be unloaded while a file is open."""
    with opened(device.path) as file:
        for module in ("smq_sg", "smq_ram"):
            with pytest.raises(ModuleError, match="in use"):
                unload(module, 0)
        assert file.run(range(64)) == (0, 0)
