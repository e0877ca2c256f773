# SPDX-License-Identifier: GPL-2.0
"""The module smq_sg and its nodes, and the device beside which they are tested."""
import errno
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from . import cdb, sgio
from .host import Lun, load, unload, wait_for

CLASS = Path("/sys/class/smq_sg")


def node(lun: Lun, seconds: float = 10) -> str:
    """/dev/smqsgN of a LUN."""
    def there():
        for entry in (lun.sysfs / "smq_sg").glob("smqsg*"):
            if os.path.exists(f"/dev/{entry.name}"):
                return f"/dev/{entry.name}"
        return ""
    return wait_for(f"smqsg node of {lun.address}", there, seconds)


def attr(path: str, name: str) -> int:
    """An attribute of a node, as "inflight"."""
    return int((CLASS / os.path.basename(path) / name).read_text(encoding="ascii"))


@contextmanager
def module() -> Iterator[None]:
    """smq_sg, loaded for a while. It goes only if nothing of it is left."""
    load("smq_sg")
    try:
        yield
    finally:
        unload("smq_sg")


def idle(path: str) -> None:
    """Waits until a node has nothing in flight."""
    wait_for("nothing in flight", lambda: not attr(path, "inflight"))


def tags(lun: Lun) -> int:
    """Tags in use on all hardware queues: requests that the block layer has of anybody."""
    busy = 0
    for path in Path("/sys/kernel/debug/block", Path(lun.sd).name).glob("hctx*/tags"):
        text = path.read_text(encoding="ascii").split("bitmap_tags:")[1]
        busy += int(text.split("busy=")[1].split()[0])
    return busy


@contextmanager
def opened(*paths: str, flags: int = os.O_RDWR) -> Iterator[list[int]]:
    """Descriptors of nodes."""
    with ExitStack() as stack:
        fds = []
        for path in paths:
            fds.append(os.open(path, flags | os.O_CLOEXEC))
            stack.callback(os.close, fds[-1])
        yield fds


def attend(path: str) -> None:
    """Takes the unit attentions that a device has to tell."""
    with sgio.SgDev(path) as dev:
        for _ in range(8):
            dev.cmd(cdb.plain(cdb.TEST_UNIT_READY))


@contextmanager
def depth(lun: Lun, commands: int) -> Iterator[None]:
    """A LUN's queue_depth, for a while."""
    knob = lun.sysfs / "queue_depth"
    before = knob.read_text(encoding="ascii")
    knob.write_text(str(commands), encoding="ascii")
    try:
        yield
    finally:
        knob.write_text(before, encoding="ascii")


SCSI_DEBUG = Path("/sys/bus/pseudo/drivers/scsi_debug")


@contextmanager
def slow(seconds: float) -> Iterator[None]:
    """scsi_debug takes so long for a command that moves data, below a second."""
    set_delay(int(seconds * 1e9))
    try:
        yield
    finally:
        set_delay(0)


def set_delay(nanoseconds: int) -> None:
    """The same, for good; what has been sent ends first."""
    def done():
        try:
            (SCSI_DEBUG / "ndelay").write_text(str(nanoseconds), encoding="ascii")
            return True
        except OSError as error:
            # Not while it has commands.
            assert error.errno == errno.EBUSY, error
            return False
    wait_for(f"scsi_debug idle for ndelay={nanoseconds}", done)
