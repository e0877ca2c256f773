# SPDX-License-Identifier: GPL-2.0
"""The table of devices that the storage test (kit.matrix) uses, bare and converted.

Each row says how its disk is made, which of the test's faults the test uses on it, and why it does
not use the others. table() makes the table in docs/devices.md from these rows. The test fails if a
row is wrong. """
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from . import iscsi
from .host import SCSI_HOSTS, Host, Lun, find_hosts, is_loaded, load, loaded, unload, wait_for
from .lio import LOOPBACK, TARGET, Wwn, iblock, loop_fabric, ramdisk
from .monitor import Monitor
from .smqsg import SCSI_DEBUG
from .softfc import soft_fc
from .targetcli import TOP

MIB = 16
RIVAL_WWN, RIVAL_NEXUS = "naa.5001405000000002", "naa.5001405000000b01"
SECONDS = 60
# I/Os per second of a throttled disk.
FEW = 40
# How long a command of scsi_debug takes.
SLOW_JIFFIES = 5


@dataclass(frozen=True)
class Attached:
    """An attached device: functions that find its LUN, remove the device and bring it back. @rival
    finds a LUN through which another initiator uses the same backstore."""
    lun: Callable[[], Lun]
    pull: Callable[[], object]
    back: Callable[[], object]
    rival: Callable[[], Lun] | None = None
    # Makes a context manager: commands take long inside its block.
    slow: Callable[[], AbstractContextManager] = nullcontext


def _disk_of(driver: str, hosts: Callable[[], list[Host]]) -> Lun:
    """Waits until these hosts have exactly one disk, and returns its LUN."""
    def found():
        luns = [lun for host in hosts() for lun in host.luns() if lun.sd and lun.sg and lun.ready]
        return luns[0] if len(luns) == 1 else None
    return wait_for(f"the disk of {driver}", found, SECONDS)


def disk_of(driver: str) -> Lun:
    """Waits until the hosts of @driver have exactly one disk, and returns its LUN."""
    return _disk_of(driver, lambda: find_hosts(driver))


def _lower_hosts() -> list[Host]:
    """All hosts but smq_conv's."""
    ours = find_hosts("smq_conv")
    return [host for host in (Host(int(path.name[4:])) for path in SCSI_HOSTS.glob("host*"))
            if host not in ours]


def write_attr(path: Path, text) -> None:
    path.write_text(str(text), encoding="ascii")


def _deleted(find: Callable[[], Lun], **more) -> Attached:
    """A device that is removed by its attribute delete, and brought back by a scan."""
    known = find()

    def scan():
        write_attr(Host(int(known.address.partition(":")[0])).sysfs / "scan", "- - -")
    return Attached(find, lambda: write_attr(known.sysfs / "delete", 1), scan, **more)


@contextmanager
def _scsi_debug() -> Iterator[Attached]:
    """scsi_debug. Its hosts share one store, so that the data outlives a removed host."""
    load("scsi_debug", dev_size_mb=MIB, delay=SLOW_JIFFIES, per_host_store=0)
    try:
        yield Attached(lambda: disk_of("scsi_debug"),
                       lambda: write_attr(SCSI_DEBUG / "add_host", -1),
                       lambda: write_attr(SCSI_DEBUG / "add_host", 1))
    finally:
        unload("scsi_debug")


@contextmanager
def _rival(store: Path, mine: bool = False) -> Iterator[Callable[[], Lun]]:
    """Makes a backstore a disk of tcm_loop as well, with another I_T nexus. @mine: the caller has
    loaded tcm_loop."""
    with nullcontext() if mine else loop_fabric(io_errors=True):
        tpg = Wwn(RIVAL_WWN, LOOPBACK).tpg(nexus=RIVAL_NEXUS)
        yield lambda: tpg.disk(0, store)


@contextmanager
def _tcm_loop() -> Iterator[Attached]:
    """tcm_loop, with a backstore so slow that commands time out."""
    with loaded("scsi_debug", io_errors=True, dev_size_mb=MIB, delay=SLOW_JIFFIES) as (host,), \
            iblock("store", host.luns()[0].sd) as store, loop_fabric(io_errors=True):
        tpg = Wwn(fabric=LOOPBACK).tpg()
        tpg.link(0, store)

        def lun():
            return wait_for("the disk", lambda: next(
                (one for one in tpg.host.luns() if one.sd and one.sg and one.ready), None))
        with _rival(store, mine=True) as rival:
            yield Attached(lun, lambda: tpg.unlink(0), lambda: tpg.link(0, store), rival)


@contextmanager
def _iscsi_lio() -> Iterator[Attached]:
    with ramdisk("store", MIB) as store, _rival(store) as rival, iscsi.target(store), \
            iscsi.initiator():
        iscsi.login()
        yield Attached(lambda: disk_of("iscsi_tcp"), iscsi.logout, iscsi.login, rival)


