# SPDX-License-Identifier: GPL-2.0
"""tools/build-modules: one build folder per kernel that follows its sources."""

import shutil
import subprocess
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
LIMIT = 300

SOURCE = """
#include <linux/module.h>
#include <smq/probe_test.h>
static int __init probe_init(void) { return PROBE; }
module_init(probe_init);
MODULE_DESCRIPTION("build test");
MODULE_LICENSE("GPL");
"""


def headers():
    """The build folder of the system's own 6.1, without a download."""
    done = subprocess.run([TOP / "tools/kernels", "path", "6.1"], capture_output=True,
                          text=True, check=False)
    settings = dict(line.split("=", 1) for line in done.stdout.splitlines())
    kdir = settings.get("KDIR", "")
    if settings.get("CHROOT") or not Path(kdir, "Makefile").exists():
        pytest.skip("no headers of 6.1: tools/deps install build")
    return settings["RELEASE"], kdir


@pytest.fixture(name="tree")
def _tree(tmp_path):
    """A copy of the build system with two drivers and a test module."""
    for name in ("Kbuild", "Makefile"):
        shutil.copy(TOP / name, tmp_path)
    (tmp_path / "tools").mkdir()
    for name in ("build-modules", "kernels", "apt-root.bash", "deps"):
        shutil.copy(TOP / "tools" / name, tmp_path / "tools")
    for folder in ("drivers/one", "drivers/two", "tests/three"):
        base = tmp_path / folder
        base.mkdir(parents=True)
        (base / "Kbuild").write_text(f"obj-m += probe_{base.name}.o\n")
        (base / f"probe_{base.name}.c").write_text(SOURCE)
    (tmp_path / "include/smq").mkdir(parents=True)
    (tmp_path / "include/smq/probe_test.h").write_text("#define PROBE 0\n")
    return tmp_path


def build(tree, *arguments):
    """Runs tools/build-modules."""
    return subprocess.run([tree / "tools/build-modules", *arguments], capture_output=True,
                          text=True, check=False, timeout=LIMIT)


def listed(tree, release):
    """The modules the last build made, as tools/vm reads them."""
    order = (tree / "build" / release / "modules.order").read_text().split()
    return sorted(Path(line).stem for line in order)


def test_build_folder_follows_the_sources(tree):
    release, kdir = headers()
    folder = tree / "build" / release
    done = build(tree, "--strict", kdir, "SMQ_TESTS=1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert listed(tree, release) == ["probe_one", "probe_three", "probe_two"]
    assert (folder / "drivers/one/probe_one.ko").is_file()
    sources = {path.name for path in (tree / "drivers/one").iterdir()}
    assert sources == {"Kbuild", "probe_one.c"}, "the source tree has grown"

    # An include that changes rebuilds, a driver that goes is built no more.
    before = (folder / "drivers/one/probe_one.ko").stat().st_mtime_ns
    (tree / "include/smq/probe_test.h").write_text("#define PROBE 1\n")
    shutil.rmtree(tree / "drivers/two")
    done = build(tree, "--strict", kdir)
    assert done.returncode == 0, done.stdout + done.stderr
    assert listed(tree, release) == ["probe_one"]
    assert (folder / "drivers/one/probe_one.ko").stat().st_mtime_ns > before
    assert not (folder / "drivers/two/Kbuild").is_symlink()


def test_strict_fails_on_a_warning_each_time(tree):
    release, kdir = headers()
    source = tree / "drivers/one/probe_one.c"
    source.write_text(SOURCE + "static int never_used;\n")
    done = build(tree, kdir)
    assert done.returncode == 0
    assert "never_used" in done.stdout
    # The compiler is silent about an object that is up to date.
    for _ in range(2):
        done = build(tree, "--strict", kdir)
        assert done.returncode == 1
        assert f"{release} builds with warnings" in done.stderr
    source.write_text(SOURCE)
    assert build(tree, "--strict", kdir).returncode == 0


def test_error_fails(tree):
    _, kdir = headers()
    (tree / "drivers/one/probe_one.c").write_text(SOURCE + "int broken(void) { return }\n")
    done = build(tree, kdir)
    assert done.returncode not in (0, 1)
    assert "error:" in done.stdout


@pytest.mark.parametrize("arguments, text", [
    (["/no/such"], "KDIR '/no/such' is not a built kernel or its headers"),
    (["--kernel", "2.4"], "kernel '2.4' is unknown, expected one of: 6.1"),
    (["--fast", "/x"], "option '--fast' is unknown"),
])
def test_wrong_arguments(tree, arguments, text):
    done = build(tree, *arguments)
    assert done.returncode == 2
    assert text in done.stderr


def test_make_names_what_is_missing(tree):
    done = subprocess.run(["make", "modules", "KDIR=/no/such"], cwd=tree, capture_output=True,
                          text=True, check=False, timeout=LIMIT)
    assert done.returncode == 2
    assert "no kernel headers in KDIR='/no/such'" in done.stderr
    assert "apt-get install" in done.stderr
