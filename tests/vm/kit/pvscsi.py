# SPDX-License-Identifier: GPL-2.0
"""QEMU's pvscsi device, and smq_pvscsi, its driver at each stage of the conversion to the layer
(docs/converting-an-lld.md)."""
from contextlib import contextmanager
from pathlib import Path

import pytest

from .host import KernelLog, find_hosts, load, unload, wait_for

DRIVER = Path("/sys/bus/pci/drivers/smq_pvscsi")
PARAMS = Path("/sys/module/smq_pvscsi/parameters")
OLD, LCK, HWQ, PREALLOC, COMMIT, QUEUES = STAGES = range(6)
NAMES = ["old", "legacy_entry", "hwq", "prealloc", "commit", "queues"]


def write(path, text):
    """Writes an attribute."""
    Path(path).write_text(str(text), encoding="ascii")


def function():
    """The PCI function of the device."""
    for path in Path("/sys/bus/pci/devices").iterdir():
        if (path / "device").read_text(encoding="ascii").strip() == "0x07c0":
            return path
    return pytest.fail("no pvscsi device in this VM: run tools/check --only vm/pvscsi")


def bind(stage):
    """Binds the device to the driver at a stage. Returns the host once the disk has its nodes."""
    write(PARAMS / "stage", stage)
    write(function() / "driver_override", "smq_pvscsi")
    write("/sys/bus/pci/drivers_probe", function().name)
    host = wait_for("the host", lambda: next(iter(find_hosts("smq_pvscsi")), None))
    assert (host.sysfs / "smq").exists() == (stage != OLD)
    disk = host.wait_luns(1)[0]
    (disk.queue / "nomerges").write_text("2", encoding="ascii")
    return host


def unbind():
    """Unbinds the device. Clears driver_override, so that smq_pvscsi does not get the device when
    it is loaded again."""
    write(function() / "driver_override", "\n")
    if (DRIVER / function().name).exists():
        write(DRIVER / "unbind", function().name)


@contextmanager
def bound(stage, io_errors=False):
    """Yields the host at a stage. At the end the kernel log must have no fault."""
    with KernelLog() as log:
        load("smq_pvscsi")
        try:
            yield bind(stage)
        finally:
            unbind()
            unload("smq_pvscsi")
        assert not log.faults(), "the kernel log reports a bug:\n" + log.tail(80)
        assert not log.matching("which is not in flight")
        bad = [] if io_errors else log.io_errors()
        assert not bad, "failed I/O in the kernel log:\n" + "\n".join(bad[:20])
