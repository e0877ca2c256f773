# SPDX-License-Identifier: GPL-2.0
"""SCSI hosts of the three transports, and their LUNs, from sysfs."""
import re
from dataclasses import dataclass, field
from pathlib import Path

from .sysfs import Sysfs

FC, ISCSI, SAS = "FC", "iSCSI", "SAS"
# The sysfs class of each transport's hosts.
CLASSES = {FC: "fc_host", ISCSI: "iscsi_host", SAS: "sas_host"}
DEVICES = "bus/scsi/devices"
DISK = "0"


@dataclass
class Lun:
    """A scsi_device. disk: the name of its block device, for example sda, or "" if it has none;
    port: the remote port (FC) or the session (iSCSI) of its target, or ""."""

    sysfs: Sysfs
    address: str
    disk: str
    port: str

    def text(self, name: str) -> str:
        """An attribute of the device."""
        return self.sysfs.text(DEVICES, self.address, name)

    def number(self, name: str) -> int | None:
        """An attribute of the device, as a number."""
        return self.sysfs.number(DEVICES, self.address, name)

    def queue(self, name: str) -> str:
        """An attribute of the disk's request queue; "" if the LUN has no disk."""
        return self.sysfs.text("block", self.disk, "queue", name) if self.disk else ""

    def path(self, name: str) -> str:
        """The path of an attribute of the device, for the shell commands of a finding. Begins with
        /sys even if the checks read a copy of /sys."""
        return f"/sys/{DEVICES}/{self.address}/{name}"

    @property
    def multipath(self) -> bool:
        """Whether the disk is a path of dm-multipath."""
        holders = ("block", self.disk, "holders")
        return bool(self.disk) and any(
            self.sysfs.text(*holders, name, "dm/uuid").startswith("mpath-")
            for name in self.sysfs.names(*holders))


@dataclass
class Host:
    """A Scsi_Host of one of the transports."""

    sysfs: Sysfs
    name: str
    transport: str
    luns: list[Lun] = field(default_factory=list)

    def text(self, name: str) -> str:
        """An attribute of the host, defined by the mid-layer or by the driver."""
        return self.sysfs.text("class/scsi_host", self.name, name)

    def number(self, name: str) -> int | None:
        """An attribute of the host, as a number."""
        return self.sysfs.number("class/scsi_host", self.name, name)

    @property
    def driver(self) -> str:
        """The name of the LLD's module, from proc_name. For an LLD without proc_name, such as
        qla2xxx, the name of the driver that is bound to the host's device."""
        name = self.text("proc_name")
        if name not in ("", "(null)", "<NULL>"):
            return name
        return next((directory.joinpath("driver").resolve().name for directory in
                     self.real.parents if directory.joinpath("driver").is_symlink()), "unknown")

    @property
    def real(self) -> Path:
        """The host's directory with symbolic links resolved: below the directory of its device."""
        return self.sysfs.real("class/scsi_host", self.name)

    def parameter(self, name: str) -> str:
        """A parameter of the LLD's module."""
        return self.sysfs.parameter(self.driver, name)


def _lun(sysfs: Sysfs, address: str) -> Lun:
    disks = sysfs.names(DEVICES, address, "block")
    above = re.findall(r"/(rport-[^/]+|session\d+)/", str(sysfs.real(DEVICES, address)))
    return Lun(sysfs, address, disks[0] if disks else "", above[-1] if above else "")


def hosts(sysfs: Sysfs) -> list[Host]:
    """All hosts of the three transports."""
    found = {}
    for transport, group in CLASSES.items():
        for name in sysfs.names("class", group):
            found[name] = Host(sysfs, name, transport)
    for address in sysfs.names(DEVICES):
        match = re.fullmatch(r"(\d+):\d+:\d+:\d+", address)
        if match and f"host{match[1]}" in found:
            found[f"host{match[1]}"].luns.append(_lun(sysfs, address))
    return [found[name] for name in sorted(found, key=lambda name: int(name[4:]))]
