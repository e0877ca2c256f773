# SPDX-License-Identifier: GPL-2.0
"""dkms.conf lists exactly the modules that the Kbuild files build for the same configuration.

If a listed module was not built, dkms fails for that kernel, and so does the installation of the
kernel's package.
tests/host/slow/test_dkms_chroot.py runs dkms itself.
"""
import re
import shutil
import subprocess
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
NEEDS = ("SCSI", "CONFIGFS_FS", "PCI", "VIRTIO", "TARGET_CORE")
RELEASE = "6.1.0-9-test"
NONE = {("tools/dkms", "smq_none")}

# Stands for a kernel's headers: the Makefile says for which compiler it runs, makes the modules,
# or fails for those that have code if the file "broken" is there.
KERNEL = """
modules:
\t@echo "compiler: CC=$(CC) LD=$(LD) LLVM=$(LLVM) release: $(KERNELRELEASE)"
ifneq ($(notdir $(M)),dkms)
\t@[ ! -e broken ] || { echo "main.c:1: error: no such thing"; exit 1; }
\t@touch $(M)/Module.symvers
\t@for module in %s; do touch $(M)/drivers/$$module.ko; done
else
\t@cd $(M) && for module in $(or $(SMQ_REFUSING),smq_none); do \\
\t\t[ $$module = smq_none ] || grep -q smq_none.c $$module.c && echo refuses >$$module.ko; done
endif
"""
LISTS = ("BUILT_MODULE_NAME", "BUILT_MODULE_LOCATION", "DEST_MODULE_LOCATION")

# Reads dkms.conf as dkms 3.0.10 does: in a subshell that evaluates each element once more and
# prints it with echo.
READ_CONF = r"""
set -e
shopt -s extglob
for name in PACKAGE_NAME PACKAGE_VERSION AUTOINSTALL MAKE CLEAN POST_BUILD \
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
    """The settings that dkms reads from dkms.conf for a kernel whose configuration is the file
    @config. Without @config the kernel has no configuration file."""
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
        assert len(read[name]) == int(index) + 1, "dkms allows no gaps in a list"
    return read


def listed(conf):
    """The modules that dkms.conf lists, as (folder, name)."""
    names, folders, where = (conf[name] for name in LISTS)
    assert where == ["/updates"] * len(names)
    assert len(names) == len(folders) == len(set(names))
    return set(zip(folders, names))


def configuration(tree, has):
    """Writes a kernel's .config in which only the options in @has are set."""
    path = tree / "config"
    path.write_text("# Automatically generated file; DO NOT EDIT.\n" + "".join(
        f"CONFIG_{name}={'m' if name == 'SCSI' else 'y'}\nCONFIG_{name}_MORE=y\n"
        if name in has else f"# CONFIG_{name} is not set\nCONFIG_{name}_OTHER=y\n"
        for name in NEEDS), encoding="ascii")
    return path


def built(tree, has):
    """The modules, as (folder, name), that make builds for a kernel with the options in @has."""
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
def test_listed_modules_are_those_that_make_builds(tmp_path, lacks):
    has = [name for name in NEEDS if name not in lacks]
    conf = read_conf(tmp_path, config=configuration(tmp_path, has))
    want = built(tmp_path, has)
    assert bool(want) == ("SCSI" not in lacks)
    # dkms does not accept an empty list.
    assert listed(conf) == (want or NONE)
    paths = re.fullmatch(f"make -C {tmp_path}/dkms/smq/0.1.0/build/tools/dkms "
                         f"KDIR={tmp_path}/headers RELEASE={RELEASE} MODULES=(.*)", *conf["MAKE"])
    assert {tuple(path.rsplit("/", 1)) for path in paths[1].split(",") if path} == want
    assert conf["POST_BUILD"] == ["tools/dkms/report"]
    assert conf["AUTOINSTALL"] == ["yes"]
    # dkms 3.0.10 runs "make clean" without a value; from 3.1.8 on it warns of any other value.
    assert conf["CLEAN"] == ["true"]
    assert bool(lacks) == (want < built(tmp_path, NEEDS))


def test_options_of_kbuild_files_are_all_tested():
    """NEEDS has each option that a Kbuild file checks. The test above leaves out each option in
    NEEDS, so it finds an option that dkms.conf does not check."""
    used = {name for path in TOP.glob("drivers/*/Kbuild")
            for name in re.findall(r"\$\(CONFIG_(\w+)\)", path.read_text(encoding="ascii"))}
    assert used == set(NEEDS)


def test_without_a_configuration_all_modules_are_listed(tmp_path):
    """"dkms add" has no configuration if the running kernel has no headers."""
    for kernelver in (RELEASE, ""):
        assert listed(read_conf(tmp_path, kernelver)) == built(tmp_path, NEEDS)


