# SPDX-License-Identifier: GPL-2.0
"""LIO's configfs: backstores, and the target port groups that make them local disks."""
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from . import cdb, sgio
from .host import Host, KernelLog, Lun, find_hosts, load, run, unload, wait_for
from .sanitizing import TIME_FACTOR
from .sgio import SgDev

CONFIGFS = Path("/sys/kernel/config")
TARGET = CONFIGFS / "target"
SMQ, LOOPBACK, VHOST = TARGET / "smq", TARGET / "loopback", TARGET / "vhost"
WWN = "naa.5001405000000001"
NEXUS = "naa.5001405000000a01"


def write_attr(path: Path, text) -> None:
    """Writes an attribute; OSError if it is refused."""
    path.write_text(str(text), encoding="ascii")


def read_attr(path: Path) -> str:
    """Reads an attribute."""
    return path.read_text(encoding="ascii").strip()


def clear_attentions(dev: SgDev) -> None:
    """Clears all unit attentions of a LUN."""
    for _ in range(4):
        sense = dev.cmd(cdb.plain(cdb.TEST_UNIT_READY)).decoded
        if not sense or sense.key != sgio.UNIT_ATTENTION:
            return
    raise AssertionError("more unit attentions than a LUN can have")


@contextmanager
def _backstore(kind: str, name: str, control: str, attrib: dict, node: str = "") -> Iterator[Path]:
    if not TARGET.exists():
        run("modprobe", "target_core_mod")
        if not TARGET.exists():
            run("mount", "-t", "configfs", "configfs", str(CONFIGFS))
    core = TARGET / "core"
    path = next(hba for hba in (core / f"{kind}_{n}" for n in count()) if not hba.exists()) / name
    path.mkdir(parents=True)
    try:
        write_attr(path / "control", control)
        if node:
            write_attr(path / "udev_path", node)
        write_attr(path / "enable", 1)
        # A serial number for the VPD pages, as a real device has.
        if not node:
            write_attr(path / "wwn/vpd_unit_serial", name)
        for key, value in attrib.items():
            write_attr(path / "attrib" / key, value)
        yield path
    finally:
        for group in (path / "alua").iterdir():
            if group.name != "default_tg_pt_gp":
                group.rmdir()
        path.rmdir()
        path.parent.rmdir()


def ramdisk(name: str, mib: int = 32, **attrib):
    """A RAM disk of LIO (rd_mcp)."""
    return _backstore("rd_mcp", name, f"rd_pages={mib * 256}", attrib)


def fileio(name: str, path: Path, mib: int = 32, **attrib):
    """A backstore in a file. Creates the file."""
    with path.open("wb") as file:
        file.truncate(mib << 20)
    return _backstore("fileio", name, f"fd_dev_name={path},fd_dev_size={mib << 20}",
                      attrib)


def iblock(name: str, device: str, **attrib):
    """A backstore on a block device."""
    return _backstore("iblock", name, f"udev_path={device}", attrib)


def pscsi(name: str, lun: Lun):
    """A backstore that passes commands on to a SCSI device, of any type."""
    host, channel, target, number = lun.address.split(":")
    return _backstore("pscsi", name, f"scsi_host_id={host},scsi_channel_id={channel},"
                      f"scsi_target_id={target},scsi_lun_id={number}", {}, lun.sg)


def user(name: str, mib: int = 32, **attrib):
    """A backstore that a program serves (TCMU); the caller starts none."""
    return _backstore("user", name, f"dev_size={mib << 20},dev_config=none/{name},"
                      "hw_block_size=512,nl_reply_supported=-1", attrib)


