# SPDX-License-Identifier: GPL-2.0
"""Makes folders that stand in for /sys and /proc of a system with HBAs, as in Linux 6.1.

The mid-layer's attributes are those of drivers/scsi/scsi_sysfs.c; the attributes of ports are those
of scsi_transport_fc.c. The drivers' attributes, parameters and defaults are those of qla2xxx
(qla_os.c, qla_attr.c), lpfc (lpfc_attr.c, lpfc_init.c) and mpt3sas. Devices are below devices/;
classes and buses have relative links to them.
"""
import os
from pathlib import Path

UNKNOWN = "0xffffffffffffffff"
WWPN, TARGET = "0x21000024ff000010", "0x500a098100000001"


class Tree:
    """sys and proc below a folder. put() also changes files that other functions have written."""

    def __init__(self, folder: Path, cpus: int = 8, nodes: int = 1):
        self.sys, self.proc = folder / "sys", folder / "proc"
        self.proc.mkdir(parents=True)
        self.put("devices/system/cpu/online", f"0-{cpus - 1}")
        self.put("devices/system/node/possible", f"0-{nodes - 1}" if nodes > 1 else "0")
        self.put("class/smq_sg/smqsg0/depth", 1)

    def put(self, path, value) -> None:
        """Writes an attribute, by any path that leads to it."""
        file = self.sys / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{value}\n", encoding="ascii")

    def attributes(self, path: str, values: dict) -> None:
        """Writes several attributes in one directory."""
        for name, value in values.items():
            self.put(f"{path}/{name}", value)

    def link(self, path: str, to: str) -> None:
        """Makes a relative link, as sysfs does."""
        file = self.sys / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.symlink_to(os.path.relpath(self.sys / to, file.parent.resolve()))

    def host(self, pci: str, number: int, driver: str, proc_name: str = "",
             **attributes) -> str:
        """Makes a Scsi_Host on a PCI device. Returns its directory."""
        (self.sys / f"bus/pci/drivers/{driver}").mkdir(parents=True)
        self.link(f"devices/pci0000:3a/{pci}/driver", f"bus/pci/drivers/{driver}")
        where = f"devices/pci0000:3a/{pci}/host{number}"
        self.attributes(f"{where}/scsi_host/host{number}", {
            "proc_name": proc_name or driver, "unique_id": number, "cmd_per_lun": 3,
            "sg_tablesize": 1024, "host_busy": 0, "state": "running", "supported_mode": "Initiator",
            "active_mode": "Initiator", "eh_deadline": "off", "prot_capabilities": 0,
            "use_blk_mq": 1} | attributes)
        self.link(f"class/scsi_host/host{number}", f"{where}/scsi_host/host{number}")
        return where

    def interrupts(self, pci: str, first: int, cpus: list[str]) -> None:
        """Makes MSI-X vectors, numbered from @first on. @cpus: the CPUs of each vector."""
        for at, targets in enumerate(cpus):
            self.put(f"devices/pci0000:3a/{pci}/msi_irqs/{first + at}", "msix")
            irq = self.proc / "irq" / str(first + at)
            irq.mkdir(parents=True)
            for name in ("smp_affinity_list", "effective_affinity_list"):
                (irq / name).write_text(f"{targets}\n", encoding="ascii")

    def fc_host(self, where: str, statistics: dict, **attributes) -> None:
        """Makes the fc_host of a Scsi_Host."""
        name = where.rpartition("/")[2]
        at = f"{where}/fc_host/{name}"
        self.attributes(at, {
            "port_name": WWPN, "node_name": "0x20000024ff000010", "port_state": "Online",
            "port_type": "NPort (fabric via point-to-point)", "port_id": "0x010200",
            "fabric_name": "0x100000051e000001", "speed": "16 Gbit",
            "supported_speeds": "4 Gbit, 8 Gbit, 16 Gbit"} | attributes)
        self.attributes(f"{at}/statistics", {
            "invalid_crc_count": "0x0", "invalid_tx_word_count": "0x0", "error_frames": "0x0",
            "link_failure_count": "0x0", "fcp_frame_alloc_failures": UNKNOWN} | statistics)
        self.link(f"class/fc_host/{name}", at)

    def port(self, where: str, name: str, **attributes) -> str:
        """Makes a remote port; returns the directory of its SCSI target."""
        at = f"{where}/{name}/fc_remote_ports/{name}"
        self.attributes(at, {
            "port_name": TARGET, "port_id": "0x010300", "port_state": "Online",
            "roles": "FCP Target", "scsi_target_id": 0, "dev_loss_tmo": 30,
            "fast_io_fail_tmo": "off"} | attributes)
        self.link(f"class/fc_remote_ports/{name}", at)
        return f"{where}/{name}/target{name[6:].partition(':')[0]}:0:0"

    def lun(self, target: str, number: int, disk: str, queues: int, **attributes) -> None:
        """Makes a LUN with its disk."""
        address = f"{target.rpartition('/target')[2]}:{number}"
        at = f"{target}/{address}"
        self.attributes(at, {
            "type": 0, "state": "running", "queue_depth": 64, "queue_ramp_up_period": 120000,
            "timeout": 30, "eh_timeout": 10, "vendor": "NETAPP", "model": "LUN C-Mode",
            "wwid": f"naa.600a0980{number:08x}"} | attributes)
        self.attributes(f"{at}/block/{disk}/queue", {
            "scheduler": "[none] mq-deadline" if queues > 1 else "[mq-deadline] none",
            "add_random": 0, "rotational": 0, "nr_requests": 256})
        (self.sys / at / f"block/{disk}/holders").mkdir()
        self.link(f"bus/scsi/devices/{address}", at)
        self.link(f"block/{disk}", f"{at}/block/{disk}")

    def multipath(self, disk: str) -> None:
        """Makes a disk a path of dm-multipath."""
        self.put("devices/virtual/block/dm-0/dm/uuid", "mpath-3600a0980")
        self.link(f"block/{disk}/holders/dm-0", "devices/virtual/block/dm-0")


