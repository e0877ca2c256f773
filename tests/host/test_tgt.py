# SPDX-License-Identifier: GPL-2.0
"""The iSCSI target (tgtd) for tests in a VM: when it starts and ends, and messages for errors."""
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from testvm import needs, tgt
from testvm.errors import VMError

TOP = Path(__file__).resolve().parents[2]

WORDS = ["--qemu=-blockdev driver=iscsi,{tgt:a:8},x -blockdev driver=iscsi,{tgt:b:8}",
         "--qemu=-blockdev driver=iscsi,{tgt:a:8} -x {tmp}"]
PLACED = r"portal=127\.0\.0\.1:(\d+),target=iqn\.2026-01\.test\.smq:disks,lun=(\d+)"


def listens(port):
    """Whether a process accepts connections on a port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", int(port))) == 0


def ends(port):
    """Waits until no process accepts connections on a port; fails after 20 s."""
    end = time.monotonic() + 20
    while listens(port):
        assert time.monotonic() < end, f"tgtd still runs, on port {port}"
        time.sleep(0.05)


needs_tgt = pytest.mark.skipif(not shutil.which("tgtd", path=tgt.SEARCH),
                               reason="no tgtd: tools/deps install targets")


@needs_tgt
def test_tgtd_runs_until_the_context_ends():
    with needs.prepared(WORDS) as words:
        found = re.findall(PLACED, " ".join(words))
        assert [lun for _, lun in found] == ["1", "2", "1"]
        (port,) = {port for port, _ in found}
        folder = Path(words[1].rpartition(" ")[2])
        assert listens(port) and (folder / "a.img").stat().st_size == 8 << 20
        # A second target at the same time uses another port.
        with needs.prepared(WORDS) as others:
            (other,) = {port for port, _ in re.findall(PLACED, " ".join(others))}
            assert other != port and listens(other)
        assert not listens(other) and listens(port)
    assert not listens(port) and not folder.exists()


@needs_tgt
def test_tgtd_ends_when_the_test_fails():
    with pytest.raises(KeyError):
        with needs.prepared(WORDS) as words:
            port = re.search(PLACED, words[0])[1]
            raise KeyError("the test fails")
    assert not listens(port)


@needs_tgt
def test_tgtd_ends_with_the_process_that_started_it():
    program = ("import sys, time; from testvm import needs\n"
               f"with needs.prepared({WORDS!r}) as words:\n"
               "    print(words, flush=True); time.sleep(60)\n")
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True,
                          env={**os.environ, "PYTHONPATH": str(TOP / "tools")}) as owner:
        placed = owner.stdout.readline()
        port, folder = re.search(PLACED, placed)[1], re.search(r"-x (\S+?)'", placed)[1]
        assert listens(port)
        owner.send_signal(signal.SIGKILL)
    ends(port)
    # The test removes these files, because the process that would have removed them was killed.
    for path in Path(folder).iterdir():
        path.unlink()
    Path(folder).rmdir()


@needs_tgt
def test_tgtd_uses_another_port_if_the_first_is_in_use(monkeypatch):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        used, free = other.getsockname()[1], tgt._free_port()
        ports = [used, free]
        monkeypatch.setattr(tgt, "_free_port", lambda: ports.pop(0))
        with needs.prepared(WORDS) as words:
            assert re.search(PLACED, words[0])[1] == str(free) and not ports


@needs_tgt
def test_tgtd_that_does_not_start_is_reported(monkeypatch):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        monkeypatch.setattr(tgt, "_free_port", lambda: other.getsockname()[1])
        with pytest.raises(VMError, match="tgtd does not start: .*in use"):
            with needs.prepared(WORDS):
                pass


def test_missing_package_is_reported(monkeypatch, tmp_path):
    monkeypatch.setattr(tgt, "SEARCH", str(tmp_path))
    with pytest.raises(VMError, match="tools/deps install targets"):
        with needs.prepared(["x={tgt:a:8}"]):
            pass
