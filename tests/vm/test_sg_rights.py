# SPDX-License-Identifier: GPL-2.0
# on: uml sanitize 7.2
"""A caller's rights: in which direction it may move data, how much memory it may pin, which
operations it may call, and whose slots it may use."""
import ctypes
import errno
import fcntl
import mmap
import os
import resource
import struct
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from kit import cdb, sgheader, smqsg
from kit.adhoc import push_adhoc
from kit.child import as_nobody, become_nobody, ended, spawn
from kit.host import run
from kit.lio import Wwn, lio_fabric, ramdisk
from kit.memory import PAGE, Memory
from kit.sgio import DID_ERROR, SgDev
from kit.slots import (BLOCK, IN, OUT, URING_BATCH, URING_RUN, SlotFile, command, read, run_of,
                       write)
from kit.uring import SETUP_CQE32, SETUP_SQE128, Ring

READ, WRITE = cdb.blocks(cdb.READ_10, 7, 1), cdb.blocks(cdb.WRITE_10, 7, 1)
OURS = b"\xcd" * BLOCK


# Data whose direction is opposite to the opcode's.

@contextmanager
def _ram(device):
    yield device.lun


@contextmanager
def _lio(_):
    with ramdisk("rd") as store, lio_fabric(io_errors=True):
        wwn = Wwn()
        yield wwn.tpg().disk(0, store)
        wwn.remove()


def _adhoc(fd, raw, data):
    """Sends an ad hoc command with data-out; returns its result."""
    area = Memory(PAGE)
    area[:len(data)] = data
    with Ring(flags=SETUP_SQE128 | SETUP_CQE32) as ring:
        keep = push_adhoc(ring, fd, raw, memory=area, length=len(data), out=True)
        ring.submit()
        result = ring.wait(1)[0][1]
    del keep
    return result


@pytest.mark.smoke
@pytest.mark.parametrize("disk_of", (_ram, _lio), ids=["ram", "lio"])
def test_read_with_data_out_writes_nothing(device, disk_of):
    """LIO would execute a READ with data-out as a WRITE. A user without privileges cannot send such
    a READ, and smq_lio never passes it on to LIO."""
    with disk_of(device) as lun:
        node = smqsg.node(lun)
        os.chmod(node, 0o666)

        def work():
            with SgDev(node, os.O_RDONLY) as dev:
                assert dev.cmd(READ, din=BLOCK).good
                for raw in (READ, WRITE):
                    with pytest.raises(PermissionError):
                        dev.cmd(raw, dout=OURS)
            for access in (os.O_RDONLY, os.O_RDWR):
                with SlotFile(node, 2, flags=access) as file:
                    assert file.lend(0, Memory(PAGE)) == 0
                    assert file.try_prepare([command(READ, OUT, BLOCK)]) == (errno.EPERM, 0)
                    assert file.try_prepare([command(WRITE, IN, BLOCK)]) == (errno.EPERM, 0)
                    assert _adhoc(file.fd, READ, OURS) == -errno.EPERM
                    # A command with its opcode's direction can still be prepared.
                    assert file.try_prepare([read(7)]) == (0, 1)
            return 0
        assert as_nobody(work) == 0
        # A privileged caller may send such a READ, but the LLD refuses it.
        for path in (node, lun.sd):
            with SgDev(path) as dev:
                assert dev.cmd(READ, dout=OURS).host == DID_ERROR
                assert dev.cmd(WRITE, din=BLOCK).host == DID_ERROR
                assert dev.cmd(READ, din=BLOCK).data == bytes(BLOCK)
                assert dev.cmd(WRITE, dout=bytes(BLOCK)).good
        with SlotFile(node, 2) as file:
            assert file.lend(0, Memory(PAGE)) == 0
            file.prepare([command(READ, OUT, BLOCK)])
            assert file.run_one(0).result >> 8 & 0xff == DID_ERROR


def _send_command(fd, raw, data=b"", length=0):
    """Calls SCSI_IOCTL_SEND_COMMAND; returns its errno, or the command's result."""
    request = struct.pack("<II", len(data), length) + raw + data
    try:
        return fcntl.ioctl(fd, 1, bytearray(request.ljust(BLOCK + 128, b"\0")))
    except OSError as error:
        return -error.errno


def _send_packet(fd, raw, data):
    """Calls CDROM_SEND_PACKET with data-out; returns its errno, or the ioctl's value."""
    memory = Memory(PAGE)
    memory[:len(data)] = data
    request = raw.ljust(16, b"\0")[:12].ljust(16, b"\0") + struct.pack(
        "<QIiQBxxxiiiQQ", memory.address, len(data), 0, 0, 1, 0, 0, 0, 0, 0)
    try:
        return fcntl.ioctl(fd, 0x5393, bytearray(request))
    except OSError as error:
        return -error.errno