def qla2xxx(tree: Tree, luns: int = 10, queues: int = 8) -> None:
    """Makes host7: a 27xx board with @queues queue pairs. can_queue is the number of the firmware's
    exchanges minus ten, here 4086. queue_depth is ql2xmaxqdepth; dev_loss_tmo is the NVRAM's
    port_down_retry_count."""
    pci = "0000:3b:00.0"
    tree.attributes("module/qla2xxx/parameters", {
        "ql2xmqsupport": 1, "ql2xnvmeenable": 1, "ql2xenablemsix": 1, "ql2xmaxqdepth": 64,
        "qlini_mode": "enabled"})
    # The driver's scsi_host_template has no proc_name: sysfs shows "(null)".
    where = tree.host(pci, 7, "qla2xxx", "(null)", can_queue=4086, nr_hw_queues=queues,
                      fw_version="8.08.231 (d0d5)", link_state="Link Up - F_Port")
    # Two vectors for the mailbox and the base queue, one for each queue pair.
    tree.interrupts(pci, 60, ["0-7", "0-7", *(str(cpu % 8) for cpu in range(queues))])
    tree.fc_host(where, {})
    target = tree.port(where, "rport-7:0-2")
    for number in range(luns):
        tree.lun(target, number, f"sd{chr(ord('b') + number)}", queues)


def lpfc(tree: Tree, luns: int = 4) -> None:
    """Makes host8: an SLI-4 board. The mid-layer gets two hardware queues per NUMA node, and a
    can_queue of hba_queue_depth minus ten."""
    pci = "0000:5e:00.0"
    nodes = (tree.sys / "devices/system/node/possible").read_text(encoding="ascii").strip()
    queues = 4 if nodes == "0-1" else 2
    where = tree.host(pci, 8, "lpfc", can_queue=8182, nr_hw_queues=queues, lpfc_hdw_queue=8,
                      lpfc_irq_chann=8, lpfc_fcp_mq_threshold=8, lpfc_use_msi=2,
                      lpfc_lun_queue_depth=64, lpfc_tgt_queue_depth=65535,
                      lpfc_devloss_tmo=30, lpfc_enable_fc4_type=3)
    tree.interrupts(pci, 90, [str(cpu) for cpu in range(8)])
    tree.fc_host(where, {}, port_name="0x10000090fa000010", speed="32 Gbit",
                 supported_speeds="8 Gbit, 16 Gbit, 32 Gbit")
    target = tree.port(where, "rport-8:0-5")
    for number in range(luns):
        tree.lun(target, number, f"sd{chr(ord('p') + number)}", queues,
                 wwid=f"naa.60060160{number:08x}")


def mpt3sas(tree: Tree) -> None:
    """Makes host9: a SAS HBA with two phys and no disk."""
    where = tree.host("0000:af:00.0", 9, "mpt3sas", can_queue=9664, nr_hw_queues=8)
    tree.put(f"{where}/sas_host/host9/uevent", "")
    tree.link("class/sas_host/host9", f"{where}/sas_host/host9")
    for phy in ("phy-9:0", "phy-9:1", "phy-9:0:4"):
        at = f"{where}/{phy}/sas_phy/{phy}"
        tree.attributes(at, {
            "negotiated_linkrate": "12.0 Gbit", "maximum_linkrate": "12.0 Gbit",
            "maximum_linkrate_hw": "12.0 Gbit", "invalid_dword_count": 0,
            "running_disparity_error_count": 0, "loss_of_dword_sync_count": 0,
            "phy_reset_problem_count": 0})
        tree.link(f"class/sas_phy/{phy}", at)


def iscsi(tree: Tree, **session) -> None:
    """Makes host10: iscsi_tcp, with a session and a LUN."""
    where = "devices/platform/host10"
    tree.attributes(f"{where}/scsi_host/host10", {
        "proc_name": "iscsi_tcp", "can_queue": 127, "nr_hw_queues": 1, "active_mode": "Initiator"})
    tree.put(f"{where}/iscsi_host/host10/ipaddress", "192.0.2.1")
    for name in ("scsi_host", "iscsi_host"):
        tree.link(f"class/{name}/host10", f"{where}/{name}/host10")
    at = f"{where}/session1/iscsi_session/session1"
    tree.attributes(at, {"state": "LOGGED_IN", "recovery_tmo": 120,
                         "targetname": "iqn.2026-01.org.example:smq"} | session)
    tree.link("class/iscsi_session/session1", at)
    tree.lun(f"{where}/session1/target10:0:0", 0, "sdz", 1, queue_depth=32,
             wwid="naa.6001405000000001")
