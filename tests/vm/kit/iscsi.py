# SPDX-License-Identifier: GPL-2.0
"""iSCSI without a network: LIO's target on the loopback interface, and open-iscsi's daemon."""
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .host import load, run, unload, wait_for
from .lio import TARGET, put

MODULE, TARGET_MODULE = "iscsi_tcp", "iscsi_target_mod"
IQN, PORTAL, SECOND = "iqn.2026-01.org.example:test", "127.0.0.1:3260", "127.0.0.1:3261"
FABRIC = TARGET / "iscsi"
# Nobody is asked for a password, and whoever logs in may write.
OPEN = {"authentication": 0, "generate_node_acls": 1, "cache_dynamic_acls": 1,
        "demo_mode_write_protect": 0}
# Where iscsiadm looks for the daemon, with an @ in front: no file has that name.
SOCKET = "@ISCSIADM_ABSTRACT_NAMESPACE"
# iscsiadm's exit status when it finds no session.
NO_SESSION = 21
SESSIONS = Path("/sys/class/iscsi_session")


def _listening() -> bool:
    return SOCKET in Path("/proc/net/unix").read_text(encoding="ascii", errors="replace")


def login(portal: str = PORTAL) -> None:
    """Logs in to target()."""
    for action in ("-o new", "-l"):
        run("iscsiadm", "-m", "node", "-T", IQN, "-p", portal, *action.split())


def logout() -> None:
    """Ends all sessions; their disks have gone then."""
    done = run("iscsiadm", "-m", "node", "-u", ok=False)
    assert done.returncode in (0, NO_SESSION), done.stdout + done.stderr
    wait_for("the sessions to end", lambda: not any(SESSIONS.glob("session*")))


def _end(daemon: subprocess.Popen) -> None:
    """Ends iscsid, which overlooks a signal that comes just before it goes to sleep."""
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
    """iscsid, which systemd would start; at the end it has no session, and has gone."""
    load(MODULE)
    try:
        Path("/run/lock").mkdir(exist_ok=True)
        # A session of its own, for when it ends it signals all of its process group.
        with subprocess.Popen(["iscsid", "--foreground"], stdin=subprocess.DEVNULL,
                              start_new_session=True) as daemon:
            try:
                wait_for("iscsid", _listening)
                yield
            finally:
                logout()
                _end(daemon)
    finally:
        unload(MODULE)


def group(number: int) -> Path:
    """The target port group behind the portal of that number, from 1 on."""
    return FABRIC / IQN / f"tpgt_{number}"


@contextmanager
def target(store: Path, portals: tuple[str, ...] = (PORTAL,)) -> Iterator[None]:
    """A target with a backstore of LIO's at LUN 0 of each portal, which is a group of its own; at
    the end it has gone, and nobody is logged in any more."""
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
                put(port / "attrib" / name, value)
            (port / "lun/lun_0/store").symlink_to(store)
            put(port / "enable", 1)
        yield
    finally:
        for directory in reversed(made):
            if directory.parent.name == IQN:
                put(directory / "enable", 0)
            if (directory / "store").is_symlink():
                (directory / "store").unlink()
        for directory in reversed(made):
            directory.rmdir()
        unload(TARGET_MODULE)
