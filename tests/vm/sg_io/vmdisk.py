# SPDX-License-Identifier: GPL-2.0
"""scsi_debug disks in the guest, and runs of sg_io on them."""

import contextlib
import fcntl
import glob
import json
import os
import pathlib
import subprocess
import threading
import time

from kit.host import unload

ROOT = pathlib.Path(__file__).resolve().parents[3]
SG_IO = ROOT / "tools/sg_io"
TIMEOUT = 120
DISK_MIB = 16
BLOCKS = DISK_MIB * 2048
# scsi_debug's opts
TIMES_OUT, RECOVERED, TRANSPORT, SHORT = 4, 8, 16, 0x100


def wait_for(what, seconds=60):
    end = time.monotonic() + seconds
    while not (got := what()):
        assert time.monotonic() < end, f"the condition was not met within {seconds} s"
        time.sleep(0.05)
    return got


class Disk:
    """A LUN of scsi_debug, given by its sysfs folder."""

    def __init__(self, sysfs):
        self.sysfs = pathlib.Path(sysfs)
        self.hctl = self.sysfs.name
        self.sd, self.sg, self.bsg = (
            "/dev/" + prefix + os.listdir(self.sysfs / name)[0]
            for name, prefix in (("block", ""), ("scsi_generic", ""), ("bsg", "bsg/")))
        self.queue = pathlib.Path("/sys/block", os.path.basename(self.sd), "queue")

    @property
    def node(self):
        """The node of each path. Those of smq_sg are there if it is loaded."""
        nodes = {"sg": self.sg, "bsg": self.bsg, "block": self.sd}
        if os.path.exists("/sys/class/smq_sg"):
            nodes |= {"smq": self.smq, "bsg-uring": self.smq}
        return nodes

    @property
    def smq(self):
        """The disk's node of smq_sg, which must be loaded. Waits until the node exists."""
        folder = self.sysfs / "smq_sg"
        node = wait_for(lambda: folder.exists() and os.listdir(folder))[0]
        return wait_for(lambda: os.path.exists(f"/dev/{node}") and f"/dev/{node}")

    def attribute(self, name):
        return (self.sysfs / name).read_text().strip()

    def smq_attribute(self, name):
        """An attribute of the disk's node of smq_sg, in sysfs."""
        return pathlib.Path("/sys/class/smq_sg", os.path.basename(self.smq),
                            name).read_text(encoding="ascii").strip()

    def done(self):
        """How many commands have ended. smq_sg adds those that it counts per CPU a moment later."""
        time.sleep(0.06)
        return int(self.attribute("iodone_cnt"), 16)

    def make_partition(self):
        """Writes an MBR with one partition from 1 MiB on; returns the partition's node."""
        entry = bytes(8) + (2048).to_bytes(4, "little") + (BLOCKS - 4096).to_bytes(4, "little")
        with open(self.sd, "r+b", buffering=0) as f:
            os.pwrite(f.fileno(), bytes(446) + entry[:4] + b"\x83" + entry[5:] + bytes(48) +
                      b"\x55\xaa", 0)
            os.fsync(f.fileno())
            fcntl.ioctl(f.fileno(), 0x125f)   # BLKRRPART
        wait_for(lambda: os.path.exists(self.sd + "1"))
        return self.sd + "1"

    def wipe(self):
        """Removes file systems and partition tables, because sg_io refuses to write to them."""
        subprocess.run(["wipefs", "--all", "--force", self.sd], check=True, timeout=TIMEOUT,
                       stdout=subprocess.DEVNULL)

    def read(self, lba, blocks):
        with open(self.sd, "rb", buffering=0) as f:
            os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            return os.pread(f.fileno(), blocks * 512, lba * 512)


@contextlib.contextmanager
def disks(hosts=1, **params):
    """The disks of a freshly loaded scsi_debug."""
    for name in ("sd_mod", "sg"):
        subprocess.run(["modprobe", name], check=True, timeout=TIMEOUT)
    params = {"dev_size_mb": DISK_MIB, "delay": 0, "max_queue": 64, "submit_queues": 2,
              "add_host": hosts, **params}
    subprocess.run(["modprobe", "scsi_debug", *(f"{k}={v}" for k, v in params.items())],
                   check=True, timeout=TIMEOUT)
    try:
        pattern = "/sys/bus/pseudo/drivers/scsi_debug/adapter*/host*/target*/*:*:*:*"

        def ready():
            found = sorted(glob.glob(pattern))
            return len(found) == hosts and all(
                glob.glob(f"{d}/block/*/queue/max_hw_sectors_kb") and glob.glob(f"{d}/bsg/*") and
                glob.glob(f"{d}/scsi_generic/*") for d in found) and found
        found = [Disk(d) for d in wait_for(ready)]
        for disk in found:
            settle(disk)
            # The tests count commands, so the block layer must not merge adjacent requests.
            (disk.queue / "nomerges").write_text("2")
        yield found
    finally:
        # sd may still be probing a disk, which keeps the module in use for a moment.
        unload("scsi_debug")


def settle(disk):
    """Waits until sd has probed the disk: until the disk completes no more commands."""
    def quiet():
        before = disk.done()
        time.sleep(0.2)
        return disk.done() == before
    wait_for(quiet)


def set_param(name, value):
    pathlib.Path(f"/sys/bus/pseudo/drivers/scsi_debug/{name}").write_text(str(value))


class Busy(threading.Thread):
    """Finds the largest number of commands that the device had in two consecutive samples.

    The kernel sums the number word by word: a single sample may count both a command that ends and
    the next one that begins."""

    def __init__(self, disk):
        super().__init__(daemon=True)
        self.disk, self.most, self.stop = disk, 0, False

    def run(self):
        before = 0
        while not self.stop:
            now = int(self.disk.attribute("device_busy"))
            self.most = max(self.most, min(before, now))
            before = now
            time.sleep(0.002)


@contextlib.contextmanager
def most_in_flight(disk, most):
    """Checks that during the block the device never has more than @most commands, and at least once
    has @most. Commands take 100 ms each."""
    set_param("ndelay", 100_000_000)
    watch = Busy(disk)
    watch.start()
    try:
        yield
    finally:
        watch.stop = True
        watch.join()
        set_param("delay", 0)
    assert watch.most == most, f"{watch.most} of {most} in flight"


def sg_io(*args, stdin="", **kwargs):
    return subprocess.run([SG_IO, *map(str, args)], input=stdin, text=True, capture_output=True,
                          timeout=TIMEOUT, check=False, **kwargs)


def run_json(*args, stdin="", expect=0):
    done = sg_io("run", "--json", *args, stdin=stdin)
    assert done.returncode == expect, (done.returncode, done.stderr, done.stdout)
    return json.loads(done.stdout)


def compare(*args, stdin="", expect=0):
    done = sg_io("compare", "--json", *args, stdin=stdin)
    assert done.returncode == expect, (done.returncode, done.stderr, done.stdout)
    assert done.stderr == ""
    return json.loads(done.stdout)


def generate(path, *args):
    with open(path, "w", encoding="ascii") as out:
        subprocess.run([SG_IO, "gen", *map(str, args)], stdout=out, check=True, timeout=TIMEOUT)
    return path
