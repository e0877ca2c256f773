# SPDX-License-Identifier: GPL-2.0
"""QEMU's monitor, for a VM that has it on a virtio port called monitor."""
import os
import re
import secrets
import select
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .host import Host, Lun, wait_for

PROMPT = b"(qemu) "


class Monitor:
    """Commands of QEMU's human monitor, with a time limit."""

    def __init__(self, name: str = "monitor"):
        names = {path.read_text(encoding="ascii").strip(): path.parent.name
                 for path in Path("/sys/class/virtio-ports").glob("*/name")}
        assert name in names, f"no virtio port '{name}': add one in the test file's '# vm:' lines"
        self._fd = os.open(f"/dev/{names[name]}", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)

    def __enter__(self):
        return self

    def __exit__(self, *exc) -> None:
        os.close(self._fd)

    def _until(self, end: bytes, seconds: float) -> str:
        said, late = b"", time.monotonic() + seconds
        while not said.endswith(end):
            left = late - time.monotonic()
            assert left > 0, f"the monitor did not answer in {seconds:g} s; it said {said!r}"
            select.select([self._fd], [], [], min(left, 0.1))
            try:
                said += os.read(self._fd, 65536)
            except BlockingIOError:
                continue
        return said.decode(errors="replace")

    def run(self, command: str, seconds: float = 20, again: str = "") -> None:
        """Runs a command, which must print nothing. While its output matches @again, repeats the
        command for at most @seconds."""
        end = time.monotonic() + seconds
        while True:
            said = self._ask(command, seconds)
            if not said:
                return
            assert again and re.search(again, said) and time.monotonic() < end, \
                f"{command}: {said}"
            time.sleep(0.1)

    def _ask(self, command: str, seconds: float) -> str:
        # Prompts of earlier commands, or the initial one, may still be unread. So this first makes
        # the monitor print a new number, and reads up to the prompt after it: the output that
        # follows belongs to @command.
        number = secrets.randbelow(1 << 31)
        os.write(self._fd, f"print /d {number}\n".encode())
        self._until(b"\r\n%d\r\n%s" % (number, PROMPT), seconds)
        os.write(self._fd, f"{command}\n".encode())
        said = self._until(PROMPT, seconds)
        return " ".join(said.replace("\r", "").split("\n")[1:-1])


@contextmanager
def plugged(monitor: Monitor, host: Host, bus: str, node: str, lun: int = 0) -> Iterator[Lun]:
    """Plugs in one more disk, target 5, as the device "more"; unplugs it after the block."""
    try:
        monitor.run(f"device_add scsi-hd,bus={bus}.0,scsi-id=5,lun={lun},id=more,drive={node}",
                    again="Permission conflict|Duplicate")
        yield wait_for("the new disk", lambda: next(
            (one for one in host.luns() if one.address.endswith(f":0:5:{lun}") and one.sg), None))
    finally:
        monitor.run("device_del more")
        wait_for("the disk to disappear", lambda: len(host.luns()) == 1)