@pytest.mark.parametrize("access", (os.O_RDONLY, os.O_RDWR), ids=["read", "write"])
def test_other_ioctls_refuse_unprivileged_callers(device, access):
    """A user without privileges gets EPERM from the ioctls that the mid-layer handles. The
    mid-layer would let a READ with data-out pass: it checks only the opcode. It also reads the
    opcode from the caller's memory again, which may have changed since a check by smq_sg."""
    os.chmod(device.path, 0o666)

    def work():
        fd = os.open(device.path, access)
        assert _send_command(fd, READ, OURS) == -errno.EPERM
        assert _send_command(fd, cdb.plain(cdb.TEST_UNIT_READY)) == -errno.EPERM
        assert _send_packet(fd, READ, OURS) == -errno.EPERM
        return 0
    assert as_nobody(work) == 0
    with SgDev(device.path) as dev:
        assert _send_command(dev.fd, cdb.plain(cdb.TEST_UNIT_READY)) == 0


# Service actions that have an effect, and some that only report. READ BUFFER (3Ch) has modes.
ACTING = ("9e18", "9e19", "9e1a", "9e14", "9e15", "9508", "a31f", "a300", "3c1c", "3c1a", "4d01",
          "9f0a", "a40a", "9410", "ab01", "a91f")
REPORTING = ("9e10", "9e12", "9500", "a30c", "3c03", "4d00", "1200")


def _by_slot(node, access, raw):
    with SlotFile(node, 1, flags=access) as file:
        assert file.lend(0, Memory(PAGE)) == 0
        return file.try_prepare([command(raw, IN, BLOCK)])[0]


def _by_adhoc(node, access, raw):
    area = Memory(PAGE)
    with SlotFile(node, flags=access) as file, Ring(flags=SETUP_SQE128 | SETUP_CQE32) as ring:
        keep = push_adhoc(ring, file.fd, raw, memory=area, length=BLOCK)
        ring.submit()
        result = ring.wait(1)[0][1]
        del keep
        return max(-result, 0)


def _by_header(call, header):
    def work(node, access, raw):
        with smqsg.opened(node, flags=access) as (fd,):
            answer = call(fd, header(raw, din=BLOCK), sgheader.Arena(16 * PAGE))
            return getattr(answer, "error", answer)
    return work


WAYS = {"slot": _by_slot, "adhoc": _by_adhoc,
        "sg_io": _by_header(sgheader.sg_io, sgheader.V3),
        "sg_io_v4": _by_header(sgheader.sg_io, sgheader.V4),
        "write": _by_header(sgheader.write, sgheader.V3)}


@pytest.mark.smoke
@pytest.mark.parametrize("way", WAYS)
def test_service_actions_that_have_an_effect_need_rights(device, way):
    """A user without privileges may send service actions that report something, from a file open
    for reading, and none that have an effect, even if the file is open for writing."""
    os.chmod(device.path, 0o666)

    def work():
        for access in (os.O_RDONLY, os.O_RDWR):
            # write() needs a file that is open for writing.
            if way == "write" and access == os.O_RDONLY:
                continue
            for text in (*ACTING, *REPORTING):
                raw = bytes.fromhex(text).ljust(cdb.length(int(text[:2], 16)), b"\0")
                expected = errno.EPERM if text in ACTING else 0
                assert WAYS[way](device.path, access, raw) == expected, (text, access)
        return 0
    assert as_nobody(work) == 0
    # With rights they reach the device.
    assert WAYS[way](device.path, os.O_RDWR, bytes.fromhex("9e18").ljust(16, b"\0")) == 0


# ioctls that make the mid-layer send a command or, if it does not know them, call the LLD.
IOCTLS = {"START_UNIT": 5, "STOP_UNIT": 6, "DOORLOCK": 0x5380, "DOORUNLOCK": 0x5381,
          "CDROMEJECT": 0x5309, "CDROMCLOSETRAY": 0x5319, "of the LLD": 0x31f}


