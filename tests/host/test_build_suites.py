# SPDX-License-Identifier: GPL-2.0
"""tools/build-suites counts what it builds: the failure of a known kernel is a failure, that of a
newer series is only said. Programs take the place of the archive and of the builds;
tests/host/slow/test_suites_*.py use the real ones."""

import shutil
import subprocess
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]

# They take the place of files of tools/.
FAKES = {
    "apt-root.bash": "keyring=key\narchive_of() { echo http://archive.invalid; }\n",
    "chroot.bash": """
in_chroot() {
    local root=$1 release=${*: -1}
    release=${release#linux-headers-}
    case "$*" in
    *pkgnames*) printf 'linux-headers-%s\\n' $RELEASES amd64 ;;
    *apt-get*)
        mkdir -p "$root/usr/src/linux-headers-$release"
        echo "CC = gcc-12" >"$root/usr/src/linux-headers-$release/.kernelvariables" ;;
    esac
}
""",
    "kernels": "#!/bin/sh\necho '6.12   6.12.1-amd64 installed'; echo '7.2    - not prepared'\n"
               "echo 'uml-perf 9.9 -'\n",
    "build-modules": "#!/bin/sh\ntest $1.$2.$3 != --strict.--clang.clang-16 || shift 3\n"
                     "test $1 = --root -a -d $2$3 || exit 9\n"
                     "case $3 in *bad*) echo 'x.c:1:2: error: no such thing'; exit 2 ;; esac\n",
    "mmdebstrap": "#!/bin/sh\ncat >&2\nfor word; do :; done\n",
}


@pytest.fixture(name="suites")
def _suites(tmp_path, monkeypatch):
    """Runs the tool in a tree of its own, with these releases in each system."""
    tools = tmp_path / "tools"
    tools.mkdir()
    shutil.copy(TOP / "tools/build-suites", tools)
    for name, text in FAKES.items():
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:/usr/sbin:/usr/bin:/sbin:/bin")
    monkeypatch.setenv("TMPDIR", str(tmp_path))

    def run(releases, *systems):
        monkeypatch.setenv("RELEASES", releases)
        done = subprocess.run([tools / "build-suites", *systems], capture_output=True, text=True,
                              check=False, timeout=60)
        return done.returncode, done.stdout + done.stderr
    return run


@pytest.mark.parametrize("releases, status, said", [
    ("6.1.0-9-amd64 6.1.0-9-rt-amd64", 0,
     "2 of 2 headers packages, 1 compilers: 2 built, 0 failed, 0 "),
    ("6.1.0-9-amd64 7.2.1-bad-amd64", 1, "1 built, 1 failed, 0 failed that are newer"),
    ("6.1.0-9-amd64 7.3~rc1-bad-amd64", 0, "1 built, 0 failed, 1 failed that are newer"),
    ("6.1.0-9-amd64 7.10.1-bad-amd64", 0, "1 built, 0 failed, 1 failed that are newer"),
    ("7.3.1-bad-amd64", 1, "0 built, 0 failed, 1 failed that are newer"),
    ("", 1, "0 of 0 headers packages"),
])
def test_failures_of_known_kernels_count(suites, tmp_path, releases, status, said):
    got, text = suites(releases, "sid")
    assert got == status and said in text, text
    assert text.count("x.c:1:2: error: no such thing") == releases.count("bad")
    assert not list(tmp_path.glob("tmp.*")), "a system was left behind"


NEWEST = ["6.1.0-10-amd64", "6.1.0-10-rt-amd64", "6.12.7+deb12-amd64"]
OLDER = ["6.1.0-8-amd64", "6.1.0-9-amd64", "6.1.0-9-rt-amd64", "6.12.6+deb12-amd64"]


@pytest.mark.parametrize("words, older", [
    ([], 1), (["--older", "0"], 0), (["--older", "3"], 3), (["--older", "all"], 4)])
def test_the_newest_are_built_and_some_older_ones(suites, words, older):
    """Of each series and flavour."""
    status, text = suites(" ".join(NEWEST + OLDER), *words, "bookworm")
    built = [line.split()[1] for line in text.splitlines() if " built, " in line][:-1]
    assert status == 0 and set(NEWEST) <= set(built) <= set(NEWEST + OLDER), text
    assert len(built) == len(set(built)) == len(NEWEST) + older
    assert f"bookworm: {len(built)} of 7 headers packages" in text


def test_clang_builds_the_newest_of_each_series(suites):
    status, text = suites(" ".join(NEWEST + OLDER), "--clang", "bookworm")
    built = [line.split()[1:3] for line in text.splitlines() if " built, " in line][:-1]
    assert status == 0 and built == [[name, "clang-16"] for name in NEWEST if "-rt-" not in name]


def test_all_systems_are_built_unless_one_is_named(suites):
    status, text = suites("6.1.0-9-amd64")
    assert status == 0, text
    assert [line.split(":")[0] for line in text.splitlines() if "headers packages" in line] == [
        "bookworm", "trixie", "sid"]
    assert suites("6.1.0-9-amd64", "potato") == (
        2, "tools/build-suites: 'potato' is unknown, expected bookworm, trixie or sid\n")
