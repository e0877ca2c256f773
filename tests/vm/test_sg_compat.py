# SPDX-License-Identifier: GPL-2.0
# on: uml 7.2
# not on sanitize: hundreds of comparisons with sg, most of them of scsi_debug's behaviour
"""/dev/smqsgN compared with /dev/sgN and bsg of the same device: programs, ioctls, valid and
invalid headers."""
import ctypes
import dataclasses
import errno
import fcntl
import itertools
import os
import random
import re
import struct

import pytest
from cdb_cases import CASES
from kit import cdb, sgheader, sgio, smqsg
from kit.host import fio, loaded, run
from kit.memory import HUGE_PAGE, PAGE, OnePage
from kit.sgheader import V3, V4, Arena
from kit.slots import IN, Field, SlotFile, command

DISKS = {
    "smq_ram": {"size_mb": 16},
    "scsi_debug": {"dev_size_mb": 16, "delay": 0, "names": ("add_host", "max_luns")},
}
SEED = int(os.environ.get("SMQ_SEED", "20261121"))
# The size, in bytes, of a buffer for headers, CDBs, sense and data of any command here.
ARENA = 2 << 20


@pytest.fixture(scope="module", params=sorted(DISKS))
def nodes(request):
    """Yields a LUN, whose unit attentions are cleared, and the path of its smqsg node."""
    # The kernel logs commands that the device refuses as failed I/O.
    with smqsg.module(), loaded(request.param, io_errors=True, **DISKS[request.param]) as hosts:
        lun = hosts[0].luns()[0]
        path = smqsg.node(lun)
        smqsg.clear_attentions(lun.sg)
        yield lun, path


@pytest.fixture(scope="module")
def arena():
    """Memory for headers, CDBs, sense and data."""
    return Arena(ARENA)


@pytest.fixture
def pair(nodes):
    """Descriptors of sg and smqsg, open for reading and writing."""
    with smqsg.opened(nodes[0].sg, nodes[1]) as fds:
        yield fds


@pytest.fixture
def bsg_pair(nodes):
    """Descriptors of bsg and smqsg, open for reading and writing."""
    with smqsg.opened(nodes[0].bsg, nodes[1]) as fds:
        yield fds


# The programs.

TOOLS = {
    "inq": ["sg_inq"], "inq-hex": ["sg_inq", "-H"],
    "vpd": ["sg_vpd"], "vpd-83": ["sg_vpd", "-p", "di"],
    "vpd-b0": ["sg_vpd", "-p", "bl"], "vpd-b1": ["sg_vpd", "-p", "bdc"],
    "readcap": ["sg_readcap"], "readcap16": ["sg_readcap", "-l"], "luns": ["sg_luns"],
    "modes": ["sg_modes", "-a"], "modes6": ["sg_modes", "-6", "-a"], "logs": ["sg_logs", "-a"],
    "raw-inquiry": ["sg_raw", "-r", "255", "NODE", "12", "00", "00", "00", "ff", "00"],
    "raw-read": ["sg_raw", "-r", "1k", "NODE", *"28 00 00 00 00 00 00 00 02 00".split()],
    "raw-none": ["sg_raw", "NODE", "00", "00", "00", "00", "00", "00"],
    "raw-invalid": ["sg_raw", "-r", "64", "NODE", "c1", "00", "00", "00", "00", "00"],
    "opcodes": ["sg_opcodes"], "persist": ["sg_persist", "-k"], "turs": ["sg_turs", "-n", "16"],
    "requests": ["sg_requests"], "verify": ["sg_verify", "--lba=0", "--count=8"],
    "sync": ["sg_sync"], "smartctl": ["smartctl", "-d", "scsi", "-x"],
    "scan": ["sg_scan"],
}


# The smoke tests of other kernels run only these programs. The smoke tests also include the tests
# of headers and commands, which would find the faults that the other programs could find.
TOOLS_ANYWHERE = ("inq", "raw-read", "raw-invalid", "smartctl")


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=[pytest.mark.smoke] if name in TOOLS_ANYWHERE else [])
    for name in TOOLS])
