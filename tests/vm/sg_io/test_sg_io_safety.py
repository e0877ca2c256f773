# SPDX-License-Identifier: GPL-2.0
# on: uml
# not on sanitize: it tests programs, which are the same there
"""sg_io refuses to write to disks in use, keeps limits, ends at a signal, and shows progress."""

import contextlib
import json
import os
import pathlib
import pty
import signal
import subprocess
import time

import pytest
import vmdisk
from vmdisk import SG_IO, run_json, set_param, sg_io

READ = "28000000000000000800 in 4096\n"
WRITE = "2a000000000000000800 out 4096 pattern=lba\n"
WR_UNCOR = "3f400000000000000000 none 0\n"
RESET_ZONES = "94040000000000000000000000000100 none 0\n"
ATA_32 = f"7f{'00' * 6}181ff0{'00' * 22} none 0\n"
pytestmark = pytest.mark.usefixtures("fast_path")


def call(*args):
    subprocess.run(args, check=True, timeout=60, stdout=subprocess.DEVNULL)


@contextlib.contextmanager
def mounted(disk, tmp_path):
    call("modprobe", "ext4")
    call("mkfs.ext4", "-q", "-F", disk.sd)
    call("mount", "-o", "ro", disk.sd, tmp_path)
    try:
        yield "is mounted on"
    finally:
        call("umount", tmp_path)
        disk.wipe()


@contextlib.contextmanager
def partition_mounted(disk, tmp_path):
    call("modprobe", "ext4")
    partition = disk.make_partition()
    call("mkfs.ext4", "-q", "-F", partition)
    call("mount", "-o", "ro", partition, tmp_path)
    try:
        yield f"{os.path.basename(partition)} is mounted on"
    finally:
        call("umount", tmp_path)
        disk.wipe()


@contextlib.contextmanager
def swap(disk, _tmp_path):
    call("mkswap", disk.sd)
    call("swapon", disk.sd)
    try:
        yield "is swap space"
    finally:
        call("swapoff", disk.sd)
        disk.wipe()


@contextlib.contextmanager
def exclusive(disk, _tmp_path):
    fd = os.open(disk.sd, os.O_RDONLY | os.O_EXCL)
    name = pathlib.Path("/proc/self/comm").read_text(encoding="ascii").strip()
    try:
        yield f"is open exclusively elsewhere; open in {name} (process {os.getpid()})"
    finally:
        os.close(fd)


@pytest.mark.parametrize("use", [
    *(pytest.param(use, marks=pytest.mark.not_uml("it has neither ext4 nor swap"))
      for use in (mounted, partition_mounted, swap)), exclusive], ids=lambda f: f.__name__)
def test_a_disk_in_use_is_not_written(disk, tmp_path, use):
    mountpoint = tmp_path / "mnt"
    mountpoint.mkdir()
    spare = vmdisk.BLOCKS - 8
    write = f"2a00{spare:08x}00000800 out 4096 pattern="
    with use(disk, mountpoint) as why:
        for via in ("sg", "bsg", "block", "smq", "bsg-uring"):
            for line in (write + "ff\n", "040000000000 none 0\n", "1b0000000000 none 0\n",
                         RESET_ZONES, ATA_32, WR_UNCOR):
                done = sg_io("run", "--via", via, disk.node[via], "-", stdin=READ + line)
                if via == "block" and not line.startswith("2a"):
                    assert done.returncode == 2
                    continue
                assert (done.returncode, done.stdout) == (3, "")
                assert why in done.stderr
                assert "refused without --force" in done.stderr
            # Checks the data, not counters, because file systems send I/O of their own.
            assert disk.read(spare, 8) != b"\xff" * 4096
            got = run_json("--via", via, disk.node[via], "-", stdin=READ)
            assert got["status"] == {"GOOD": 1}
            forced = sg_io("run", "--force", "--via", via, disk.node[via], "-",
                           stdin=write + "lba\n")
            assert why in forced.stderr
            # The kernel itself refuses block writes to a swap device.
            assert forced.returncode == (1 if via == "block" and use is swap else 0)


@pytest.mark.parametrize("make,why", [
    (lambda disk: call("mkfs.ext4", "-q", "-F", disk.sd), "has the signature of ext4 (filesystem)"),
    (lambda disk: call("mkswap", disk.sd), "has the signature of swap (other)"),
    (vmdisk.Disk.make_partition, "has a partition table (dos)"),
], ids=["ext4", "swap", "partitions"])
def test_a_disk_with_data_is_not_written(disk, make, why):
    """Only --force writes over data that libblkid recognizes. READs need no --force."""
    make(disk)
    head = disk.read(0, 16)
    try:
        for args in (["run", disk.sg], ["run", disk.sd], ["run", "--via", "block", disk.sg],
                     ["replay", "--mode", "max", disk.bsg], ["compare", "--via", "sg", disk.sg]):
            done = sg_io(*args, "-", stdin=WRITE)
            assert done.returncode == 3
            said = done.stderr + done.stdout
            assert f"{disk.sd} {why}; data-out and destructive commands are refused" in said
            assert done.stderr.count("\n") <= 1
            assert disk.read(0, 16) == head
            assert sg_io(*args, "-", stdin=READ).returncode == 0
        assert run_json("--force", disk.sg, "-", stdin=WRITE)["status"] == {"GOOD": 1}
        assert disk.read(0, 16) != head
    finally:
        disk.wipe()


