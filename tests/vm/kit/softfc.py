# SPDX-License-Identifier: GPL-2.0
"""Fibre Channel without hardware: LUNs of LIO behind fcoe, both ends in this VM.

A veth pair is the wire. Each end is an FC port that fcoe makes (VN2VN: no switch); the one is
LIO's target (tcm_fc) with RAM disks, the other the initiator whose LUNs are tested. Transport
class, remote port, fast_io_fail and dev_loss are those of any FC HBA.

The link is taken down at the initiator's controller alone, and with nothing but READs in
flight: tcm_fc waits for ever for the data of a WRITE whose initiator has gone, and so does, with
rtnl held, who takes down the interface itself.
"""
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from .host import Host, KernelLog, Lun, is_loaded, load, run, unload, wait_for

NET, FC_HOSTS = Path("/sys/class/net"), Path("/sys/class/fc_host")
REMOTE_PORTS, FCOE = Path("/sys/class/fc_remote_ports"), Path("/sys/bus/fcoe")
CONFIGFS = Path("/sys/kernel/config")
TARGET = CONFIGFS / "target"
MODULES = ("veth", "sch_netem", "fcoe", "tcm_fc")
# Backends that LIO loads by itself with the first backstore, and what all of it stands on.
LEFT = ("target_core_user", "target_core_pscsi", "target_core_file", "target_core_iblock",
        "target_core_mod")
INITIATOR, TARGET_PORT = "smqfc0", "smqfc1"
MACS = {INITIATOR: "02:00:00:00:00:10", TARGET_PORT: "02:00:00:00:00:20"}
GROUP = TARGET / f"fc/20:00:{MACS[TARGET_PORT]}/tpgt_1"
# Room for a frame of 2112 bytes of payload, fcoe's and FC's headers.
MTU = 2500
# Logging in takes about two seconds, and many times that on a machine with other work.
SECONDS = 60
# What an FC port is given when nothing is said; see Link.patience().
DEV_LOSS = 60


def missing() -> str:
    """The modules that this kernel lacks, "" for none."""
    return " ".join(name for name in MODULES if not is_loaded(name) and run(
        "modprobe", "--dry-run", "--quiet", name, ok=False).returncode)


def _wwpn(end: str) -> str:
    """The port name that fcoe makes from an interface's address."""
    return f"20:00:{MACS[end]}"


def _put(path: Path, text) -> None:
    path.write_text(str(text), encoding="ascii")


def _get(path: Path) -> str:
    """An attribute; "" of an object that is not there or is going."""
    with suppress(OSError):
        return path.read_text(encoding="ascii").strip()
    return ""


def _controller(end: str) -> Path | None:
    """fcoe's controller on an interface."""
    return next((NET / end).glob("ctlr_*"), None)


class Link:
    """The wire, seen from the initiator, and the LUNs at its other end."""

    def __init__(self, host: Host, mib: int, count: int):
        self.host, self.blocks, self._count = host, mib * 2048, count

    def luns(self) -> list[Lun]:
        """The LUNs, once they have all their nodes."""
        return self.host.wait_luns(self._count, seconds=SECONDS)

    def lun(self) -> Lun:
        """The first one, or the only one."""
        return self.luns()[0]

    @contextmanager
    def unmapped(self, number: int) -> Iterator[None]:
        """The target shows a LUN to its initiator no longer, for a while. Commands that it has are
        waited for."""
        link = _mapped(number) / _name(number)
        to = link.resolve()
        link.unlink()
        link.parent.rmdir()
        try:
            yield
        finally:
            link.parent.mkdir()
            link.symlink_to(to)

    def _port(self) -> Path | None:
        """The remote port, in sysfs."""
        name = "0x" + _wwpn(TARGET_PORT).replace(":", "")
        for port in REMOTE_PORTS.glob(f"rport-{self.host.number}:*"):
            if _get(port / "port_name") == name:
                return port
        return None

    def port_state(self) -> str:
        """That of the remote port, "Online" or "Blocked" for instance; "" where there is none."""
        port = self._port()
        return _get(port / "port_state") if port else ""

    def patience(self, dev_loss: int = DEV_LOSS, fast_io_fail: int | None = None) -> None:
        """How many seconds a port that has gone is waited for: with its LUNs, with their I/O.

        Without fast_io_fail I/O waits as long as LUNs do. The link is up."""
        port = self._port()
        assert port, "no remote port"
        # Each is refused where it does not fit the other.
        _put(port / "fast_io_fail_tmo", "off")
        _put(port / "dev_loss_tmo", dev_loss)
        if fast_io_fail is not None:
            _put(port / "fast_io_fail_tmo", fast_io_fail)

    def _enable(self, on: bool) -> None:
        _put(_controller(INITIATOR) / "enabled", int(on))

    def down(self) -> None:
        """Takes the link down; the remote port has been seen to go."""
        self._enable(False)
        wait_for("the remote port to go", lambda: self.port_state() != "Online", SECONDS)

    @contextmanager
    def _emulated(self, *words: str) -> Iterator[None]:
        """A property of the wire, for what the target sends."""
        run("tc", "qdisc", "add", "dev", TARGET_PORT, "root", "netem", *words)
        try:
            yield
        finally:
            run("tc", "qdisc", "delete", "dev", TARGET_PORT, "root")

    def silent(self):
        """Nothing that the target sends arrives meanwhile, nor later: what is sent to it is in
        flight until the link goes down."""
        return self._emulated("loss", "100%")

    def slow(self, ms: int):
        """What the target sends is under way for so long. All has to be there at the end."""
        return self._emulated("delay", f"{ms}ms", "limit", "100000")

    def up(self) -> Lun:
        """Brings it up, if it is not, and waits until the LUNs are there and take commands. The
        first one."""
        self._enable(True)

        def back():
            luns = self.host.luns()
            return self.port_state() == "Online" and len(luns) == self._count and all(
                _get(lun.sysfs / "state") == "running" for lun in luns)
        wait_for("the LUNs behind the link", back, SECONDS)
        return self.lun()


