# SPDX-License-Identifier: GPL-2.0
"""Runs in the guest: sets up the devices of all rows at once, so that rows can be measured in turn.

Hosts of smq_ram are made through configfs, one for each row.
"""

import errno
import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from smqbench.errors import BenchError

CONFIGFS = Path("/sys/kernel/config")
RAM = CONFIGFS / "smq/ram"
SCSI_HOSTS = Path("/sys/class/scsi_host")
WAIT = 60  # seconds for nodes to appear
DEPTH = 128
# Values of doorbell_ns in RAM_ROWS: they stand for the setting with which a doorbell takes the
# wanted time, and for a fifth of that setting.
DOORBELL, DOORBELL_FIFTH = -1, -5


Found = TypeVar("Found")


class Skipped(Exception):
    """A row cannot be measured here; the text says why."""


@dataclass
class Device:
    """The disks of a row, and their settings."""

    disks: list[str]                                        # in LUN order
    setting: dict[str, str] = field(default_factory=dict)   # for the report


def modprobe(module: str, **parameters: int) -> str:
    """Loads a module; returns the command."""
    words = ["modprobe", module, *(f"{name}={value}" for name, value in parameters.items())]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(f"{' '.join(words)}: {done.stderr.strip()}")
    return " ".join(words)


def wait_for(what: str, check: Callable[[], Found | None], seconds: float = WAIT) -> Found:
    """Waits until check() returns a true value, and returns that."""
    end = time.monotonic() + seconds
    while True:
        found = check()
        if found:
            return found
        if time.monotonic() > end:
            raise BenchError(f"{what}: not within {seconds:g} s")
        time.sleep(0.02)


def hosts(proc_name: str) -> set[Path]:
    """The SCSI hosts of a driver."""
    return {host for host in SCSI_HOSTS.glob("host*")
            if (host / "proc_name").read_text(encoding="ascii").strip() == proc_name}


def _disks(host: Path) -> list[str]:
    found = sorted((int(path.parents[1].name.rpartition(":")[2]), f"/dev/{path.name}")
                   for path in host.glob("device/target*/*/block/sd*"))
    return [disk for _, disk in found if os.path.exists(disk)]


def scsi_disks(host: Path, luns: int) -> list[str]:
    """Waits until a host has this many disks; returns them in the order of LUNs."""
    return wait_for(f"{luns} disks of {host.name}",
                    lambda: (lambda disks: disks if len(disks) == luns else None)(_disks(host)))


def write(path: Path, value: object) -> None:
    """Writes an attribute. Raises BenchError if the kernel refuses the value."""
    try:
        path.write_text(f"{value}\n", encoding="ascii")
    except OSError as error:
        raise BenchError(f"{path}: {value}: {error.strerror}") from None


def _null_blk(luns: int, _size_mb: int) -> Device:
    line = modprobe("null_blk", queue_mode=2, irqmode=0, bs=512, gb=1, nr_devices=luns,
                    submit_queues=os.cpu_count() or 1, hw_queue_depth=DEPTH)
    return Device([f"/dev/nullb{n}" for n in range(luns)], {"device": line})


def _scsi_debug(luns: int, size_mb: int) -> Device:
    line = modprobe("scsi_debug", delay=0, fake_rw=1, max_luns=luns, dev_size_mb=size_mb,
                    submit_queues=os.cpu_count() or 1)
    host = wait_for("scsi_debug", lambda: hosts("scsi_debug")).pop()
    return Device(scsi_disks(host, luns), {"device": line})


def _ram(row: str, luns: int, size_mb: int, *, null: int = 0, hw_queues: int = 0, policy: str = "",
         knobs: dict[str, str] | None = None, **model: int) -> Device:
    folder = RAM / row
    folder.mkdir()
    write(folder / "depth", DEPTH)
    if hw_queues:
        write(folder / "hw_queues", hw_queues)
    for name, value in model.items():
        write(folder / "model" / name, value)
    for number in range(luns):
        lun = folder / "luns" / str(number)
        lun.mkdir()
        write(lun / "size_mb", size_mb)
        write(lun / "null", null)
        write(lun / "power", 1)
    before = hosts("smq_ram")
    write(folder / "power", 1)
    host = wait_for(f"smq_ram {row}", lambda: hosts("smq_ram") - before).pop()
    words = [f"luns={luns}", f"size_mb={size_mb}", f"null={null}", f"depth={DEPTH}",
             f"hw_queues={hw_queues or os.cpu_count()}",
             *(f"model/{name}={value}" for name, value in model.items())]
    device = Device(scsi_disks(host, luns), {"device": "smq_ram " + " ".join(words)})
    if policy:
        _set_policy(host, policy, knobs or {})
        device.setting["policy"] = " ".join([policy, *(f"{name}={value}" for name, value
                                                       in (knobs or {}).items())])
    if not null:
        for disk in device.disks:
            _fill(disk)
    return device


def _set_policy(host: Path, policy: str, knobs: dict[str, str]) -> None:
    try:
        (host / "smq/policy").write_text(policy, encoding="ascii")
    except OSError as error:
        raise Skipped(f"smq refuses the policy {policy}: {error.strerror}") from None
    for name, value in knobs.items():
        try:
            (host / name).write_text(value, encoding="ascii")
        except OSError as error:
            raise Skipped(f"{name}={value}: {error.strerror}") from None


