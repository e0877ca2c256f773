# SPDX-License-Identifier: GPL-2.0
"""Fibre Channel without hardware: LUNs of LIO behind fcoe, both ends in this VM.

A veth pair is the wire. Each end is an FC port that fcoe makes (VN2VN: no switch). One is LIO's
target (tcm_fc) with RAM disks, the other is the initiator whose LUNs are tested. The transport
class, the remote port, fast_io_fail and dev_loss work as with any FC HBA. A bridge in place of the
pair connects the initiator to a second target.

The link is taken down only at the initiator's controller, and only while no WRITE is in flight:
tcm_fc waits for ever for the data of a WRITE whose initiator has gone. A program that takes down
the interface itself would then wait as well, while it holds rtnl. """
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from .host import Host, KernelLog, Lun, is_loaded, load, run, unload, wait_for

NET, FC_HOSTS = Path("/sys/class/net"), Path("/sys/class/fc_host")
REMOTE_PORTS, FCOE = Path("/sys/class/fc_remote_ports"), Path("/sys/bus/fcoe")
CONFIGFS = Path("/sys/kernel/config")
TARGET = CONFIGFS / "target"
MODULES = ("veth", "sch_netem", "fcoe", "tcm_fc")
# Modules that stay loaded when MODULES are unloaded: the backends that LIO loads with the first
# backstore, and the modules that these need.
LEFT = ("target_core_user", "target_core_pscsi", "target_core_file", "target_core_iblock",
        "target_core_mod")
INITIATOR, TARGET_PORT, SECOND_TARGET = "smqfc0", "smqfc1", "smqfc2"
MACS = {INITIATOR: "02:00:00:00:00:10", TARGET_PORT: "02:00:00:00:00:20",
        SECOND_TARGET: "02:00:00:00:00:30"}
# Connects the three ports, through the other ends of three pairs.
BRIDGE, OTHER_END = "smqfcbr", "b"
# The LUN number of the second target's LUN, which also names its backstore.
SECOND_LUN = 9
# Room for a payload of 2112 bytes, and for the headers of fcoe and FC.
MTU = 2500
# A login takes about two seconds, and much longer on a busy machine.
SECONDS = 60
# The default dev_loss_tmo of an FC port; see Link.set_loss_timeouts().
DEV_LOSS = 60


def missing(more: Sequence[str] = ()) -> str:
    """The names of the modules that this kernel lacks, or ""."""
    return " ".join(name for name in (*MODULES, *more) if not is_loaded(name) and run(
        "modprobe", "--dry-run", "--quiet", name, ok=False).returncode)


def need() -> None:
    """Skips the test if this kernel has no soft FC."""
    lacking = missing()
    if lacking:
        pytest.skip(f"Linux {os.uname().release} has no soft FC: no module {lacking}")


def _wwpn(end: str) -> str:
    """The port name that fcoe makes from an interface's address."""
    return f"20:00:{MACS[end]}"


def write_attr(path: Path, text) -> None:
    path.write_text(str(text), encoding="ascii")


def _get(path: Path) -> str:
    """The text of an attribute; "" if the object does not exist or is being removed."""
    with suppress(OSError):
        return path.read_text(encoding="ascii").strip()
    return ""


def _controller(end: str) -> Path | None:
    """fcoe's controller on an interface."""
    return next((NET / end).glob("ctlr_*"), None)


