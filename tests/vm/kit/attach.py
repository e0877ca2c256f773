# SPDX-License-Identifier: GPL-2.0
"""Hosts that smq_conv puts the layer in front of, in place."""
from collections.abc import Iterator
from contextlib import contextmanager

from .conv import DRIVER, write
from .host import Host, settle, wait_for


def attach(host: Host | str) -> None:
    """Attaches a host."""
    write(DRIVER / "attach", name(host))


def detach(host: Host | str) -> None:
    """Detaches a host."""
    write(DRIVER / "detach", name(host))


def name(host: Host | str) -> str:
    """The name that the attributes take."""
    return host if isinstance(host, str) else host.sysfs.name


def attached() -> dict[str, tuple[str, int]]:
    """The attached hosts: driver, and how many commands ended without the layer seeing it."""
    lines = (DRIVER / "attached").read_text(encoding="ascii").splitlines()
    return {host: (driver, int(unseen)) for host, driver, unseen in map(str.split, lines)}


@contextmanager
def in_place(host: Host) -> Iterator[Host]:
    """A host while it is attached. At the end every command that was queued is done."""
    attach(host)
    try:
        yield host
        all_done(host)
    finally:
        if name(host) in attached():
            detach(host)


def all_done(host: Host) -> dict[str, int]:
    """Waits until an attached host has counted as many commands done as queued."""
    settle(host)
    wait_for("queued and done to agree", lambda: (
        lambda stats: stats["queued"] == stats["done"])(host.stats()))
    return host.stats()
