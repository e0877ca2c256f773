# SPDX-License-Identifier: GPL-2.0
"""tools/build-modules: its build folder for a kernel follows each change of the sources."""

import json
import shlex
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from testvm import modules

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
    """The release and the build folder of the kernel 6.1 of this system. Downloads nothing."""
    done = subprocess.run([TOP / "tools/kernels", "path", "6.1"], capture_output=True,
                          text=True, check=False)
    settings = dict(line.split("=", 1) for line in done.stdout.splitlines())
    kdir = settings.get("KDIR", "")
    if settings.get("CHROOT") or not Path(kdir, "Makefile").exists():
        pytest.skip("no headers of 6.1: tools/deps install build")
    return settings["RELEASE"], kdir


@pytest.fixture(name="tree")
def _tree(tmp_path):
    """Makes a copy of the build system, with two drivers and a test module."""
    for name in ("Kbuild", "Makefile"):
        shutil.copy(TOP / name, tmp_path)
    (tmp_path / "tools").mkdir()
    for name in ("build-modules", "kernels", "apt-root.bash", "chroot.bash", "deps",
                 "install.mk"):
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
    """The modules of the last build, as tools/vm reads them."""
    order = (tree / "build" / release / "modules.order").read_text().split()
    return sorted(Path(line).stem for line in order)


def compiled(tree):
    """The sources in compile_commands.json. Each command must compile its source."""
    commands = json.loads((tree / "build/compile_commands.json").read_text())
    for entry in commands:
        subprocess.run([*shlex.split(entry["command"]), "-o", "/dev/null", "-Werror"],
                       cwd=entry["directory"], check=True, timeout=LIMIT)
    return sorted(str(Path(entry["file"]).relative_to(tree)) for entry in commands)


