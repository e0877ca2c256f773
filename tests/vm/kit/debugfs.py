# SPDX-License-Identifier: GPL-2.0
"""A host's statistics in debugfs. All tests read them through this file, so that only it depends on
the format."""
from pathlib import Path

DEBUGFS = Path("/sys/kernel/debug/smq")


def _lines(host, about: str) -> list[dict[str, str | int]]:
    """The lines of the host's stats whose first key is @about: one dict of words per line, with
    numbers as int."""
    version, *lines = (DEBUGFS / f"host{host.number}" / "stats").read_text(
        encoding="ascii").splitlines()
    assert version == "version=1"
    rows = [dict(word.split("=", 1) for word in line.split()) for line in lines
            if line.startswith(f"{about}=")]
    return [{key: int(word) if word.isdigit() else word for key, word in row.items()}
            for row in rows]


def state(host) -> dict[str, str | int]:
    """The words about the host as a whole."""
    return _lines(host, "host")[0]


def hwqs(host) -> list[dict[str, str | int]]:
    """The counters of a host, one row per hardware queue."""
    return _lines(host, "hwq")


def luns(host) -> list[dict[str, str | int]]:
    """The depths of a host's LUNs, and how many commands wait for room, one row per LUN."""
    return _lines(host, "lun")


def doorbell(host, hwq: int = 0) -> tuple[int, bool]:
    """The cost of a hardware queue's doorbell in ns, and whether the policy calls it expensive."""
    row = policy(host, hwq)
    return row["doorbell_ns"], bool(row["expensive"])


def policy(host, hwq: int = 0) -> dict[str, str | int]:
    """The words that the host's policy shows about a hardware queue."""
    return next(row for row in _lines(host, "policy") if row["hwq"] == hwq)


def policy_rows(host) -> list[dict[str, str | int]]:
    """The words that the host's policy shows, one row per hardware queue."""
    return _lines(host, "policy")


def depths(host, lun: int = 0) -> tuple[int, int, int]:
    """A LUN's depths: advertised, inner, and the largest that the inner depth may grow to."""
    row = next(row for row in _lines(host, "lun") if row["lun"] == f"0:0:{lun}")
    return row["queue_depth"], row["depth"], row["max"]
