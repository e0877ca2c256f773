# SPDX-License-Identifier: GPL-2.0
"""Faults of any host on the layer, set in its sysfs group smq_fault/."""
from . import debugfs
from .host import Host

DEFAULTS = {"every": 1, "first_lba": 0, "last_lba": 2**64 - 1, "count": -1, "status": 8,
            "sense": 0x031100, "delay_ms": 60000}


class Faults:
    """The fault settings of one host."""

    def __init__(self, host: Host):
        self._host = host
        self._path = host.sysfs / "smq_fault"

    def set(self, name: str, value) -> None:
        """Writes a setting; OSError if it is refused."""
        (self._path / name).write_text(str(value), encoding="ascii")

    def get(self, name: str) -> str:
        """Reads a setting."""
        return (self._path / name).read_text(encoding="ascii").strip()

    def arm(self, kind: str, **settings) -> None:
        """Arms a fault. Writes the kind last, so that the other settings apply to the first fault.
        Settings that are not given get their defaults."""
        self.set("kind", "none")
        for name, value in (DEFAULTS | settings).items():
            self.set(name, value)
        self.set("kind", kind)

    @property
    def on(self) -> bool:
        """Whether this host keeps the static branch of faults on."""
        return bool(debugfs.state(self._host)["faults"])
