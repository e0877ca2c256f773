# SPDX-License-Identifier: GPL-2.0
"""iSCSI without a network: open-iscsi's daemon, for targets on the loopback interface."""
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .host import load, run, unload, wait_for

MODULE = "iscsi_tcp"
# Where iscsiadm looks for the daemon, with an @ in front: no file has that name.
SOCKET = "@ISCSIADM_ABSTRACT_NAMESPACE"
# iscsiadm's exit status when it finds no session.
NO_SESSION = 21
SESSIONS = Path("/sys/class/iscsi_session")


def _listening() -> bool:
    return SOCKET in Path("/proc/net/unix").read_text(encoding="ascii", errors="replace")


def logout() -> None:
    """Ends all sessions; their disks have gone then."""
    done = run("iscsiadm", "-m", "node", "-u", ok=False)
    assert done.returncode in (0, NO_SESSION), done.stdout + done.stderr
    wait_for("the sessions to end", lambda: not any(SESSIONS.glob("session*")))


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
                daemon.terminate()
    finally:
        unload(MODULE)
