# SPDX-License-Identifier: GPL-2.0
"""Moves virtio-scsi devices from virtio_scsi to smq_virtio and back."""
import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from .host import Host, KernelLog, load, unload, wait_for

DRIVER = Path("/sys/bus/virtio/drivers/smq_virtio")
DEVICES = Path("/sys/bus/virtio/devices")
SCSI, CONSOLE = 8, 3


def write(path, text) -> None:
    """Writes an attribute."""
    Path(path).write_text(str(text), encoding="ascii")


def virtio(kind: int) -> list[Path]:
    """Virtio devices of one type."""
    return [path for path in sorted(DEVICES.iterdir())
            if int((path / "device").read_text(encoding="ascii"), 16) == kind]


def device_at(slot: str, step: str) -> Path:
    """The SCSI device in a PCI slot. @step: the step of tools/check whose VM has this device."""
    for path in virtio(SCSI):
        if slot in str(path.resolve()):
            return path
    return pytest.fail(f"no virtio-scsi device in this VM: run tools/check --only {step}")


def bound_to(path: Path) -> str:
    """The driver of a device."""
    return (path / "driver").resolve().name if (path / "driver").exists() else ""


def host_of(path: Path, luns: int = 1) -> Host:
    """Waits until a device's SCSI host has its disks, and returns the host."""
    found = wait_for(f"a SCSI host of {path.name}",
                     lambda: next(path.resolve().glob("host*"), None))
    host = Host(int(found.name[4:]))
    host.wait_luns(luns)
    return host


def move_device(attr: str, path: Path) -> None:
    """Writes a device's name to smq_virtio's attribute @attr (take or release). Tries again after
    EBUSY, because a program may be probing a new disk."""
    def done():
        try:
            write(DRIVER / attr, path.name)
        except OSError as error:
            assert error.errno == errno.EBUSY
            return False
        return True
    wait_for(f"{attr} of {path.name}", done)


def take(path: Path, luns: int = 1) -> Host:
    """Gives a device to smq_virtio; returns its host."""
    move_device("take", path)
    assert bound_to(path) == "smq_virtio"
    host = host_of(path, luns)
    assert host.attr("proc_name") == "smq_virtio"
    return host


@contextmanager
def module(devices: Callable[[], list[Path]], luns: int = 1, io_errors: bool = False,
           **params) -> Iterator[None]:
    """Loads smq_virtio during the block. At the end gives all devices back to virtio_scsi, and
    fails if the kernel log reports a bug."""
    with KernelLog() as log:
        load("smq_virtio", **params)
        try:
            yield
        finally:
            for path in devices():
                if bound_to(path) == "smq_virtio":
                    move_device("release", path)
            unload("smq_virtio")
            for path in devices():
                host_of(path, luns)
                assert bound_to(path) == "virtio_scsi"
        assert not log.faults(), "the kernel log reports a bug:\n" + log.tail(80)
        bad = [] if io_errors else log.io_errors()
        assert not bad, "failed I/O in the kernel log:\n" + "\n".join(bad[:20])