@pytest.mark.parametrize("name", IOCTLS)
def test_ioctls_need_the_rights_of_their_command(device, name):
    """START STOP UNIT and PREVENT ALLOW MEDIUM REMOVAL need rights, so do the ioctls for them."""
    os.chmod(device.path, 0o666)

    def call(access=os.O_RDWR, number=IOCTLS[name]):
        with smqsg.opened(device.path, flags=access) as (fd,):
            try:
                fcntl.ioctl(fd, number, 0)
            except OSError as error:
                return error.errno
            return 0

    assert as_nobody(call) == as_nobody(lambda: call(os.O_RDONLY)) == errno.EPERM
    # SCSI_IOCTL_GET_PCI, which sends no command, needs none, and a user with rights may do all.
    assert as_nobody(lambda: call(number=0x5387)) != errno.EPERM
    assert call() != errno.EPERM


# Memory.

def _pinned():
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmPin:"):
            return int(line.split()[1]) // 4
    return -1


def _limit(pages):
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (pages * PAGE,) * 2)


@pytest.mark.parametrize("limit", (0, 8))
def test_memlock_limits_lent_memory(device, limit):
    """Lent memory counts as pinned until it is taken back. RLIMIT_MEMLOCK limits how much an
    unprivileged caller can lend."""
    def work():
        area = Memory(16 * PAGE)
        # For a privileged caller there is no limit.
        _limit(limit)
        with SlotFile(device.path, 8) as file:
            assert file.lend(9, area) == 0 and _pinned() == 16
            assert file.take_back(9) == 0 and _pinned() == 0
        file = SlotFile(device.path, 8)
        become_nobody()
        assert file.lend(0, area, length=(limit + 1) * PAGE) == errno.ENOMEM and _pinned() == 0
        if not limit:
            return 0
        # A page counts as a whole, even if only a part of it is lent.
        assert file.lend(0, area, 1, limit * PAGE) == errno.ENOMEM
        assert file.lend(0, area, 1, 3 * PAGE) == 0 and _pinned() == 4
        assert file.lend(1, area, length=4 * PAGE) == 0 and _pinned() == 8
        assert file.lend(2, area, length=1) == errno.ENOMEM
        assert file.take_back(0) == 0 and _pinned() == 4
        assert file.lend(0, area, length=1) == 0
        file.close()
        assert _pinned() == 0
        return 0
    assert ended(spawn(work)) == 0


def test_buffers_stay_pinned_after_their_lender_has_ended(device):
    """Buffers belong to the file: they stay pinned when the process that lent them has ended."""
    os.chmod(device.path, 0o666)

    def work():
        _limit(8)
        with SlotFile(device.path, 8) as file:
            def lend():
                return file.lend(index, Memory(3 * PAGE))
            found = []
            for index in range(4):
                found.append(ended(spawn(lend)))
            assert found == [0, 0, errno.ENOMEM, errno.ENOMEM]
            assert file.lend(9, Memory(3 * PAGE)) == errno.ENOMEM
            assert file.take_back(0) == 0
            assert file.lend(9, Memory(3 * PAGE)) == 0
            # Buffers also stay pinned if the lender executes another program that has the file
            # open, and that program ends.
            code = "import os, sys; os.fstat(int(sys.argv[1])); os._exit(0)"

            def change():
                os.set_inheritable(file.fd, True)
                assert file.take_back(9) == 0 and file.lend(8, Memory(3 * PAGE)) == 0
                os.execv(sys.executable, [sys.executable, "-c", code, str(file.fd)])
            assert ended(spawn(change)) == 0
            assert file.lend(9, Memory(3 * PAGE)) == errno.ENOMEM
        with SlotFile(device.path, 8) as file:
            assert file.lend(0, Memory(8 * PAGE)) == 0
        return 0
    assert as_nobody(work) == 0