def test_after_the_build_the_built_modules_are_listed(tmp_path):
    """After the build dkms.conf lists the modules that dkms has built, whatever the configuration
    says: the headers may change or be removed before dkms installs or removes the modules."""
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
    ("6.1", True), ("6.2.0", True), ("6.4.16-200.fc38.x86_64", True), ("6.5.0-45-generic", True),
    ("6.6.87.2-microsoft-standard-WSL2", True), ("6.7.12", True), ("6.8.0-31-generic", True),
    ("6.9", True), ("6.10.0-rc1", True), ("6.12.95+deb12-amd64", True),
    ("6.14.0-15-generic", True), ("6.50.0", True), ("7.2.12+deb13-amd64", True),
    ("7.3.4+deb13-amd64", True), ("7.4.0", False), ("7.20.0", False), ("7.30.0", False),
    ("10.0", False),
])
def test_dkms_builds_for_supported_kernels_only(tmp_path, kernelver, builds):
    conf = read_conf(tmp_path, kernelver, configuration(tmp_path, NEEDS))
    assert listed(conf) == (built(tmp_path, NEEDS) if builds else NONE)


class Dkms:
    """dkms with folders of its own, the sources, and a kernel that stands for one whose
    configuration has all options and says that clang has built it."""

    def __init__(self, tree, release):
        if not shutil.which("dkms", path="/usr/sbin:/usr/bin:/sbin:/bin"):
            pytest.skip("no dkms: tools/deps install dkms")
        self.tree, self.release = tree, release
        self.kernel = tree / "kernel"
        modules = " ".join(f"{folder.removeprefix('drivers/')}/{name}"
                           for folder, name in built(tree, NEEDS))
        (self.kernel / "include").mkdir(parents=True)
        (self.kernel / "Makefile").write_text(KERNEL % modules, encoding="ascii")
        (self.kernel / ".config").write_text("CONFIG_CC_IS_CLANG=y\nCONFIG_LD_IS_LLD=y\n" + "".join(
            f"CONFIG_{name}=m\n" for name in NEEDS), encoding="ascii")
        source = tree / "src/smq-0.1.0"
        for name in ("drivers", "include", "tools/dkms"):
            shutil.copytree(TOP / name, source / name)
        for name in ("Kbuild", "dkms.conf"):
            shutil.copy(TOP / name, source / name)
        for name in ("dkms", f"install/{release}"):
            (tree / name).mkdir(parents=True)

    def run(self, action):
        """Runs dkms. Returns what it prints, and the log of make."""
        done = subprocess.run(
            ["dkms", *action.split(), "-k", self.release, "-a", "x86_64", "--no-depmod",
             "--kernelsourcedir", self.kernel, "--config", self.kernel / ".config",
             "--dkmstree", self.tree / "dkms", "--sourcetree", self.tree / "src",
             "--installtree", self.tree / "install"], text=True, check=False, timeout=120,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=self.tree,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(self.tree)})
        log = self.tree / "dkms/smq/0.1.0" / self.release / "x86_64/log/make.log"
        text = log.read_text(encoding="utf-8") if log.exists() else ""
        assert done.returncode == 0, done.stdout + text
        return done.stdout, text

    def modules(self):
        """The modules that dkms has built: {name: contents}."""
        folder = self.tree / "dkms/smq/0.1.0" / self.release / "x86_64/module"
        return {path.name.partition(".")[0]: path for path in folder.iterdir()}


def test_dkms_passes_the_compiler_of_the_kernel(tmp_path):
    """dkms appends it to the end of MAKE[0]: CC=clang LD=ld.lld, later versions LLVM=1."""
    dkms = Dkms(tmp_path, "6.12.0-clang")
    _, log = dkms.run("build smq/0.1.0")
    assert re.search(r"^compiler: CC=clang LD=ld\.lld|^compiler: .*LLVM=1", log, re.M), log
    assert "release: 6.12.0-clang\n" in log
    assert set(dkms.modules()) == {name for _, name in built(tmp_path, NEEDS)}
    assert (tmp_path / "dkms/smq/0.1.0/6.12.0-clang.symvers").exists()


def test_modules_that_do_not_compile_do_not_fail_dkms(tmp_path):
    """Otherwise the upgrade to that kernel would fail. The modules in their place say so."""
    dkms = Dkms(tmp_path, "6.12.0-odd")
    (dkms.kernel / "broken").touch()
    said, log = dkms.run("build smq/0.1.0")
    assert "error: no such thing" in log
    assert "smq: the modules do not compile for 6.12.0-odd: in their place are some that " in said
    assert set(dkms.modules()) == {name for _, name in built(tmp_path, NEEDS)}


def test_a_kernel_newer_than_known_has_the_empty_module(tmp_path):
    dkms = Dkms(tmp_path, "7.9.0-next")
    (dkms.kernel / "broken").touch()
    said, _ = dkms.run("build smq/0.1.0")
    assert "smq: no modules for 7.9.0-next" in said
    assert set(dkms.modules()) == {"smq_none"}
