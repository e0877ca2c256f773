# SPDX-License-Identifier: GPL-2.0
# on: uml sanitize 7.2
"""/dev/smqsgN: what users and 32-bit programs may do, and what happens in SG_IO and read() when a
signal comes or the device is removed."""
import dataclasses
import errno
import fcntl
import os
import re
import select
import signal
import struct
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from kit import cdb, sgheader, smqsg
from kit.child import as_nobody, running
from kit.host import loaded, run, wait_for
from kit.sgheader import V3, V4, Arena
from kit.slots import SlotFile
from kit.slots import command as slot_of

TUR = cdb.plain(cdb.TEST_UNIT_READY)
READ = V3(cdb.blocks(cdb.READ_10, 0, 1), 512)
SET_KEEP_ORPHAN, GET_NUM_WAITING = 0x2287, 0x227d
TYPES = TAPE, CD, CHANGER, ENCLOSURE = 1, 5, 8, 13
# Commands of these types, with the length of their data-in.
OF_TYPES = {
    "050000000000": 6, "010000000000": 0, "080000020000": 512, "080100000100": 512,
    "100000000000": 0, "110000000100": 0, "34000000000000000000": 20, "03000000ff00": 255,
    "12000000ff00": 255, "12010000ff00": 255, "1a003f00ff00": 255, "5a003f0000000000ff00": 255,
    "4d004000000000010000": 256, "1c010100ff00": 255, "070000000000": 0,
    "b8000000ffff000000ff0000": 255, "a50000000000000000000000": 0, "43000000000000001200": 18,
    "51000000000000002200": 34, "46000000000000000800": 8, "bd0000000000000000080000": 8,
    "c0000000000000000000": 255, "25000000000000000000": 8, "a00000000000000000ff0000": 255}
# WRITE FILEMARKS and SPACE: since Linux 6.15 scsi_debug accepts them for other types, too, and then
# reads from an address that is 0.
OF_TAPES = "10", "11"


@pytest.fixture(scope="module")
def lun():
    """A disk of scsi_debug, with smq_sg."""
    with smqsg.module(), loaded("scsi_debug", io_errors=True, dev_size_mb=16, delay=0) as hosts:
        found = hosts[0].luns()[0]
        smqsg.clear_attentions(found.sg)
        yield found


@pytest.fixture
def path(lun):
    """The disk's node of smq_sg."""
    return smqsg.node(lun)


@pytest.fixture(scope="module")
def arena():
    """Memory for headers, CDBs, sense and data."""
    return Arena(64 << 10)


@pytest.fixture
def slow(path):
    """During the test, commands that move data take a second."""
    with smqsg.slow(0.999999999):
        yield
        smqsg.idle(path)


# Users.


@pytest.mark.smoke
def test_only_root_may_open_a_new_node(path):
    """A new node belongs to root, and only root may open it."""
    status = os.stat(path)
    assert (status.st_uid, status.st_gid, status.st_mode & 0o777) == (0, 0, 0o600)


# What a user may send to a disk with service action 0, from a file open for reading, and what else
# from one that is also open for writing. test_sg_rights.py has the other service actions.
READS = bytes.fromhex("00 03 08 12 1a 1c 25 28 2f 37 3c 3e 4d 5a 88 8f 95 a0 a8")
WRITES = bytes.fromhex("0a 2a 2e 35 3f 41 8a 93 aa ae")
# A write that the kernel's filter does not know.
WRITE_ATOMIC = 0x9c


def prepared(node, flags):
    """The opcodes that a user may prepare, without data."""
    with SlotFile(node, 1, flags=flags) as file:
        return {opcode for opcode in range(256)
                if not file.try_prepare([slot_of(bytes([opcode, *bytes(15)]))])[0]}


@pytest.mark.smoke
def test_table_of_opcodes(path):
    """To a disk a user may send reads, verifies, inquiries and, with write permission, writes. To a
    CD drive the user may send whatever the kernel's filter allows."""
    os.chmod(path, 0o666)

    def work():
        assert prepared(path, os.O_RDONLY) == set(READS)
        assert prepared(path, os.O_RDWR) == {*READS, *WRITES, WRITE_ATOMIC}
        return 0
    assert as_nobody(work) == 0


