# SPDX-License-Identifier: GPL-2.0
"""Checks of each LUN: state, depth, timeout, elevator, paths."""
import re
from collections.abc import Iterator

from .finding import ERROR, NOTE, WARNING, Finding
from .machine import DISK, Host, Lun

# A timeout should be at least the first; with multipath, at most the second.
SHORT_SECONDS, LONG_SECONDS = 10, 60
# A smaller queue_depth is reported.
FEW = 8
# The depth that libfc gives each LUN (FC_FCP_DFLT_QUEUE_DEPTH); it is also open-iscsi's default.
LIBFC_DEPTH = 32


def _depth_set(host: Host) -> tuple[int | None, str]:
    """The depth that the driver gives each LUN, and the name of the setting."""
    if host.driver == "qla2xxx":
        return host.sysfs.number("module/qla2xxx/parameters/ql2xmaxqdepth"), "ql2xmaxqdepth"
    if host.driver == "lpfc":
        return host.number("lpfc_lun_queue_depth"), "lpfc_lun_queue_depth"
    if host.driver == "fcoe":
        return LIBFC_DEPTH, "libfc's default"
    return None, ""


def state(host: Host) -> Iterator[Finding]:
    """Finds LUNs that take no commands."""
    for lun in host.luns:
        now = lun.text("state")
        if now in ("running", ""):
            continue
        commands = [f"echo running > {lun.path('state')}"] if now in ("offline", "quiesce") else []
        why = {"offline": "Error handling could not recover it, or an administrator set this "
               "state. Find the cause, then set it to running.",
               "blocked": "Its port or session is down, and I/O waits for it: see the finding on "
               "the port or session.",
               "transport-offline": "Its port or session is down, and I/O no longer waits for it: "
               "see the finding on the port or session. The LUN returns when the port returns."}
        yield Finding("lun-state", ERROR, [lun.address], f"state is {now}",
                      why.get(now, "It takes no commands, or only some."), commands)


def depth(host: Host) -> Iterator[Finding]:
    """Finds depths that were ramped down, that are small, or that differ between LUNs."""
    want, setting = _depth_set(host)
    for lun in host.luns:
        now = lun.number("queue_depth")
        if not now:
            continue
        period = lun.number("queue_ramp_up_period")
        if want and now < want:
            up = f"It grows by one each {period / 1000:g} s. " if period else ""
            yield Finding("queue-depth", WARNING, [lun.address],
                          f"queue_depth is {now}, {setting} {want}",
                          "The mid-layer lowered the depth after TASK SET FULL, or an "
                          f"administrator set it. {up}If the target takes fewer than {want} "
                          "commands, set the depth to that number.",
                          [f"echo {want} > {lun.path('queue_depth')}"])
        elif now < FEW and lun.text("type") == DISK:
            yield Finding("queue-depth", WARNING, [lun.address], f"queue_depth is {now}",
                          "Commands beyond this depth wait in the kernel, prepared ones too.",
                          [f"echo 32 > {lun.path('queue_depth')}"])
    for port in {lun.port for lun in host.luns}:
        depths = {now for lun in host.luns if lun.port == port and lun.text("type") == DISK
                  and (now := lun.number("queue_depth")) is not None}
        if port and len(depths) > 1:
            yield Finding("uneven-depth", NOTE, [port],
                          f"its LUNs' queue_depth is from {min(depths)} to {max(depths)}",
                          "When the target is full, a LUN with a larger depth gets a larger share.")


def timeout(host: Host) -> Iterator[Finding]:
    """Checks the time after which error handling begins."""
    for lun in host.luns:
        seconds = lun.number("timeout")
        if seconds is None or lun.text("type") != DISK:
            continue
        if seconds < SHORT_SECONDS:
            yield Finding("timeout", WARNING, [lun.address], f"timeout is {seconds} s",
                          "An array that fails over or is full may take longer; then each command "
                          "is aborted and sent again. (Prepared commands have their own timeout.)",
                          [f"echo 30 > {lun.path('timeout')}"])
        elif seconds > LONG_SECONDS and lun.multipath:
            yield Finding("timeout", WARNING, [lun.address], f"timeout is {seconds} s",
                          "If a path loses commands, multipath changes to another path only after "
                          "that time.",
                          [f"echo 30 > {lun.path('timeout')}"])


def _chosen(text: str) -> str:
    match = re.search(r"\[([^]]+)\]", text)
    return match[1] if match else ""


def elevator(host: Host) -> Iterator[Finding]:
    """Finds I/O schedulers, and other settings that cost time for each command."""
    for lun in host.luns:
        name = _chosen(lun.queue("scheduler"))
        if name not in ("", "none"):
            yield Finding("elevator", WARNING, [lun.disk], f"the elevator is {name}",
                          "Each block command is inserted and dispatched once more. The array has "
                          "an order of its own.",
                          [f"echo none > /sys/block/{lun.disk}/queue/scheduler"])
        if lun.queue("add_random") == "1":
            yield Finding("add-random", NOTE, [lun.disk], "add_random is 1",
                          "Each completion adds to the random pool: about 500 instructions. The "
                          "LUN does not report that it is non-rotating (VPD page B1).",
                          [f"echo 0 > /sys/block/{lun.disk}/queue/add_random"])


def access(host: Host) -> Iterator[Finding]:
    """Finds paths that, according to ALUA, should not be used."""
    for lun in host.luns:
        now = lun.text("access_state")
        if now in ("standby", "unavailable", "offline", "transitioning"):
            yield Finding("alua", WARNING, [lun.address], f"access_state is {now}",
                          "READs and WRITEs on this path end with NOT READY: use the path whose "
                          "access_state is active, or have the array move the LUN.")
        elif now == "active/non-optimized":
            yield Finding("alua", NOTE, [lun.address], f"access_state is {now}",
                          "The array hands these commands to its other controller.")


def paths(hosts: list[Host]) -> Iterator[Finding]:
    """Finds LUNs with several paths but without multipath."""
    same: dict[str, list[Lun]] = {}
    for lun in (lun for host in hosts for lun in host.luns):
        name = lun.text("wwid")
        if name and lun.text("type") == DISK:
            same.setdefault(name, []).append(lun)
    for name, found in same.items():
        if len(found) > 1 and not any(lun.multipath for lun in found):
            yield Finding("paths", WARNING, [lun.address for lun in found],
                          f"{len(found)} paths to one LUN ({name}), and no multipath",
                          "They look like several disks. Prebuilt commands may use each of them. A "
                          "file system needs multipath's device.",
                          ["apt-get install multipath-tools && multipath -ll"])


CHECKS = (state, depth, timeout, elevator, access)
