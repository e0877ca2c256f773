# SPDX-License-Identifier: GPL-2.0
"""sg_io's command line: usage errors, and arguments that name no SCSI device."""

import re

import pytest
from sg_io_build import ROOT, binary, run

TUR = b"000000000000 none 0\n"


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_version_is_that_of_dkms(option):
    text = (ROOT / "dkms.conf").read_text(encoding="ascii")
    version = re.search(r'^PACKAGE_VERSION="(.*)"$', text, flags=re.M)[1]
    done = run(binary(), option)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"sg_io {version}\n", "")


@pytest.mark.parametrize("command", ["run", "compare", "replay", "verify"])
def test_old_name_of_the_path_smq(tmp_path, command):
    """smq-held is smq, and a message says so once."""
    done = run(binary(), command, "--via", "smq-held", tmp_path / "none", tmp_path / "file")
    said = done.stderr.splitlines()
    assert said[0] == "sg_io: --via smq-held: is another name of smq, which gains as much now"
    assert len(said) == 2 and "none" in said[1] + said[0] or "file" in said[1]
    assert "Usage" not in done.stderr


# Commands that take DEV and FILE, two devices, or one.
FILES = "run", "compare", "replay", "verify"
TWO, ONE = ("copy", "compare-luns"), ("record", "info")
BAD = [
    ([], "Usage: sg_io"),
    (["frob"], "'frob' is no command"),
    *(([name, "--frob", "d", "f"], "unrecognized option") for name in (*FILES, *TWO, *ONE)),
    *(([name], "DEV and FILE are missing") for name in FILES),
    *(([name, "x"], "only 'x' given: DEV or FILE is missing") for name in FILES),
    *(([name, "--via", via, "d", "f"], f"--via: '{via}' is not sg, bsg, bsg-uring, smq")
      for name in FILES for via in ("nvme", "", "smq-hel")),
    *(([name, *["d"] * 66], "more than 64 devices") for name in (*FILES, "record")
      if name != "compare"),
    *(([name, *words], "two devices are needed") for name in TWO for words in ([], ["a"])),
    *(([name], "DEV is missing") for name in ONE),
    (["copy", "a", "b", "c"], "'c': two devices"),
    (["info", "a", "b"], "'b': one device at a time"),
    (["run", "--via", "sg,smq", "d", "f"], "--via: 'sg,smq' is not sg, bsg"),
    (["run", "--rounds", "5", "d", "f"], "unrecognized option"),
    *(([name, "--force", "a", "b"], "unrecognized option") for name in ("verify", "compare-luns")),
    (["compare", "a", "b", "c"], "'c': one device at a time"),
    (["compare", "--via", "sg,bsg,sg", "d", "f"], "--via: 'sg' is there twice"),
    (["compare", "--via", "smq,smq-held", "d", "f"], "--via: 'smq' is there twice"),
    (["record", "a", "b#"], "'b#' cannot be a name in dev= and --map"),
    (["record", "--json", "d"],
     "--json prints the summary to standard output; give --output FILE for the commands"),
    (["record", "--pattern", "noise", "d"], "--pattern: pattern 'noise' is not one of"),
    (["replay", "--map", "a=b"], "FILE is missing"),
    *((["replay", *words, "a", "f"], "--map: a is mapped twice")
      for words in (["a"], ["--map", "a=b"])),
    (["replay", "--pace", "x", "d", "f"], "--pace: 'x' is not kernel or user"),
    (["replay", "--pace", "kernel", "--via", "sg", "d", "f"], "--pace kernel is for --via smq"),
    (["replay", "--mode", "fast", "d", "f"], "--mode: 'fast' is not time, max, load or depend"),
    *((["replay", *mode, "--stop-when", "late=1", "d", "f"],
       "--stop-when late: --mode max has no times") for mode in (["--speed", "max"],
                                                                 ["--mode", "max"])),
    (["replay", "--mode", "load", "--speed", "2", "d", "f"], "--speed: --mode load has no times"),
    (["replay", "--window", "5", "d", "f"], "--window is for --mode depend"),
    (["replay", "--mode", "depend", "--window", "0", "d", "f"],
     "--window: '0' is no time in milliseconds"),
    (["replay", "--stop-when", "slow=1", "d", "f"],
     "--stop-when: 'slow=1' is not late=MS, errors=N or inflight=N"),
    (["replay", "--stop-when", "late=x", "d", "f"],
     "--stop-when late: 'x' is no time in milliseconds"),
]


