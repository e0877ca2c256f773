# SPDX-License-Identifier: GPL-2.0
# on: uml 7.2
# not on sanitize: it tests programs, which are the same there
"""The fio engine of libsmq. fio verifies the data, and tracepoints show which commands the disk
got."""
import os
import subprocess
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import pytest
from kit import smqsg
from kit.fiojob import fio_argv, load_on
from kit.host import fio, loaded, run, wait_for
from kit.ramdir import ram_host
from kit.sanitizing import TIME_FACTOR
from kit.trace import TRACING, recording, traced

ENGINE = Path(__file__).resolve().parents[2] / "build/tools/fio/fio-smq.so"
MIB = 1 << 20
DISK = 64 * MIB
READ, WRITE, SYNC, UNMAP = "0x28", "0x2a", "0x35", "0x42"


@pytest.fixture(scope="module", autouse=True)
def engine():
    """The engine's file: `make tools` builds it where fio's headers are installed."""
    assert ENGINE.exists(), "build it: tools/fio-headers prepare && make tools"


@pytest.fixture(scope="module")
def ram(sg_module):
    """A host with two LUNs of 64 MiB, and its directory."""
    with ram_host(luns=2) as found:
        yield found


@pytest.fixture(scope="module")
def luns(ram):
    """The host's LUNs."""
    return ram[1].luns()


@contextmanager
def third_lun(ram, **config):
    """Adds a third LUN, and removes it at the end of the block."""
    host_dir, host = ram
    host_dir.add_lun(2, **{"size_mb": 32} | config)
    try:
        yield host.wait_luns(3)[2]
    finally:
        host_dir.remove_lun(2)
        host.wait_luns(2)


@pytest.fixture(scope="module")
def node(luns):
    """The node of the first LUN."""
    return smqsg.node(luns[0])


def smq(filename, **options):
    """Runs fio with the engine; fio must succeed."""
    return fio(filename, ioengine=f"external:{ENGINE}", **options)


def refused(filename, **options):
    """Runs a job that fio must refuse. Returns what fio prints on standard error."""
    argv = fio_argv(filename, ioengine=f"external:{ENGINE}", **options)
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60 * TIME_FACTOR,
                          check=False, stdin=subprocess.DEVNULL)
    assert done.returncode, done
    return done.stderr


def sums(report, *kinds):
    """I/Os that fio counted, by kind."""
    return [sum(job[kind]["total_ios"] for job in report["jobs"]) for kind in kinds]


WAYS = {
    "one-by-one": {"iodepth": 1},
    "batches": {"iodepth": 32, "iodepth_batch": 16},
    "entries": {"iodepth": 32, "iodepth_batch": 16, "smq_batch": 0},
    "held": {"iodepth": 32, "iodepth_batch": 16, "smq_mode": "held"},
    "adhoc": {"iodepth": 32, "iodepth_batch": 16, "smq_mode": "adhoc"},
}


@pytest.mark.smoke
@pytest.mark.parametrize("way,jobs,more", [
    *((way, 1, {}) for way in WAYS), ("entries", 4, {}), ("batches", 4, {"thread": True}),
    # Jobs that set up at the same time.
    ("one-by-one", 2, {"create_serialize": 0})])