def test_program_prints_the_same_as_for_sg(nodes, name):
    """A program prints the same for smq_sg's node as for sg's node, and exits with the same
    status."""
    lun, path = nodes
    said = []
    for dev in (lun.sg, path):
        argv = [dev if word == "NODE" else word for word in TOOLS[name]]
        if "NODE" not in TOOLS[name]:
            argv.append(dev)
        done = run(*argv, ok=False)
        text = (done.stdout + done.stderr).replace(dev, "NODE")
        text = re.sub(r"Local Time is: .*|time=\S+|\d+ microseconds.*", "", text)
        said.append((done.returncode, text))
    assert said[1] == said[0]


@pytest.mark.smoke
@pytest.mark.limit(180)
def test_fio_sg_engine_verifies_its_data(nodes):
    """fio's sg engine verifies its data with more commands in flight than sg's limit of 16."""
    report = fio(nodes[1], ioengine="sg", direct=0, rw="randwrite", bs="4k", size="4M", iodepth=64,
                 verify="crc32c", verify_state_save=0)
    assert report["jobs"][0]["read"]["total_ios"] == 1024


# Commands: the table of smq_ram's tests.

@pytest.mark.smoke
def test_cdb_has_the_same_result_as_from_sg(nodes, pair, arena):
    """Each CDB of the table, valid or invalid, has the same result as from sg."""
    for case in CASES:
        if case.alone or case.cdb[0] in (cdb.START_STOP, cdb.REQUEST_SENSE):
            continue
        want = V3(case.cdb, case.din, case.dout)
        theirs, ours = (sgheader.sg_io(fd, want, arena) for fd in pair)
        assert same(want, ours, theirs), f"{case.name}\n sg    {theirs}\n smqsg {ours}"


# Opcodes that return data, unless the CDB asks for 0 bytes.
DATA_IN = cdb.READS + (cdb.INQUIRY, cdb.MODE_SENSE_6, cdb.MODE_SENSE_10, cdb.READ_CAPACITY_10,
                       cdb.SERVICE_ACTION_IN_16, cdb.REPORT_LUNS, cdb.MAINTENANCE_IN)


def same(want, ours, theirs) -> bool:
    """Returns whether two answers to one header count as equal.

    If the device transfers no data but reports no residual, sg copies the old content of its own
    buffer to the caller. smq_sg must leave the caller's buffer unchanged in this case.
    """
    if ours == theirs:
        return True
    length = want.request_len if isinstance(want, V4) else want.cmd_len
    raw = want.cdb[:length].ljust(len(want.cdb), b"\0")
    nothing = raw[0] not in DATA_IN or raw[0] in cdb.READS and not any(
        raw[7:9] if len(raw) == 10 else raw[10:14] if len(raw) == 16 else raw[6:10])
    return (nothing and set(ours.data) == {sgheader.FILL} and
            dataclasses.replace(ours, data=theirs.data) == theirs)


# Headers with lengths and addresses that the random ones do not have.

INQUIRY = cdb.inquiry(96)
READ = cdb.blocks(cdb.READ_10, 0, 8)
WRITE = cdb.blocks(cdb.WRITE_10, 16, 8)
DATA = bytes(range(256)) * 16

HEADERS = {
    "data-null-write": V3(cdb.blocks(cdb.WRITE_10, 24, 8), dout=bytes(4096), null=("dxferp",)),
    "data-behind": V3(READ, 4096, at=ARENA - 2 * 4096 - 512),
    "data-behind-write": V3(WRITE, length=4096, direction=sgio.DXFER_TO_DEV,
                            at=ARENA - 2 * 4096 + 512),
    "length-256M": V3(INQUIRY, 96, length=1 << 28),
    "length-2G": V3(INQUIRY, 96, length=1 << 31),
    "length-4G": V3(INQUIRY, 96, length=(1 << 32) - 1),
    "iovec-0s": V3(READ, 4096, pieces=(0, 4096, 0)),
    "iovec-shorter": V3(READ, 4096, pieces=(512, 512)),
    "iovec-longer": V3(READ, 4096, pieces=(4096, 4096)),
    "iovec-nothing": V3(READ, 4096, pieces=(0, 0)),
    "iovec-2G": V3(READ, 4096, pieces=(1 << 31, 4096)),
    "iovec-no-data": V3(cdb.plain(0), pieces=(4096,), length=0),
    "large": V3(cdb.blocks(cdb.READ_10, 0, 1024), 512 << 10),
    "large-odd": V3(cdb.blocks(cdb.READ_10, 0, 1024), 512 << 10, at=2),
    "large-1M": V3(cdb.blocks(cdb.READ_10, 0, 2048), 1 << 20),
}
V4_HEADERS = {
    "sense-4G": V4(cdb.blocks(cdb.READ_10, 1 << 30, 1), 512, max_response_len=(1 << 32) - 1),
    "both-ways": V4(INQUIRY, 96, both=True),
    "cdb-4G": V4(INQUIRY, 96, request_len=(1 << 32) - 1),
    "large": V4(cdb.blocks(cdb.READ_10, 0, 256), 128 << 10),
}


