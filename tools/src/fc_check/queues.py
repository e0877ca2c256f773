# SPDX-License-Identifier: GPL-2.0
"""Checks of hardware queues, their interrupts, and the number of commands that a host takes."""
from collections.abc import Iterator

from .finding import NOTE, WARNING, Finding
from .machine import Host
from .sysfs import numbers

# Drivers that have one queue, whatever their settings.
ONE_QUEUE = ("fcoe", "bnx2fc", "fnic", "iscsi_tcp", "ib_iser", "libfc")
CONF = "/etc/modprobe.d/smq-fc.conf"
RELOAD = "takes effect when the module is loaded; if the initramfs loads it: update-initramfs -u"


def _option(driver: str, setting: str) -> list[str]:
    return [f"echo 'options {driver} {setting}' > {CONF}  # {RELOAD}"]


def _qla2xxx(host: Host) -> tuple[str, list[str]]:
    """The setting that limits the queues of qla2xxx, and the command that changes it."""
    if host.parameter("ql2xmqsupport") == "0":
        return "ql2xmqsupport is 0", _option("qla2xxx", "ql2xmqsupport=1")
    if host.parameter("ql2xenablemsix") in ("0", "2"):
        return (f"ql2xenablemsix is {host.parameter('ql2xenablemsix')}: no MSI-X",
                _option("qla2xxx", "ql2xenablemsix=1"))
    if host.parameter("ql2xnvmeenable") == "0":
        # Boards 25xx and 81xx need this parameter as well as ql2xmqsupport.
        return "ql2xnvmeenable is 0", _option("qla2xxx", "ql2xnvmeenable=1")
    return "", []


def _lpfc(host: Host) -> tuple[str, list[str]]:
    """As _qla2xxx(), for lpfc."""
    if host.text("lpfc_use_msi") in ("0", "1"):
        return f"lpfc_use_msi is {host.text('lpfc_use_msi')}: no MSI-X", _option(
            "lpfc", "lpfc_use_msi=2")
    for name in ("lpfc_hdw_queue", "lpfc_fcp_mq_threshold"):
        value = host.number(name)
        if value and value < min(len(host.sysfs.cpus()), 2 * host.sysfs.nodes()):
            return f"{name} is {value}", _option("lpfc", f"{name}=0")
    return "", []


def _mpt3sas(host: Host) -> tuple[str, list[str]]:
    """As _qla2xxx(), for mpt3sas."""
    if host.parameter("host_tagset_enable") == "0":
        return "host_tagset_enable is 0", _option("mpt3sas", "host_tagset_enable=1")
    if host.parameter("smp_affinity_enable") == "0":
        return "smp_affinity_enable is 0", _option("mpt3sas", "smp_affinity_enable=1")
    return "", []


def _unknown(_host: Host) -> tuple[str, list[str]]:
    return "", []


REASONS = {"qla2xxx": _qla2xxx, "lpfc": _lpfc, "mpt3sas": _mpt3sas}


def hardware_queues(host: Host) -> Iterator[Finding]:
    """Finds hosts with fewer hardware queues than CPUs."""
    queues, cpus = host.number("nr_hw_queues"), len(host.sysfs.cpus())
    if not queues or queues >= cpus:
        return
    reason, commands = REASONS.get(host.driver, _unknown)(host)
    found = f"{queues} hardware queue{'s' * (queues > 1)} for {cpus} CPUs"
    if reason:
        yield Finding("hardware-queues", WARNING, [host.name], f"{found}: {reason}",
                      "CPUs that share a queue share its lock, and with one queue each command "
                      "ends by way of a softirq.", commands)
    elif host.driver == "lpfc":
        yield Finding("hardware-queues", NOTE, [host.name], found,
                      "lpfc gives the mid-layer at most two queues for each NUMA node, whatever "
                      "lpfc_hdw_queue and lpfc_fcp_mq_threshold say. Internally it has more.")
    elif host.driver in ONE_QUEUE:
        yield Finding("hardware-queues", NOTE, [host.name], found,
                      f"{host.driver} has no more; each command ends by way of a softirq.")
    elif queues == 1:
        yield Finding("hardware-queues", NOTE, [host.name], found,
                      "No setting explains it: the board, firmware or platform gives the driver "
                      "no more interrupt vectors (dmesg shows how many it got).")


def host_depth(host: Host) -> Iterator[Finding]:
    """Finds hosts that take fewer commands than the sum of their LUNs' depths."""
    want = sum(lun.number("queue_depth") or 0 for lun in host.luns)
    can, queues = host.number("can_queue"), host.number("nr_hw_queues") or 1
    if can and want > can * queues:
        yield Finding("host-depth", NOTE, [host.name],
                      f"queue_depth of its LUNs is {want} in all, can_queue is {can}",
                      "When all LUNs are busy, some wait for the commands of others. Lower "
                      "queue_depth if each LUN is to have its share.")
    limit = host.number("lpfc_tgt_queue_depth")
    ports = {lun.port for lun in host.luns}
    if not limit:
        return
    for port in ports:
        want = sum(lun.number("queue_depth") or 0 for lun in host.luns if lun.port == port)
        if want > limit:
            yield Finding("target-depth", WARNING, [port],
                          f"lpfc_tgt_queue_depth is {limit}, its LUNs' queue_depth {want} in all",
                          "lpfc refuses commands beyond this limit; the mid-layer repeats them.",
                          [f"echo 65535 > /sys/class/scsi_host/{host.name}/lpfc_tgt_queue_depth"])


def interrupts(host: Host) -> Iterator[Finding]:
    """Finds hosts whose interrupts all go to one CPU."""
    for directory in host.real.parents:
        if (directory / "msi_irqs").is_dir():
            break
    else:
        return
    irqs = sorted(int(entry.name) for entry in (directory / "msi_irqs").iterdir()
                  if entry.name.isdigit())
    targets = {}
    for irq in irqs:
        cpus = (host.sysfs.proc("irq", str(irq), "effective_affinity_list") or
                host.sysfs.proc("irq", str(irq), "smp_affinity_list"))
        if cpus:
            targets[irq] = set(numbers(cpus))
    online = host.sysfs.cpus()
    everywhere = set.union(*targets.values()) if targets else set()
    if len(targets) > 1 and len(online) > 1 and len(everywhere) == 1:
        yield Finding("irq-affinity", WARNING, [host.name],
                      f"all {len(targets)} interrupts go to CPU {everywhere.pop()}",
                      "That CPU completes the commands of all CPUs. For managed interrupts the "
                      "kernel refuses a change (Input/output error). irqbalance may undo a change.",
                      [f"echo {online[at % len(online)]} > /proc/irq/{irq}/smp_affinity_list"
                       for at, irq in enumerate(targets)])


def mode(host: Host) -> Iterator[Finding]:
    """Finds hosts in target mode, which do not scan for LUNs."""
    if host.text("active_mode") == "Target":
        yield Finding("target-mode", WARNING if not host.luns else NOTE, [host.name],
                      "the host is a target, not an initiator",
                      "It serves LUNs (tcm_qla2xxx) and does not scan for any. qlini_mode=dual "
                      "enables both modes.",
                      _option("qla2xxx", "qlini_mode=enabled"))


CHECKS = (hardware_queues, host_depth, interrupts, mode)