def test_results_that_nobody_reads_pin_no_more_than_the_limit(device):
    """Data of write() stays pinned until read() fetches the result. Beyond RLIMIT_MEMLOCK it is
    copied, and not pinned."""
    commands, pages = 12, 4
    os.chmod(device.path, 0o666)

    def work():
        _limit(3 * pages)
        arena = sgheader.Arena(PAGE * (pages + 1))
        want = sgheader.V3(cdb.blocks(cdb.READ_10, 0, pages * PAGE // BLOCK), din=pages * PAGE,
                           flags=sgheader.FLAG_DIRECT_IO)
        with smqsg.opened(device.path) as (fd,):
            for _ in range(2):
                for _ in range(commands):
                    assert sgheader.write(fd, want, arena) == 0
                read = [sgheader.read(fd, want, arena) for _ in range(commands)]
                assert not any(answer.error or answer.fields["status"] for answer in read)
                # This one's data is copied by read().
                assert read[-1].data == bytes(pages * PAGE)
                direct = [answer.fields["info"] & sgheader.INFO_DIRECT for answer in read]
                # The commands that were read first are those that were sent first.
                assert sum(map(bool, direct)) == 3, direct
            # A command of SG_IO, whose caller sleeps meanwhile, is not counted.
            for _ in range(commands):
                assert sgheader.write(fd, want, arena) == 0
            answer = sgheader.sg_io(fd, want, arena)
            assert answer.fields["info"] & sgheader.INFO_DIRECT
        return 0
    assert as_nobody(work) == 0


class _Mapping:
    def __init__(self, path, flags):
        with open(path, "r+b") as file:
            self.area = mmap.mmap(file.fileno(), PAGE, flags=flags)
        self.size = PAGE

    @property
    def address(self):
        """The address of the mapping."""
        first = ctypes.c_char.from_buffer(self.area)
        try:
            return ctypes.addressof(first)
        finally:
            del first


@pytest.mark.not_uml("it has no ext4")
def test_file_memory_cannot_be_lent_for_data_in(device, tmp_path):
    """Memory of a file cannot be lent for data-in: the device would write to pages that the file
    system has written back and considers clean."""
    run("mkfs.ext4", "-q", "-F", device.lun.sd)
    there = tmp_path / "there"
    there.mkdir()
    run("mount", "-t", "ext4", device.lun.sd, there)
    try:
        path, shm = there / "file", Path("/dev/shm/smq_sg_rights")
        for name in (path, shm):
            name.write_bytes(bytes(PAGE))
        with SlotFile(device.path, 8) as file:
            assert file.lend(0, _Mapping(path, mmap.MAP_SHARED)) in (errno.EOPNOTSUPP, errno.EFAULT)
            # These can be lent: a private mapping, which is copied at its first write; memory
            # without a disk behind it; and memory that the device only reads.
            assert file.lend(0, _Mapping(path, mmap.MAP_PRIVATE)) == 0
            assert file.lend(1, _Mapping(shm, mmap.MAP_SHARED)) == 0
            assert file.lend(2, _Mapping(path, mmap.MAP_SHARED), flags=1) == 0
        shm.unlink()
    finally:
        run("umount", there)


# Operations, and owners.

@pytest.mark.smoke
def test_unknown_operations_are_refused(device):
    """An unknown operation is refused. Its payload is not executed as an ad hoc command."""
    area = Memory(PAGE)
    area[:BLOCK] = OURS
    unknown = URING_BATCH + 1
    with SlotFile(device.path, 8) as file, \
            Ring(flags=SETUP_SQE128 | SETUP_CQE32) as ring:
        assert file.lend(0, area) == 0
        file.prepare([read(7)])
        for cmd_op in (unknown, URING_RUN & ~0xff | 0x7f, URING_RUN ^ 1 << 16):
            keep = push_adhoc(ring, file.fd, WRITE, 5, area, 0, BLOCK, out=True, cmd_op=cmd_op)
            ring.submit()
            assert ring.wait(1) == [(5, -errno.EOPNOTSUPP)], hex(cmd_op)
            del keep
        ring.push(file.fd, URING_RUN, run_of(0), 6)
        ring.submit()
        assert ring.wait(1) == [(6, 0)]
        assert area[:BLOCK] == bytes(BLOCK)


def test_failed_prepare_claims_no_slots(device):
    """A failed prepare does not make the caller the owner of the slots. If it did, a process that
    shares the descriptor could keep the process that opened the file from using the slots."""
    def work():
        assert file.try_prepare([command(bytes([0xc1, *bytes(9)]))]) == (errno.EPERM, 0)
        assert file.try_prepare([command(b"\0" * 6, IN, 0)])[0] == errno.EINVAL
        return 0
    with SlotFile(device.path, 8) as file:
        assert as_nobody(work) == 0
        assert file.lend(0, Memory(PAGE)) == 0
        file.prepare([read(0), write(1)])
        assert file.run(range(2)) == (0, 0)
        assert as_nobody(lambda: file.try_prepare([read(0)])[0]) == errno.EPERM


def test_owner_s_slots_use_no_memory_of_others(device):
    """The caller that lends the first buffer owns the slots: another user who has the descriptor
    cannot put memory of its own in the place of that buffer before a slot is prepared."""
    def work():
        assert file.take_back(0) == errno.EPERM
        assert file.lend(1, Memory(PAGE)) == errno.EPERM
        assert file.try_prepare([read(0)]) == (errno.EPERM, 0)
        return 0
    with SlotFile(device.path, 8) as file:
        area = Memory(PAGE)
        area[:BLOCK] = OURS
        assert file.lend(0, area) == 0
        assert as_nobody(work) == 0
        file.prepare([read(7)])
        assert file.run_one(0).result == 0 and area[:BLOCK] == bytes(BLOCK)