@contextmanager
def device_of_type(number):
    """The node of another host of scsi_debug, whose device has this type."""
    driver, nodes = Path("/sys/bus/pseudo/drivers/scsi_debug"), Path("/sys/class/smq_sg")

    def found():
        return [node.name for node in nodes.iterdir()
                if (node / "device/type").read_text(encoding="ascii").strip() == str(number)]
    (driver / "ptype").write_text(str(number), encoding="ascii")
    (driver / "add_host").write_text("1", encoding="ascii")
    try:
        yield f"/dev/{wait_for('the device', found)[0]}"
    finally:
        (driver / "add_host").write_text("-1", encoding="ascii")
        (driver / "ptype").write_text("0", encoding="ascii")
        wait_for("no such device", lambda: not found())


def test_table_of_opcodes_of_a_cd_drive(lun):
    """The filter was made for CD drives: there it applies unchanged."""
    assert lun
    with device_of_type(CD) as node:
        os.chmod(node, 0o666)

        def work():
            found = prepared(node, os.O_RDONLY)
            assert {0x48, 0xa4, 0x1b, 0xbe, *READS} <= found and not found & set(WRITES)
            found = prepared(node, os.O_RDWR)
            assert {0x04, 0xa1, *READS, *WRITES} <= found and WRITE_ATOMIC not in found
            return 0
        assert as_nobody(work) == 0


@pytest.mark.parametrize("number", TYPES, ids=("tape", "cd", "changer", "enclosure"))
def test_other_types_have_the_same_results_as_from_sg(lun, arena, number):
    """Commands of tapes and the like, with lengths that are no multiple of 4, end as on sg."""
    assert lun
    with device_of_type(number) as node:
        sg, = (smqsg.CLASS / Path(node).name / "device/scsi_generic").iterdir()
        smqsg.clear_attentions(f"/dev/{sg.name}")
        with smqsg.opened(f"/dev/{sg.name}", node) as fds:
            good = 0
            for text, size in OF_TYPES.items():
                if number != TAPE and text.startswith(OF_TAPES):
                    continue
                want = V3(bytes.fromhex(text), size)
                theirs, ours = (sgheader.sg_io(fd, want, arena) for fd in fds)
                # If the device writes nothing, sg copies what was in its own buffer.
                if set(ours.data) == {sgheader.FILL}:
                    theirs = dataclasses.replace(theirs, data=ours.data)
                assert ours == theirs, f"{text}\n sg    {theirs}\n smqsg {ours}"
                good += not ours.error and not ours.fields["status"]
            assert 0 < good < len(OF_TYPES)


@pytest.mark.smoke
def test_passed_descriptor_does_not_give_roots_rights(path, arena):
    """A user who is given root's descriptor cannot use read() or write(), and the command filter
    applies to that user."""
    with smqsg.opened(path) as (fd,):
        assert not sgheader.write(fd, V3(TUR), arena)
        smqsg.idle(path)

        def work():
            if sgheader.write(fd, V3(TUR), arena) != errno.EPERM:
                return 1
            if sgheader.read(fd, V3(TUR), arena).error != errno.EPERM:
                return 2
            if sgheader.sg_io(fd, V3(bytes([0xc1, *bytes(9)])), arena).error != errno.EPERM:
                return 3
            return 4 if sgheader.sg_io(fd, V3(TUR), arena).error else 0
        assert as_nobody(work) == 0
        assert not sgheader.read(fd, V3(TUR), arena).error


# 32-bit programs.

UAPI = Path(__file__).parents[2] / "include/uapi"


def programs(folder, name):
    """Builds a source file of this folder for 32 and for 64 bits. Returns the two programs."""
    source = Path(__file__).with_name(name)
    built = []
    for bits in (32, 64):
        built.append(folder / f"program{bits}")
        run("gcc", f"-m{bits}", "-Wall", "-Werror", "-O1", "-I", UAPI, "-o", built[-1], source,
            limit=120)
    try:
        run(built[0], ok=False)
    except OSError as error:
        # User Mode Linux does not run 32-bit programs.
        assert error.errno == errno.ENOEXEC
        pytest.skip("this kernel runs no 32-bit programs")
    return built


@pytest.mark.smoke
@pytest.mark.limit(200)
def test_32_bit_program_gets_the_same_results(lun, path, tmp_path):
    """A 32-bit program gets the same results as a 64-bit one. The 64-bit program gets the same
    results from sg's node."""
    built = programs(tmp_path, "sg32.c")
    said = [run(program, path, "v4").stdout for program in built]
    assert said[0] == said[1]
    assert run(built[1], path).stdout == run(built[1], lun.sg).stdout