@contextmanager
def _iscsi_tgt() -> Iterator[Attached]:
    """iSCSI with tgtd in this VM. tools/vm runs the same tgtd outside the VM."""
    sys.path.insert(0, str(TOP / "tools"))
    from testvm import tgt     # pylint: disable=import-outside-toplevel
    with TemporaryDirectory() as folder, ExitStack() as stack:
        image = Path(folder, "disk")
        with image.open("wb") as file:
            file.truncate(MIB << 20)
        target = tgt.Tgt(Path(folder))
        stack.callback(target.stop)
        target.start()
        where = dict(word.split("=") for word in target.lun(image).split(","))

        def login():
            iscsi.login(where["portal"], tgt.TARGET)
        with iscsi.initiator():
            login()
            yield Attached(lambda: disk_of("iscsi_tcp"), iscsi.logout, login)


@contextmanager
def _fc() -> Iterator[Attached]:
    """Soft FC. Only READs are in flight when the disk is removed: see kit.softfc."""
    with soft_fc(MIB) as link:
        def pull():
            link.set_loss_timeouts(dev_loss=2, fast_io_fail=1)
            # While the link is silent, commands stay in flight until the link is down. Without
            # the silence libfc may end a command from both ports at once.
            with link.silent():
                time.sleep(0.3)
                link.down()

        def back():
            link.up()
            link.set_loss_timeouts()

        link.set_loss_timeouts()
        with _rival(TARGET / "core/rd_mcp_0/smqfc") as rival:
            yield Attached(link.lun, pull, back, rival)


def _monitor(*commands: str) -> None:
    """Runs commands in QEMU's monitor."""
    with Monitor() as monitor:
        for command in commands:
            monitor.run(command, again="Duplicate|in use|not found")


@contextmanager
def _throttled(disk: str) -> Iterator[None]:
    """During the block QEMU's disk executes at most FEW I/Os a second."""
    _monitor(f"block_set_io_throttle {disk} 0 0 0 {FEW} 0 0")
    try:
        yield
    finally:
        _monitor(f"block_set_io_throttle {disk} 0 0 0 0 0 0")


def _hba(driver: str, disk: str, *more: str, stays: bool = False, pull: tuple[str, ...] = (),
         back: tuple[str, ...] = ()):
    """A disk of an HBA that QEMU emulates: the only disk on the hosts that appear when @driver and
    the modules in @more are loaded. @disk is QEMU's name for it. @pull and @back are commands for
    QEMU's monitor; without them the disk is removed through sysfs. @stays: the modules are not
    unloaded."""
    @contextmanager
    def made() -> Iterator[Attached]:
        before, ours = _lower_hosts(), [name for name in (*more, driver) if not is_loaded(name)]

        def find():
            return _disk_of(driver, lambda: [host for host in _lower_hosts() if host not in before])
        for name in ours:
            load(name)
        try:
            find()
            slow = partial(_throttled, disk)
            if pull:
                yield Attached(find, lambda: _monitor(*pull), lambda: _monitor(*back), slow=slow)
            else:
                yield _deleted(find, slow=slow)
        finally:
            for name in reversed(ours if not stays else []):
                unload(name)
    return made


def _disk(bus: str, node: str) -> str:
    return f"device_add scsi-hd,bus={bus}.0,drive={node},id={node}disk"


# Levels of sg_reset. After a bus or host reset the mid-layer sleeps for ten seconds.
LEVELS = {"device": 1, "target": 4, "bus": 2, "host": 3}
LONG = ("bus", "host")
# The level that each variant skips in the default run, because it would take a minute more.
SPARED = {"bare": "host", "converted": "bus", "attached": "bus"}


@dataclass(frozen=True)
class Device:
    """A row of the table. @why gives the reason for each step or result that the row lacks."""
    name: str
    driver: str
    make: Callable
    resets: tuple[str, ...]
    # How the test removes the device while I/O is in flight.
    pulled: str
    why: str = ""
    # False if the test must not let commands time out.
    aborts: bool = True
    # Levels of reset that the test does not try.
    avoids: tuple[str, ...] = ()
    # True if another initiator uses the same backstore.
    rival: bool = False
    # The device reports residuals.
    residual: bool = True
    # The disk reports a unit attention after a device reset.
    attention: bool = True
    # False if only READs may be in flight during faults, and their data is not compared.
    writes: bool = True
    # The default run skips one long reset (SPARED) if the device has both.
    spares: bool = False

    def levels(self, variant: str) -> list[str]:
        """The levels of reset that the test tries on a variant: bare, converted or attached."""
        spares = self.spares and set(LONG) <= set(self.resets)
        return [name for name in LEVELS if name not in self.avoids and not (
            spares and name == SPARED[variant])]

    def cells(self) -> dict[str, str]:
        """The steps that the test must have done when it ends, by column of the table."""
        def variant(name):
            levels = ", ".join(level for level in self.levels(name) if level in self.resets)
            return f"{'aborts; ' * self.aborts}resets: {levels or 'none'}; {self.pulled}"
        return {"bare": variant("bare"), "converted": variant("converted") + "; released",
                "attached": variant("attached") + "; detached",
                "smq_sg": "READs and WRITEs in all steps" if self.writes else
                          "READs during aborts and removal; WRITEs before and after",
                "same ends": ", ".join((
                    "opcode", "LBA", *["residual"] * self.residual,
                    *["unit attention"] * self.attention, *["reservation conflict"] * self.rival))}