@pytest.mark.parametrize("args,why", BAD,
                         ids=lambda v: " ".join(v[:4]) if isinstance(v, list) else "")
@pytest.mark.parametrize("sanitized", [False, True], ids=["plain", "sanitized"])
def test_usage_errors(args, why, sanitized):
    done = run(binary(sanitized), *args)
    assert done.returncode == 2
    assert done.stdout == ""
    assert why in done.stderr


NO_DEVICE = [
    ("/dev/null", "/dev/null: not a node of a SCSI device (sg, bsg, sd or smqsg)"),
    ("/dev/absent", "/dev/absent: No such file or directory"),
    ("sdabsent", "sdabsent: No such file or directory"),
    ("null", "null: there is no such file; the device is /dev/null"),
    ("/", "/: not a device node"),
    ("99:0:0:0", "99:0:0:0: there is no such SCSI device"),
    ("1:2:3", "1:2:3: not of the form H:C:T:L"),
    ("1:2:3:4:5", "1:2:3:4:5: not of the form H:C:T:L"),
]


@pytest.mark.parametrize("dev,why", NO_DEVICE)
@pytest.mark.parametrize("sanitized", [False, True], ids=["plain", "sanitized"])
def test_argument_that_names_no_scsi_device_is_refused(dev, why, sanitized):
    for args in (["run", dev, "-"], ["info", dev], ["compare", dev, "-"], ["record", dev],
                 ["replay", "--mode", "max", dev, "-"], ["verify", dev, "-"],
                 ["copy", dev, dev], ["compare-luns", dev, dev]):
        done = run(binary(sanitized), *args, stdin=TUR)
        assert done.returncode == 3
        assert done.stdout == ""
        assert done.stderr == f"sg_io: {why}\n"


@pytest.mark.parametrize("file", ["-", "/dev/stdin"])
def test_compare_reports_a_bad_file_once(file):
    done = run(binary(True), "compare", "/dev/null", file, stdin=b"00zz none 0\n")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("sg_io: ") and done.stderr.count("\n") == 1
    assert ":1: CDB: 'z' is no hex digit" in done.stderr


@pytest.mark.parametrize("command", ["run", "compare", "replay", "verify"])
def test_file_in_the_place_of_the_device(command, tmp_path):
    """FILE may be a node, which must not be read: that can take for ever."""
    path = tmp_path / "reads.cdb"
    path.write_bytes(TUR)
    for after in ("/dev/zero", "9:9:9:9"):
        done = run(binary(True), command, path, after)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == f"sg_io: {path}: is a file; DEV comes first, then FILE\n"
    done = run(binary(True), "info", path)
    assert (done.returncode, done.stderr) == (3, f"sg_io: {path}: not a device node\n")


def test_compare_reports_a_missing_file():
    done = run(binary(True), "compare", "/dev/null", "/absent")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "sg_io: /absent: No such file or directory\n"


def test_replay_refuses_a_file_without_times(tmp_path):
    path = tmp_path / "f"
    path.write_text("000000000000 none 0\n" * 2, encoding="ascii")
    done = run(binary(True), "replay", "/dev/null", path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (f"sg_io: {path}: no command has at=, so there are no times to "
                           "replay; use --mode max\n")


@pytest.mark.parametrize("mode", ["load", "depend"])
def test_modes_that_need_ends_take_commands_without_them_as_ended_last(tmp_path, mode):
    path = tmp_path / "f"
    path.write_text("000000000000 none 0 at=0 took=5\n000000000000 none 0 at=9\n", encoding="ascii")
    done = run(binary(True), "replay", "--mode", mode, "/dev/null", path)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith(f"sg_io: {path}: 1 of 2 commands have no took=: they count as "
                                  "ended last\nsg_io: /dev/null: not a node")
    path.write_text("000000000000 none 0 at=0\n", encoding="ascii")
    done = run(binary(True), "replay", "--mode", mode, "/dev/null", path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"sg_io: {path}: no line has took=, which --mode {mode} needs\n"


def test_times_must_not_go_back_on_a_cpu(tmp_path):
    path = tmp_path / "f"
    path.write_text("000000000000 none 0 at=5 cpu=0\n000000000000 none 0 at=1 cpu=1\n"
                    "000000000000 none 0 at=4 cpu=0\n", encoding="ascii")
    done = run(binary(True), "replay", "/dev/null", path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (f"sg_io: {path}:3: at=4 is before at=5 of line 1, which is issued first "
                           "on the same CPU\n")
