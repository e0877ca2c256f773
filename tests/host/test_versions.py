# SPDX-License-Identifier: GPL-2.0
"""All that has a version has that of the release, and says so when it is asked."""
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest
from manual import PAGES

TOP = Path(__file__).resolve().parents[2]
# Files and what stands before and after the version.
PLACES = {
    "dkms.conf": r'^PACKAGE_VERSION="(.*)"$',
    "include/smq/version.h": r'^#define SMQ_VERSION\s+"(.*)"$',
    "tools/libsmq/libsmq.h": r'^#define LIBSMQ_VERSION\s+"(.*)"$',
    "tools/libsmq/python/pyproject.toml": r'^version = "(.*)"$',
    "tools/libsmq/python/smq/__init__.py": r'^__version__ = "(.*)"$',
    "debian/changelog": r"\Asmq \((.*)\) ",
    "smq.spec": r"^Version:\s+(.*)$",
    "CHANGELOG.md": r"\A# Changes\n\n## (\S+) \(20\d\d-\d\d-\d\d\)$",
}
VERSION = re.search(PLACES["dkms.conf"], (TOP / "dkms.conf").read_text(encoding="ascii"), re.M)[1]


@pytest.mark.parametrize("path", PLACES)
def test_file_has_the_version_of_the_release(path):
    text = (TOP / path).read_text(encoding="utf-8")
    assert re.findall(PLACES[path], text, re.M) == [VERSION]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_manual_page_has_the_version_of_the_release(page):
    title = page.read_text(encoding="ascii").partition("\n.TH ")[2].partition("\n")[0]
    assert re.search(r'"(?:lib)?smq (.*)" "smq"$', title)[1] == VERSION


def test_sg_io_prints_the_version():
    subprocess.run(["make", "-s", "-C", TOP / "tools/src/sg_io"], check=True, timeout=300)
    done = subprocess.run([TOP / "tools/sg_io", "--version"], capture_output=True, text=True,
                          check=True, timeout=60)
    assert done.stdout == f"sg_io {VERSION}\n"


def modules(*patterns):
    """The sources that have a module's description, by path."""
    sources = {path: path.read_text(encoding="ascii")
               for pattern in patterns for path in TOP.glob(pattern)}
    return {path: text for path, text in sources.items() if "\nMODULE_LICENSE(" in text}


def test_each_module_has_the_version():
    mains = modules("drivers/*/*.c")
    assert len(mains) >= 8
    assert not [path for path, text in mains.items() if "MODULE_VERSION(SMQ_VERSION);" not in text]


def test_each_module_names_its_author():
    mains = modules("drivers/*/*.c", "tools/dkms/*.c")
    assert len(mains) >= 9
    assert not [path for path, text in mains.items()
                if '\nMODULE_AUTHOR("smq developers");\n' not in text]


def test_same_commit_gives_the_same_tarball():
    """And it has what the packages are built from, but nothing that was built."""
    seen = []
    for _ in range(2):
        done = subprocess.run(["make", "-s", "dist"], cwd=TOP, capture_output=True, text=True,
                              check=True, timeout=60)
        path = TOP / done.stdout.strip()
        assert path.name == f"smq-{VERSION}.tar.xz"
        seen.append(path.read_bytes())
    assert seen[0] == seen[1]
    done = subprocess.run(["tar", "-tf", path], capture_output=True, text=True, check=True,
                          timeout=60)
    names = set(done.stdout.splitlines())
    assert {f"smq-{VERSION}/{name}" for name in ("smq.spec", "debian/rules", "dkms.conf")} < names
    assert not [name for name in names if name.endswith((".ko", ".o")) or "/build/" in name]


def dist(folder):
    """Runs make dist in a folder, and returns how it ended."""
    return subprocess.run(["make", "-s", "dist"], cwd=folder, capture_output=True, text=True,
                          check=False, timeout=60)


def entries(tarball):
    """The names and modes in a tarball, without folders."""
    with tarfile.open(tarball) as tar:
        return {(one.name, one.mode & 0o111) for one in tar if not one.isdir()}


def test_unpacked_tarball_makes_the_same_tarball(tmp_path):
    """Without a repository, or inside another one, and whatever was built there."""
    first = TOP / dist(TOP).stdout.strip()
    subprocess.run(["git", "init", "-q", tmp_path], check=True, timeout=60)
    subprocess.run(["tar", "-xf", first, "-C", tmp_path], check=True, timeout=60)
    tree, = tmp_path.glob("smq-*")
    for name in ("build/x", "tools/sg_io", "tools/smqtop", "tools/a.o", "tests/__pycache__/a.pyc"):
        (tree / name).parent.mkdir(exist_ok=True)
        (tree / name).write_text("built", encoding="ascii")
    done = dist(tree)
    assert done.returncode == 0, done.stderr
    assert entries(tree / done.stdout.strip()) == entries(first)


def test_no_tarball_is_made_without_the_commit(tmp_path):
    """git archive would fail: that must not leave a file."""
    for name in ("Makefile", "dkms.conf", "tools/install.mk"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(TOP / name, tmp_path / name)
    subprocess.run(["git", "init", "-q", tmp_path], check=True, timeout=60)
    done = dist(tmp_path)
    assert done.returncode == 2 and not done.stdout and done.stderr
    assert not list(tmp_path.glob("build/dist/*.xz"))
