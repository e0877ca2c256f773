# SPDX-License-Identifier: GPL-2.0
"""Runs in the guest: a host of smq_ram with modelled hardware and one disk."""

import ctypes
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from wallclock import devices
from wallclock.devices import wait_for, write

DEBUGFS = Path("/sys/kernel/debug/smq")
BLKPG, ADD_PARTITION = 0x1269, 1


class _Partition(ctypes.Structure):     # pylint: disable=too-few-public-methods
    """struct blkpg_partition"""
    _fields_ = [("start", ctypes.c_longlong), ("length", ctypes.c_longlong), ("pno", ctypes.c_int),
                ("devname", ctypes.c_char * 64), ("volname", ctypes.c_char * 64)]


class _Blkpg(ctypes.Structure):         # pylint: disable=too-few-public-methods
    """struct blkpg_ioctl_arg"""
    _fields_ = [("op", ctypes.c_int), ("flags", ctypes.c_int), ("datalen", ctypes.c_int),
                ("data", ctypes.c_void_p)]


def read(path: Path) -> str:
    """Returns the content of an attribute."""
    return path.read_text(encoding="ascii").strip()


class Host:
    """A running host."""

    def __init__(self, folder: Path, sysfs: Path, disk: str):
        self.folder, self.sysfs, self.disk = folder, sysfs, disk
        self.queue = Path("/sys/block", os.path.basename(disk), "queue")
        self.device = self.queue.parent / "device"

    def model(self, **settings: int) -> None:
        """Sets the model of the hardware."""
        for name, value in settings.items():
            write(self.folder / "model" / name, value)

    def set_queue(self, **settings: object) -> None:
        """Sets attributes of the disk's request queue."""
        for name, value in settings.items():
            if (self.queue / name).exists():
                write(self.queue / name, value)

    def choose(self, policy: str, **knobs: object) -> None:
        """Sets the policy's settings, then the policy."""
        for name, value in knobs.items():
            write(self.sysfs / f"smq_{policy}" / name, value)
        write(self.sysfs / "smq/policy", policy)

    def lines(self, about: str) -> list[dict[str, str]]:
        """Returns the lines about this kind of object in the host's stats in debugfs."""
        text = read(DEBUGFS / self.sysfs.name / "stats")
        return [dict(word.split("=", 1) for word in line.split())
                for line in text.splitlines() if line.startswith(f"{about}=")]

    def effective(self) -> str:
        """Returns the effective policy."""
        return self.lines("host")[0]["effective"]

    def advertised(self) -> int:
        """Returns the LUN's advertised depth."""
        return int(read(self.device / "queue_depth"))

    def done(self) -> int:
        """Returns how many commands have ended."""
        return int(read(self.sysfs / "smq/done"))

    def doorbells(self) -> int:
        """Returns how many doorbells have been rung so far."""
        return int(read(self.folder / "model/doorbells"))

    def settle(self) -> None:
        """Waits until nothing is in flight."""
        wait_for("the end of all commands", lambda: read(self.sysfs / "smq/inflight") == "0")

    def partitions(self, *mib: int) -> list[str]:
        """Makes partitions of these sizes; returns their nodes. Each node has its own inode, so
        fsync() of one waits only for its own writes."""
        nodes, start = [], 1 << 20
        with open(self.disk, "rb") as disk:
            for number, size in enumerate(mib, 1):
                part = _Partition(start, size << 20, number, b"", b"")
                arg = _Blkpg(ADD_PARTITION, 0, ctypes.sizeof(part), ctypes.addressof(part))
                fcntl.ioctl(disk, BLKPG, arg)
                start += size << 20
                nodes.append(f"{self.disk}{number}")
        for node in nodes:
            wait_for(node, partial(os.path.exists, node))
        return nodes


@contextmanager
def host(name: str, size_mb: int, **config: int) -> Iterator[Host]:
    """Yields a host, which is removed at the end. Its disk has no elevator and no merges, and the
    kernel does not throttle writes."""
    folder = devices.RAM / name
    folder.mkdir()
    try:
        for key, value in config.items():
            write(folder / key, value)
        (folder / "luns/0").mkdir()
        write(folder / "luns/0/size_mb", size_mb)
        write(folder / "luns/0/power", 1)
        hosts = devices.hosts("smq_ram")
        write(folder / "power", 1)
        sysfs = wait_for(name, lambda: devices.hosts("smq_ram") - hosts).pop()
        disk, = devices.scsi_disks(sysfs, 1)
        found = Host(folder, sysfs, disk)
        wait_for(disk, lambda: (found.queue.parent / "bdi").exists())
        found.set_queue(scheduler="none", nomerges=2, wbt_lat_usec=0)
        yield found
        found.choose("direct")
        found.settle()
    finally:
        wait_for(f"{name} to go", lambda: _remove(folder), 10)


def _remove(folder: Path) -> bool:
    for lun in (folder / "luns").iterdir():
        lun.rmdir()
    folder.rmdir()
    return True
