# SPDX-License-Identifier: GPL-2.0
"""iSCSI without a network: LIO's target on the loopback interface, and open-iscsi's daemon."""
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .host import load, run, unload, wait_for
from .lio import TARGET, write_attr

MODULE, TARGET_MODULE = "iscsi_tcp", "iscsi_target_mod"
IQN, PORTAL, SECOND = "iqn.2026-01.org.example:test", "127.0.0.1:3260", "127.0.0.1:3261"
FABRIC = TARGET / "iscsi"
# No authentication; any initiator may log in and write.
OPEN = {"authentication": 0, "generate_node_acls": 1, "cache_dynamic_acls": 1,
        "demo_mode_write_protect": 0}
# iscsiadm's socket to the daemon, in the abstract namespace.
SOCKET = "@ISCSIADM_ABSTRACT_NAMESPACE"
# iscsiadm's exit status when it finds no session.
NO_SESSION = 21
SESSIONS = Path("/sys/class/iscsi_session")


def _listening() -> bool:
    return SOCKET in Path("/proc/net/unix").read_text(encoding="ascii", errors="replace")


def login(portal: str = PORTAL, iqn: str = IQN) -> None:
    """Logs in to the target that target() makes, or to another target."""
    for action in ("-o new", "-l"):
        run("iscsiadm", "-m", "node", "-T", iqn, "-p", portal, *action.split())


def logout() -> None:
    """Ends all sessions; when this returns, their disks are removed."""
    done = run("iscsiadm", "-m", "node", "-u", ok=False)
    assert done.returncode in (0, NO_SESSION), done.stdout + done.stderr
    wait_for("the sessions to end", lambda: not any(SESSIONS.glob("session*")))


def _end(daemon: subprocess.Popen) -> None:
    """Ends iscsid. Repeats the signal, because iscsid misses one that comes just before it
    sleeps."""
    def ended():
        daemon.terminate()
        with suppress(subprocess.TimeoutExpired):
            daemon.wait(1)
        return daemon.returncode is not None
    try:
        wait_for("the end of iscsid", ended)
    finally:
        daemon.kill()


@contextmanager
def initiator() -> Iterator[None]:
    """Runs iscsid during the block, as systemd would. At the end logs out of all sessions and ends
    iscsid."""
    load(MODULE)
    try:
        Path("/run/lock").mkdir(exist_ok=True)
        # iscsid gets a session of its own, because it signals its whole process group at its end.
        with subprocess.Popen(["iscsid", "--foreground"], stdin=subprocess.DEVNULL,
                              start_new_session=True) as daemon:
            try:
                wait_for("iscsid", _listening)
                yield
            finally:
                try:
                    logout()
                finally:
                    _end(daemon)
    finally:
        unload(MODULE)


def group(number: int) -> Path:
    """The target port group of a portal; portals are numbered from 1."""
    return FABRIC / IQN / f"tpgt_{number}"


@contextmanager
def target(store: Path, portals: tuple[str, ...] = (PORTAL,)) -> Iterator[None]:
    """A target that has a backstore of LIO as LUN 0 of each portal; each portal has a target port
    group of its own. At the end all sessions are closed and the target is removed."""
    load(TARGET_MODULE)
    made = []
    try:
        for directory in (FABRIC, FABRIC / IQN):
            directory.mkdir()
            made.append(directory)
        for number, portal in enumerate(portals, 1):
            port = group(number)
            for directory in (port, port / "lun/lun_0", port / "np" / portal):
                directory.mkdir()
                made.append(directory)
            for name, value in OPEN.items():
                write_attr(port / "attrib" / name, value)
            (port / "lun/lun_0/store").symlink_to(store)
            write_attr(port / "enable", 1)
        yield
    finally:
        for directory in reversed(made):
            if directory.parent.name == IQN:
                write_attr(directory / "enable", 0)
            if (directory / "store").is_symlink():
                (directory / "store").unlink()
        for directory in reversed(made):
            directory.rmdir()
        unload(TARGET_MODULE)


class _Raw:
    """An initiator of its own, because none of the kernel's sends ORDERED commands. Opcodes and
    fields: RFC 7143."""
    LOGIN, COMMAND, LOGIN_ANSWER, ANSWER = 0x03, 0x01, 0x23, 0x21
    IMMEDIATE, FINAL, ORDERED, FULL_FEATURE = 0x40, 0x80, 2, 3
    KEYS = (f"InitiatorName={IQN}.raw", f"TargetName={IQN}", "SessionType=Normal",
            "HeaderDigest=None", "DataDigest=None", "ImmediateData=No", "MaxBurstLength=65536",
            "DefaultTime2Wait=2", "DefaultTime2Retain=0", "MaxOutstandingR2T=1",
            "ErrorRecoveryLevel=0")

    def __init__(self):
        address, port = PORTAL.split(":")
        self._socket = socket.create_connection((address, int(port)), 10)
        self._status = self._sent = 0

    def _send(self, opcode: int, flags: int, data: bytes) -> None:
        number = self._sent.to_bytes(4, "big")
        self._socket.sendall(
            bytes([opcode, flags, 0, 0, 0]) + len(data).to_bytes(3, "big") + bytes(8) + number +
            bytes(4) + number + self._status.to_bytes(4, "big") + bytes(16) + data +
            bytes(-len(data) % 4))

    def _answer(self, opcode: int) -> bytes:
        while True:
            head = self._socket.recv(48, socket.MSG_WAITALL)
            length = int.from_bytes(head[5:8], "big")
            if length:
                self._socket.recv(length + -length % 4, socket.MSG_WAITALL)
            if head[0] & 0x3f == opcode:
                self._status = int.from_bytes(head[24:28], "big") + 1
                return head

    def login(self) -> None:
        """From the operational stage to the full feature phase: no authentication."""
        data = "\0".join(self.KEYS).encode() + b"\0"
        self._send(self.LOGIN | self.IMMEDIATE, self.FINAL | 1 << 2 | self.FULL_FEATURE, data)
        head = self._answer(self.LOGIN_ANSWER)
        assert not head[36] and head[1] & self.FINAL, f"login refused: {head.hex()}"

    def commands(self, stop: threading.Event, depth: int = 4) -> None:
        """Sends TEST UNIT READY with the attribute ORDERED until @stop, @depth at a time."""
        with self._socket:
            while not stop.is_set():
                for _ in range(depth):
                    self._send(self.COMMAND, self.FINAL | self.ORDERED, b"")
                    self._sent += 1
                for _ in range(depth):
                    assert self._answer(self.ANSWER)[2] == 0


@contextmanager
def ordered() -> Iterator[None]:
    """Sends ORDERED commands to target()'s LUN 0 during the block, one after the other. LIO then
    delays other commands of the backstore."""
    raw, stop, done = _Raw(), threading.Event(), []

    def work():
        raw.commands(stop)
        done.append(True)
    raw.login()
    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    assert done, "the ORDERED commands ended with an error"
