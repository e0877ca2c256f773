# SPDX-License-Identifier: GPL-2.0
"""The events that the kernel sends to udev."""
import socket
from contextlib import suppress

from .host import Lun

KOBJECT_UEVENT = 15     # NETLINK_KOBJECT_UEVENT
KERNEL_GROUP = 1


class Uevents:
    """The events since the object was made: action, path in sysfs, and variables."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, KOBJECT_UEVENT)
        self._socket.bind((0, KERNEL_GROUP))
        self._socket.setblocking(False)
        self.seen: list[tuple[str, str, dict[str, str]]] = []

    def __enter__(self) -> "Uevents":
        return self

    def __exit__(self, *exc: object) -> None:
        self._socket.close()

    def _read(self) -> None:
        with suppress(BlockingIOError):
            while True:
                head, *rest = self._socket.recv(65536).decode(errors="replace").split("\0")
                action, _, path = head.partition("@")
                variables = dict(word.split("=", 1) for word in rest if "=" in word)
                self.seen.append((action, path, variables))

    def disks_of(self, lun: Lun) -> list[str]:
        """The disks of a LUN that have been added so far, as paths in sysfs."""
        self._read()
        return [path for action, path, _ in self.seen
                if action == "add" and f"/{lun.address}/block" in path]

    def attentions_of(self, lun: Lun) -> list[str]:
        """The unit attentions that the mid-layer has reported for a LUN so far."""
        self._read()
        return [variables["SDEV_UA"] for action, path, variables in self.seen
                if action == "change" and path.endswith(f"/{lun.address}") and
                "SDEV_UA" in variables]
