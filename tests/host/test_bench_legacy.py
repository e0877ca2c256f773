# SPDX-License-Identifier: GPL-2.0
"""tools/bench/legacy-kernel: the measuring on a kernel of today, the comparison on a stand-in for
one of 2018, and what it says to kernels that will not do."""

import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from make import make

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TOOL = ROOT / "tools" / "bench" / "legacy-kernel"
sys.path.insert(0, str(ROOT / "tools" / "bench"))

from smqbench import figures  # noqa: E402

LIMIT = 300
# What a command costs on 6.1, roughly: enough to tell one path from another.
ON_6_1 = {("libaio", 32): (6300, 7300), ("libaio", 1): (7100, 8300), ("sg_io", 1): (5800, 6900)}
QEMU = "qemu-system-x86_64"
needs_qemu = pytest.mark.skipif(shutil.which(QEMU) is None, reason=f"needs {QEMU}")


@pytest.fixture(name="tools", scope="module", autouse=True)
def fixture_tools():
    """The programs and the plugin."""
    make(ROOT / "tools/bench")


@pytest.fixture(name="kernel", scope="module")
def fixture_kernel():
    """Image and modules of 6.1."""
    done = subprocess.run([ROOT / "tools/kernels", "path", "6.1"], capture_output=True, text=True,
                          check=False)
    if done.returncode:
        pytest.skip(done.stderr)
    settings = dict(line.split("=", 1) for line in done.stdout.splitlines())
    return Path(settings["IMAGE"]), Path(settings["MODULES"])