@pytest.mark.smoke
@pytest.mark.limit(200)
def test_32_bit_program_gets_the_same_results_of_slots(path, tmp_path):
    """With prepared commands a 32-bit program gets the same results as a 64-bit one: calls,
    mapped status, data."""
    said = [run(program, path).stdout for program in programs(tmp_path, "slots32.c")]
    assert said[0] == said[1]
    # Both programs could be wrong: check that smq_sg sent the valid commands and refused the
    # invalid ones.
    for line in ("slot 0: 0 resid 0 runs 2 0 0 0 sense", "slot 3: 0 resid 0 runs 2 0 0 0 sense",
                 "mapped 1", "done 4 field 0", "buffer taken: -1 errno 17",
                 "buffer nowhere: -1 errno 14"):
        assert f"{line}\n" in said[0], f"{line}\n{said[0]}"
    assert re.search(r"^slot 2: [0-9]+ resid [0-9]+ runs 1 5 21 0 sense( [0-9a-f]{2})+$", said[0],
                     re.MULTILINE), said[0]


@pytest.mark.smoke
@pytest.mark.limit(200)
def test_32_bit_iovecs_are_read_or_refused(path, tmp_path):
    """smq_sg reads the iovecs of an ad hoc command in the program's own layout, 32-bit or 64-bit,
    or refuses them."""
    said = [run(program, path).stdout.splitlines() for program in programs(tmp_path, "adhoc32.c")]
    assert said[0][0] == said[1][0] and said[1][0].startswith("entered: 0 '")
    assert said[1][1] == said[1][0].replace("entered", "by a thread")
    assert said[0][1] == said[1][1] or said[0][1].startswith(f"by a thread: -{errno.EOPNOTSUPP} ")


# Signals.

def test_signal_does_not_end_sg_io(path, arena, slow):
    """A signal neither ends SG_IO nor makes it send the command again."""
    device = Path("/sys/class/smq_sg", os.path.basename(path), "device/iorequest_cnt")
    caught = []
    before = signal.signal(signal.SIGUSR1, lambda *_: caught.append(time.monotonic()))
    sent = int(device.read_text(encoding="ascii"), 16)
    with smqsg.opened(path) as (fd,):
        pid = os.getpid()
        with running(lambda: [time.sleep(0.3), os.kill(pid, signal.SIGUSR1)] and 0):
            began = time.monotonic()
            answer = sgheader.sg_io(fd, READ, arena)
            took = time.monotonic() - began
    signal.signal(signal.SIGUSR1, before)
    assert not answer.error and took > 0.9 and caught
    assert int(device.read_text(encoding="ascii"), 16) == sent + 1


def leave_orphan(path, fd, want, arena):
    """Kills a process while it is in SG_IO on the file. Returns when read() can fetch the
    result."""
    fcntl.ioctl(fd, SET_KEEP_ORPHAN, struct.pack("i", 1))

    def work():
        sgheader.sg_io(fd, want, arena)
    with running(work) as (pid, status):
        wait_for("a command in flight", lambda: smqsg.attr(path, "inflight") == 1)
        os.kill(pid, signal.SIGKILL)
        status()
    assert fcntl.ioctl(fd, GET_NUM_WAITING, bytes(4)) == bytes(4)
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    assert poll.poll(20000)


@pytest.mark.parametrize("length, at", ((512, 0), (511, 1), (8192, 0), (8191, 1)))
def test_result_of_a_killed_process_can_be_read(path, slow, length, at):
    """With SG_SET_KEEP_ORPHAN, if a process is killed, another process that has the file open can
    read the result. The data is not written to that process's memory, whether or not the kernel
    copies the data of such a command."""
    want = V3(READ.cdb, length, pack_id=31, at=at)
    arena = Arena(64 << 10, private=True)
    arena.put(arena.address, b"\xa5" * arena.size)
    with smqsg.opened(path) as (fd,):
        leave_orphan(path, fd, want, arena)
        assert sgheader.read(fd, want, arena).fields["pack_id"] == 31
    assert arena.get(arena.address, arena.size) == b"\xa5" * arena.size


@pytest.mark.parametrize("length, at", ((512, 0), (8191, 1)))
def test_last_close_frees_an_unread_result(path, slow, length, at):
    """The last close frees a result that no process has read. If it freed the wrong memory, the
    kernel log would show that: with the sanitizers, as a report of KASAN."""
    with smqsg.opened(path) as (fd,):
        leave_orphan(path, fd, V3(READ.cdb, length, at=at), Arena(64 << 10))
    smqsg.idle(path)


