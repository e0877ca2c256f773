# SPDX-License-Identifier: GPL-2.0
"""The module smq_sg and its nodes, and scsi_debug as a device for tests."""
import errno
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from . import cdb, sgio
from .host import Lun, load, unload, wait_for

CLASS = Path("/sys/class/smq_sg")


def node(lun: Lun, seconds: float = 20) -> str:
    """/dev/smqsgN of a LUN."""
    def there():
        for entry in (lun.sysfs / "smq_sg").glob("smqsg*"):
            if os.path.exists(f"/dev/{entry.name}"):
                return f"/dev/{entry.name}"
        return ""
    return wait_for(f"smqsg node of {lun.address}", there, seconds)


def attr(path: str, name: str) -> int:
    """The number in a node's attribute, such as "inflight"."""
    return int((CLASS / os.path.basename(path) / name).read_text(encoding="ascii"))


@contextmanager
def module() -> Iterator[None]:
    """Loads smq_sg during the block. Unloading it fails if any of its nodes is still in use."""
    load("smq_sg")
    try:
        yield
    finally:
        unload("smq_sg")


def idle(path: str) -> None:
    """Waits until a node has nothing in flight."""
    wait_for("nothing in flight", lambda: not attr(path, "inflight"))


def tags(lun: Lun) -> int:
    """How many tags of all hardware queues are in use, by any user."""
    busy = 0
    for path in Path("/sys/kernel/debug/block", Path(lun.sd).name).glob("hctx*/tags"):
        text = path.read_text(encoding="ascii").split("bitmap_tags:")[1]
        busy += int(text.split("busy=")[1].split()[0])
    return busy


@contextmanager
def opened(*paths: str, flags: int = os.O_RDWR) -> Iterator[list[int]]:
    """Yields open descriptors of nodes."""
    with ExitStack() as stack:
        fds = []
        for path in paths:
            fds.append(os.open(path, flags | os.O_CLOEXEC))
            stack.callback(os.close, fds[-1])
        yield fds


def clear_attentions(path: str) -> None:
    """Clears a device's pending unit attentions."""
    with sgio.SgDev(path) as dev:
        for _ in range(8):
            dev.cmd(cdb.plain(cdb.TEST_UNIT_READY))


@contextmanager
def depth(lun: Lun, commands: int) -> Iterator[None]:
    """Sets a LUN's queue_depth during the block."""
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
    """During the block, commands of scsi_debug that move data take @seconds (below 1)."""
    set_delay(int(seconds * 1e9))
    try:
        yield
    finally:
        set_delay(0)


def set_delay(nanoseconds: int) -> None:
    """Sets the delay of scsi_debug. Tries again until scsi_debug has no commands: while it has any,
    it refuses the change."""
    def done():
        try:
            (SCSI_DEBUG / "ndelay").write_text(str(nanoseconds), encoding="ascii")
            return True
        except OSError as error:
            assert error.errno == errno.EBUSY, error
            return False
    wait_for(f"scsi_debug idle for ndelay={nanoseconds}", done)
