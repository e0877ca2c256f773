# SPDX-License-Identifier: GPL-2.0
# not on uml: smqtop's times need BTF and BPF on tracepoints
# not on sanitize: as on uml
"""smqtop's screen while LUNs and hosts come and go, commands fail, and an smq host is set."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys

import pytest
import vmdisk
from kit.fiojob import load_on
from kit.host import loaded
from vmdisk import SG_IO, set_param, wait_for

SMQTOP = vmdisk.ROOT / "tools/smqtop"
BEYOND = "2800000fffff00000800 in 4096\n"
READ = "28000000000000000800 in 4096\n"
ENTER, ESC, DOWN = "\r", "\x1b", "\x1bOB"

sys.path.append(str(vmdisk.ROOT / "tools/demos"))
pytest.importorskip("pyte", reason="tools/deps install top")
from screen import Screen  # noqa: E402

pytestmark = pytest.mark.skipif(not SMQTOP.exists(), reason="tools/deps install top; make tools")


@pytest.fixture(name="screen")
def _screen():
    """smqtop, which ends well at the end of the test."""
    with Screen([SMQTOP, "--interval=0.2"]) as screen:
        screen.wait("h help")
        yield screen
        assert screen.process.poll() is None, screen.text()
        screen.press("q")
        assert (screen.end(), screen.restored()) == (0, True)


def test_lun_and_host_go_while_they_are_open(screen, disk):
    host = disk.hctl.partition(":")[0]
    screen.press(f"/{disk.hctl}\r")
    screen.wait(f"filter {disk.hctl}")
    screen.wait(f"{disk.hctl} ")
    screen.press(ENTER)
    screen.wait(f"{disk.hctl} > ")
    (disk.sysfs / "delete").write_text("1")
    screen.wait(f"{disk.hctl} is gone")
    screen.press("m")
    screen.wait(f"{disk.hctl}: time")
    pathlib.Path(f"/sys/class/scsi_host/host{host}/scan").write_text("- - -")
    screen.wait(lambda text: "is gone" not in text)
    screen.press(ESC)
    screen.wait("QUEUE HOST")
    screen.press("1/\x15\r")
    screen.wait(f"host{host} ")
    set_param("add_host", 1)
    found = wait_for(lambda: [path.name for path in pathlib.Path("/sys/class/scsi_host").iterdir()
                              if path.name > f"host{host}" and
                              (path / "proc_name").read_text() == "scsi_debug\n"])[0]
    screen.wait(f"{found}  scsi_debug")
    # The new host's commands may make it the first row or the last one.
    screen.press(f"/{found}\r")
    screen.wait(f"filter {found}")
    screen.press(ENTER + "/\x15\r")
    screen.wait(f"{found} > ")
    set_param("add_host", -1)
    screen.wait(f"{found} is gone")
    screen.press(ESC)
    screen.wait(lambda text: found not in text)


def test_error_storm(screen, disk):
    screen.press("5")
    argv = [SG_IO, "run", "--force", "--depth=32", "--time=60", disk.sg, "-"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as load:
        try:
            load.stdin.write(BEYOND.encode())
            load.stdin.close()
            screen.wait("Illegal Request (5h)")
            screen.press("2")
            screen.wait("sort p99")
            errors = wait_for(lambda: screen.read(0.2) and [
                line for line in screen.text().splitlines() if disk.hctl in line and
                not line.endswith(" 0")])
            assert errors
            screen.resize(120, 40)
            screen.wait("TIMEOUT")
        finally:
            load.kill()


@pytest.mark.limit(90)
def test_settings_are_asked_for_twice(screen):
    with loaded("smq_ram") as (host,):
        assert host.policy() == "direct"
        screen.press("1")
        screen.wait(f"host{host.number}  smq_ram")
        screen.press("/smq_ram\r")
        screen.wait("filter smq_ram")
        screen.press("o")
        screen.wait("smq/held_full")
        screen.press(ENTER)
        screen.wait("smq/policy:")
        screen.press("prio\r")
        screen.wait(f"set smq/policy of host{host.number} to prio? (y or n)")
        screen.press("y")
        screen.wait("really?")
        screen.press("n")
        screen.wait("Esc back")
        assert host.policy() == "direct"
        screen.press(ENTER + "prio\ryy")
        screen.wait("smq/policy is set")
        screen.wait("[prio]")
        assert host.policy() == "prio"
        # The settings of the policy stand below it.
        assert screen.text().splitlines()[4].startswith("smq_prio/")
        screen.press(ENTER + "nonsense\ryy")
        screen.wait("nonsense: Invalid argument")
        screen.press(DOWN)
        screen.wait("(Enter changes it)")
        screen.press(ESC + "/\x15\r")
    screen.wait(lambda text: f"host{host.number}  smq_ram" not in text)


def queue_rates(text):
    """Whether the queues on the screen have IOPS."""
    return [rate != "0" for rate in re.findall(r"^q\d+ +host\d+ +(\S+) ", text, flags=re.M)]


def test_queues_of_a_lun_have_its_commands_only(screen):
    with loaded("smq_ram", luns=2) as (host,):
        busy, idle = host.luns()
        with load_on(busy.sd, ioengine="libaio", rw="randread", bs=4096, iodepth=4,
                     time_based=True, runtime=60):
            for lun, has_commands in ((busy, True), (idle, False), (busy, True)):
                screen.press(f"2/\x15{lun.address}\r")
                screen.wait(f"filter {lun.address}")
                screen.wait(f" {lun.address} ")
                screen.press(ENTER)
                screen.wait(f"{lun.address} > ")
                screen.press("/\x15\r")
                screen.wait(lambda text, wanted=has_commands:
                            queue_rates(text) and any(queue_rates(text)) == wanted)
                assert "whole host" not in screen.text()
            screen.press("3")
            screen.wait(lambda text: any(queue_rates(text)))
            screen.press("2")


def test_what_was_recorded_is_what_is_replayed(disk, tmp_path):
    path = tmp_path / "recording"
    with subprocess.Popen([SMQTOP, "--json", "--interval=0.5", f"--record={path}"], text=True,
                          stdout=subprocess.PIPE) as top:
        top.stdout.readline()
        vmdisk.run_json("--count", 1000, disk.sg, "-", stdin=READ)
        shown = [top.stdout.readline() for _ in range(4)]
        top.send_signal(signal.SIGINT)
        top.communicate(timeout=vmdisk.TIMEOUT)
    replayed = subprocess.run([SMQTOP, "--replay", path, "--json"], text=True, check=True,
                              capture_output=True, timeout=vmdisk.TIMEOUT).stdout.splitlines(True)
    assert replayed[1:5] == shown
    rows = [row for line in shown for row in json.loads(line)["rows"] if row["name"] == disk.hctl]
    assert sum(row["interval"]["done"] for row in rows) == 1000
    assert os.path.basename(disk.sd) == rows[0]["label"]
    assert any(row["device_ns"]["p50"] for row in rows)
