# SPDX-License-Identifier: GPL-2.0
"""Makes a file system on a disk, fills it, mounts it again and checks it."""
import os
from pathlib import Path

from .host import Lun, run

FILES = 8


def files_survive(lun: Lun, there: Path, options: str = "rw", at_end: tuple[str, ...] = ()) -> None:
    """Checks that files on ext4 are the same after a remount, and that fsck finds no error.

    @there is the mount point. @at_end is a program with its options: it gets the mount point as
    its last argument, and runs before the last unmount."""
    run("mkfs.ext4", "-q", "-F", lun.sd)
    data = os.urandom(3 << 20)
    run("mount", "-t", "ext4", "-o", options, lun.sd, there)
    try:
        for at in range(FILES):
            (there / f"file{at}").write_bytes(data[at:])
        (there / "file3").unlink()
        run("sync")
    finally:
        run("umount", there)
    run("e2fsck", "-f", "-n", lun.sd)
    run("mount", "-t", "ext4", lun.sd, there)
    try:
        for at in set(range(FILES)) - {3}:
            assert (there / f"file{at}").read_bytes() == data[at:]
        if at_end:
            run(*at_end, there)
    finally:
        run("umount", there)
    run("e2fsck", "-f", "-n", lun.sd)
