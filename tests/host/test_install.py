# SPDX-License-Identifier: GPL-2.0
"""make install and make uninstall."""
import os
import re
import subprocess
from pathlib import Path

import pytest
from manual import PAGES

TOP = Path(__file__).resolve().parents[2]
LIMIT = 600
WHERE = ("PREFIX=/usr", "LIBDIR=/usr/lib64",
         "user-dirs=tools/libsmq tools/src/sg_io tools/src/fc_check tools/src/smqtop")


def make(*words, ok=True):
    """Runs make without the environment of an outer make."""
    env = {name: value for name, value in os.environ.items()
           if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "KDIR", "PREFIX", "DESTDIR")}
    done = subprocess.run(["make", "-s", *words], cwd=TOP, capture_output=True, text=True,
                          check=False, timeout=LIMIT, env=env)
    assert not ok or done.returncode == 0, done.stdout + done.stderr
    return done


def files(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*")
            if path.is_symlink() or not path.is_dir()}


@pytest.fixture(name="installed", scope="module")
def _installed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("installed here")
    make("install", *WHERE, f"DESTDIR={folder}")
    make("install-dev", "-o", "modules", *WHERE, f"DESTDIR={folder}")
    return folder


def test_files_are_where_distributions_expect_them(installed):
    found = files(installed)
    assert {"usr/sbin/sg_io", "usr/sbin/fc-check", "usr/sbin/targetcli-smq",
            "usr/lib64/libsmq.so", "usr/lib64/libsmq.so.1", "usr/lib64/libsmq.a",
            "usr/lib64/pkgconfig/libsmq.pc", "usr/include/libsmq.h", "usr/include/scsi/smq_sg.h",
            "usr/lib/udev/rules.d/60-smqsg.rules", "usr/share/man/man8/sg_io.8",
            "usr/share/man/man3/libsmq.3", "usr/share/bash-completion/completions/sg_io",
            "usr/share/smq/target-configs/soft-fc", "usr/share/smq/fc_check/main.py",
            "usr/share/smq/judge/__main__.py",
            "usr/lib/smq/lld.mk", "usr/lib/smq/include/smq/lld.h"} <= found
    # A page of section 8 is about a program in sbin, and the other way round.
    assert {name for name in found if name.startswith("usr/sbin/")} == {
        f"usr/sbin/{Path(name).stem}" for name in found if name.startswith("usr/share/man/man8/")}
    assert {Path(name).name for name in found if "/man/man" in name and "/man9/" not in name} == {
        page.name for page in PAGES}
    assert {"usr/share/man/man9/smq_host_alloc.9", "usr/share/man/man9/smq_lld.9"} <= found
    text = (installed / "usr/lib64/pkgconfig/libsmq.pc").read_text(encoding="ascii")
    assert "libdir=/usr/lib64\n" in text and "includedir=/usr/include\n" in text
    assert os.access(installed / "usr/share/smq/target-configs/soft-fc", os.X_OK)


def test_installed_pages_lead_to_installed_pages(installed):
    """Debian's packages and the rpms have what is installed, if their lists name its folder."""
    top = installed / "usr/share/doc/smq-tools"
    pages = sorted(top.rglob("*.md"))
    assert {"README.md", "docs/sg_io.md", "docs/replay.md", "docs/fio.md", "docs/lio.md",
            "docs/secure-boot.md"} <= {str(page.relative_to(top)) for page in pages}
    links = [(page, link) for page in pages
             for link in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8"))
             if "://" not in link and link.endswith((".md", ".svg", "boot"))]
    missing = [f"{page.name}: {link}" for page, link in links if not (page.parent / link).exists()]
    assert len(links) > 100 and not missing
    lists = {"smq.spec": "%doc %{_datadir}/doc/smq-tools\n",
             "debian/smq-tools.install": "usr/share/doc/smq-tools\n"}
    assert [name for name, line in lists.items()
            if line not in (TOP / name).read_text(encoding="ascii")] == []


def test_uninstall_leaves_only_what_it_has_not_installed(installed):
    other = installed / "usr/share/man/man8/other.8"
    other.write_text("", encoding="ascii")
    for older in ("usr/share/smq/older.json", "usr/lib64/libsmq.so.1.0.0.9",
                  "usr/lib64/fio/fio-smq.so"):
        (installed / older).parent.mkdir(exist_ok=True)
        (installed / older).write_text("", encoding="ascii")
    make("uninstall", *WHERE, f"DESTDIR={installed}")
    assert files(installed) == {"usr/share/man/man8/other.8"}


@pytest.mark.parametrize("words", [["install"], ["-C", "tools/src/fc_check", "install"]])
def test_relative_folder_is_refused(words):
    """It would be another one in each folder in which a Makefile runs."""
    done = make(*words, "DESTDIR=debian/tmp", ok=False)
    assert done.returncode == 2 and "DESTDIR='debian/tmp' is not absolute" in done.stderr


def test_modules_need_no_library_of_the_tools():
    assert "liburing" in make("-n", "tools").stdout
    assert "liburing" not in make("-n", "modules").stdout