def test_build_folder_follows_the_sources(tree):
    release, kdir = headers()
    folder = tree / "build" / release
    done = build(tree, "--strict", kdir, "SMQ_TESTS=1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert listed(tree, release) == ["probe_one", "probe_three", "probe_two"]
    assert (folder / "drivers/one/probe_one.ko").is_file()
    assert compiled(tree) == ["drivers/one/probe_one.c", "drivers/two/probe_two.c",
                              "tests/three/probe_three.c"]
    sources = {path.name for path in (tree / "drivers/one").iterdir()}
    assert sources == {"Kbuild", "probe_one.c"}, "the build left files among the sources"

    # If a header changes, the driver is rebuilt. A removed driver is no longer built.
    before = (folder / "drivers/one/probe_one.ko").stat().st_mtime_ns
    (tree / "include/smq/probe_test.h").write_text("#define PROBE 1\n")
    shutil.rmtree(tree / "drivers/two")
    done = build(tree, "--strict", kdir)
    assert done.returncode == 0, done.stdout + done.stderr
    assert listed(tree, release) == ["probe_one"]
    assert compiled(tree) == ["drivers/one/probe_one.c", "tests/three/probe_three.c"]
    assert (folder / "drivers/one/probe_one.ko").stat().st_mtime_ns > before
    assert not (folder / "drivers/two/Kbuild").is_symlink()


def test_strict_fails_on_a_warning_each_time(tree):
    release, kdir = headers()
    source = tree / "drivers/one/probe_one.c"
    source.write_text(SOURCE + "static int never_used;\n")
    done = build(tree, kdir)
    assert done.returncode == 0
    assert "never_used" in done.stdout
    # The second run does not compile the file again, but it has to fail, too.
    for _ in range(2):
        done = build(tree, "--strict", kdir)
        assert done.returncode == 1
        assert f"{release} builds with warnings" in done.stderr
    source.write_text(SOURCE)
    assert build(tree, "--strict", kdir).returncode == 0


def test_compile_error_fails_the_build(tree):
    _, kdir = headers()
    (tree / "drivers/one/probe_one.c").write_text(SOURCE + "int broken(void) { return }\n")
    done = build(tree, kdir)
    assert done.returncode not in (0, 1)
    assert "error:" in done.stdout


def copied(tree, gone):
    """Copies a checkout by cp -a; then removes the original if @gone, or else empties its files."""
    copy = tree.with_name(f"{tree.name}-copy+2.x")
    subprocess.run(["cp", "-a", tree, copy], check=True)
    if gone:
        shutil.rmtree(tree)
    else:
        for path in tree.rglob("*"):
            if path.is_file() and not path.is_symlink():
                path.write_bytes(b"")
    return copy


@pytest.mark.parametrize("gone", [True, False])
def test_a_copied_checkout_does_not_use_the_original(tree, gone):
    release, kdir = headers()
    done = build(tree, "--strict", kdir, "SMQ_TESTS=1")
    assert done.returncode == 0, done.stdout + done.stderr
    copy = copied(tree, gone)
    folder = copy / "build" / release
    links = [path for path in folder.rglob("*") if path.is_symlink()]
    assert links and all(path.resolve().is_relative_to(copy) for path in links)
    # tools/vm finds the copy's own modules, even before a build in the copy.
    found = modules.built(SimpleNamespace(build=folder))
    assert len(found) == 3 and all(path.is_relative_to(folder) for path in found)

    done = build(copy, "--strict", kdir, "SMQ_TESTS=1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "CC [M]" not in done.stdout and "LD [M]" not in done.stdout
    assert len(compiled(copy)) == 3
    (copy / "include/smq/probe_test.h").write_text("#define PROBE 1\n")
    done = build(copy, "--strict", kdir, "SMQ_TESTS=1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(f"CC [M]  {folder}/drivers/") == 2


@pytest.mark.parametrize("gone", [True, False])
def test_tools_of_a_copied_checkout_follow_its_own_files(tree, gone):
    where = tree / "tools/src/one"
    where.mkdir(parents=True)
    out = '$(abspath ../../../build/tools)'
    (where / "Makefile").write_text(
        f"{out}/one: one.c\n\tgcc -MMD -MP -I$(abspath ../../../include) -o $@ $(abspath $<)\n"
        f"-include $(wildcard {out}/*.d)\n")
    (where / "one.c").write_text("#include <smq/probe_test.h>\nint main(void) { return PROBE; }\n")

    def status(top):
        done = subprocess.run(["make", "tools"], cwd=top, capture_output=True, text=True,
                              check=False, timeout=LIMIT)
        assert done.returncode == 0, done.stdout + done.stderr
        return subprocess.run([top / "build/tools/one"], check=False).returncode

    assert status(tree) == 0
    copy = copied(tree, gone)
    (copy / "include/smq/probe_test.h").write_text("#define PROBE 7\n")
    assert status(copy) == 7


def test_make_names_what_is_missing(tree):
    done = subprocess.run(["make", "modules", "KDIR=/no/such"], cwd=tree, capture_output=True,
                          text=True, check=False, timeout=LIMIT)
    assert done.returncode == 2
    assert "no kernel headers in KDIR='/no/such'" in done.stderr
    assert "apt-get install" in done.stderr


CONFIG, VERSION, RELEASE, BLK_MQ, SCSI_CMND = (
    "include/config/auto.conf", "include/generated/uapi/linux/version.h",
    "include/generated/utsrelease.h", "include/linux/blk-mq.h", "include/scsi/scsi_cmnd.h")
# version.h, the release and a line of the configuration as Debian's 6.12 has them.
DEBIAN = {
    BLK_MQ: "struct sbitmap_queue bitmap_tags;",
    SCSI_CMND: "struct delayed_work abort_work;",
    CONFIG: "CONFIG_SCSI=m",
    RELEASE: '#define UTS_RELEASE "6.12.95+deb12-amd64"',
    VERSION: "#define LINUX_VERSION_CODE 396383\n"
             "#define KERNEL_VERSION(a,b,c) (((a) << 16) + ((b) << 8) + (c))\n"
             "#define LINUX_VERSION_MAJOR 6",
}


def flags_of(folder, kernel, files):
    """The flags that probe.mk gives for a kernel such as 6.1.130 with these header files."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    (folder / "Makefile").write_text(
        f"include {CONFIG}\ninclude {TOP}/include/smq/probe.mk\n"
        "none:\n\t@echo $(subdir-ccflags-y)\n")
    words = zip(("VERSION", "PATCHLEVEL", "SUBLEVEL"), kernel.split("."))
    done = subprocess.run(
        ["make", "-s", "-C", folder, *(f"{name}={value}" for name, value in words), "srctree=.",
         "objtree=.", "none"], capture_output=True, text=True, check=True, timeout=LIMIT)
    assert not done.stderr
    return done.stdout.split()


@pytest.mark.parametrize("kernel, clears", [
    ("6.1.129", True), ("6.1.130", False), ("6.2.16", True), ("6.6.17", True), ("6.6.118", False),
    ("6.8.1", True), ("6.10.9", True), ("6.11.0", True), ("6.12.10", True), ("6.12.95", False),
    ("6.13.0", True), ("6.14.0", False), ("6.18.35", False), ("7.3.4", False),
])
def test_what_smq_prepares_is_cleared_where_the_mid_layer_does_not(tmp_path, kernel, clears):
    assert ("-DSMQ_PREPARE_CLEARS" in flags_of(tmp_path, kernel, DEBIAN)) == clears


@pytest.mark.parametrize("kernel, differs, checked", [
    ("6.1", {}, True),
    ("6.6", {}, True),
    ("6.12", {}, True),
    ("7.3", {}, True),
    ("6.7", {}, False),
    ("6.14", {}, False),
    ("6.12", {RELEASE: '#define UTS_RELEASE "6.12.0-25-generic"\n'
                       "#define UTS_UBUNTU_RELEASE_ABI 25"}, True),
    ("6.12", {VERSION: f"{DEBIAN[VERSION]}\n#define RHEL_RELEASE_CODE 2560"}, False),
    ("6.12", {VERSION: f"{DEBIAN[VERSION]}\n#define OPENEULER_VERSION_CODE 615681"}, False),
    ("6.12", {CONFIG: "CONFIG_SUSE_KERNEL=y"}, False),
    ("6.12", {CONFIG: "CONFIG_SUSE_PRODUCT_CODE=4"}, False),
    ("6.12", {"include/linux/rh_kabi.h": ""}, False),
    ("6.12", {"include/linux/uek_kabi.h": ""}, False),
    ("6.1", {"include/linux/android_kabi.h": ""}, False),
    ("6.12", {RELEASE: '#define UTS_RELEASE "6.12.0-102.36.5.2.el9uek.x86_64"'}, False),
    ("6.1", {RELEASE: '#define UTS_RELEASE "6.1.119-129.201.amzn2023.x86_64"'}, False),
])
def test_only_checked_kernels_get_an_own_queue(tmp_path, kernel, differs, checked):
    """Some distributions put parts of later kernels into theirs, and keep the number."""
    flags = flags_of(tmp_path, f"{kernel}.200", DEBIAN | differs)
    assert ("-DSMQ_CAN_OWN=1" in flags, "-DSMQ_CAN_PREPARE=1" in flags) == (checked, checked)
