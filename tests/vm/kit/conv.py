# SPDX-License-Identifier: GPL-2.0
"""smq_conv: claims and releases LUNs, and finds the upper LUNs that it makes for them."""
import errno
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .host import Host, KernelLog, Lun, find_hosts, load, settle, unload, wait_for
from .sanitizing import TIME_FACTOR

DRIVER = Path("/sys/bus/scsi/drivers/smq_conv")
# A program that examines a new device may keep it open for this many seconds.
SOON = 20


def write(path: Path | str, text: str | int) -> None:
    """Writes an attribute by one system call. With buffered output Python would repeat a failed
    write when it closes the file, and the second attempt may succeed."""
    with open(path, "wb", buffering=0) as file:
        file.write(str(text).encode("ascii"))


def ask(what: str, address: str) -> None:
    """Writes a LUN's address to the attribute @what (claim or release). Does not try again."""
    write(DRIVER / what, address)


def _ask_until_closed(what: str, address: str) -> None:
    """The same as ask(), but tries again for SOON seconds while the disk is open."""
    end = time.monotonic() + SOON
    while True:
        try:
            ask(what, address)
            return
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > end:
                raise
            time.sleep(0.05)


def uppers() -> list[Lun]:
    """The LUNs of all upper hosts."""
    return [lun for host in find_hosts("smq_conv") for lun in host.luns()]


def host_of(lun: Lun) -> Host:
    """A LUN's host."""
    return Host(int(lun.address.partition(":")[0]))


def dispatched(lun: Lun) -> int:
    """How many commands of a LUN were sent to its host's driver, counting each retry."""
    return int((lun.sysfs / "iorequest_cnt").read_text(encoding="ascii"), 0)


def again(lun: Lun) -> Lun:
    """Waits until a LUN has a disk again; returns the LUN with its new nodes."""
    def found():
        return next((one for one in host_of(lun).luns() if one.address == lun.address and
                     one.sd and one.sg and one.ready), None)
    return wait_for(f"the disk of {lun.address}", found)


def claim(lower: Lun) -> Lun:
    """Claims a LUN and returns the upper LUN. Waits until the kernel has searched the upper disk
    for partitions. Otherwise the reads of that search would be counted, and would get faults that
    a test arms for its own commands."""
    where = lower.address.partition(":")[2]
    # Upper LUNs of other lower hosts may have the same numbers.
    others = {lun.address for lun in uppers()}

    def found():
        return next((lun for lun in uppers() if lun.address.partition(":")[2] == where and
                     lun.address not in others and lun.sd and lun.sg and lun.ready), None)
    with KernelLog() as log:
        _ask_until_closed("claim", lower.address)
        upper = wait_for(f"the upper disk of {lower.address}", found)
        log.wait(rf"sd {upper.address}: \[\w+\] Attached SCSI", 30 * TIME_FACTOR)
    return upper


def release(lower: Lun) -> Lun:
    """Releases a LUN; returns it with its new nodes."""
    _ask_until_closed("release", lower.address)
    return again(lower)


@contextmanager
def module(io_errors: bool = False) -> Iterator[KernelLog]:
    """Loads smq_conv and unloads it afterwards. Fails if the kernel log then has a fault."""
    with KernelLog() as log:
        load("smq_conv")
        try:
            yield log
        finally:
            unload("smq_conv")
        assert not find_hosts("smq_conv")
        assert not log.faults(), "the kernel log reports a bug:\n" + log.tail(80)
        bad = [] if io_errors else log.io_errors()
        assert not bad, "failed I/O in the kernel log:\n" + "\n".join(bad[:20])


def all_done(lun: Lun) -> dict[str, int]:
    """Waits until an upper LUN's host is idle and has counted as many commands done as queued.
    Returns the host's counters."""
    host = host_of(lun)
    settle(host)
    wait_for("queued and done to agree", lambda: (
        lambda stats: stats["queued"] == stats["done"])(host.stats()))
    return host.stats()