class Link:
    """The wire as the initiator sees it, and the LUNs at its other end."""

    def __init__(self, host: Host, mib: int, count: int):
        self.host, self.blocks, self._count = host, mib * 2048, count

    def luns(self) -> list[Lun]:
        """Waits until the LUNs have all their nodes, and returns them."""
        return self.host.wait_luns(self._count, seconds=SECONDS)

    def lun(self) -> Lun:
        """The first LUN."""
        return self.luns()[0]

    @contextmanager
    def unmapped(self, number: int) -> Iterator[None]:
        """Unmaps a LUN from the initiator during the block. The target waits for the LUN's commands
        first."""
        link = _mapped(TARGET_PORT, number) / _name(number)
        to = link.resolve()
        link.unlink()
        link.parent.rmdir()
        try:
            yield
        finally:
            link.parent.mkdir()
            link.symlink_to(to)

    def _port(self, target: str = TARGET_PORT) -> Path | None:
        """A target's remote port, in sysfs."""
        name = "0x" + _wwpn(target).replace(":", "")
        for port in REMOTE_PORTS.glob(f"rport-{self.host.number}:*"):
            if _get(port / "port_name") == name:
                return port
        return None

    def port_state(self, target: str = TARGET_PORT) -> str:
        """The state of a target's remote port, such as "Online" or "Blocked"; "" if there is no
        remote port."""
        port = self._port(target)
        return _get(port / "port_state") if port else ""

    def set_loss_timeouts(self, dev_loss: int = DEV_LOSS, fast_io_fail: int | None = None) -> None:
        """Sets for how many seconds LUNs (dev_loss) and their I/O (fast_io_fail) wait for a lost
        port.

        Without fast_io_fail I/O waits as long as the LUNs. The link must be up."""
        port = self._port()
        assert port, "no remote port"
        # The kernel refuses a value that does not fit the other one.
        write_attr(port / "fast_io_fail_tmo", "off")
        write_attr(port / "dev_loss_tmo", dev_loss)
        if fast_io_fail is not None:
            write_attr(port / "fast_io_fail_tmo", fast_io_fail)

    def _enable(self, on: bool) -> None:
        write_attr(_controller(INITIATOR) / "enabled", int(on))

    def down(self) -> None:
        """Takes the link down, and waits until the remote port is no longer online."""
        self._enable(False)
        wait_for("the remote port to leave Online", lambda: self.port_state() != "Online", SECONDS)

    @contextmanager
    def second_blocked(self) -> Iterator[None]:
        """During the block the second target is off, and its remote port is blocked."""
        write_attr(self._port(SECOND_TARGET) / "dev_loss_tmo", 10 * DEV_LOSS)
        write_attr(_controller(SECOND_TARGET) / "enabled", 0)
        try:
            wait_for("the remote port to be blocked",
                     lambda: self.port_state(SECOND_TARGET) == "Blocked", SECONDS)
            yield
        finally:
            write_attr(_controller(SECOND_TARGET) / "enabled", 1)
            wait_for("the second target", lambda: self.port_state(SECOND_TARGET) == "Online",
                     SECONDS)

    @contextmanager
    def _emulated(self, *words: str) -> Iterator[None]:
        """During the block tc netem handles the target's frames, with the options @words."""
        run("tc", "qdisc", "add", "dev", TARGET_PORT, "root", "netem", *words)
        try:
            yield
        finally:
            run("tc", "qdisc", "delete", "dev", TARGET_PORT, "root")

    def silent(self):
        """Frames that the target sends during the block are lost: commands sent to the target stay
        in flight until the link goes down."""
        return self._emulated("loss", "100%")

    def slow(self, ms: int):
        """Delays each frame that the target sends during the block by @ms. At the end of the block
        no frame may be under way."""
        return self._emulated("delay", f"{ms}ms", "limit", "100000")

    def up(self) -> Lun:
        """Brings the link up if it is down, and waits until all LUNs are running. Returns the first
        LUN."""
        self._enable(True)

        def back():
            luns = self.host.luns()
            return self.port_state() == "Online" and len(luns) == self._count and all(
                _get(lun.sysfs / "state") == "running" for lun in luns)
        wait_for("the LUNs behind the link", back, SECONDS)
        return self.lun()


@contextmanager
def _modules(more: Sequence[str]) -> Iterator[None]:
    """Loads the necessary modules, and unloads them afterwards."""
    there = [name for name in LEFT if is_loaded(name)]
    with ExitStack() as stack:
        stack.callback(lambda: [unload(name) for name in LEFT
                                if is_loaded(name) and name not in there])
        for name in (*MODULES, *more):
            if not is_loaded(name):
                load(name)
                stack.callback(unload, name)
        yield


def _pair(stack: ExitStack, end: str, peer: str, *address: str) -> None:
    """Creates a pair of interfaces. @address: the address of @peer."""
    run("ip", "link", "add", end, "address", MACS[end], "mtu", MTU, "type", "veth",
        "peer", "name", peer, *address, "mtu", MTU)
    stack.callback(run, "ip", "link", "delete", end)
    for name in (end, peer):
        run("ip", "link", "set", name, "up")


def _wire(stack: ExitStack, second: bool) -> None:
    """Creates the interfaces."""
    if not second:
        _pair(stack, INITIATOR, TARGET_PORT, "address", MACS[TARGET_PORT])
        return
    run("ip", "link", "add", BRIDGE, "type", "bridge")
    stack.callback(run, "ip", "link", "delete", BRIDGE)
    run("ip", "link", "set", BRIDGE, "up")
    for end in MACS:
        _pair(stack, end, end + OTHER_END)
        run("ip", "link", "set", end + OTHER_END, "master", BRIDGE)