@contextmanager
def reader(path):
    """Yields the pid of a process that waits in read() for a second result of its file, and a
    function that waits for its end: the status is that read()'s errno."""
    begun, ready = os.pipe()

    def work():
        fd, room = os.open(path, os.O_RDWR), Arena(8192)
        assert not sgheader.write(fd, V3(TUR), room) and not sgheader.read(fd, V3(TUR), room).error
        os.write(ready, b"x")
        return sgheader.read(fd, V3(TUR), room).error
    with running(work) as found:
        os.read(begun, 1)
        time.sleep(0.3)
        yield found


def test_signal_ends_a_waiting_read(path):
    """A signal ends a process that waits in read() without commands in flight."""
    with reader(path) as (pid, status):
        os.kill(pid, signal.SIGTERM)
        assert status() == -signal.SIGTERM


# The device.

@pytest.fixture
def second():
    """Another host of scsi_debug, which the test may remove."""
    hosts = {entry.name for entry in smqsg.SCSI_DEBUG.glob("adapter*")}
    (smqsg.SCSI_DEBUG / "add_host").write_text("1", encoding="ascii")
    new = wait_for("a new host", lambda: {
        entry.name for entry in smqsg.SCSI_DEBUG.glob("adapter*")} - hosts)
    adapter = smqsg.SCSI_DEBUG / new.pop()

    def there():
        found = [entry for entry in adapter.glob("host*/target*/*:*/smq_sg/smqsg*")
                 if os.path.exists(f"/dev/{entry.name}")]
        return found[0] if found else None
    entry = wait_for("the host's node", there)
    smqsg.clear_attentions(f"/dev/{entry.name}")
    yield entry.parent.parent, f"/dev/{entry.name}"
    (smqsg.SCSI_DEBUG / "add_host").write_text("-1", encoding="ascii")


@pytest.mark.smoke
@pytest.mark.limit(120)
def test_removal_wakes_waiting_readers(second, arena):
    """The removal of a device wakes processes that wait for results. Afterwards each call on an
    open file fails with ENODEV."""
    device, path = second
    with smqsg.opened(path) as (fd,):
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        with reader(path) as (_, status):
            (device / "delete").write_text("1", encoding="ascii")
            assert status() == errno.ENODEV
        assert poll.poll(20000) == [(fd, select.POLLHUP)]
        assert sgheader.sg_io(fd, V3(TUR), arena).error == errno.ENODEV
        assert sgheader.write(fd, V3(TUR), arena) == errno.ENODEV
        assert sgheader.sg_io(fd, V4(TUR), arena).error == errno.ENODEV
        for request in (0x2203, 0x2276, 0x5382, 1):
            with pytest.raises(OSError) as caught:
                fcntl.ioctl(fd, request, bytes(64))
            assert caught.value.errno == errno.ENODEV


@contextmanager
def offline(lun):
    """Sets a device offline during the block."""
    state = lun.sysfs / "state"
    state.write_text("offline\n", encoding="ascii")
    try:
        yield
    finally:
        state.write_text("running\n", encoding="ascii")


@pytest.mark.smoke
def test_offline_device_has_the_same_results_as_from_sg(lun, path, arena):
    """Commands to an offline device have the same results as from sg: a call that may block fails
    with ENXIO. With a header of interface 4 they have the same results as from bsg."""
    with smqsg.opened(lun.sg, lun.bsg, path) as fds, offline(lun):
        sg, ours = (sgheader.sg_io(fd, V3(TUR), arena) for fd in (fds[0], fds[2]))
        assert ours == sg and ours.error == errno.ENXIO
        bsg, ours = (sgheader.sg_io(fd, V4(TUR), arena) for fd in fds[1:])
        assert ours == bsg and (ours.error or ours.fields["transport_status"])
        sg, ours = (sgheader.write(fd, V3(TUR), arena) for fd in (fds[0], fds[2]))
        assert ours == sg == errno.ENXIO
        os.set_blocking(fds[0], False)
        os.set_blocking(fds[2], False)
        assert not sgheader.write(fds[0], V3(TUR), arena)
        assert not sgheader.write(fds[2], V3(TUR), arena)
        wait_for("results", lambda: all(
            fcntl.ioctl(fd, GET_NUM_WAITING, bytes(4)) != bytes(4) for fd in (fds[0], fds[2])))
        sg, ours = (sgheader.read(fd, V3(TUR), arena) for fd in (fds[0], fds[2]))
        assert ours == sg
