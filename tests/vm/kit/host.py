# SPDX-License-Identifier: GPL-2.0
"""Modules, their SCSI hosts and LUNs, and the hosts' counters.

Scanning and the probing of disks are asynchronous: functions that need a node wait for it, for a
limited time. """
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from . import debugfs
from .fiojob import fio, total_ios
from .kernel import SCSI_DEBUG_LEAVES_WORK
from .klog import KernelLog
from .sanitizing import TIME_FACTOR
from .sgio import Disk, SgDev

__all__ = ["Disk", "Host", "KernelLog", "Lun", "ModuleError", "SgDev", "fio", "is_loaded",
           "find_hosts", "load", "loaded", "run", "settle", "total_ios", "under_way",
           "unload", "wait_for"]

SCSI_HOSTS = Path("/sys/class/scsi_host")
SCSI_DEVICES = Path("/sys/bus/scsi/devices")


class ModuleError(Exception):
    """modprobe failed; the text is its output."""


def run(*argv: str, ok: bool = True, limit: float = 60, **more) -> subprocess.CompletedProcess:
    """Runs a program with a time limit. If it fails, raises an error with its output."""
    done = subprocess.run([str(word) for word in argv], capture_output=True, text=True,
                          timeout=limit, check=False, stdin=subprocess.DEVNULL, **more)
    assert not ok or done.returncode == 0, (
        f"{' '.join(map(str, argv))}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def seconds_of(action) -> float:
    """Calls @action; returns how long it took."""
    began = time.monotonic()
    action()
    return time.monotonic() - began


def wait_for(what: str, check: Callable, seconds: float = 20):
    """Waits until @check() returns a true value, and returns that value. Fails after @seconds, or
    later on a slow kernel (TIME_FACTOR)."""
    seconds *= TIME_FACTOR
    end = time.monotonic() + seconds
    while True:
        value = check()
        if value:
            return value
        assert time.monotonic() < end, f"{what}: not within {seconds:g} s"
        time.sleep(0.02)


def is_loaded(module: str) -> bool:
    """Whether the module is in the kernel."""
    return Path("/sys/module", module, "initstate").exists()


@dataclass(frozen=True)
class Lun:
    """A LUN with its nodes; "" for a node that it does not have."""
    address: str
    sd: str
    sg: str
    bsg: str

    @property
    def number(self) -> int:
        """The LUN's number."""
        return int(self.address.rpartition(":")[2])

    @property
    def sysfs(self) -> Path:
        """The LUN's scsi_device in sysfs."""
        return SCSI_DEVICES / self.address

    @property
    def ready(self) -> bool:
        """Whether the disk has all attributes, and they can be written. Attributes appear after the
        node, and Linux 7.2 refuses to set a scheduler (ENOENT) until the queue is registered. The
        kernel registers the bdi right after the queue, so this checks for the bdi."""
        return (self.queue.parent / "bdi").exists()

    @property
    def queue(self) -> Path:
        """The directory with the attributes of the disk's request queue."""
        return Path("/sys/block", os.path.basename(self.sd), "queue")


def _node(device: Path, kind: str, where: str) -> str:
    """A device's node of one kind; "" if there is none, or the device is being removed."""
    with suppress(FileNotFoundError):
        for name in sorted(os.listdir(device / kind)):
            if os.path.exists(f"{where}/{name}"):
                return f"{where}/{name}"
    return ""


@dataclass(frozen=True)
class Host:
    """A SCSI host."""
    number: int

    @property
    def sysfs(self) -> Path:
        """/sys/class/scsi_host/hostN"""
        return SCSI_HOSTS / f"host{self.number}"

    def attr(self, name: str) -> str:
        """The text of an attribute such as smq/inflight or can_queue."""
        return (self.sysfs / name).read_text(encoding="ascii").strip()

    def policy(self) -> str:
        """The chosen policy: the name in brackets in the list of policies."""
        return next(name[1:-1] for name in self.attr("smq/policy").split() if name[0] == "[")

    def stats(self) -> dict[str, int]:
        """All counters in the host's directory smq/, by name."""
        values = {}
        for entry in (self.sysfs / "smq").iterdir():
            text = entry.read_text(encoding="ascii").strip() if entry.is_file() else ""
            if text.isdigit():
                values[entry.name] = int(text)
        return values

    def hwqs(self) -> list[dict[str, str | int]]:
        """The counters in debugfs, one row per hardware queue."""
        return debugfs.hwqs(self)

    def luns(self) -> list[Lun]:
        """Its LUNs in the order of their numbers, with the nodes that they have now."""
        found = []
        for device in SCSI_DEVICES.glob(f"{self.number}:*:*:*"):
            found.append(Lun(device.name, _node(device, "block", "/dev"),
                             _node(device, "scsi_generic", "/dev"),
                             _node(device, "bsg", "/dev/bsg")))
        return sorted(found, key=lambda lun: [int(part) for part in lun.address.split(":")])

    def wait_luns(self, count: int, disks: bool = True, seconds: float = 30) -> list[Lun]:
        """Waits until the host has exactly @count LUNs, each with its sg node and, if @disks, its
        disk. Returns them."""
        def ready():
            luns = self.luns()
            return luns if len(luns) == count and all(
                lun.sg and (not disks or lun.sd and lun.ready) for lun in luns) else None
        return wait_for(f"host{self.number}: {count} LUNs", ready, seconds)


def find_hosts(proc_name: str) -> list[Host]:
    """The hosts of one driver, in the order in which they were added."""
    hosts = []
    for entry in SCSI_HOSTS.glob("host*"):
        try:
            name = (entry / "proc_name").read_text(encoding="ascii").strip()
        except FileNotFoundError:       # removed meanwhile
            continue
        if name == proc_name:
            hosts.append(Host(int(entry.name[4:])))
    return sorted(hosts, key=lambda host: host.number)


def load(module: str, **params) -> None:
    """Loads a module by modprobe; a bool parameter becomes 0 or 1. Raises ModuleError if modprobe
    fails."""
    # For a loaded module modprobe returns 0 without changing the parameters.
    assert not is_loaded(module), f"{module} is loaded already"
    words = [f"{key}={int(value) if isinstance(value, bool) else value}"
             for key, value in params.items()]
    done = run("modprobe", module, *words, ok=False, limit=120)
    if done.returncode:
        raise ModuleError(f"modprobe {module} {' '.join(words)}: {done.stderr.strip()}")


def unload(module: str, seconds: float = 20) -> None:
    """Unloads a module by modprobe -r. Tries again for @seconds, because the probe of a disk may
    still use a module that was loaded shortly before."""
    end = time.monotonic() + seconds * TIME_FACTOR
    while True:
        done = run("modprobe", "-r", module, ok=False, limit=120)
        if done.returncode == 0:
            assert not is_loaded(module), f"modprobe -r {module} returned 0 but left it loaded"
            return
        if time.monotonic() > end:
            raise ModuleError(f"modprobe -r {module}: {done.stderr.strip()}")
        time.sleep(0.1)


def counted(lun: Lun, *names: str) -> list[int]:
    """Counters of a device, read when smq_sg, which counts per CPU, has added its commands."""
    time.sleep(0.1)
    return [int((lun.sysfs / name).read_text(encoding="ascii"), 16) for name in names]


def under_way(lun: Lun, commands: int = 300, seconds: float = 40) -> None:
    """Waits until a LUN has completed more than @commands further commands."""
    def done():
        return int((lun.sysfs / "iodone_cnt").read_text(encoding="ascii"), 16)
    start = done()
    wait_for(f"I/O on {lun.sd}", lambda: done() > start + commands, seconds)


def settle(host: Host, seconds: float = 20) -> dict[str, int]:
    """Waits until a host has nothing in flight; returns its counters."""
    wait_for(f"host{host.number}: idle", lambda: host.attr("smq/inflight") == "0", seconds)
    return host.stats()


def _remove_scsi_debug_hosts() -> None:
    """Removes scsi_debug's hosts before its module is unloaded. This starts asynchronous work:
    waits 0.2 s for the end of that work."""
    add_host = Path("/sys/bus/pseudo/drivers/scsi_debug/add_host")
    if add_host.exists():
        add_host.write_text(f"-{add_host.read_text(encoding='ascii')}", encoding="ascii")
        time.sleep(0.2)


@contextmanager
def loaded(module: str, hosts: int = 1, luns: int = 1, disks: bool = True,
           io_errors: bool = False, proc_name: str = "", names: tuple[str, str] = (),
           **params) -> Iterator[list[Host]]:
    """Loads a module, yields its hosts once all LUNs have their nodes, and unloads it. With @luns 0
    it does not wait for LUNs.

    If @hosts or @luns is more than 1, it is passed to the module as a parameter; @names gives the
    parameters' names if they are not "hosts" and "luns". Fails if the module cannot be unloaded,
    or if the kernel log shows a bug or, unless @io_errors, failed block I/O. """
    names = names or ("hosts", "luns")
    sizes = {name: n for name, n in zip(names, (hosts, luns), strict=True) if n > 1}
    with KernelLog() as log:
        load(module, **sizes, **params)
        try:
            found = wait_for(f"{hosts} hosts of {module}", lambda: (
                lambda all_: all_ if len(all_) == hosts else None)(
                    find_hosts(proc_name or module)))
            for host in found if luns else ():
                host.wait_luns(luns, disks)
            yield found
        finally:
            if module == "scsi_debug" and SCSI_DEBUG_LEAVES_WORK:
                _remove_scsi_debug_hosts()
            unload(module)
        assert not log.faults(), "the kernel log reports a bug:\n" + log.tail(80)
        bad = [] if io_errors else log.io_errors()
        assert not bad, "failed I/O in the kernel log:\n" + "\n".join(bad[:20])
