# SPDX-License-Identifier: GPL-2.0
"""iSCSI: sessions, and how long commands wait for one that is down."""
from collections.abc import Iterator

from .finding import ERROR, WARNING, Finding
from .machine import ISCSI, Host

SESSIONS = "class/iscsi_session"
# Seconds to wait for a lost path, with and without another path.
FAST, PATIENT = 30, 60


def _sessions(host: Host) -> list[str]:
    return [name for name in host.sysfs.names(SESSIONS)
            if f"/{host.name}/" in str(host.sysfs.real(SESSIONS, name))]


def sessions(host: Host) -> Iterator[Finding]:
    """Finds sessions that are down, and checks the time limit of those that are up."""
    for name in _sessions(host):
        state = host.sysfs.text(SESSIONS, name, "state")
        target = host.sysfs.text(SESSIONS, name, "targetname")
        if state not in ("LOGGED_IN", ""):
            yield Finding("session", ERROR, [name], f"state is {state}",
                          "Its LUNs take no commands until it is logged in again. FAILED: "
                          "recovery_tmo is not over, I/O waits; FREE: I/O fails.",
                          [f"iscsiadm -m node -T {target} -R"])
        limit = host.sysfs.number(SESSIONS, name, "recovery_tmo")
        if limit is None:
            continue
        multipath = any(lun.multipath for lun in host.luns if lun.port == name)
        path = f"/sys/{SESSIONS}/{name}/recovery_tmo"
        if multipath and (limit < 0 or limit > FAST):
            yield Finding("recovery", WARNING, [name], f"recovery_tmo is {limit} s",
                          "multipath takes another path only when this one's commands fail; below "
                          "0 that is never.", [f"echo 5 > {path}"])
        elif not multipath and 0 <= limit < PATIENT:
            yield Finding("recovery", WARNING, [name],
                          f"recovery_tmo is {limit} s, and there is no multipath",
                          "After that time commands fail, and there is no other path to send them "
                          "on.", [f"echo 120 > {path}"])


def describe(host: Host) -> str:
    """A description of the host's sessions."""
    names = [host.sysfs.text(SESSIONS, name, "targetname") for name in _sessions(host)]
    return ", ".join(names) or "no session"


TRANSPORT = ISCSI
CHECKS = (sessions,)
