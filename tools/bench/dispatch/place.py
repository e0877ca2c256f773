# SPDX-License-Identifier: GPL-2.0
"""Runs in the guest: the disk of a host that is not of smq: LIO's tcm_loop, over a disk of smq_ram,
whose model determines how fast it is. smq_conv attaches the host while a policy is chosen."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wallclock import devices
from wallclock.devices import wait_for, write

from .ram import Host

TARGET = devices.CONFIGFS / "target"
CONV = Path("/sys/bus/scsi/drivers/smq_conv")
# Largest request, in KiB: as large as tcm_loop passes on in one piece.
PIECE = 512


class Foreign(Host):
    """A host that smq_conv attaches while the policy is not direct."""

    def attached(self) -> bool:
        """Whether smq_conv has attached the host."""
        return (self.sysfs / "smq").exists()

    def choose(self, policy: str, **knobs: object) -> None:
        if policy != "direct":
            if not self.attached():
                write(CONV / "attach", self.sysfs.name)
            super().choose(policy, **knobs)
        elif self.attached():
            write(CONV / "detach", self.sysfs.name)

    def settle(self) -> None:
        if self.attached():
            super().settle()


@contextmanager
def foreign(lower: Host) -> Iterator[Foreign]:
    """Yields a host of tcm_loop whose disk is over @lower's, and takes as many commands."""
    for module in ("smq_conv", "tcm_loop"):
        devices.modprobe(module)
    lower.set_queue(max_sectors_kb=PIECE)
    store = TARGET / "core/iblock_0/bench"
    port = TARGET / "loopback/naa.5001405000000001/tpgt_1"
    lun = port / "lun/lun_0"
    store.mkdir(parents=True)
    try:
        write(store / "control", f"udev_path={lower.disk}")
        write(store / "enable", 1)
        # The VPD page that reports is_nonrot exists only if there is a serial number.
        write(store / "wwn/vpd_unit_serial", "bench")
        write(store / "attrib/is_nonrot", 1)
        port.mkdir(parents=True)
        write(port / "nexus", "naa.5001405000000002")
        lun.mkdir()
        os.symlink(store, lun / "backstore")
        sysfs = wait_for("the host of tcm_loop", lambda: devices.hosts("tcm_loopback")).pop()
        found = Foreign(lower.folder, sysfs, devices.scsi_disks(sysfs, 1)[0])
        wait_for(found.disk, lambda: (found.queue.parent / "bdi").exists())
        write(found.device / "queue_depth", lower.advertised())
        found.set_queue(scheduler="none", nomerges=2, wbt_lat_usec=0, max_sectors_kb=PIECE)
        yield found
        found.choose("direct")
    finally:
        if (lun / "backstore").is_symlink():
            (lun / "backstore").unlink()
        for path in (lun, port, port.parent, store, store.parent):
            if path.exists():
                path.rmdir()
