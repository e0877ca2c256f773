# SPDX-License-Identifier: GPL-2.0
"""What sg_io and smqtop print is text in UTF-8, whatever a device, a task or a file has."""

import json
import subprocess
from pathlib import Path

import pytest
import smqtop_recording as recording
from make import make
from sg_io_build import ROOT, binary

# Latin-1, an escape sequence, the same as one byte and as a UTF-8 character, DEL, cut and
# overlong characters, a surrogate.
BAD = (b"Ca\xe9", b"\x1b[31m", b"\x9b31m", b"\xc2\x9b31m", b"a\x7fb", b"\xe2\x82", b"\xf0\x9f\x98",
       b"\xc0\xaf", b"\xe0\x80\xaf", b"\xf0\x80\x80\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80",
       b"\xff")
GOOD = ("caf\u00e9", "\u20ac", "\U0001f600", "\u00a0", "\ud7ff\ue000", "~")


def sg_io(*args, **more):
    return subprocess.run([binary(sanitized=True), *args], capture_output=True, check=False,
                          timeout=120, **more)


def is_clean(text):
    """Whether it is UTF-8 without control characters but newline and tab."""
    return all(c in "\n\t" or c >= " " and not "\x7f" <= c <= "\x9f" for c in text.decode())


def log(path, names):
    """Writes a log of fio with READs of many devices."""
    path.write_bytes(b"fio version 2 iolog\n" + b"".join(
        b"%s add\n%s open\n%s read 0 4096\n" % (name, name, name) for name in names))
    return path


@pytest.mark.parametrize("bad", BAD)
def test_bytes_that_are_no_text(tmp_path, bad):
    name = b"/dev/" + bad
    done = sg_io("import", "--from", "fio", "--json", "-o", tmp_path / "out",
                 log(tmp_path / "log", [name, b"/dev/b"]))
    assert is_clean(done.stdout) and is_clean(done.stderr)
    assert len(json.loads(done.stdout)["devices"]) == 2
    (tmp_path / "cmds").write_bytes(b"000000000000 " + bad.replace(b"[", b"") + b" 0\n")
    done = sg_io("run", name, tmp_path / "cmds")
    assert done.returncode == 2 and b"?" in done.stderr and is_clean(done.stderr)
    done = sg_io("info", name)
    assert done.returncode == 3 and b"?" in done.stderr and is_clean(done.stderr)


def test_characters_stay_also_where_two_writes_meet(tmp_path):
    names = [f"/dev/{i}{one}".encode() for i in range(10) for one in GOOD]
    path = log(tmp_path / "log", names * 60)
    done = sg_io("import", "--from", "fio", path)
    assert sg_io("import", "--from", "fio", "-o", tmp_path / "out", path).returncode == 0
    assert done.stdout == (tmp_path / "out").read_bytes() and len(done.stdout) > 65536
    assert done.stdout.count("\U0001f600".encode()) == 600


def test_smqtop_prints_and_records_text(tmp_path):
    make(ROOT / "tools/src/smqtop", timeout=120)
    if not Path(ROOT, "tools/smqtop").exists():
        pytest.skip("smqtop is not built: tools/deps install top")
    interval = recording.interval(0)
    interval["luns"][0]["label"] = "NAME"
    line = recording.line(interval).encode()
    for bad in BAD:
        (tmp_path / "top").write_bytes(line.replace(b"NAME", bad.replace(b"\x1b", b"\\u001b")))
        done = subprocess.run([ROOT / "tools/smqtop", "--replay", tmp_path / "top", "--json"],
                              capture_output=True, check=True, timeout=60)
        assert is_clean(done.stdout) and json.loads(done.stdout)["rows"]
