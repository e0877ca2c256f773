# SPDX-License-Identifier: GPL-2.0
"""tools/deps with unknown groups and commands: it names them, ends with status 2, and installs
nothing. Programs in place of dpkg-query and apt-get: no package is installed, and none is
changed."""
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]


@pytest.fixture(name="deps")
def _deps(tmp_path):
    """Runs tools/deps on a system without packages. Returns how it ended, and the calls of
    apt-get."""
    calls = tmp_path / "calls"
    calls.touch()
    programs = {"dpkg-query": "exit 1", "apt-get": f'echo "$*" >>{calls}',
                "sudo": 'shift; exec "$@"'}
    for name, script in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n", encoding="ascii")
        (tmp_path / name).chmod(0o755)

    def run(*arguments):
        done = subprocess.run([TOP / "tools/deps", *arguments], capture_output=True, text=True,
                              check=False, timeout=60, stdin=subprocess.DEVNULL,
                              env=dict(os.environ, PATH=f"{tmp_path}:{os.environ['PATH']}"))
        return done, calls.read_text(encoding="ascii").splitlines()
    return run


@pytest.mark.parametrize("command", ["install", "line", "missing"])
@pytest.mark.parametrize("groups", [["builder"], ["dkms", "builder"], ["builder", "dkms"], [""]])
def test_unknown_group_is_refused(deps, command, groups):
    done, calls = deps(command, *groups)
    wrong = next(group for group in groups if group != "dkms")
    assert (done.returncode, done.stdout, calls) == (2, "", [])
    assert done.stderr.startswith(f"tools/deps: group '{wrong}' is unknown, expected one of: ")
    assert done.stderr.count("\n") == 1


def test_known_groups_are_installed(deps):
    done, calls = deps("install", "dkms")
    assert done.returncode == 0, done.stderr
    assert [line.split()[2] for line in calls] == ["update", "install"]
    assert calls[1].endswith(" dkms mmdebstrap")
    assert deps("missing", "dkms")[0].stdout == "dkms\nmmdebstrap\n"
    assert deps("line", "dkms")[0].stdout.endswith("--no-install-recommends dkms mmdebstrap\n")


# Packages that provide what the build asks for by another name.
PROVIDERS = {"debhelper-compat": "debhelper", "dh-sequence-dkms": "dh-dkms",
             "dh-sequence-python3": "dh-python", "linux-headers-generic": "linux-headers-amd64",
             "pkgconf": "pkg-config"}


def test_groups_for_the_packages_have_what_their_build_needs(deps):
    """These two groups are the ones that docs/installing.md names for make deb."""
    source = (TOP / "debian/control").read_text(encoding="ascii").partition("\n\n")[0]
    lists = re.findall(r"^Build-Depends[\w-]*:((?:.*\n)(?: .*\n)*)", source, re.M)
    names = re.findall(r"([a-z][a-z0-9.+-]*)(?: \(.*?\))?,?\n", "".join(lists))
    assert len(lists) == 2 and len(names) > 12
    listed = deps("line", "build", "packages")[0].stdout.split()
    assert not {PROVIDERS.get(name, name) for name in names} - set(listed)


OTHERS = {"dnf": "dnf install gcc libblkid-devel glibc-devel ",
          "zypper": "zypper install gcc libblkid-devel glibc-devel ",
          "pacman": "pacman -S --needed gcc util-linux-libs glibc "}


@pytest.mark.parametrize("manager", OTHERS)
def test_other_distributions_get_a_line_and_no_more(tmp_path, manager):
    """Names of packages are translated, guesses are named, and nothing is installed."""
    for name in ("bash", "dirname", "paste", "sed", "sort", "tr"):
        (tmp_path / name).symlink_to(shutil.which(name))
    (tmp_path / manager).write_text("#!/bin/sh\necho called\n", encoding="ascii")
    (tmp_path / manager).chmod(0o755)

    def run(command, *groups):
        return subprocess.run(["bash", TOP / "tools/deps", command, *groups], text=True,
                              capture_output=True, check=False, timeout=60,
                              env={"PATH": str(tmp_path)})

    line = run("line", "build")
    assert line.returncode == 0 and line.stdout.startswith(OTHERS[manager])
    assert not re.search(r"-dev\b|amd64", line.stdout) and "were not tried" in line.stderr
    assert "guessed" not in line.stderr
    lint = run("line", "lint", "targets")
    assert "linux-source" not in lint.stdout and "alone has them: linux-source" in lint.stderr
    assert re.search("guessed, as on Debian:.* targetcli-fb", lint.stderr)
    done = run("install", "build")
    assert (done.returncode, done.stdout) == (2, "") and line.stdout.strip() in done.stderr
