# SPDX-License-Identifier: GPL-2.0
"""The disks that the load uses: of smq_ram and scsi_debug, with small depths and poll queues."""
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from kit import smqsg
from kit.host import SCSI_DEVICES, Host, is_loaded, load, loaded, wait_for
from kit.kernel import SCSI_DEBUG_POLLS
from kit.ramdir import RamDir, ram_host

LUNS = 3
DEPTH = 8
# Equals DISK_BLOCKS in tools/src/fuzz/task.h: kit.ramdir makes LUNs of that size.
SIZE_MB = 64
SCSI_DEBUG = {"dev_size_mb": SIZE_MB, "max_queue": 16, "submit_queues": 2,
              "poll_queues": int(SCSI_DEBUG_POLLS), "delay": 0, "ndelay": 20000}


@dataclass(frozen=True)
class Devices:
    """A host of smq_ram with its directory in configfs, and a host of scsi_debug."""
    ram_dir: RamDir
    hosts: tuple[Host, Host]

    def addresses(self) -> list[str]:
        """H:C:T:L of all LUNs that exist at this moment."""
        numbers = {str(host.number) for host in self.hosts}
        return sorted(path.name for path in SCSI_DEVICES.glob("*:*:*:*")
                      if path.name.split(":")[0] in numbers)

    def find_all(self) -> None:
        """Scans the hosts: the mid-layer finds deleted LUNs again."""
        for host in self.hosts:
            (host.sysfs / "scan").write_text("- - -", encoding="ascii")

    def wait_for_all(self) -> None:
        """Waits until all LUNs have their device nodes."""
        for host, luns in zip(self.hosts, (LUNS, 1), strict=True):
            for lun in host.wait_luns(luns):
                smqsg.node(lun)

    def wait_until_idle(self, seconds: float) -> None:
        """Waits until no command is in flight or waits, and no request is held."""
        for path in sorted(smqsg.CLASS.iterdir()):
            for name in ("inflight", "waiting", "held"):
                wait_for(f"{path.name}: {name} 0",
                         lambda: not smqsg.attr(path.name, name), seconds)


@contextmanager
def devices() -> Iterator[Devices]:
    """Loads smq_sg and the drivers, and yields the disks. Afterwards unloads all these modules;
    raises an error if one cannot be unloaded."""
    for module in ("sd_mod", "sg"):
        if not is_loaded(module):
            load(module)
    with smqsg.module(), \
            loaded("scsi_debug", io_errors=True, **SCSI_DEBUG) as (debug,), \
            ram_host(LUNS, depth=DEPTH, hw_queues=2, poll_queues=1) as (ram_dir, ram):
        found = Devices(ram_dir, (ram, debug))
        found.wait_for_all()
        yield found


def pinned() -> int:
    """How many pages are pinned for I/O."""
    # The write makes the kernel add up the latest counts of all CPUs. After that the write may fail
    # because of other counters: ignore this.
    with suppress(OSError):
        Path("/proc/sys/vm/stat_refresh").write_text("1", encoding="ascii")
    pairs = (line.split() for line in Path("/proc/vmstat").read_text("ascii").splitlines())
    counts = {name: int(value) for name, value in pairs}
    return counts["nr_foll_pin_acquired"] - counts["nr_foll_pin_released"]
