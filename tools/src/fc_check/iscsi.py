# SPDX-License-Identifier: GPL-2.0
"""iSCSI: sessions, and how long commands wait for a session that is down."""
from collections.abc import Iterator

from .finding import ERROR, WARNING, Finding
from .machine import ISCSI, Host

SESSIONS = "class/iscsi_session"
# Limits for recovery_tmo: with multipath it should be at most the first, without multipath at least
# the second.
MULTIPATH_SECONDS, SINGLE_PATH_SECONDS = 30, 60


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
                          "Its LUNs take no commands until it is logged in again. FAILED: I/O "
                          "waits until recovery_tmo has passed. FREE: I/O fails.",
                          [f"iscsiadm -m node -T {target} -R"])
        limit = host.sysfs.number(SESSIONS, name, "recovery_tmo")
        if limit is None:
            continue
        multipath = any(lun.multipath for lun in host.luns if lun.port == name)
        path = f"/sys/{SESSIONS}/{name}/recovery_tmo"
        if multipath and (limit < 0 or limit > MULTIPATH_SECONDS):
            yield Finding("recovery", WARNING, [name], f"recovery_tmo is {limit} s",
                          "multipath changes to another path only when commands on this one fail. "
                          "With a negative value they never do.", [f"echo 5 > {path}"])
        elif not multipath and 0 <= limit < SINGLE_PATH_SECONDS:
            yield Finding("recovery", WARNING, [name],
                          f"recovery_tmo is {limit} s, and there is no multipath",
                          "After that time commands fail, and there is no other path.",
                          [f"echo 120 > {path}"])


def describe(host: Host) -> str:
    """A description of the host's sessions."""
    names = [host.sysfs.text(SESSIONS, name, "targetname") for name in _sessions(host)]
    return ", ".join(names) or "no session"


TRANSPORT = ISCSI
CHECKS = (sessions,)