def run(*arguments, **environment):
    """Runs it to its end."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("LEGACY_")}
    return subprocess.run([TOOL, *arguments], capture_output=True, text=True, check=False,
                          timeout=LIMIT, stdin=subprocess.DEVNULL, env=clean | environment)


def old_image(path, release="4.19.304"):
    """The head of a bzImage, which is all that is read of it."""
    head = bytearray(0x400)
    head[0x202:0x206] = b"HdrS"
    struct.pack_into("<H", head, 0x20E, 0x100)
    name = f"{release} (someone@somewhere)".encode()
    head[0x300:0x300 + len(name)] = name
    path.write_bytes(head)
    return path


@pytest.fixture(name="old")
def fixture_old(tmp_path):
    """Runs it with the stand-in, which goes wrong in some way."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / QEMU).symlink_to(HERE / "bench_old_guest")
    image = old_image(tmp_path / "bzImage")

    def run_old(wrong="", *arguments):
        return run("--rows", "kernel_legacy,kernel_mq", "--workloads", "aio-4k-qd32", "--repeat",
                   "1", *arguments, str(image), BENCH_OLD_GUEST=wrong,
                   PATH=f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    return run_old


@needs_qemu
def test_measures_a_kernel_of_today(kernel, tmp_path):
    """All but the switch: both ways of completion, every workload, figures for the report."""
    image, modules = kernel
    done = run("--any-kernel", "--repeat", "1", "--modules", str(modules), "--json",
               str(tmp_path / "figures"), str(image))
    assert done.returncode == 0, done.stderr
    assert "48" not in done.stderr and "24 of 24 runs" in done.stderr
    found = figures.read(tmp_path / "figures")
    assert len(found.figures) == 2 * 2 * 6
    for figure in found.find(row="kernel_mq", metric="insn_kernel", op="read"):
        low, high = ON_6_1[figure.path, figure.qd]
        assert low < figure.value < high, figure.workload
        assert "elevator=none" in figure.parameters["queue"]
        assert "legacy path" in figure.note
        with_program = found.one(row=figure.row, metric="insn", path=figure.path, op=figure.op,
                                 bs=figure.bs, qd=figure.qd)
        # A system call without its program would be no I/O, nor a program without.
        assert 50 < with_program.value - figure.value < 1000
        timer = found.one(row="kernel_mq_timer", metric="insn_kernel", path=figure.path,
                          op=figure.op, bs=figure.bs, qd=figure.qd)
        assert timer.value > figure.value + 800


@needs_qemu
def test_guest_finds_that_there_is_no_switch(kernel, tmp_path):
    """A kernel that calls itself 4.9 and has no use_blk_mq."""
    image, modules = kernel
    data = bytearray(image.read_bytes())
    at = struct.unpack_from("<H", data, 0x20E)[0] + 0x200
    assert data[at:at + 4] == b"6.1."
    data[at:at + 3] = b"4.9"
    fake = tmp_path / "bzImage"
    fake.write_bytes(data)
    done = run("--json", str(tmp_path / "figures"), str(fake), LEGACY_MODULES=str(modules))
    assert done.returncode == 1
    assert done.stderr.count("LEGACY_KERNEL") == 1
    assert "has no legacy path (its scsi_mod has no parameter use_blk_mq)" in done.stderr
    assert not (tmp_path / "figures").exists()


@needs_qemu
def test_guest_names_the_module_that_is_missing(kernel, tmp_path):
    image, modules = kernel
    for name in ("scsi_common", "scsi_mod", "sd_mod", "sg", "t10-pi", "crc-t10dif",
                 "crc64-rocksoft", "crct10dif_common", "crc64"):
        for path in modules.rglob(f"{name}.ko*"):
            shutil.copy(path, tmp_path)
    done = run("--any-kernel", "--modules", str(tmp_path), str(image))
    assert done.returncode == 2
    assert "scsi_debug is neither built into this kernel nor among the modules given" \
        in done.stderr


def test_both_paths_side_by_side(old, tmp_path):
    """Differences of two runs, kernel and program apart, whatever a run costs by itself."""
    done = old("", "--json", str(tmp_path / "figures"))
    assert done.returncode == 0, done.stderr
    row = next(line.split() for line in done.stdout.splitlines() if line.startswith("aio-4k"))
    assert row == ["aio-4k-qd32", "7000", "+-0", "5000", "+-0", "+2000", "1.40", "1.33"]
    found = figures.read(tmp_path / "figures")
    values = {(figure.row, figure.metric): figure.value for figure in found.figures}
    assert values == {("kernel_legacy", "insn"): 8000, ("kernel_legacy", "insn_kernel"): 7000,
                      ("kernel_mq", "insn"): 6000, ("kernel_mq", "insn_kernel"): 5000}
    assert {figure.kernel for figure in found.figures} == {"4.19.304"}


@pytest.mark.parametrize("wrong, message", [
    ("ends", "the guest ended before its measurements did; QEMU: qemu has enough"),
    ("error", "the guest: the disk fell off; its last messages:\n  [    1.000000] the kernel's"),
    ("hangs", "no end after 3 s (--timeout)"),
    ("babble", "unknown line: what is this"),
    ("clock", "instructions by the plugin"),
    ("idle", "these were no SCSI commands"),
])
def test_what_goes_wrong_is_said(old, tmp_path, wrong, message):
    """Exit status 2, and no figure."""
    arguments = ["--timeout", "3"] if wrong == "hangs" else []
    done = old(wrong, "--json", str(tmp_path / "figures"), *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not done.stdout.strip()
    assert not (tmp_path / "figures").exists()


@pytest.mark.parametrize("release", ["5.0.0", "5.0-rc1", "6.12.95+deb12-amd64", "10.1"])
def test_too_new_is_refused_at_once(tmp_path, release):
    done = run(str(old_image(tmp_path / "bzImage", release)))
    assert done.returncode == 1
    assert done.stderr == (
        f"legacy-kernel: LEGACY_KERNEL: {release} has no legacy path (it was removed in Linux "
        "5.0); give a kernel up to 4.20 that has scsi_mod.use_blk_mq\n")


@pytest.mark.parametrize("arguments, status, message", [
    ([], 2, "BZIMAGE is missing, and LEGACY_KERNEL is not set"),
    (["/no/such"], 2, "LEGACY_KERNEL: no file /no/such"),
    (["/etc/passwd"], 2, "LEGACY_KERNEL: /etc/passwd is no bzImage"),
    (["--modules", "/no/such", "IMAGE"], 2, "LEGACY_MODULES: no folder /no/such"),
    (["--modules", "EMPTY", "IMAGE"], 2, "holds no module"),
    (["--repeat", "0", "IMAGE"], 2, "'0' is not a number from 1 to 50"),
    (["--repeat", "51", "IMAGE"], 2, "'51' is not a number from 1 to 50"),
    (["--rows", "scsi_debug", "IMAGE"], 2, "--rows: there is no row 'scsi_debug'"),
    (["--workloads", "fio", "IMAGE"], 2, "--workloads: there is no workload 'fio'"),
    (["--any-kernel", "--rows", "kernel_legacy", "IMAGE"], 2, "--rows: --any-kernel measures"),
    (["--json", "/no/such/file", "IMAGE"], 2, "--json /no/such/file: no such folder"),
    (["--keep", "/etc", "IMAGE"], 2, "--keep /etc: is no empty folder"),
    (["--timeout", "x", "IMAGE"], 2, "'x' is not a number"),
])
def test_bad_arguments(tmp_path, arguments, status, message):
    image = old_image(tmp_path / "bzImage")
    (tmp_path / "empty").mkdir()
    words = {"IMAGE": str(image), "EMPTY": str(tmp_path / "empty")}
    done = run(*(words.get(word, word) for word in arguments))
    assert done.returncode == status
    assert message in done.stderr
    assert "Traceback" not in done.stderr