def test_random_writes_are_verified(node, way, jobs, more):
    """Random writes are read back and verified, by one job and by several at once."""
    size = DISK // 8 // jobs
    report = smq(node, rw="randwrite", bs="4k", verify="crc32c", verify_fatal=1, numjobs=jobs,
                 size=size, offset_increment=size, **WAYS[way] | more)
    assert sums(report, "write", "read") == [DISK // 8 // 4096] * 2


def test_written_data_is_on_the_disk(node, luns):
    """The installed fio verifies through the disk's block device what it has written through the
    engine, and the other way round."""
    job = {"program": "fio", "rw": "randwrite", "bs": "4k", "size": 4 * MIB, "verify": "crc32c",
           "randseed": 3}
    smq(node, iodepth=8, iodepth_batch=8, do_verify=0, **job)
    run("blockdev", "--flushbufs", luns[0].sd)
    fio(luns[0].sd, ioengine="libaio", verify_only=True, **job)
    fio(luns[0].sd, ioengine="libaio", do_verify=0, **job | {"offset": 8 * MIB})
    smq(node, iodepth=8, verify_only=True, **job | {"offset": 8 * MIB})


@pytest.mark.parametrize("sizes,mode", [
    ({"bsrange": "512-64k"}, "prepared"),
    ({"bssplit": "512/50:8k/25:1m/25"}, "adhoc"), ({"bs": "4k,64k"}, "prepared"),
    ({"bs": "4k,64k"}, "adhoc"), ({"bs": "512k"}, "prepared"),
], ids=lambda it: it if isinstance(it, str) else " ".join(map(str, it.values())))
def test_blocks_of_several_sizes(node, sizes, mode):
    """A job has blocks of several sizes. The engine prepares a slot again for another size."""
    rw = "rw" if "bs" in sizes and "," in sizes["bs"] else "randwrite"
    smq(node, rw=rw, size=8 * MIB, verify="crc32c" if rw != "rw" else None, iodepth=16,
        iodepth_batch=8, smq_mode=mode, mem="mmap", **sizes)


def test_one_job_uses_two_disks(luns):
    """A job's blocks go to two disks in turn; the engine makes batches for each disk."""
    nodes = ":".join(smqsg.node(lun) for lun in luns)
    with traced() as trace:
        smq(nodes, rw="randwrite", bs="4k", size=8 * MIB, verify="crc32c", iodepth=32,
            iodepth_batch=16)
    took = Counter((fields["lun"], fields["op"]) for name, fields in trace.events
                   if name == "smq_queue" and fields["op"] in (READ, WRITE))
    assert took == {("0", WRITE): 1024, ("0", READ): 1024,
                    ("1", WRITE): 1024, ("1", READ): 1024}


@pytest.mark.parametrize("mode", ["prepared", "adhoc"])
def test_fsync_and_trim_become_commands(node, mode):
    """fsync and trim are sent as commands, too."""
    with traced() as trace:
        # With group_reporting fio does not count syncs.
        written = smq(node, rw="randwrite", bs="4k", size=MIB, fsync=16, iodepth=8,
                      iodepth_batch=4, smq_mode=mode, group_reporting=False)
        trimmed = smq(node, rw="randtrim", bs="64k", size=4 * MIB, iodepth=8, iodepth_batch=4,
                      smq_mode=mode)
    assert sums(written, "write") + sums(trimmed, "trim") == [256, 64]
    took = Counter(fields["op"] for name, fields in trace.events if name == "smq_queue")
    assert (took[WRITE], took[UNMAP], [took[SYNC]]) == (256, 64, sums(written, "sync"))
    assert took[SYNC] >= 15
    smq(node, rw="write", bs="64k", size=MIB, iodepth=8, buffer_pattern="0xaa")
    smq(node, rw="trim", bs="64k", size=MIB, iodepth=8, smq_mode=mode)
    smq(node, rw="read", bs="64k", size=MIB, verify="pattern", verify_pattern="0x00")


@contextmanager
def ring_entries():
    """Yields a list; after the block its only element is the number of entries submitted to
    rings."""
    found = []
    event = next(path.name for path in TRACING.glob("events/io_uring/io_uring_submit_*")
                 if path.name.endswith(("_sqe", "_req")))
    with recording(f"io_uring/{event}") as lines:
        yield found
    found.append(sum(f" {event}: " in line for line in lines))


@pytest.mark.parametrize("way,entries", [("one-by-one", 512), ("batches", 32), ("entries", 512),
                                         ("adhoc", 512)])
def test_a_batch_is_one_entry(node, way, entries):
    """The commands that iodepth_batch collects are one entry of the ring, unless the job has
    smq_batch=0 or smq_mode=adhoc."""
    with ring_entries() as found:
        smq(node, rw="randread", bs="512", size=512 * 512, **WAYS[way])
    assert found == [entries]


@pytest.mark.limit(120)
@pytest.mark.parametrize("mode,batch", [("prepared", 1), ("prepared", 2), ("adhoc", 1)])
def test_commands_refused_with_eagain_are_sent_later(ram, node, mode, batch):
    """fio submits more entries than smq_sg allows to wait. The engine submits refused entries
    again, and none is lost."""
    before = smqsg.attr(node, "refused")
    # With service_ns=0 each command would end before the next one is sent.
    ram[0].set("model/service_ns", 40_000_000)
    try:
        report = smq(node, rw="randwrite", bs="512", size=5 * MIB // 2, verify="crc32c",
                     iodepth=4096, iodepth_batch=batch, smq_mode=mode)
    finally:
        ram[0].set("model/service_ns", 0)
    assert sums(report, "write", "read") == [5120] * 2
    assert smqsg.attr(node, "refused") > before


def test_unit_attention_does_not_end_the_job(node, luns):
    """A unit attention from a reset does not end the job."""
    run("sg_reset", "--no-escalate", "--device", luns[0].sg)
    smq(node, rw="read", bs="4k", size=MIB)


def test_disk_with_large_blocks(ram):
    """The engine works on a disk with logical blocks of 4 KiB, and refuses smaller blocks."""
    with third_lun(ram, sector_size=4096) as lun:
        path = smqsg.node(lun)
        smq(path, rw="randwrite", bs="4k", size=4 * MIB, verify="crc32c", iodepth=16,
            iodepth_batch=16)
        assert refused(path, rw="read", bs="512", size=MIB) == (
            f"fio: smq: {path}: bs=512 is no multiple of its logical blocks, 4096 bytes\n")


def test_other_files_are_refused(luns):
    """A file that is no /dev/smqsgN is refused."""
    for path in ("/dev/null", luns[0].sd, luns[0].sg, "/etc/hostname"):
        assert refused(path, rw="read", size=MIB) == f"fio: smq: {path}: not a /dev/smqsgN\n"
    assert refused("/dev/smqsg999", rw="read", size=MIB) == (
        "fio: smq: /dev/smqsg999: No such file or directory\n")


REFUSED = [
    ({"bs": "1000"}, "bs=1000 is no multiple of its logical blocks, 512 bytes"),
    ({"bsrange": "700-1400"}, "bs=700 is no multiple of its logical blocks, 512 bytes"),
    ({"bssplit": "512/50:1300/50"}, "no multiple of its logical blocks, 512 bytes"),
    ({"bs": "4k", "offset": 100}, "offset=100 is no multiple of its logical blocks, 512 bytes"),
    ({"offset_increment": 100, "numjobs": 2, "thread": 1},
     "offset_increment=100 is no multiple of its logical blocks, 512 bytes"),
    ({"rw": "randread", "bs": "4k", "blockalign": 100}, "blockalign=100 is no multiple"),
    ({"bsrange": "4k-64k", "bs_unaligned": 1},
     "bs_unaligned: the disk takes only whole logical blocks"),
    ({"rw": "trimwrite", "bs": "4k,4k,2g", "size": "4g"},
     "bs=2147483648 is over the limit of a buffer, 1073741824 bytes"),
    ({"bs": "16m"}, "bs=16777216 is over the limit of one command, 8388608 bytes"),
]


@pytest.mark.parametrize("options,why", REFUSED, ids=lambda v: str(v)[:30])
def test_options_that_do_not_fit_the_disk_are_refused(node, options, why):
    """Options that the disk does not allow are refused with a message of one line, before the job
    begins."""
    said = refused(node, **{"rw": "read", "size": 16 * MIB} | options)
    # Before this line fio may print warnings of its own.
    ours = [line for line in said.splitlines() if line.startswith("fio: smq: ")]
    assert ours == said.splitlines()[-1:]
    assert ours[0].startswith(f"fio: smq: {node}: ") and why in ours[0]


@pytest.mark.not_uml("it has no ext4")
@pytest.mark.parametrize("rw", ["write", "trim"])
def test_a_disk_in_use_is_not_written(node, luns, tmp_path, rw):
    """A disk that is mounted or open exclusively is not written, unless the job has
    allow_mounted_write=1."""
    run("mkfs.ext4", "-q", "-F", luns[0].sd)
    run("mount", "-t", "ext4", "-o", "ro", luns[0].sd, tmp_path)
    try:
        with traced() as trace:
            said = refused(node, rw=rw, size=MIB, numjobs=2)
        smq(node, rw="read", size=MIB)
    finally:
        run("umount", tmp_path)
    assert f"{os.path.basename(luns[0].sd)} is mounted on {tmp_path}" in said
    assert "allow_mounted_write=1" in said
    assert not {fields["op"] for _, fields in trace.events} & {WRITE, UNMAP, SYNC}
    fd = os.open(luns[0].sd, os.O_RDONLY | os.O_EXCL)
    try:
        said = refused(node, rw=rw, size=MIB)
        assert f"fio: smq: {node}: {luns[0].sd} is open exclusively elsewhere" in said
        smq(node, rw=rw, size=MIB, allow_mounted_write=1)
    finally:
        os.close(fd)


def replay(node, log, *actions):
    """Writes an I/O log of these actions on the node."""
    log.write_text("fio version 2 iolog\n" + "".join(f"{node} {what}\n" for what in (
        "add", "open", *actions, "close")), encoding="ascii")
    return log


@pytest.mark.not_uml("it has no ext4")
def test_a_log_is_not_replayed_to_a_disk_in_use(node, luns, tmp_path):
    """Until the job runs, fio does not know which files a log writes to. If such a disk is in use,
    the job ends before it writes."""
    log = replay(node, tmp_path / "log", "write 0 4096")
    run("mkfs.ext4", "-q", "-F", luns[0].sd)
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    run("mount", "-t", "ext4", "-o", "ro", luns[0].sd, mounted)
    try:
        with traced() as trace:
            said = refused(None, read_iolog=log)
    finally:
        run("umount", mounted)
    assert f"fio: smq: {node}: {os.path.basename(luns[0].sd)} is mounted on {mounted}" in said
    assert not {fields["op"] for _, fields in trace.events} & {WRITE, UNMAP, SYNC}


def test_log_read_in_parts_needs_adhoc(node, tmp_path):
    """With read_iolog_chunked fio reads the log in parts. Then the buffers of the job do not stay
    in place, so only ad hoc commands work."""
    log = replay(node, tmp_path / "log", *(f"write {i << 17} {4096 << i // 8}" for i in range(32)))
    assert "fio: smq: read_iolog_chunked needs smq_mode=adhoc" in refused(
        None, read_iolog=log, read_iolog_chunked=1)
    smq(None, read_iolog=log, read_iolog_chunked=1, smq_mode="adhoc")
    smq(None, read_iolog=log)


def test_log_with_too_large_blocks_is_refused(node, tmp_path):
    """Until the job runs, fio does not know the block sizes of a log. The running job reports a
    size that is too large."""
    log = replay(node, tmp_path / "log", "read 0 16777216")
    assert f"fio: smq: {node}: bs=16777216 is over the limit of one command, 8388608 bytes\n" in (
        refused(None, read_iolog=log))


def test_a_disk_that_is_written_cannot_be_mounted(node, luns):
    """The job keeps the disk open exclusively while it runs."""
    with load_on(node, ioengine=f"external:{ENGINE}", rw="randwrite", bs="4k", size=MIB,
                 time_based=True, runtime=30):
        def taken():
            try:
                os.close(os.open(luns[0].sd, os.O_RDONLY | os.O_EXCL))
            except OSError:
                return True
            return False
        wait_for("a claim", taken)
    os.close(os.open(luns[0].sd, os.O_RDONLY | os.O_EXCL))


@pytest.mark.parametrize("way", WAYS)
def test_device_errors_are_reported(ram, node, way):
    """After an error of the device fio reports the status and the sense data, and the job ends."""
    ram[0].arm("sense", sense=0x031100, first_lba=4096, last_lba=4103, count=1, every=1)
    try:
        said = refused(node, rw="read", bs="4k", size=4 * MIB, **WAYS[way])
    finally:
        ram[0].arm("none")
    assert "CHECK CONDITION: Medium Error (3h): Unrecovered read error (11h/00h)" in said
    assert f"fio: io_u error on file {node}: " in said and "read offset=2097152" in said
    smq(node, rw="read", bs="4k", size=4 * MIB, **WAYS[way])


@pytest.mark.parametrize("way", WAYS)
def test_removal_of_the_device_ends_the_job(ram, way):
    """When a LUN is deleted under load the job soon ends with an error."""
    with third_lun(ram) as lun, load_on(
            smqsg.node(lun), ok=False, to_end=True, ioengine=f"external:{ENGINE}",
            rw="randread", bs="4k", time_based=True, runtime=50, **WAYS[way]) as load:
        def done():
            return int((lun.sysfs / "iodone_cnt").read_text(encoding="ascii"), 16)
        begun = done()
        wait_for("I/O", lambda: done() > begun + 100)
        (lun.sysfs / "delete").write_text("1", encoding="ascii")
    assert [job["error"] for job in load.result()["jobs"]] != [0]
    assert load.result()["jobs"][0]["job_runtime"] < 40000


@pytest.mark.parametrize("params,why", [
    ({"lbpu": 0, "lbpws": 1}, "trim: the disk has no UNMAP (VPD page B2h)"),
    ({"lbpu": 1, "unmap_max_blocks": 8},
     "bs=65536 is over the limit of one UNMAP, 8 blocks of 512 bytes"),
], ids=["no-unmap", "limit"])
def test_trims_that_the_disk_does_not_take_are_refused(sg_module, params, why):
    """The engine sends no UNMAP to a disk without UNMAP, and none above the disk's limit."""
    with loaded("scsi_debug", delay=0, dev_size_mb=8, **params) as (host,):
        path = smqsg.node(host.luns()[0])
        assert refused(path, rw="trim", bs="64k", size=MIB) == f"fio: smq: {path}: {why}\n"
        if params["lbpu"]:
            assert sums(smq(path, rw="trim", bs="4k", size=MIB), "trim") == [256]


def test_a_disk_that_is_write_protected(sg_module):
    """It can be read; a write ends with the disk's error in words."""
    with loaded("scsi_debug", delay=0, dev_size_mb=8, wp=1) as (host,):
        path = smqsg.node(host.luns()[0])
        assert sums(smq(path, rw="randread", bs="4k", size=MIB), "read") == [256]
        assert "CHECK CONDITION: Data Protect (7h)" in refused(path, rw="randwrite", bs="4k",
                                                               size=MIB)


@pytest.mark.parametrize("mode", ["prepared", "adhoc"])
def test_offsets_beyond_32_bits_of_blocks(ram, mode):
    """At 3 TiB an LBA has more than 32 bits: the engine uses CDBs of 16 bytes."""
    with third_lun(ram, size_mb=8 << 20) as lun:
        smq(smqsg.node(lun), rw="randwrite", bs="4k", offset=3 << 40, size=MIB, verify="crc32c",
            iodepth=16, smq_mode=mode)


def test_many_nodes_and_jobs(ram):
    """A job with many nodes, jobs and commands begins and ends."""
    host_dir, host = ram
    for number in range(2, 16):
        host_dir.add_lun(number, size_mb=4)
    try:
        nodes = [smqsg.node(lun) for lun in host.wait_luns(16)]
        report = smq(":".join(nodes), rw="randread", bs="4k", size=16 * MIB, numjobs=4,
                     thread=True, iodepth=32, iodepth_batch=8, io_size=4 * MIB)
    finally:
        for number in range(2, 16):
            host_dir.remove_lun(number)
        host.wait_luns(2)
    assert sums(report, "read") == [4 * 1024]


@pytest.mark.parametrize("mode", ["prepared", "adhoc"])
def test_interrupted_job_ends_when_its_commands_have_ended(ram, node, mode):
    """SIGINT ends a job that has 128 commands in flight on a slow disk."""
    ram[0].set("model/service_ns", 40_000_000)
    try:
        with load_on(node, ioengine=f"external:{ENGINE}", rw="randread", bs="4k", iodepth=128,
                     time_based=True, runtime=50, smq_mode=mode) as load:
            wait_for("commands in flight", lambda: smqsg.attr(node, "inflight") > 0)
        assert load.result()["jobs"][0]["job_runtime"] < 40000
    finally:
        ram[0].set("model/service_ns", 0)


@pytest.fixture(name="debug", scope="module")
def debug_(sg_module):
    """The node of a disk of scsi_debug, which has more commands than smq_ram."""
    with loaded("scsi_debug", delay=0, dev_size_mb=8) as (host,):
        yield smqsg.node(host.luns()[0])


def lba_2048(opcode, length, flags=0):
    """The CDB for 8 blocks at LBA 2048; for 32 bytes @opcode is the service action."""
    lba, blocks = 2048, 8
    if length == 10:
        return bytes([opcode, flags]) + lba.to_bytes(4) + bytes(1) + blocks.to_bytes(2) + bytes(1)
    if length == 16:
        return bytes([opcode, flags]) + lba.to_bytes(8) + blocks.to_bytes(4) + bytes(2)
    return bytes([0x7f, 0, 0, 0, 0, 0, 0, 0x18, 0, opcode, flags, 0]) + lba.to_bytes(8) + \
        lba.to_bytes(4) + bytes(4) + blocks.to_bytes(4)


COMMANDS = [
    ("write", {}, lba_2048(0x2a, 10)), ("write", {"smq_mode": "adhoc"}, lba_2048(0x2a, 10)),
    ("read", {"cdb_len": 16}, lba_2048(0x88, 16)), ("write", {"cdb_len": 16}, lba_2048(0x8a, 16)),
    ("read", {"cdb_len": 32}, lba_2048(9, 32)), ("write", {"cdb_len": 32}, lba_2048(11, 32)),
    ("read", {"readfua": 1, "writefua": 0}, lba_2048(0x28, 10, 8)),
    ("write", {"writefua": 1, "readfua": 0}, lba_2048(0x2a, 10, 8)),
    ("write", {"write_mode": "verify", "writefua": 1}, lba_2048(0x2f, 10)),
    ("write", {"write_mode": "verify", "cdb_len": 16, "verify_bytchk": 1}, lba_2048(0x8f, 16, 2)),
    ("write", {"write_mode": "verify", "verify_bytchk": 3}, lba_2048(0x2f, 10, 6)),
    ("write", {"write_mode": "verify", "verify_bytchk": 3, "smq_mode": "adhoc"},
     lba_2048(0x2f, 10, 6)),
    ("read", {"read_mode": "prefetch"}, lba_2048(0x34, 10)),
    ("read", {"read_mode": "prefetch", "cdb_len": 16}, lba_2048(0x90, 16)),
]


@pytest.mark.parametrize("rw,options,cdb", COMMANDS, ids=lambda v: v if isinstance(v, str) else
                         v.hex()[:2] if isinstance(v, bytes) else "-".join(map(str, v.values())))
def test_commands_of_fios_own_options(debug, rw, options, cdb):
    """A read or write becomes the command that the options name."""
    with recording("scsi/scsi_dispatch_cmd_start") as lines:
        smq(debug, rw=rw, bs="4k", size="4k", offset=MIB, buffer_pattern="0x00", **options)
    sent = [bytes.fromhex(line.rpartition("raw=")[2].rstrip(")\n ")) for line in lines
            if "raw=" in line]
    assert [one for one in sent if one[0] in (cdb[0], 0x28, 0x2a)] == [cdb]


def test_verify_compares_and_writes_nothing(debug):
    """With BYTCHK=1 the disk compares each byte, with 3 the first block with each; a disk in use
    may be verified."""
    job = {"bs": "4k", "size": MIB, "iodepth": 8, "iodepth_batch": 4, "rw": "write"}
    smq(debug, buffer_pattern="0xaa", **job)
    with open(f"/dev/{os.listdir(f'/sys/class/smq_sg/{Path(debug).name}/device/block')[0]}",
              "rb", opener=lambda path, flags: os.open(path, flags | os.O_EXCL)):
        for check in (0, 1, 3):
            report = smq(debug, write_mode="verify", verify_bytchk=check, buffer_pattern="0xaa",
                         **job)
            assert sums(report, "write") == [256]
        for check in (1, 3):
            assert "Miscompare" in refused(debug, write_mode="verify", verify_bytchk=check,
                                           buffer_pattern="0xab", **job)
    smq(debug, **job | {"rw": "read", "verify": "pattern", "verify_pattern": "0xaa"})


@pytest.mark.parametrize("options,why", [
    ({"cdb_len": 12}, "cdb_len=12 is not 0, 10, 16 or 32"),
    ({"verify_bytchk": 2}, "verify_bytchk=2 is not 0, 1 or 3"),
    ({"cdb_len": 32, "read_mode": "prefetch"}, "there is no PRE-FETCH with cdb_len=32"),
    ({"verify": "crc32c", "write_mode": "verify"}, "verify= needs write_mode=write"),
], ids=lambda v: str(v)[:30])
def test_options_that_do_not_fit_each_other_are_refused(node, options, why):
    assert f"fio: smq: {why}" in refused(node, rw="rw", bs="4k", size=MIB, **options)


def test_ten_bytes_for_a_large_disk_are_refused(ram):
    with third_lun(ram, size_mb=8 << 20) as lun:
        assert "cdb_len=10 cannot have all LBAs" in refused(smqsg.node(lun), rw="read", bs="4k",
                                                            size=MIB, cdb_len=10)
