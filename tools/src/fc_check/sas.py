# SPDX-License-Identifier: GPL-2.0
"""SAS: checks of the host's phys."""
from collections.abc import Iterator

from .finding import NOTE, WARNING, Finding
from .machine import SAS, Host

PHYS = "class/sas_phy"
COUNTERS = ("invalid_dword_count", "running_disparity_error_count", "loss_of_dword_sync_count",
            "phy_reset_problem_count")
# Plugging in a cable causes some errors, so a counter is reported only if it is above this.
FEW = 100


def _phys(host: Host) -> list[str]:
    """The host's own phys. The name of an expander's phy has one number more."""
    return [name for name in host.sysfs.names(PHYS)
            if name.startswith(f"phy-{host.name[4:]}:") and name.count(":") == 1]


def _gbit(text: str) -> float:
    word = text.partition(" ")[0]
    return float(word) if word.replace(".", "", 1).isdigit() else 0


def phys(host: Host) -> Iterator[Finding]:
    """Finds phys that run below their best rate, and phys that have counted errors."""
    for phy in _phys(host):
        rate = _gbit(host.sysfs.text(PHYS, phy, "negotiated_linkrate"))
        best = _gbit(host.sysfs.text(PHYS, phy, "maximum_linkrate"))
        limit = _gbit(host.sysfs.text(PHYS, phy, "maximum_linkrate_hw"))
        if 0 < best < limit:
            yield Finding("phy-rate", WARNING, [phy],
                          f"maximum_linkrate is {best:g} Gbit of {limit:g}",
                          "An administrator limited the rate.",
                          [f"echo '{limit:.1f} Gbit' > /sys/{PHYS}/{phy}/maximum_linkrate"])
        elif 0 < rate < best:
            yield Finding("phy-rate", NOTE, [phy], f"the link has {rate:g} Gbit of {best:g}",
                          "The cable, or the device or expander at its other end, allows no more.")
        for name in COUNTERS:
            count = host.sysfs.number(PHYS, phy, name)
            if count and count > FEW:
                yield Finding("errors", WARNING, [phy], f"{name} is {count}",
                              "The cause is the cable, a connector or the device at its other end.")


def describe(host: Host) -> str:
    """A description of the host's phys."""
    up = [phy for phy in _phys(host)
          if _gbit(host.sysfs.text(PHYS, phy, "negotiated_linkrate"))]
    return f"{len(up)} of {len(_phys(host))} phys up"


TRANSPORT = SAS
CHECKS = (phys,)
