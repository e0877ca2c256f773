# SPDX-License-Identifier: GPL-2.0
"""tools/deps with unknown groups and commands: it names them, ends with status 2, and installs
nothing. Programs in place of dpkg-query and apt-get: no package is installed, and none is
changed."""
import os
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
@pytest.mark.parametrize("groups", [["biuld"], ["dkms", "biuld"], ["biuld", "dkms"], [""]])
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


def test_unknown_command_is_refused(deps):
    done, calls = deps("remove", "dkms")
    assert (done.returncode, done.stdout, calls) == (2, "", [])
    assert "command 'remove' is unknown" in done.stderr