def _opened(disk: str) -> BinaryIO | None:
    """Opens a disk for writing. Returns None if the caller must try again: the node of a disk that
    is being added appears before the disk can be opened."""
    try:
        return open(disk, "wb")
    except OSError as error:
        if error.errno in (errno.ENXIO, errno.ENOENT):
            return None
        raise BenchError(f"{disk}: {error.strerror}") from None


def _fill(disk: str) -> None:
    """Writes a disk, because reads of a hole would not move data."""
    with wait_for(f"{disk}: open", lambda: _opened(disk)) as file:
        file.seek(0, os.SEEK_END)
        size = file.tell()
        file.seek(0)
        for _ in range(size >> 20):
            file.write(b"\xa5" * (1 << 20))
        file.flush()
        os.fsync(file.fileno())


MAKERS: dict[str, Callable[[int, int], Device]] = {
    "null_blk": _null_blk,
    "scsi_debug": _scsi_debug,
}
SHARED_POLICIES: dict[str, dict[str, Any]] = {
    "direct": {}, "again": {},
    "bucket": {"policy": "bucket", "knobs": {"smq_bucket/share": "0"}},
}
RAM_ROWS: dict[str, dict[str, Any]] = {
    "smq_ram_null": {"null": 1},
    "smq_ram": {},
    "smq_ram_batch": {"policy": "batch"},
    "smq_ram_1q": {"hw_queues": 1},
    "legacy_2013": {"hw_queues": 1, "policy": "legacy-model",
                    "knobs": {"smq_legacy/era": "2013"}},
    "legacy_419": {"hw_queues": 1, "policy": "legacy-model",
                   "knobs": {"smq_legacy/era": "4.19"}},
    "smq_ram_20us": {"service_ns": 20000},
    "smq_ram_20us_batch": {"service_ns": 20000, "policy": "batch"},
    "smq_ram_20us_doorbell": {"service_ns": 20000, "doorbell_ns": DOORBELL},
    "smq_ram_20us_doorbell_batch": {"service_ns": 20000, "doorbell_ns": DOORBELL,
                                    "policy": "batch"},
    "smq_ram_100us": {"service_ns": 100000},
    "smq_ram_100us_batch": {"service_ns": 100000, "policy": "batch"},
    "smq_ram_100us_doorbell": {"service_ns": 100000, "doorbell_ns": DOORBELL},
    "smq_ram_100us_doorbell_batch": {"service_ns": 100000, "doorbell_ns": DOORBELL,
                                     "policy": "batch"},
    **{f"{name}_{word}": {"hw_queues": 1, "null": 1, "doorbell_ns": doorbell, **policy}
       for name, doorbell in (("shared", 1), ("shared_bell", DOORBELL_FIFTH))
       for word, policy in SHARED_POLICIES.items()},
}


def _without_elevator(queue: Path) -> bool:
    """Sets the elevator to none. Returns False if the caller must try again: Linux 7.x returns
    EBUSY while a disk of the host is being added, and ENOENT until this disk's queue is
    registered."""
    try:
        (queue / "scheduler").write_text("none", encoding="ascii")
    except OSError as error:
        if error.errno in (errno.EBUSY, errno.ENOENT):
            return False
        raise BenchError(f"{queue}/scheduler: none: {error.strerror}") from None
    return True


def _settle(disk: str) -> str:
    """Turns off a disk's elevator, and merges of requests that happen to be adjacent; keeps all
    other defaults."""
    queue = Path("/sys/block", os.path.basename(disk), "queue")
    wait_for(f"{queue}: elevator none", lambda: _without_elevator(queue))
    write(queue / "nomerges", 2)
    names = ("nr_requests", "rotational", "add_random", "iostats", "wbt_lat_usec")
    words = [f"{name}={(queue / name).read_text(encoding='ascii').strip()}"
             for name in names if (queue / name).exists()]
    hw_queues = len(list((queue.parent / "mq").iterdir()))
    return " ".join(["elevator=none nomerges=2", f"hw_queues={hw_queues}", *words])


def prepare_ram() -> None:
    """Loads smq_ram without hosts."""
    modprobe("sd_mod")
    if not RAM.exists():
        modprobe("smq_ram", hosts=0)
    if not any(CONFIGFS.iterdir()):
        subprocess.run(["mount", "-t", "configfs", "configfs", str(CONFIGFS)], check=True)
    wait_for(str(RAM), RAM.exists)


def prepare() -> None:
    """Loads the modules that several rows need."""
    prepare_ram()
    for module in ("sg", "smq_sg", "smq_load"):
        modprobe(module)


def bring_up(row: str, luns: int, size_mb: int, doorbell_ns: int) -> Device:
    """Sets up the device of a row; Skipped if this kernel or these modules do not have it."""
    if row in MAKERS:
        device = MAKERS[row](luns, size_mb)
    else:
        doorbells = {DOORBELL: doorbell_ns, DOORBELL_FIFTH: max(doorbell_ns // 5, 1)}
        settings = {name: doorbells.get(value, value) if name == "doorbell_ns" else value
                    for name, value in RAM_ROWS[row].items()}
        device = _ram(row, luns, size_mb, **settings)
    for disk in device.disks:
        device.setting["queue"] = _settle(disk)
    return device