def test_a_writing_run_prevents_a_mount(disk):
    with subprocess.Popen([SG_IO, "run", "--rate", "20", "--time", "30", disk.sg, "-"],
                          stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as user:
        user.stdin.write(WRITE.encode())
        user.stdin.close()
        before = disk.done()
        # More commands than it sends to find out what the device is.
        vmdisk.wait_for(lambda: disk.done() > before + 12)
        with pytest.raises(OSError):
            os.close(os.open(disk.sd, os.O_RDONLY | os.O_EXCL))
        user.send_signal(signal.SIGINT)
        assert user.wait(30) == 130
    os.close(os.open(disk.sd, os.O_RDONLY | os.O_EXCL))


def test_partition_is_refused(disk, reads):
    done = sg_io("run", disk.make_partition(), reads)
    assert done.returncode == 3
    assert "is a partition; SCSI commands go to the whole disk" in done.stderr
    disk.wipe()


@pytest.mark.parametrize("line,why", [
    ("000000000000 none 0", "TEST UNIT READY (opcode 00h): block takes only READ and WRITE"),
    ("35000000000000000000 none 0", "block takes only READ and WRITE"),
    ("2f000000000000000800 none 0", "block takes only READ and WRITE"),
    ("c00000000000 in 4", "command (opcode C0h): block takes only READ and WRITE"),
    ("28000000000000000000 none 0", "READ(10) of 0 blocks"),
    ("28080000000000000800 in 4096", "READ(10) with FUA: block I/O has no such read"),
    ("28200000000000000800 in 4096", "READ(10) asks for protection information"),
    ("28000000000000000800 in 8192", "BYTES is 8192, but 8 blocks of"),
    ("28000000800000000100 in 512", f"LBA 32768, 1 blocks: past the {vmdisk.BLOCKS} blocks"),
    ("280000007fff00000200 in 1024", f"LBA 32767, 2 blocks: past the {vmdisk.BLOCKS} blocks"),
    ("88" + "00" + "ff" * 8 + "00000001" + "0000 in 512", "past the"),
])
def test_via_block_refuses_other_commands(disk, line, why):
    before = disk.done()
    done = sg_io("run", "--via", "block", disk.sd, "-", stdin=f"{READ}{line}\n")
    assert done.returncode == 2
    assert done.stderr.startswith("sg_io: standard input:2: ")
    assert why in done.stderr
    assert disk.done() == before


def test_memory_and_threads_are_bounded(disk, reads):
    done = sg_io("run", "--depth", 4096, "--memory", 8, disk.sg, reads)
    assert done.returncode == 2
    assert "--memory is 8" in done.stderr
    done = sg_io("run", "--depth", 4096, "--jobs", 2, disk.bsg, reads)
    assert done.returncode == 2
    assert "make 8192 threads, the limit is 4096" in done.stderr


def test_lack_of_file_descriptors_is_reported(disk, reads):
    done = subprocess.run(["sh", "-c", f"ulimit -n 20; {SG_IO} run --depth 1000 {disk.sg} {reads}"],
                          capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 3
    assert "out of file descriptors" in done.stderr


@pytest.mark.parametrize("options", [[], ["--depth", 8], ["--jobs", 3]])
def test_rate_is_kept(disk, reads, options):
    got = run_json("--rate", 200, "--count", 101, *options, disk.sg, reads)
    assert got["commands"] == 101
    # The last command is due after half a second, and is never sent earlier.
    assert got["seconds"] >= 0.5


@pytest.mark.parametrize("via", ["sg", "bsg", "block"])
def test_time_ends_a_run(disk, reads, via):
    got = run_json("--time", 0.5, "--depth", 4, "--via", via, disk.sd, reads)
    assert got["commands"] > 10
    # The last command may end just before the time is over.
    assert 0.4 <= got["seconds"] < 30
    assert run_json("--time", 30, "--count", 7, disk.sg, reads)["commands"] == 7


@pytest.mark.parametrize("via,depth", [("sg", 1), ("sg", 20), ("bsg", 4), ("block", 8),
                                       ("smq", 16), ("bsg-uring", 16)])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_with_the_partial_result(disk, reads, via, depth, number):
    before = disk.done()
    with subprocess.Popen([SG_IO, "run", "--json", "--via", via, "--depth", str(depth),
                           "--batch", "4" if depth == 16 else "1", "--time", "300",
                           disk.node[via], reads], stdout=subprocess.PIPE) as user:
        vmdisk.wait_for(lambda: disk.done() > before + 100)
        user.send_signal(number)
        out, _ = user.communicate(timeout=30)
        assert user.returncode == 128 + number
    got = json.loads(out)
    assert got["status"] == {"GOOD": got["commands"]}
    assert got["commands"] == disk.done() - before
    assert got["interrupted"] is True


def test_second_signal_does_not_wait(disk):
    """Commands take a second each: after one signal sg_io waits for them, after two it does not."""
    set_param("ndelay", 999_000_000)
    try:
        # Repeated, because on a busy machine the second signal may come after their end.
        for _ in range(4):
            with subprocess.Popen([SG_IO, "run", "--json", "--depth", "4", disk.sg, "-"],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE) as user:
                user.stdin.write(READ.encode() * 4)
                user.stdin.close()
                vmdisk.wait_for(lambda: disk.attribute("device_busy") != "0")
                user.send_signal(signal.SIGINT)
                time.sleep(0.3)
                user.send_signal(signal.SIGINT)
                out = user.stdout.read()
                assert user.wait(30) == 130
            if not json.loads(out)["commands"]:
                break
        assert json.loads(out)["commands"] == 0
    finally:
        vmdisk.wait_for(lambda: disk.attribute("device_busy") == "0")
        set_param("delay", 0)


@pytest.mark.parametrize("before,after", [(["info"], []), (["run"], ["-"])],
                         ids=lambda v: "".join(v))
def test_user_without_permission_learns_who_has_it(disk, before, after):
    """The user 65534 may not look into the directory of sg_io, so the file is opened before."""
    program = os.open(SG_IO, os.O_RDONLY)
    try:
        done = subprocess.run([f"/proc/self/fd/{program}", *before, disk.sg, *after],
                              input=READ, text=True, capture_output=True, check=False, timeout=60,
                              pass_fds=[program], user=65534, group=65534, extra_groups=[])
    finally:
        os.close(program)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.endswith(": Permission denied; be root, or let a udev rule give you the "
                                "node: see sg_io(8)\n")


def on_terminal(*args):
    """Runs sg_io with a terminal for its standard error only."""
    master, slave = pty.openpty()
    with subprocess.Popen([SG_IO, *args], stdout=subprocess.PIPE, stderr=slave) as user:
        os.close(slave)
        shown = b""
        with contextlib.suppress(OSError):
            while chunk := os.read(master, 4096):
                shown += chunk
        os.close(master)
        return user.stdout.read(), shown.decode()


def test_progress_is_shown_on_a_terminal(disk, reads):
    out, shown = on_terminal("run", "--json", "--rate", "1000", "--count", "1500", disk.sg, reads)
    assert json.loads(out)["commands"] == 1500
    assert "/1500 commands" in shown
    assert "0 not good" in shown
    # The progress line is removed before the result is printed.
    assert shown.endswith("\r\033[K")


def test_no_progress_is_shown_without_a_terminal(disk, reads):
    done = sg_io("run", "--rate", 1000, "--count", 1000, disk.sg, reads)
    assert (done.returncode, done.stderr) == (0, "")


def test_unchecked_reports_the_residual(disk):
    line = "28000000000000000800 in 8192\n"
    assert run_json("--unchecked", disk.sg, "-", stdin=line, expect=1)["status"] == {
        "GOOD": 0, "UNDERRUN": 1}


def test_no_output_replaces_what_is_read(disk, tmp_path):
    """test_sg_io_outputs.py has the commands that need no device."""
    (tmp_path / "data").write_bytes(b"Z" * 512)
    text = "2a000000000000000100 out 512 data=data@0 at=0\n"
    (tmp_path / "cmds").write_text(text, encoding="ascii")
    files = [disk.sg, tmp_path / "cmds"]
    for args in (["run", "--log", tmp_path / "cmds", *files],
                 ["run", "--log", tmp_path / "data", *files],
                 ["run", "--log", disk.sd, *files],
                 ["replay", "--log", tmp_path / "cmds", *files],
                 ["replay", "--record", tmp_path / "cmds", *files],
                 ["replay", "--record", tmp_path / "data", "--log", tmp_path / "l", *files],
                 ["record", "--output", disk.sd, disk.sg]):
        done = sg_io(*args)
        assert (done.returncode, done.stdout) == (2, "")
        assert "would replace an input or another output of this command" in done.stderr
        assert done.stderr.count("\n") == 1
    assert (tmp_path / "cmds").read_text(encoding="ascii") == text
    assert (tmp_path / "data").read_bytes() == b"Z" * 512 and not (tmp_path / "l").exists()
    assert disk.read(0, 1) != b"Z" * 512


def test_messages_name_the_state(disk):
    """The state of a device that does not answer. Others, as transport-offline, the kernel sets."""
    attribute = disk.sysfs / "state"
    attribute.write_text("offline\n", encoding="ascii")
    try:
        for args in (["gen", "--device", disk.sg, "--op", "read10", "--count", 1],
                     ["copy", disk.sg, disk.bsg], ["run", disk.sg, "-"],
                     ["run", "--via", "block", disk.sd, "-"]):
            done = sg_io(*args, stdin=READ)
            assert done.returncode == 3 and "; its state is offline" in done.stderr, args
        assert json.loads(sg_io("info", "--json", disk.bsg).stdout)["state"] == "offline"
    finally:
        attribute.write_text("running\n", encoding="ascii")
    assert json.loads(sg_io("info", "--json", disk.bsg).stdout)["state"] == "running"