ISCSI_TARGET = "target reset: the target rejects it, and open-iscsi drops the session"


def _rows(*rows: Device) -> dict[str, Device]:
    return {row.name: row for row in rows}


# Devices of the default run.
DEFAULT = {name: replace(row, spares=True) for name, row in _rows(
    Device("scsi_debug", "scsi_debug", _scsi_debug, ("device", "target", "bus", "host"),
           "add_host -1"),
    Device("soft FC", "fcoe", _fc, ("device",), "dev_loss",
           "host reset: libfc takes a minute for it, and at the next link down Linux 6.1 reported "
           "'scheduling while atomic' in fc_seq_set_resp(); WRITEs in faults: tcm_fc waits for "
           "ever for their data; residuals: tcm_fc reports none",
           avoids=("host",), residual=False, rival=True, writes=False),
    Device("iSCSI, LIO", "iscsi_tcp", _iscsi_lio, ("device",), "logout", ISCSI_TARGET,
           avoids=("target",), rival=True),
    Device("pvscsi", "vmw_pvscsi",
           _hba("vmw_pvscsi", "pvdisk", pull=("device_del pvdisk",), back=(_disk("pv", "pv"),)),
           ("device", "bus", "host"), "device_del"),
    Device("megasas", "megaraid_sas", _hba("megaraid_sas", "mgdisk"), ("host",), "sysfs delete",
           "residuals: the emulation reports none", residual=False, attention=False),
).items()}

# Devices of slow/matrix_more, in this order.
MORE = _rows(
    Device("tcm_loop", "tcm_loopback", _tcm_loop, ("device",), "LUN unlinked",
           "target reset: the driver flushes work items that were never initialized; Linux 6.1 "
           "warns of that", avoids=("target",), rival=True),
    Device("iSCSI, tgt", "iscsi_tcp", _iscsi_tgt, ("device",), "logout",
           ISCSI_TARGET, avoids=("target",)),
    Device("virtio_scsi", "virtio_scsi",
           _hba("virtio_scsi", "vsdisk", pull=("device_del vsdisk",), back=(_disk("vs", "vs"),)),
           ("device",), "device_del"),
    Device("mptsas1068", "mptsas", _hba("mptsas", "mptdisk"), ("device", "host"),
           "sysfs delete", "Linux 7.2 reports that the driver reads past the end of an array"),
    Device("am53c974", "am53c974", _hba("am53c974", "amddisk"), ("bus", "host"),
           "sysfs delete", "residuals: the driver reports none", residual=False, attention=False),
    Device("usb-uas", "uas",
           _hba("uas", "uasdisk", "xhci_pci", pull=("device_del uas",),
                back=("device_add usb-uas,id=uas,bus=xhci.0", _disk("uas", "uas"),
                      "qom-set /machine/peripheral/uas attached true")),
           ("device",), "unplugged",
           "aborts: QEMU 7.2 exits in some aborts of the bare disk (assertion in "
           "usb_packet_check_state()); unit attention: the emulation has none after a device "
           "reset", aborts=False, attention=False),
    Device("AHCI", "ahci", _hba("ahci", "atadisk"), (), "sysfs delete",
           "aborts: libata ends block I/O of the bare disk with EIO; residuals: it reports none",
           aborts=False, residual=False,
           attention=False),
    # The last one: its driver may panic, which ends the VM.
    Device("lsi53c895a", "sym53c8xx", _hba("sym53c8xx", "lsidisk", stays=True), ("bus", "host"),
           "sysfs delete",
           "aborts, device reset: Linux 6.1 panics in an abort of the bare disk (assertion in "
           "sym_hipd.c line 3387); unloading: the kernel reports that the driver frees memory with "
           "interrupts off",
           aborts=False, avoids=("device",), attention=False),
)

# Lower hosts of vm/conv_lowers. Its VM has no monitor, so virtio_scsi's disk is removed through
# sysfs.
LOWERS = {"scsi_debug": DEFAULT["scsi_debug"].make, "tcm_loop": MORE["tcm_loop"].make,
          "virtio_scsi": _hba("virtio_scsi", "a")}


def table() -> str:
    """The table for docs/devices.md."""
    columns = ("bare", "converted", "attached", "smq_sg", "same ends")
    lines = [f"| device, driver | {' | '.join(columns)} | without, and why |",
             "| --- " * (len(columns) + 2) + "|"]
    for device in (*DEFAULT.values(), *MORE.values()):
        cells = device.cells()
        lines.append(f"| {device.name}, {device.driver} | " +
                     " | ".join(cells[column] for column in columns) + f" | {device.why or '–'} |")
    return "\n".join(lines)
