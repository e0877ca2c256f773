# SPDX-License-Identifier: GPL-2.0
"""make install-dev: an LLD in its own folder can be built with the installed files, and loads.

The tests use the modules that were built in the checkout: with "-o modules" make does not build
them again.
"""
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
SOURCE = TOP / "tests/lld/smq_zero.c"
# The other examples, which are built only.
MORE = [TOP / "tests/lld/smq_async.c", TOP / "tests/lld/smq_example.c"]
GUIDE = TOP / "docs/converting-an-lld.md"
LIMIT = 300

# Runs in the VM. $1 is the folder of the installed modules. These need modules of the kernel, which
# are not in that folder, so the script loads the kernel's modules first.
LOAD = """
set -e
modprobe -a scsi_mod scsi_common configfs sd_mod
modprobe -d "$1" smq_zero
n=0
until [ -b /dev/sda ] || [ $n = 200 ]; do sleep 0.1; n=$((n+1)); done
cat /sys/block/sda/device/model
dd if=/dev/urandom of=/dev/sda bs=64k count=16 oflag=direct status=none
cmp -n 1048576 /dev/sda /dev/zero
modprobe -r smq_zero
[ ! -e /sys/module/smq_zero ]
echo gone
"""


def run(*argv, ok=True, **more):
    """Runs a program, without the environment of an outer make. If it fails, raises an error with
    its output."""
    env = {name: value for name, value in os.environ.items()
           if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "KDIR", "PREFIX", "DESTDIR")}
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=LIMIT,
                          env=env, **more)
    assert not ok or done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture(name="kernel", scope="module")
def _kernel():
    """The release and build folder of a kernel for which the modules are built."""
    done = run(TOP / "tools/kernels", "path", "6.1", ok=False)
    settings = dict(line.split("=", 1) for line in done.stdout.splitlines())
    release, kdir = settings.get("RELEASE"), settings.get("KDIR")
    if not release or settings["CHROOT"] or \
            not (TOP / "build" / release / "Module.symvers").exists():
        pytest.skip("not built for 6.1: tools/build-modules --kernel 6.1 SMQ_TESTS=1")
    return release, kdir


def make_smq(target, kernel, **variables):
    """Runs make for a target of the checkout, without building modules."""
    words = [f"{name}={value}" for name, value in variables.items()]
    run("make", "-s", "-o", "modules", target, f"KDIR={kernel[1]}", "SMQ_TESTS=1", *words, cwd=TOP)


def write_lld(folder, dev):
    """Writes the files of an LLD into an empty folder, as in the guide."""
    folder.mkdir()
    (folder / SOURCE.name).write_text(SOURCE.read_text(encoding="ascii"), encoding="ascii")
    lines = re.findall(r"^    (obj-m .*|include .*/lld\.mk)$", GUIDE.read_text(encoding="utf-8"),
                       re.M)
    assert len(lines) == 2
    (folder / "Makefile").write_text("\n".join(lines).replace("/usr/local/lib/smq", str(dev)) +
                                     "\n", encoding="ascii")


def test_lld_outside_the_tree_builds_and_loads(tmp_path, kernel):
    dev = tmp_path / "usr/lib/smq"
    make_smq("install-dev", kernel, DESTDIR=tmp_path, PREFIX="/usr")
    make_smq("modules_install", kernel, INSTALL_MOD_PATH=tmp_path / "root")
    lld = tmp_path / "lld"
    write_lld(lld, dev)
    for path in MORE:
        shutil.copy(path, lld)
        with (lld / "Makefile").open("a", encoding="ascii") as makefile:
            makefile.write(f"obj-m += {path.stem}.o\n")
    done = run("make", f"KDIR={kernel[1]}", "KBUILD_MODPOST_WARN=", cwd=lld)
    assert "warning" not in (done.stdout + done.stderr).lower()
    run("make", "modules_install", f"KDIR={kernel[1]}", f"INSTALL_MOD_PATH={tmp_path}/root",
        cwd=lld)
    done = run(TOP / "tools/vm", "--kernel", "6.1", "--", "bash", "-c", LOAD, "load",
               tmp_path / "root")
    assert done.stdout.split() == ["ZERO", "gone"], done.stderr
    run("make", "clean", f"KDIR={kernel[1]}", cwd=lld)
    assert {path.name for path in lld.iterdir()} == {
        "Makefile", SOURCE.name, *(path.name for path in MORE)}


def test_installed_files(tmp_path, kernel):
    dev = tmp_path / "usr/local/lib/smq"
    for _ in range(2):
        make_smq("install-dev", kernel, DESTDIR=tmp_path)
        assert {path.name for path in (dev / "include/smq").iterdir()} == {
            path.name for path in (TOP / "include/smq").iterdir()}
        # A header that the tree no longer has: the second install must remove it.
        (dev / "include/smq/gone.h").touch()
    (dev / "include/smq/gone.h").unlink()
    for path in (TOP / "build").glob("*/Module.symvers"):
        installed = dev / path.parent.name / path.name
        assert "\tsmq_host_alloc\t" in installed.read_text(encoding="ascii")


def test_missing_parts_are_named(tmp_path, kernel):
    dev = tmp_path / "usr/local/lib/smq"
    make_smq("install-dev", kernel, DESTDIR=tmp_path)
    lld = tmp_path / "lld"
    write_lld(lld, dev)
    done = run("make", "KDIR=/no/such", cwd=lld, ok=False)
    assert done.returncode == 2
    assert "no kernel headers in KDIR='/no/such'" in done.stderr
    (dev / kernel[0] / "Module.symvers").unlink()
    done = run("make", f"KDIR={kernel[1]}", cwd=lld, ok=False)
    assert done.returncode == 2
    assert f"smq was not installed for {kernel[0]}" in done.stderr
    assert "make install-dev" in done.stderr


@pytest.mark.parametrize("installed", ["0.1.0", "0.1.1", None])
def test_symbols_are_those_of_the_version_that_dkms_has_installed(tmp_path, installed):
    """dkms.conf keeps a list for each version and kernel, and dkms removes none of them before the
    version's last kernel."""
    dkms = tmp_path / "dkms"
    for version in ("0.1.0", "0.1.1"):
        (dkms / version / "6.1-test/x86_64/module").mkdir(parents=True)
        (dkms / version / "6.1-test.symvers").touch()
    if installed:
        (dkms / "kernel-6.1-test-x86_64").symlink_to(f"{installed}/6.1-test/x86_64")
    (tmp_path / "Makefile").write_text(
        f"smq-dkms := {dkms}\ninclude {TOP}/include/lld.mk\n"
        "$(info $(realpath $(call smq-symbols-of,6.1-test)))\nnone: ;@:\n", encoding="ascii")
    done = run("make", "-s", "none", "KDIR=/no/such", cwd=tmp_path)
    assert done.stdout == (f"{dkms}/{installed}/6.1-test.symvers\n" if installed else "\n")


def test_guide_shows_the_source():
    """Each line of smq_zero.c that the guide shows is in the file."""
    text = GUIDE.read_text(encoding="utf-8")
    shown = text.partition("<!-- smq_zero.c -->\n")[2].partition("<!-- end -->")[0]
    code = [line.strip() for line in shown.splitlines() if line.startswith("    ")]
    lines = {line.strip() for line in SOURCE.read_text(encoding="ascii").splitlines()}
    assert len(code) > 20
    assert not [line for line in code if line not in lines]