@pytest.mark.smoke
@pytest.mark.parametrize("name", [*HEADERS, *(f"v4-{name}" for name in V4_HEADERS)])
def test_header_has_the_same_result_as_from_sg_or_bsg(pair, bsg_pair, arena, name):
    """A header of interface 3 has the same result as from sg, one of interface 4 as from bsg."""
    header, fds = (HEADERS[name], pair) if name in HEADERS else (V4_HEADERS[name[3:]], bsg_pair)
    theirs, ours = (sgheader.sg_io(fd, header, arena) for fd in fds)
    assert same(header, ours, theirs), f"\n sg or bsg {theirs}\n smqsg     {ours}"


def test_v4_cdb_length_is_not_truncated(pair, arena):
    """A CDB length of 65536 + 6 gets EINVAL. bsg of Linux 6.1 uses only the low 16 bits, here 6."""
    want = V4(INQUIRY, 96, request_len=65536 + 6)
    assert sgheader.sg_io(pair[1], want, arena).error == errno.EINVAL


def test_v4_bad_data_address_gets_efault(pair, arena):
    """A bad address for data-in gives EFAULT, even if the data is copied rather than mapped."""
    assert sgheader.sg_io(pair[1], V4(INQUIRY, 95, bad=("data",)), arena).error == errno.EFAULT


def test_v4_iovecs_work_in_both_directions(pair, arena):
    """Iovecs work in both directions. (bsg ignores them, so there is nothing to compare with.)"""
    out = V4(WRITE, dout=DATA, pieces=(1024, 0, 3072))
    assert not sgheader.sg_io(pair[1], out, arena).error
    back = V4(cdb.blocks(cdb.READ_10, 16, 8), 4096, pieces=(1, 4095))
    assert sgheader.sg_io(pair[1], back, arena).data == DATA


def test_longest_transfer_works_at_any_address(nodes, pair):
    """The longest transfer works wherever its buffer begins; a longer one gets EINVAL."""
    most = smqsg.attr(nodes[1], "max_transfer")
    blocks = most // 512
    arena = Arena(most + (64 << 10))
    for at in (0, 4, 1):
        want = V3(cdb.blocks(cdb.READ_10, 0, blocks), most, at=at)
        theirs, ours = (sgheader.sg_io(fd, want, arena) for fd in pair)
        assert same(want, ours, theirs) and not ours.error, f"at {at}\n{theirs}\n{ours}"
        want = V3(cdb.blocks(cdb.READ_10, 0, blocks + 1), most + 512, at=at)
        assert sgheader.sg_io(pair[1], want, arena).error == errno.EINVAL


