# SPDX-License-Identifier: GPL-2.0
"""Fibre Channel: the local port, the fabric, remote ports and their time limits."""
from collections.abc import Iterator

from .finding import ERROR, NOTE, WARNING, Finding
from .machine import FC, Host
from .sysfs import number

HOSTS, PORTS = "class/fc_host", "class/fc_remote_ports"
# The value of a counter that the driver does not support.
UNKNOWN = 0xffffffffffffffff
COUNTERS = {
    "invalid_crc_count": "damaged frames arrived: check the cable and the SFPs, and clean them",
    "invalid_tx_word_count": "damaged signals arrived: check the cable and the SFPs, and clean "
                             "them",
    "fcp_frame_alloc_failures": "the driver found no memory for frames",
}
# With multipath, fast_io_fail_tmo should be at most this. dev_loss_tmo should be at least this.
SECONDS = 30


def _ports(host: Host) -> list[str]:
    return [name for name in host.sysfs.names(PORTS)
            if name.startswith(f"rport-{host.name[4:]}:")]


def _targets(host: Host) -> list[str]:
    return [name for name in _ports(host)
            if "FCP Target" in host.sysfs.text(PORTS, name, "roles")]


def local(host: Host) -> Iterator[Finding]:
    """Checks the link of the local port."""
    state = host.sysfs.text(HOSTS, host.name, "port_state")
    if state not in ("Online", ""):
        yield Finding("link", ERROR, [host.name], f"port_state is {state}",
                      "Without a link there are no LUNs. Linkdown: check the cable, the SFPs and "
                      "the switch's port. Offline: the driver or an administrator took it down.",
                      [f"echo 1 > /sys/{HOSTS}/{host.name}/issue_lip"])
        return
    speed = number(host.sysfs.text(HOSTS, host.name, "speed"))
    supported = [number(part.strip()) for part in host.sysfs.text(
        HOSTS, host.name, "supported_speeds").split(",")]
    best = max((value for value in supported if value), default=0)
    if speed and speed < best:
        yield Finding("speed", NOTE, [host.name], f"speed is {speed} Gbit of {best}",
                      "The switch's port, its SFP or a setting there allows no more.")


def counters(host: Host) -> Iterator[Finding]:
    """Checks the port's error counters."""
    for name, what in COUNTERS.items():
        count = host.sysfs.number(HOSTS, host.name, "statistics", name)
        if count and count != UNKNOWN:
            yield Finding("errors", WARNING, [host.name], f"{name} is {count}",
                          f"Since the driver was loaded, {what}. Reset the counters, and look "
                          "again under load.",
                          [f"echo 1 > /sys/{HOSTS}/{host.name}/statistics/reset_statistics"])


def zoning(host: Host) -> Iterator[Finding]:
    """Finds hosts without a target, and targets without LUNs."""
    if (host.sysfs.text(HOSTS, host.name, "port_state") != "Online" or
            host.text("active_mode") == "Target"):
        return
    name = host.sysfs.text(HOSTS, host.name, "port_name")
    targets = _targets(host)
    if not targets:
        yield Finding("zoning", ERROR, [host.name], "no remote port is an FCP target",
                      f"The fabric shows no target to {name}: put both into one zone, activate "
                      "the zone configuration, then let the port log in again.",
                      [f"echo 1 > /sys/{HOSTS}/{host.name}/issue_lip"])
    for port in targets:
        if (host.sysfs.text(PORTS, port, "port_state") == "Online" and
                not any(lun.port == port and lun.text("type") == "0" for lun in host.luns)):
            yield Finding("masking", WARNING, [port], "an FCP target without a disk",
                          f"The array maps no LUN to {name}. Map one, then scan.",
                          [f"echo '- - -' > /sys/class/scsi_host/{host.name}/scan"])


def remote(host: Host) -> Iterator[Finding]:
    """Finds lost target ports, and checks how long commands wait for them."""
    for port in _targets(host):
        state = host.sysfs.text(PORTS, port, "port_state")
        if state != "Online":
            yield Finding("remote-port", ERROR, [port], f"port_state is {state}",
                          "The target's port has left the fabric. Its LUNs are removed "
                          "dev_loss_tmo seconds later. They return when the port returns.")
            continue
        luns = [lun for lun in host.luns if lun.port == port]
        fast = host.sysfs.text(PORTS, port, "fast_io_fail_tmo")
        loss = host.sysfs.number(PORTS, port, "dev_loss_tmo")
        where = f"/sys/{PORTS}/{port}"
        if any(lun.multipath for lun in luns):
            if fast == "off" or (number(fast) or 0) > SECONDS:
                yield Finding("fast-io-fail", WARNING, [port], f"fast_io_fail_tmo is {fast}",
                              "multipath changes to another path only when commands on this one "
                              f"fail: after {loss if fast == 'off' else fast} s.",
                              [f"echo 5 > {where}/fast_io_fail_tmo"])
        elif fast not in ("off", ""):
            yield Finding("fast-io-fail", WARNING, [port],
                          f"fast_io_fail_tmo is {fast}, and there is no multipath",
                          f"If the port is away for {fast} s, commands to it fail, and there is "
                          "no other path.",
                          [f"echo off > {where}/fast_io_fail_tmo"])
        if luns and loss is not None and loss < SECONDS:
            yield Finding("dev-loss", WARNING, [port], f"dev_loss_tmo is {loss} s",
                          "After that time LUNs and their nodes are removed. When the port "
                          "returns, new ones are created, and programs have to open those. A "
                          "switch takes longer to boot.",
                          [f"echo 60 > {where}/dev_loss_tmo"])


def describe(host: Host) -> str:
    """A description of the local port."""
    at = (HOSTS, host.name)
    words = [host.sysfs.text(*at, "port_name"), host.sysfs.text(*at, "port_state"),
             host.sysfs.text(*at, "speed"), f"target ports {len(_targets(host))}"]
    return ", ".join(word for word in words if word)


TRANSPORT = FC
CHECKS = (local, counters, zoning, remote)
