# SPDX-License-Identifier: GPL-2.0
"""smq_ram hosts made through configfs."""
from contextlib import contextmanager
from pathlib import Path

from .host import Host, KernelLog, find_hosts, load, run, unload, wait_for
from .sanitizing import TIME_FACTOR

CONFIGFS = Path("/sys/kernel/config")
HOSTS = CONFIGFS / "smq/ram"


class RamDir:
    """A host's directory. Names are paths below it, as "luns/0/size_mb"."""

    def __init__(self, name: str):
        self.path = HOSTS / name
        self.path.mkdir()

    def set(self, name: str, value) -> None:
        """Writes an attribute; OSError if it is refused."""
        (self.path / name).write_text(str(value), encoding="ascii")

    def get(self, name: str) -> str:
        """Reads an attribute."""
        return (self.path / name).read_text(encoding="ascii").strip()

    def arm(self, kind: str, **settings) -> None:
        """Arms a fault, for all commands unless a count is given. Writes the kind last, so that the
        settings apply to the first fault."""
        self.set("fault/kind", "none")
        for name, value in ({"count": -1} | settings).items():
            self.set(f"fault/{name}", value)
        self.set("fault/kind", kind)

    def add_lun(self, number: int, **config) -> None:
        """Creates a LUN and sets its power to 1."""
        (self.path / f"luns/{number}").mkdir()
        for name, value in config.items():
            self.set(f"luns/{number}/{name}", value)
        self.set(f"luns/{number}/power", 1)

    def remove_lun(self, number: int) -> None:
        """Removes a LUN, even while commands are in flight."""
        (self.path / f"luns/{number}").rmdir()

    def power_on(self, luns: int) -> Host:
        """Starts the host. Waits until the host has its LUNs, and the kernel has searched their
        disks for partitions. Otherwise the reads of that search would be counted, and would get
        faults that a test arms for its own commands."""
        before = find_hosts("smq_ram")
        with KernelLog() as log:
            self.set("power", 1)
            host = wait_for("the host", lambda: [
                host for host in find_hosts("smq_ram") if host not in before])[0]
            for lun in host.wait_luns(luns):
                log.wait(rf"sd {lun.address}: \[\w+\] Attached SCSI", 30 * TIME_FACTOR)
        return host

    def remove(self) -> None:
        """Removes the directory with all that is in it."""
        for lun in (self.path / "luns").iterdir():
            lun.rmdir()
        self.path.rmdir()


@contextmanager
def ram_dirs():
    """Loads smq_ram during the block, without hosts. At the end removes all directories and unloads
    smq_ram."""
    with KernelLog() as log:
        load("smq_ram", hosts=0)
        if not (CONFIGFS / "smq").exists():
            run("mount", "-t", "configfs", "configfs", str(CONFIGFS))
        try:
            yield HOSTS
        finally:
            for path in HOSTS.iterdir():
                for lun in (path / "luns").iterdir():
                    lun.rmdir()
                path.rmdir()
            unload("smq_ram")
        assert not log.faults(), "the kernel log reports a bug:\n" + log.tail(80)


def start_host(name: str, luns: int, timeout: int, config: dict) -> tuple[RamDir, Host]:
    """Starts a host; call it inside ram_dirs(). Returns its directory and the host."""
    host_dir = RamDir(name)
    for key, value in config.items():
        host_dir.set(key, value)
    for number in range(luns):
        host_dir.add_lun(number, size_mb=64)
    # QEMU has hung when the kernel patched code that another CPU was executing. So this turns on
    # the static branch of faults while nothing is submitted.
    host_dir.arm("status")
    host_dir.set("fault/count", 0)
    host = host_dir.power_on(luns)
    host_dir.arm("none")
    for lun in host.luns():
        # Without merges each I/O is one command, so the tests can count them.
        (lun.queue / "nomerges").write_text("2", encoding="ascii")
        if timeout:
            (lun.sysfs / "timeout").write_text(str(timeout), encoding="ascii")
    return host_dir, host


@contextmanager
def ram_hosts(count: int, luns: int = 1, timeout: int = 0, **config):
    """Yields running hosts with their directories. @timeout: their disks' timeout in seconds."""
    with ram_dirs():
        yield [start_host(f"test{number}", luns, timeout, config) for number in range(count)]


@contextmanager
def ram_host(luns: int = 1, timeout: int = 0, **config):
    """Yields one running host with its directory; the parameters are those of ram_hosts()."""
    with ram_hosts(1, luns, timeout, **config) as hosts:
        yield hosts[0]
