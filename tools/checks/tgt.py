# SPDX-License-Identifier: GPL-2.0
"""tgt, an iSCSI target in user space, for the time of one VM: with a port of its own on the
loopback interface, and its control socket in a folder of the run's own."""

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

TARGET = "iqn.2026-01.test.smq:disks"
ADDRESS = "127.0.0.1"
# Daemons are not in everybody's search path.
SEARCH = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
START_SECONDS = 20
ASK_SECONDS = 20
ATTEMPTS = 3


class TgtError(Exception):
    """There is no target."""


def _program(name: str) -> str:
    found = shutil.which(name, path=SEARCH)
    if not found:
        raise TgtError(f"{name} is not installed: tools/deps install targets")
    return found


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((ADDRESS, 0))
        return probe.getsockname()[1]


class Tgt:
    """One target, whose disks are files."""

    def __init__(self, folder: Path):
        self._daemon, self._admin = _program("tgtd"), _program("tgtadm")
        self._env = {**os.environ, "TGT_IPC_SOCKET": str(folder / "tgt")}
        self._log = folder / "tgtd.log"
        self._process: subprocess.Popen | None = None
        self._port = 0
        self._luns: dict[Path, int] = {}

    def start(self) -> None:
        """Starts it; TgtError. Whatever happens, stop() is to follow."""
        # Somebody may take the port before tgtd does.
        for _ in range(ATTEMPTS):
            self._port = _free_port()
            if self._come_up():
                break
        else:
            raise TgtError(f"tgtd does not start: {self._said()}")
        self._ask("new", "target", "-T", TARGET)
        self._ask("bind", "target", "-I", ADDRESS)

    def stop(self) -> None:
        """Ends it. It takes no notice of SIGTERM, and has nothing to save."""
        if self._process:
            self._process.kill()
            self._process.wait()
            self._process = None

    def lun(self, image: Path) -> str:
        """What QEMU's driver iscsi has to know of a disk, the same LUN each time."""
        if image not in self._luns:
            number = len(self._luns) + 1
            self._ask("new", "logicalunit", "--lun", str(number), "-b", str(image))
            self._luns[image] = number
        return (f"transport=tcp,portal={ADDRESS}:{self._port},target={TARGET},"
                f"lun={self._luns[image]}")

    def _come_up(self) -> bool:
        # It ends with us, however we end.
        command = ["setpriv", "--pdeathsig", "KILL", "--", self._daemon, "-f",
                   "--iscsi", f"portal={ADDRESS}:{self._port}"]
        with self._log.open("wb") as log:
            # pylint: disable=consider-using-with
            self._process = subprocess.Popen(command, env=self._env, stdin=subprocess.DEVNULL,
                                             stdout=log, stderr=log, start_new_session=True)
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end and self._process.poll() is None:
            # It answers when it has made its portals. Without the one it was told to make it
            # takes those of all interfaces, and goes on.
            done = self._run("show", "portal")
            if done.returncode == 0:
                if f" {ADDRESS}:{self._port}," in done.stdout:
                    return True
                break
            time.sleep(0.05)
        self.stop()
        return False

    def _run(self, action: str, mode: str, *more: str) -> subprocess.CompletedProcess:
        command = [self._admin, "--lld", "iscsi", "--op", action, "--mode", mode, *more]
        try:
            return subprocess.run(command, env=self._env, stdin=subprocess.DEVNULL, text=True,
                                  capture_output=True, timeout=ASK_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            raise TgtError(f"tgtadm: no answer in {ASK_SECONDS} s: {self._said()}") from None

    def _ask(self, action: str, mode: str, *more: str) -> None:
        done = self._run(action, mode, "--tid", "1", *more)
        if done.returncode:
            raise TgtError(f"tgtadm {action} {mode}: {(done.stderr or done.stdout).strip()}")

    def _said(self) -> str:
        lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "; ".join(lines[-10:])
