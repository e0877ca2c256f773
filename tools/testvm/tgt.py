# SPDX-License-Identifier: GPL-2.0
"""Runs tgt, an iSCSI target in user space, for one VM. Each tgt has its own port on the loopback
interface, and its control socket in its own folder."""

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

from .errors import VMError

TARGET = "iqn.2026-01.test.smq:disks"
ADDRESS = "127.0.0.1"
# The folders of daemons may be missing in a user's search path.
SEARCH = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
START_SECONDS = 20
ASK_SECONDS = 20
ATTEMPTS = 3


def _program(name: str) -> str:
    found = shutil.which(name, path=SEARCH)
    if not found:
        raise VMError(f"{name} is not installed: tools/deps install targets")
    return found


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((ADDRESS, 0))
        return int(probe.getsockname()[1])


class Tgt:
    """A target whose disks are files."""

    def __init__(self, folder: Path):
        self._daemon, self._admin = _program("tgtd"), _program("tgtadm")
        self._env = {**os.environ, "TGT_IPC_SOCKET": str(folder / "tgt")}
        self._log = folder / "tgtd.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0
        self._luns: dict[Path, int] = {}

    def start(self) -> None:
        """Starts the target. Raises VMError. The caller must call stop() in any case."""
        # Try again, because another process may take the port before tgtd does.
        for _ in range(ATTEMPTS):
            self._port = _free_port()
            if self._come_up():
                break
        else:
            raise VMError(f"tgtd does not start: {self._log_text()}")
        self._ask("new", "target", "-T", TARGET)
        self._ask("bind", "target", "-I", ADDRESS)

    def stop(self) -> None:
        """Kills tgtd, which ignores SIGTERM and has nothing to save."""
        if self._process:
            self._process.kill()
            self._process.wait()
            self._process = None

    def lun(self, image: Path) -> str:
        """The options by which QEMU's driver iscsi finds a disk. Each image has one LUN."""
        if image not in self._luns:
            number = len(self._luns) + 1
            self._ask("new", "logicalunit", "--lun", str(number), "-b", str(image))
            self._luns[image] = number
        return (f"transport=tcp,portal={ADDRESS}:{self._port},target={TARGET},"
                f"lun={self._luns[image]}")

    def _come_up(self) -> bool:
        # setpriv, so that tgtd ends when this process ends, even if this process is killed.
        command = ["setpriv", "--pdeathsig", "KILL", "--", self._daemon, "-f",
                   "--iscsi", f"portal={ADDRESS}:{self._port}"]
        with self._log.open("wb") as log:
            # pylint: disable=consider-using-with
            self._process = subprocess.Popen(command, env=self._env, stdin=subprocess.DEVNULL,
                                             stdout=log, stderr=log, start_new_session=True)
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end and self._process.poll() is None:
            # tgtd answers after it has created its portals. If it cannot create the wanted one, it
            # creates portals on all interfaces instead, and continues.
            done = self._run("show", "portal")
            if done.returncode == 0:
                if f" {ADDRESS}:{self._port}," in done.stdout:
                    return True
                break
            time.sleep(0.05)
        self.stop()
        return False

    def _run(self, action: str, mode: str, *more: str) -> subprocess.CompletedProcess[str]:
        command = [self._admin, "--lld", "iscsi", "--op", action, "--mode", mode, *more]
        try:
            return subprocess.run(command, env=self._env, stdin=subprocess.DEVNULL, text=True,
                                  capture_output=True, timeout=ASK_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            raise VMError(f"tgtadm: no answer in {ASK_SECONDS} s: {self._log_text()}") from None

    def _ask(self, action: str, mode: str, *more: str) -> None:
        done = self._run(action, mode, "--tid", "1", *more)
        if done.returncode:
            raise VMError(f"tgtadm {action} {mode}: {(done.stderr or done.stdout).strip()}")

    def _log_text(self) -> str:
        lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "; ".join(lines[-10:])