@contextmanager
def _modules() -> Iterator[None]:
    """What is needed, and none of it afterwards."""
    there = [name for name in LEFT if is_loaded(name)]
    with ExitStack() as stack:
        stack.callback(lambda: [unload(name) for name in LEFT
                                if is_loaded(name) and name not in there])
        for name in MODULES:
            if not is_loaded(name):
                load(name)
                stack.callback(unload, name)
        yield


def _wire(stack: ExitStack) -> None:
    """The pair of interfaces."""
    run("ip", "link", "add", INITIATOR, "address", MACS[INITIATOR], "mtu", MTU, "type", "veth",
        "peer", "name", TARGET_PORT, "address", MACS[TARGET_PORT], "mtu", MTU)
    stack.callback(run, "ip", "link", "delete", INITIATOR)
    for end in MACS:
        run("ip", "link", "set", end, "up")


def _directory(stack: ExitStack, path: Path) -> Path:
    """A directory of configfs; those above it, too."""
    if not path.exists():
        _directory(stack, path.parent)
        path.mkdir()
        stack.callback(path.rmdir)
    return path


def _linked(stack: ExitStack, path: Path, to: Path) -> None:
    path.symlink_to(to)
    stack.callback(path.unlink)


def _name(number: int) -> str:
    """The backstore of a LUN, which is its serial number, too."""
    return f"smqfc{number or ''}"


def _mapped(number: int) -> Path:
    """The directory by which the target shows a LUN to the initiator."""
    return GROUP / "acls" / _wwpn(INITIATOR) / f"lun_{number}"


def _target(stack: ExitStack, mib: int, count: int, stores: Sequence[Path]) -> None:
    """LIO's side: RAM disks, a port of tcm_fc's, and who may log in to it."""
    if not TARGET.exists():
        run("mount", "-t", "configfs", "configfs", str(CONFIGFS))
    _directory(stack, GROUP)
    disks = []
    for number in range(count):
        disk = _directory(stack, TARGET / "core/rd_mcp_0" / _name(number))
        _put(disk / "control", f"rd_pages={mib * 256}")
        _put(disk / "enable", 1)
        # The name for its VPD pages, as a real one has.
        _put(disk / "wwn/vpd_unit_serial", _name(number))
        disks.append(disk)
    for number, disk in enumerate((*disks, *stores)):
        lun = _directory(stack, GROUP / f"lun/lun_{number}")
        _linked(stack, lun / _name(number), disk)
        _linked(stack, _directory(stack, _mapped(number)) / _name(number), lun)


def _destroy(end: str) -> None:
    """Ends an FC port; a work item does it."""
    _put(FCOE / "ctlr_destroy", end)
    wait_for(f"the end of {end}'s port", lambda: not _controller(end) and not _number(end),
             SECONDS)


def _number(end: str) -> str:
    """The name of the SCSI host of an FC port, "" where there is none."""
    for host in FC_HOSTS.glob("host*"):
        if _get(host / "symbolic_name").split()[-1:] == [end]:
            return host.name
    return ""


def _port(stack: ExitStack, end: str) -> Host:
    """An FC port on an interface, its link down."""
    _put(FCOE / "ctlr_create", end)
    stack.callback(_destroy, end)
    control = wait_for(f"{end}'s controller", lambda: _controller(end))
    # Linux 7.2 no longer takes it in small letters.
    _put(control / "mode", "VN2VN")
    return Host(int(wait_for(f"{end}'s host", lambda: _number(end))[4:]))


@contextmanager
def soft_fc(mib: int = 32, luns: int = 1, stores: Sequence[Path] = ()) -> Iterator[Link]:
    """All of it, with LUNs of so many MiB, and behind them those of backstores that are there; at
    the end nothing of it is left.

    Nothing may be in flight at the end, nor any node open. Fails when the kernel log shows a bug.
    """
    assert os.geteuid() == 0 and not missing(), f"modules missing: {missing()}"
    with KernelLog() as log:
        with _modules(), ExitStack() as stack:
            _wire(stack)
            _target(stack, mib, luns, stores)
            _port(stack, TARGET_PORT)
            link = Link(_port(stack, INITIATOR), mib, luns + len(stores))
            # Not before the target is there: who logs in then finds none.
            for end in (TARGET_PORT, INITIATOR):
                _put(_controller(end) / "enabled", 1)
            link.up()
            yield link
        assert not log.faults(), "the kernel log tells of a bug:\n" + log.tail(80)
