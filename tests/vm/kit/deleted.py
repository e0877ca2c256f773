# SPDX-License-Identifier: GPL-2.0
"""Resets by ioctl on a disk that was deleted and is still open."""
from . import cdb
from .host import Host, Lun, wait_for
from .sgio import (SG_SCSI_RESET_DEVICE, SG_SCSI_RESET_HOST, SG_SCSI_RESET_TARGET, UNIT_ATTENTION,
                   SgDev)


def delete(lun: Lun) -> None:
    """Deletes a LUN; it has no node when this returns."""
    (lun.sysfs / "delete").write_text("1", encoding="ascii")
    wait_for(f"the removal of {lun.address}", lambda: not lun.sysfs.exists())


def find_again(host: Host, lun: Lun) -> Lun:
    """Scans for a LUN that was deleted; returns it with its nodes."""
    count = len(host.luns()) + 1
    (host.sysfs / "scan").write_text(lun.address.split(":", 1)[1].replace(":", " "),
                                     encoding="ascii")
    return next(found for found in host.wait_luns(count) if found.address == lun.address)


def reset_a_deleted_lun(host: Host) -> None:
    """Checks that a reset by ioctl on a deleted LUN returns 0 at each level, because the LUN has no
    commands, and that the host still works afterwards. SgDev opens with O_NONBLOCK, so that the
    mid-layer does not check the device's state."""
    read = cdb.blocks(cdb.READ_10, 0, 8)
    for level in (SG_SCSI_RESET_DEVICE, SG_SCSI_RESET_TARGET, SG_SCSI_RESET_HOST):
        lun = host.luns()[0]
        with SgDev(lun.sd) as disk:
            delete(lun)
            disk.reset(level)
        with SgDev(find_again(host, lun).sg) as sg:
            got = sg.cmd(read, din=4096)
            if got.triple and got.triple[0] == UNIT_ATTENTION:      # from the reset
                got = sg.cmd(read, din=4096)
            assert got.good, got
