# SPDX-License-Identifier: GPL-2.0
"""tools/kernels builds a kernel from a source tree, under a name that the other tools then know."""

import os
import subprocess
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
# Stands for a kernel's makefile: Kconfig drops CONFIG_LOST, and takes all else as it is.
MAKEFILE = """\
VERSION = 6
PATCHLEVEL = 8
SUBLEVEL = 1
ARCH ?= arm64
olddefconfig:
\t@[ '$(ARCH)' = x86_64 ] && sed -i /CONFIG_LOST/d $(O)/.config
\t@echo 'include $(CURDIR)/Makefile' >$(O)/Makefile
vmlinux:
\t@echo one >>builds; touch vmlinux drivers.o
modules:
\t@[ ! -e $(dir $(lastword $(MAKEFILE_LIST)))broken ] && mkdir -p scripts && touch scripts/keep.o
kernelrelease:
\t@echo 6.8.1-smq
modules_install:
\t@mkdir -p $(INSTALL_MOD_PATH)/lib/modules/6.8.1-smq
"""
DEBIAN = "CONFIG_SCSI_MOD=y\nCONFIG_DRM=m\nCONFIG_SCSI=m\n# CONFIG_DAMON is not set\n"


@pytest.fixture(name="place")
def _place(tmp_path):
    """A source tree, and a cache in which two of Debian's kernels have their headers."""
    for name in ("6.1", "6.12", "7.2", "7.3"):
        kdir = tmp_path / "headers" / name
        kdir.mkdir(parents=True)
        (kdir / ".config").write_text(f"CONFIG_OF_{name.replace('.', '_')}=y\n{DEBIAN}")
        settings = tmp_path / "cache/kernels" / name / "settings"
        settings.parent.mkdir(parents=True)
        settings.write_text(f"KERNEL={name}\nRELEASE={name}.9-amd64\nCHROOT=\nKDIR={kdir}\n")
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/Makefile").write_text(MAKEFILE)
    return tmp_path


def kernels(place, *words):
    """Runs tools/kernels. Returns its exit status and what it prints."""
    done = subprocess.run([TOP / "tools/kernels", *words], text=True, check=False, timeout=60,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          stdin=subprocess.DEVNULL,
                          env=dict(os.environ, SMQ_CACHE=str(place / "cache")))
    return done.returncode, done.stdout


def settings_of(place, name):
    """What tools/kernels path prints."""
    status, text = kernels(place, "path", name)
    assert status == 0, text
    return dict(line.split("=", 1) for line in text.splitlines())


def test_a_kernel_of_a_tree_is_built_once(place):
    status, text = kernels(place, "prepare", "--source", str(place / "tree"))
    assert status == 0 and "6.8: 6.8.1-smq is ready, built in" in text, text
    found = settings_of(place, "6.8")
    assert found["RELEASE"] == "6.8.1-smq" and found["SOURCE"] == str(place / "tree")
    build = Path(found["KDIR"])
    assert found["IMAGE"] == str(build / "vmlinux") and Path(found["MODULES"]).is_dir()
    # Only what a build of modules needs stays.
    assert (build / "scripts/keep.o").exists() and not (build / "drivers.o").exists()

    config = (build / ".config").read_text().splitlines()
    assert "CONFIG_OF_6_12=y" in config, "the nearest series"
    assert {"CONFIG_SCSI=m", "CONFIG_PVH=y", "# CONFIG_DRM is not set"} < set(config)
    assert "CONFIG_DRM=m" not in config

    for words in (("--source", str(place / "tree")), ("6.8",)):
        status, text = kernels(place, "prepare", *words)
        assert (status, text) == (0, "6.8: 6.8.1-smq is ready\n")
    assert (build / "builds").read_text() == "one\n"
    assert "6.8.1-smq" in kernels(place, "list")[1]

    # Another state of the tree is built anew, in a folder of its own.
    (place / "tree/new.c").touch()
    assert kernels(place, "prepare", "6.8")[0] == 0
    assert settings_of(place, "6.8")["KDIR"] != str(build) and not build.exists()


def test_a_kernel_may_have_another_name(place):
    assert kernels(place, "prepare", "--source", str(place / "tree"), "--name", "noble")[0] == 0
    assert settings_of(place, "noble")["RELEASE"] == "6.8.1-smq"
    assert kernels(place, "path", "6.8")[0] == 2


def test_a_tree_that_does_not_build_says_where_its_log_is(place):
    (place / "tree/broken").touch()
    status, text = kernels(place, "prepare", "--source", str(place / "tree"))
    assert status == 2 and "6.8 does not build, see " in text
    assert kernels(place, "path", "6.8")[0] == 2


@pytest.mark.parametrize("words, text", [
    (("--source", "/no/such"), "--source '/no/such' is no folder"),
    (("--source", "/etc"), "no source tree of a kernel"),
    (("--source", "{tree}", "--name", "7.2"), "'7.2' is the name of another kernel"),
    (("--source", "{tree}", "--name", "uml-perf"), "is the name of another kernel"),
    (("--source", "{tree}", "--name", "../x"), "--name '../x': expected"),
    (("--source", "{tree}", "6.1"), "--source takes no SERIES"),
    (("--name", "x"), "--name belongs to it"),
    (("--source",), "--source needs a value"),
    (("--sauce", "x"), "option '--sauce' is unknown"),
    (("6.8",), "kernel '6.8' is unknown"),
])
def test_wrong_arguments_are_named(place, words, text):
    words = [word.replace("{tree}", str(place / "tree")) for word in words]
    status, said = kernels(place, "prepare", *words)
    assert status == 2 and text in said