@pytest.mark.parametrize("header", (V3, V4))
@pytest.mark.parametrize("at", (0, 512, 1))
def test_too_long_transfer_leaves_its_buffer_alone(nodes, pair, header, at):
    """A transfer that is longer than the longest fails with EINVAL, and no byte of its buffer
    changes. (sg writes to the buffer although the call fails.)"""
    most = smqsg.attr(nodes[1], "max_transfer")
    arena = Arena(2 * most + (64 << 10))
    for size in (most + 512, 2 * most):
        want = header(cdb.blocks(cdb.READ_16, 0, size // 512), size, at=at)
        assert sgheader.sg_io(pair[1], want, arena).error == errno.EINVAL
        buffer = arena.get(arena.address + PAGE, at + size)
        assert buffer.count(sgheader.FILL, at) == size


SHORT = {"TEST UNIT READY": (cdb.plain(cdb.TEST_UNIT_READY), 0), "INQUIRY": (cdb.inquiry(36), 36),
         "REQUEST SENSE": (cdb.request_sense(18), 18)}


@pytest.mark.parametrize("name", SHORT)
def test_no_foreign_byte_reaches_the_buffer(pair, arena, name):
    """A command that moves less than the caller's buffer, or nothing: the bytes that the device did
    not write stay as they were, for each direction that means data-in, wherever the buffer is.
    Nobody's memory leaks through them (CVE-2018-1000204)."""
    raw, most = SHORT[name]
    ways = [(V3, {"direction": direction, "flags": flags}) for direction in (-3, -4, -5)
            for flags in (0, sgheader.FLAG_DIRECT_IO)] + [(V4, {})]
    for (header, more), at, size in itertools.product(ways, (0, 3, 512), (512, 65536)):
        answer = sgheader.sg_io(pair[1], header(raw, size, at=at, **more), arena)
        where = f"{header.__name__} {more} at {at}, {size} bytes"
        assert not answer.error, f"{where}: {answer}"
        # The residual does not say how much was written: scsi_debug leaves it 0 for a command
        # without data.
        rest = arena.get(arena.address + PAGE + at + most, size - most)
        assert rest.count(sgheader.FILL) == len(rest), where


def test_slot_takes_max_transfer_bytes(nodes):
    """A slot of max_transfer bytes can be prepared and run; a longer one cannot be prepared."""
    lun, path = nodes
    data = os.urandom(4096)
    with sgio.SgDev(lun.sg) as dev:
        assert dev.cmd(cdb.blocks(cdb.WRITE_10, 0, 8), dout=data).good
    with SlotFile(path, 1) as file:
        info = file.info()
        most = info.max_transfer
        assert most == smqsg.attr(path, "max_transfer")
        # smq_ram's limit is its max_sectors. scsi_debug has no such limit, but takes 2048 pieces of
        # memory, each at most a page.
        assert most == 8 << 20 == info.max_segments * PAGE
        area = OnePage(most, HUGE_PAGE)
        assert file.lend(0, area) == 0
        longer = command(cdb.blocks(cdb.READ_10, 0, 8), IN, most + info.alignment)
        assert file.try_prepare([longer]) == (errno.EMSGSIZE, 0)
        assert file.field == Field.LENGTH
        file.prepare([command(cdb.blocks(cdb.READ_10, 0, 8), IN, most)])
        status = file.run_one(0)
        assert (status.result, status.resid) == (0, most - len(data))
        assert ctypes.string_at(area.address, len(data)) == data


def test_mmap_io_is_refused(pair, arena):
    """SG_FLAG_MMAP_IO is refused: a mapping of this node is the status array, not a data buffer."""
    want = V3(INQUIRY, 96, flags=sgheader.FLAG_MMAP_IO)
    assert sgheader.sg_io(pair[1], want, arena).error == errno.EINVAL


def test_direct_io_is_reported(pair, arena):
    """With SG_FLAG_DIRECT_IO the result shows whether the data was moved without a copy."""
    want = V3(READ, 4096, flags=sgheader.FLAG_DIRECT_IO)
    assert sgheader.sg_io(pair[1], want, arena).fields["info"] == sgheader.INFO_DIRECT
    want.at = 1
    assert sgheader.sg_io(pair[1], want, arena).fields["info"] == 0


# Headers and commands at random.

OPCODES = (cdb.READS + cdb.WRITES + cdb.VERIFIES +
           (cdb.TEST_UNIT_READY, cdb.INQUIRY, cdb.MODE_SENSE_6, cdb.MODE_SENSE_10,
            cdb.READ_CAPACITY_10, cdb.SERVICE_ACTION_IN_16, cdb.REPORT_LUNS, cdb.SYNC_CACHE_10,
            cdb.SYNC_CACHE_16, 0xa3, 0x12, 0xc0, 0xc1, 0xd7, 0xff, 0x7f, 0x5e, 0x4d))


def random_cdb(rng: random.Random) -> tuple[bytes, int]:
    """Returns a CDB that does not affect later commands, and the length of its data."""
    op = rng.choice(OPCODES)
    if op in cdb.READS + cdb.WRITES + cdb.VERIFIES:
        blocks = rng.choice((0, 1, 2, 7, 8, 64, 256))
        lba = rng.choice((0, 1, 100, 32767, 32768, 1 << 31))
        byte1 = rng.choice((0, 0, 0, 8, 16, 0x20, 0xff))
        return cdb.blocks(op, lba, blocks, byte1=byte1), blocks * 512
    if rng.random() < 0.3:
        body = rng.randbytes(cdb.length(op) - 1)
        return bytes([op]) + body, rng.choice((0, 96, 512))
    known = (cdb.inquiry(rng.choice((0, 5, 36, 96, 255, 4096)), rng.choice((0, 0x80, 0x83, 0xb0)),
                         rng.choice((0, 1))),
             cdb.mode_sense(True, rng.choice((0, 8, 10, 0x3f)), alloc=rng.choice((4, 64, 252))),
             cdb.mode_sense(False, 0x3f, alloc=rng.choice((8, 252))), cdb.read_capacity_10(),
             cdb.read_capacity_16(rng.choice((0, 12, 32))),
             cdb.report_luns(alloc=rng.choice((0, 16, 512))),
             cdb.plain(cdb.TEST_UNIT_READY), cdb.report_opcodes(), cdb.plain(op))
    return rng.choice(known), rng.choice((0, 36, 96, 252, 255, 512, 4096))


def random_v3(rng: random.Random) -> V3:
    """Returns a header, most of whose fields are valid."""
    def seldom(usual, *others):
        return rng.choice(others) if rng.random() < 0.08 else usual
    command, about = random_cdb(rng)
    out = command[0] in cdb.WRITES or command[0] in cdb.VERIFIES and command[1] & 6
    size = seldom(about, 0, 1, 512, about + 512, max(about - 512, 0), about + 1)
    pattern = bytes(i * 7 % 251 for i in range(256)) * (size // 256 + 1)
    want = V3(command, 0 if out else size, pattern[:size] if out else b"")
    want.direction = seldom(None, -1, -2, -3, -5, 0, 1, 77)
    if want.direction is not None:
        # The whole buffer gets known data, whatever the direction.
        want.din, want.length = (size, size) if want.direction != sgio.DXFER_TO_DEV else (0, size)
    want.cmd_len = seldom(None, 0, 5, 6, 7, 16, 32, 33, 252, 253, 255)
    want.mx_sb_len = rng.choice((0, 1, 8, 14, 18, 32, 96, 255))
    want.at = rng.choice((0, 0, 4, 512, 1, 511, 4000, 4092))
    want.timeout = seldom(60000, 0, (1 << 32) - 1)
    want.flags = seldom(0, 0x10, 0x20, 0x30, 2, 0x10000, 0x80000000)
    want.pack_id, want.usr_ptr = rng.randrange(-2**31, 2**31), rng.randrange(2**47)
    want.interface = seldom(ord("S"), 0, ord("T"), -1)
    want.null = seldom((), ("cmdp",), ("sbp",), ("dxferp",))
    want.bad = seldom((), ("cmdp",), ("sbp",), ("dxferp",))
    if size and rng.random() < 0.2:
        cuts = sorted(rng.randrange(size + 1) for _ in range(rng.randrange(5)))
        want.pieces = tuple(b - a for a, b in itertools.pairwise([0, *cuts, size]))
        want.iovec_count = seldom(None, 1, 1025, 2000, 65535)
    return want


@pytest.mark.smoke
@pytest.mark.limit(400)
def test_random_v3_headers_have_the_same_results_as_from_sg(pair, arena):
    """800 headers of interface 3 have the same results as from sg."""
    print(f"SMQ_SEED={SEED}")
    rng = random.Random(SEED)
    errors = set()
    for number in range(800):
        want = random_v3(rng)
        theirs, ours = (sgheader.sg_io(fd, want, arena) for fd in pair)
        errors.add(theirs.error or -theirs.fields["status"])
        assert same(want, ours, theirs), (
            f"seed {SEED}, header {number}: {want}\n sg    {theirs}\n smqsg {ours}")
    # The random headers included valid and invalid ones.
    assert errors >= {0, -2, errno.EINVAL, errno.EFAULT, errno.EMSGSIZE, errno.ENOSYS}


@pytest.mark.limit(400)
def test_random_v4_headers_have_the_same_results_as_from_bsg(bsg_pair, arena):
    """600 headers of interface 4 have the same results as from bsg."""
    print(f"SMQ_SEED={SEED}")
    rng = random.Random(SEED)
    for number in range(600):
        v3 = random_v3(rng)
        # The V4 header does not get the iovecs of the V3 header: bsg would ignore them.
        spots = {"sbp": "response", "cmdp": "request", "dxferp": "data"}
        want = V4(v3.cdb, v3.din, v3.dout, request_len=v3.cmd_len, max_response_len=v3.mx_sb_len,
                  at=v3.at, timeout=v3.timeout, flags=v3.flags,
                  null=tuple(spots[name] for name in v3.null),
                  bad=tuple(spots[name] for name in v3.bad),
                  protocol=rng.choice((0,) * 30 + (1,)), subprotocol=rng.choice((0,) * 30 + (2,)))
        if "data" in want.null + want.bad:
            # bsg does not report that it could not copy the data: see
            # test_v4_bad_data_address_gets_efault().
            want.din &= ~3
        theirs, ours = (sgheader.sg_io(fd, want, arena) for fd in bsg_pair)
        assert same(want, ours, theirs), (
            f"seed {SEED}, header {number}: {want}\n bsg   {theirs}\n smqsg {ours}")


# The other ioctls.

QUERIES = {
    "SG_GET_TIMEOUT": 0x2202, "SG_EMULATED_HOST": 0x2203, "SG_GET_TRANSFORM": 0x2205,
    "SG_GET_COMMAND_Q": 0x2270, "SG_GET_RESERVED_SIZE": 0x2272, "SG_GET_SCSI_ID": 0x2276,
    "SG_SET_FORCE_LOW_DMA": 0x2279, "SG_GET_LOW_DMA": 0x227a, "SG_GET_PACK_ID": 0x227c,
    "SG_GET_NUM_WAITING": 0x227d, "SG_GET_SG_TABLESIZE": 0x227f, "SG_GET_VERSION_NUM": 0x2282,
    "SG_GET_REQUEST_TABLE": 0x2286, "SG_GET_KEEP_ORPHAN": 0x2288, "SG_GET_ACCESS_COUNT": 0x2289,
    "BLKSECTGET": 0x1267, "SCSI_IOCTL_TEST_UNIT_READY": 2, "SCSI_IOCTL_GET_IDLUN": 0x5382,
    "SCSI_IOCTL_PROBE_HOST": 0x5385, "SCSI_IOCTL_GET_BUS_NUMBER": 0x5386,
    "SCSI_IOCTL_GET_PCI": 0x5387,
    "TCGETS": 0x5401, "unassigned": 0x22ff, "SCSI_IOCTL_SYNC": 4, "CDROM_SEND_PACKET": 0x5393,
}
SETTINGS = {
    "SG_SET_TIMEOUT": (0x2201, 0x2202), "SG_SET_RESERVED_SIZE": (0x2275, 0x2272),
    "SG_SET_FORCE_PACK_ID": (0x227b, 0x2270), "SG_SET_COMMAND_Q": (0x2271, 0x2270),
    "SG_SET_KEEP_ORPHAN": (0x2287, 0x2288), "SG_NEXT_CMD_LEN": (0x2283, 0x2270),
    "SG_SET_DEBUG": (0x227e, 0x2270),
}


def ask(fd: int, request: int, argument: bytes) -> tuple[int, int, bytes]:
    """Calls an ioctl. Returns errno or 0, the ioctl's value, and what the ioctl left in the
    argument's memory."""
    buffer = bytearray(argument)
    try:
        return 0, fcntl.ioctl(fd, request, buffer), bytes(buffer)
    except OSError as error:
        return error.errno, 0, bytes(buffer)


@pytest.mark.smoke
@pytest.mark.parametrize("mode", (os.O_RDWR, os.O_RDONLY, os.O_RDWR | os.O_NONBLOCK),
                         ids=("rdwr", "rdonly", "nonblock"))
@pytest.mark.parametrize("name", QUERIES)
def test_query_ioctl_has_the_same_result_as_from_sg(nodes, name, mode):
    """An ioctl has the same result as from sg, even if its argument is a bad address."""
    with smqsg.opened(nodes[0].sg, nodes[1], flags=mode) as fds:
        theirs, ours = (ask(fd, QUERIES[name], bytes(1024)) for fd in fds)
        assert ours == theirs
        theirs, ours = (ask_address(fd, QUERIES[name], sgheader.BAD) for fd in fds)
        assert ours == theirs


def ask_address(fd: int, request: int, address: int) -> tuple[int, int]:
    """Calls an ioctl with @address as its argument. Returns the ioctl's value, and errno or 0."""
    libc = ctypes.CDLL(None, use_errno=True)
    ctypes.set_errno(0)
    value = libc.ioctl(ctypes.c_int(fd), ctypes.c_ulong(request), ctypes.c_void_p(address))
    return value, ctypes.get_errno() if value < 0 else 0


@pytest.mark.parametrize("name", SETTINGS)
def test_setting_accepts_the_same_values_as_sg(pair, name):
    """A setting accepts the same values as sg, and is then read back as the same value as sg's."""
    put, get = SETTINGS[name]
    for value in (0, 1, 2, 7, 252, 253, 255, 256, 511, 4095, 4096, 5000, 65536, 100000, 1 << 20,
                  1 << 24, 2147483647, -1, -2147483648):
        word = value.to_bytes(4, "little", signed=True)
        theirs, ours = ((ask(fd, put, word)[:2], ask(fd, get, bytes(4))) for fd in pair)
        assert ours == theirs, f"{name} {value}"
    theirs, ours = (ask_address(fd, put, sgheader.BAD) for fd in pair)
    assert ours == theirs


def test_send_command_has_the_same_result_as_from_sg(pair):
    """SCSI_IOCTL_SEND_COMMAND, which is older than sg, has the same result as from sg's node."""
    request = (0).to_bytes(4, "little") + (96).to_bytes(4, "little") + INQUIRY
    theirs, ours = (ask(fd, 1, request.ljust(512, b"\0")) for fd in pair)
    assert ours == theirs and not ours[0]


BLKTRACE = {"setup": 0xc0481273, "start": 0x1274, "stop": 0x1275, "teardown": 0x1276}


def test_blktrace_is_refused(pair):
    """The queue's blktrace shows the commands of all users: sg's node offers it, smq_sg's node does
    not."""
    # struct blk_user_trace_setup: trace all actions, into 4 buffers of 4 KiB.
    want = struct.pack("<32sHxxIIxxxxQQIxxxx", b"", 0xffff, 4096, 4, 0, 0, 0)
    unknown = ask(pair[1], QUERIES["unassigned"], want)
    assert unknown[0] in (errno.ENOTTY, errno.EINVAL)
    for name, request in BLKTRACE.items():
        assert ask(pair[1], request, want) == unknown, name
        theirs = ask(pair[0], request, want)[0]
        assert theirs == 0, f"{name}: {errno.errorcode.get(theirs)}"
        # The answer is the same while sg's trace exists, and after it has ended.
        assert ask(pair[1], request, want) == unknown, name


def test_reset_causes_a_unit_attention(nodes, pair, arena):
    """SG_SCSI_RESET resets the LUN: one of the next commands gets the unit attention."""
    lun, path = nodes
    with sgio.SgDev(path) as dev:
        dev.reset(sgio.SG_SCSI_RESET_DEVICE)
        answers = [dev.cmd(cdb.plain(cdb.TEST_UNIT_READY)) for _ in range(8)]
    assert any(answer.triple and answer.triple[0] == sgio.UNIT_ATTENTION for answer in answers)
    assert answers[-1].good