class Tpg:
    """A target port group. The SCSI host of its WWN shows it as a target."""

    def __init__(self, path: Path, nexus: str | None):
        self.path = path
        path.mkdir()
        if nexus:
            write_attr(path / "nexus", nexus)

    @property
    def host(self) -> Host:
        """The SCSI host."""
        return Host(int(read_attr(self.path / "address").partition(":")[0]))

    def add(self, number: int, backstore: Path) -> None:
        """Adds a LUN with a backstore."""
        lun = self.path / f"lun/lun_{number}"
        lun.mkdir()
        (lun / "backstore").symlink_to(backstore)

    def link(self, number: int, backstore: Path) -> str:
        """Adds a LUN to a local host; returns its address."""
        self.add(number, backstore)
        return f"{read_attr(self.path / 'address')}:{number}"

    def unlink(self, number: int) -> None:
        """Removes a LUN, even while commands are in flight."""
        lun = self.path / f"lun/lun_{number}"
        (lun / "backstore").unlink()
        lun.rmdir()

    def disk(self, number: int, backstore: Path) -> Lun:
        """Adds a LUN. Waits until the kernel has made its disk and searched it for partitions."""
        def ready():
            return next((lun for lun in self.host.luns()
                         if lun.address == address and lun.sd and lun.sg and lun.ready), None)
        with KernelLog() as log:
            address = self.link(number, backstore)
            lun = wait_for(f"the disk {address}", ready, 30)
            log.wait(rf"sd {address}: \[\w+\] Attached SCSI", 30 * TIME_FACTOR)
        # Without merges each I/O is one command, so the tests can count them.
        write_attr(lun.queue / "nomerges", 2)
        return lun

    def remove(self) -> None:
        """Removes the group with all its LUNs."""
        for lun in (self.path / "lun").iterdir():
            self.unlink(int(lun.name[4:]))
        self.path.rmdir()


class Wwn:
    """A WWN. In the fabrics that make local disks a WWN is a SCSI host."""

    def __init__(self, name: str = WWN, fabric: Path = SMQ):
        self.path = fabric / name
        self.path.mkdir()

    def tpg(self, number: int = 1, nexus: str | None = NEXUS) -> Tpg:
        """Makes a target port group, with its nexus."""
        return Tpg(self.path / f"tpgt_{number}", nexus)

    def remove(self) -> None:
        """Removes the host with all its groups, even while commands are in flight."""
        for path in sorted(self.path.glob("tpgt_*")):
            for lun in (path / "lun").iterdir():
                for link in lun.iterdir():
                    if link.is_symlink():
                        link.unlink()
                lun.rmdir()
            path.rmdir()
        self.path.rmdir()


@contextmanager
def _fabric(module: str, path: Path, driver: str, io_errors: bool, params: dict) -> Iterator[None]:
    with KernelLog() as log:
        load(module, **params)
        try:
            if not TARGET.exists():
                run("mount", "-t", "configfs", "configfs", str(CONFIGFS))
            path.mkdir()
            yield
        finally:
            for entry in path.glob("naa.*"):
                with suppress(FileNotFoundError):
                    wwn = Wwn.__new__(Wwn)
                    wwn.path = entry
                    wwn.remove()
            path.rmdir()
            unload(module)
        assert not find_hosts(driver)
        assert not log.faults(), "the kernel log reports a bug:\n" + log.tail(80)
        bad = [] if io_errors else log.io_errors()
        assert not bad, "failed I/O in the kernel log:\n" + "\n".join(bad[:20])


def lio_fabric(io_errors: bool = False, **params):
    """Loads smq_lio for the block, and makes no WWN. At the end removes all WWNs and unloads it.

    Fails if the kernel log shows a bug or, unless @io_errors, failed block I/O. """
    return _fabric("smq_lio", SMQ, "smq_lio", io_errors, params)


def loop_fabric(io_errors: bool = False, **params):
    """The same for tcm_loop. Wwn and Tpg make its directories and disks, too."""
    return _fabric("tcm_loop", LOOPBACK, "tcm_loopback", io_errors, params)


def vhost_fabric():
    """The same for vhost_scsi, whose targets are for QEMU and make no disk in this kernel."""
    return _fabric("vhost_scsi", VHOST, "vhost_scsi", True, {})