def _directory(stack: ExitStack, path: Path) -> Path:
    """Creates a directory of configfs, and its parents."""
    if not path.exists():
        _directory(stack, path.parent)
        path.mkdir()
        stack.callback(path.rmdir)
    return path


def _linked(stack: ExitStack, path: Path, to: Path) -> None:
    path.symlink_to(to)
    stack.callback(path.unlink)


def _name(number: int) -> str:
    """The name of a LUN's backstore, which is also its serial number."""
    return f"smqfc{number or ''}"


def _group(target: str) -> Path:
    """The configfs directory of a target's port group."""
    return TARGET / f"fc/{_wwpn(target)}/tpgt_1"


def _mapped(target: str, number: int) -> Path:
    """The configfs directory that maps a LUN to the initiator."""
    return _group(target) / "acls" / _wwpn(INITIATOR) / f"lun_{number}"


def _ram_disk(stack: ExitStack, mib: int, number: int) -> Path:
    """Creates a RAM disk of LIO."""
    disk = _directory(stack, TARGET / "core/rd_mcp_0" / _name(number))
    write_attr(disk / "control", f"rd_pages={mib * 256}")
    write_attr(disk / "enable", 1)
    # A serial number for the VPD pages, as a real disk has.
    write_attr(disk / "wwn/vpd_unit_serial", _name(number))
    return disk


def _target(stack: ExitStack, target: str, disks: dict[int, Path]) -> None:
    """Creates a port of tcm_fc with LUNs, and an ACL for the initiator."""
    _directory(stack, _group(target))
    for number, disk in disks.items():
        lun = _directory(stack, _group(target) / f"lun/lun_{number}")
        _linked(stack, lun / _name(number), disk)
        _linked(stack, _directory(stack, _mapped(target, number)) / _name(number), lun)


def _destroy(end: str) -> None:
    """Destroys an FC port. Waits until it is gone: the kernel removes it in a work item."""
    write_attr(FCOE / "ctlr_destroy", end)
    wait_for(f"the end of {end}'s port", lambda: not _controller(end) and not _host_name(end),
             SECONDS)


def _host_name(end: str) -> str:
    """The name of an FC port's SCSI host; "" if the port has none."""
    for host in FC_HOSTS.glob("host*"):
        if _get(host / "symbolic_name").split()[-1:] == [end]:
            return host.name
    return ""


def _port(stack: ExitStack, end: str) -> Host:
    """Creates an FC port on an interface, with its link down."""
    write_attr(FCOE / "ctlr_create", end)
    stack.callback(_destroy, end)
    control = wait_for(f"{end}'s controller", lambda: _controller(end))
    # Linux 7.2 does not accept lower case.
    write_attr(control / "mode", "VN2VN")
    return Host(int(wait_for(f"{end}'s host", lambda: _host_name(end))[4:]))


@contextmanager
def soft_fc(mib: int = 32, luns: int = 1, stores: Sequence[Path] = (),
            second: bool = False) -> Iterator[Link]:
    """Sets up both ends of the link during the block, with @luns LUNs of @mib MiB and a further LUN
    for each backstore in @stores. @second: also sets up a second target, with one LUN.

    At the end no command may be in flight and no node may be open. Fails if the
    kernel log shows a bug. """
    more = ("bridge",) if second else ()
    assert os.geteuid() == 0 and not missing(more), f"modules missing: {missing(more)}"
    with KernelLog() as log:
        with _modules(more), ExitStack() as stack:
            _wire(stack, second)
            if not TARGET.exists():
                run("mount", "-t", "configfs", "configfs", str(CONFIGFS))
            disks = [_ram_disk(stack, mib, number) for number in range(luns)]
            _target(stack, TARGET_PORT, dict(enumerate((*disks, *stores))))
            ports = [TARGET_PORT]
            if second:
                _target(stack, SECOND_TARGET, {SECOND_LUN: _ram_disk(stack, mib, SECOND_LUN)})
                ports.append(SECOND_TARGET)
            for end in ports:
                _port(stack, end)
            link = Link(_port(stack, INITIATOR), mib, luns + len(stores) + second)
            # The ports are enabled last: an initiator that logs in before the target finds no LUNs.
            for end in (*ports, INITIATOR):
                write_attr(_controller(end) / "enabled", 1)
            link.up()
            yield link
        assert not log.faults(), "the kernel log reports a bug:\n" + log.tail(80)
