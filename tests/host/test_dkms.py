# SPDX-License-Identifier: GPL-2.0
"""dkms.conf: its list of modules is what the Kbuild files build for the same configuration.

dkms fails for a kernel, and the kernel's package with it, when a listed module was not built.
tests/host/slow/test_dkms_chroot.py runs dkms itself.
"""
import re
import subprocess
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
NEEDS = ("SCSI", "CONFIGFS_FS", "PCI", "VIRTIO", "TARGET_CORE")
RELEASE = "6.1.0-9-test"
NONE = {("tools/dkms", "smq_none")}
LISTS = ("BUILT_MODULE_NAME", "BUILT_MODULE_LOCATION", "DEST_MODULE_LOCATION")

# Reads the file like dkms 3.0.10: in a subshell, with each element passed through echo and read
# again.
READ_CONF = r"""
set -e
shopt -s extglob
for name in PACKAGE_NAME PACKAGE_VERSION AUTOINSTALL MAKE CLEAN \
    BUILT_MODULE_NAME BUILT_MODULE_LOCATION DEST_MODULE_LOCATION; do
    unset "$name"
    names+=("$name")
done
. "$conf" >/dev/null
for name in "${names[@]}"; do
    for i in $(eval echo \${!$name[@]}); do
        eval echo '$name[$i]=${'$name'[$i]}'
    done
done
"""


def read_conf(tree, kernelver=RELEASE, config=None):
    """The settings that dkms reads from dkms.conf for a kernel with @config, a file that may be
    missing."""
    kdir = tree / "headers"
    kdir.mkdir(exist_ok=True)
    values = {"conf": TOP / "dkms.conf", "dkms_tree": tree / "dkms", "module": "smq",
              "module_version": "0.1.0", "kernelver": kernelver, "arch": "x86_64",
              "kernel_source_dir": kdir, "kernel_config": config or kdir / ".config"}
    done = subprocess.run(
        ["bash", "-c", "".join(f"{key}='{value}'\n" for key, value in values.items()) + READ_CONF],
        capture_output=True, text=True, check=False, timeout=60, cwd=tree)
    assert done.returncode == 0 and not done.stderr, done.stdout + done.stderr
    read = {}
    for line in done.stdout.splitlines():
        name, index, value = re.fullmatch(r"(\w+)\[(\d+)\]=(.*)", line).groups()
        read.setdefault(name, []).append(value)
        assert len(read[name]) == int(index) + 1, "dkms wants no gaps"
    return read


def listed(conf):
    """The modules of a list, with their folders."""
    names, folders, where = (conf[name] for name in LISTS)
    assert where == ["/updates"] * len(names)
    assert len(names) == len(folders) == len(set(names))
    return set(zip(folders, names))


def configuration(tree, has):
    """Writes a kernel's .config with these options."""
    path = tree / "config"
    path.write_text("# Automatically generated file; DO NOT EDIT.\n" + "".join(
        f"CONFIG_{name}={'m' if name == 'SCSI' else 'y'}\nCONFIG_{name}_MORE=y\n"
        if name in has else f"# CONFIG_{name} is not set\nCONFIG_{name}_OTHER=y\n"
        for name in NEEDS), encoding="ascii")
    return path


def built(tree, has):
    """The modules that make builds for a kernel with these options."""
    kbuilds = sorted(TOP.glob("drivers/*/Kbuild"))
    assert kbuilds
    (tree / "Makefile").write_text("src := x\n" + "".join(
        f"obj-m :=\ninclude {path}\n"
        f"$(info $(patsubst %.o,drivers/{path.parent.name} %,$(obj-m)))\n"
        for path in kbuilds) + "none: ;@:\n", encoding="ascii")
    done = subprocess.run(
        ["make", "-s", "-C", tree, "none", *(f"CONFIG_{name}=y" for name in has)],
        capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0 and not done.stderr, done.stderr
    words = done.stdout.split()
    return set(zip(words[::2], words[1::2]))


@pytest.mark.parametrize("lacks", [(), *((name,) for name in NEEDS), ("PCI", "TARGET_CORE")],
                         ids="+".join)
def test_list_is_what_is_built(tmp_path, lacks):
    has = [name for name in NEEDS if name not in lacks]
    conf = read_conf(tmp_path, config=configuration(tmp_path, has))
    want = built(tmp_path, has)
    assert bool(want) == ("SCSI" not in lacks)
    # dkms does not accept an empty list.
    assert listed(conf) == (want or NONE)
    folder = tmp_path / "dkms/smq/0.1.0" / ("build" if want else "build/tools/dkms")
    assert conf["MAKE"] == [f"make -C {tmp_path}/headers M={folder} modules"]
    assert conf["AUTOINSTALL"] == ["yes"]
    assert bool(lacks) == (want < built(tmp_path, NEEDS))


def test_every_need_is_named_by_a_kbuild():
    """NEEDS has each option that a Kbuild file checks: the test above leaves out each of them, so
    dkms.conf must know it."""
    used = {name for path in TOP.glob("drivers/*/Kbuild")
            for name in re.findall(r"\$\(CONFIG_(\w+)\)", path.read_text(encoding="ascii"))}
    assert used == set(NEEDS)


def test_without_a_configuration_all_are_listed(tmp_path):
    """"dkms add" has no configuration if the running kernel has no headers."""
    for kernelver in (RELEASE, ""):
        assert listed(read_conf(tmp_path, kernelver)) == built(tmp_path, NEEDS)


def test_listed_modules_are_those_that_were_built(tmp_path):
    """The list stays that of the build: headers may have been removed, or have changed, when
    modules are installed or removed."""
    modules = tmp_path / "dkms/smq/0.1.0" / RELEASE / "x86_64/module"
    modules.mkdir(parents=True)
    (modules / "smq_none.ko").touch()
    assert listed(read_conf(tmp_path)) == NONE
    (modules / "smq_none.ko").unlink()
    for name in ("smq.ko", "smq_sg.ko.xz"):
        (modules / name).touch()
    want = {("drivers/core", "smq"), ("drivers/sg", "smq_sg")}
    assert listed(read_conf(tmp_path)) == want
    assert listed(read_conf(tmp_path, config=configuration(tmp_path, NEEDS))) == want
    assert listed(read_conf(tmp_path, "6.1.0-10-test")) == built(tmp_path, NEEDS)


@pytest.mark.parametrize("kernelver, builds", [
    ("5.10.0-28-amd64", False), ("6.0.0-1-amd64", False), ("6.1.0-56-amd64", True),
    ("6.12.95+deb12-amd64", True), ("7.2.12+deb13-amd64", True), ("10.0", True),
])
def test_dkms_builds_for_supported_kernels_only(tmp_path, kernelver, builds):
    conf = read_conf(tmp_path, kernelver, configuration(tmp_path, NEEDS))
    assert listed(conf) == (built(tmp_path, NEEDS) if builds else NONE)
