# SPDX-License-Identifier: GPL-2.0
"""tools/lint --changed: it finds faults in all files that differ from the upstream branch, and only
in these."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
# A fault for each linter, and a part of what the linter says about it.
FAULTS = {
    "drivers/{}.c": ("// SPDX-License-Identifier: GPL-2.0\nint a = 0;\n", "GLOBAL_INITIALISERS"),
    "tools/{}.bash": ("#!/usr/bin/env bash\necho $1\n", "SC2086"),
    "tools/{}.py": ("print(nothing)\n", "undefined name 'nothing'"),
    "tools/{}_types.py": ("def half(n: int) -> str:\n    return n / 2\n", "[return-value]"),
    "docs/{}.md": ("What users rec" "ieve.\n", "==> receive"),
}


def git(tree, *arguments, check=True):
    return subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", *arguments], cwd=tree,
        check=check, capture_output=True, text=True, timeout=60,
        env={name: value for name, value in os.environ.items() if not name.startswith("GIT_")})


def plant(tree, name):
    for pattern, (text, _) in FAULTS.items():
        path = tree / pattern.format(name)
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


@pytest.fixture(name="tree")
def _tree(tmp_path):
    """A clone of a repository in which each linter finds a fault, or would."""
    for program in ("shellcheck", "pyflakes3", "pycodestyle", "mypy", "codespell", "git"):
        if not shutil.which(program):
            pytest.skip(f"no {program}: tools/deps install lint")
    origin = tmp_path / "origin"
    for name in ("tools/lint", "tools/deps", "tools/hooks/pre-commit", "pyproject.toml"):
        (origin / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(TOP / name, origin / name)
    plant(origin, "old")
    git(origin, "init", "-q", "-b", "main")
    git(origin, "add", ".")
    git(origin, "commit", "-q", "-m", "old")
    git(tmp_path, "clone", "-q", "origin", "clone")
    return tmp_path / "clone"


def lint(tree):
    """The files in which tools/lint --changed finds faults, and its output."""
    done = subprocess.run([tree / "tools/lint", "--changed"], capture_output=True, text=True,
                          check=False, timeout=120)
    assert done.stderr == ""
    found = {line.partition(":")[0] for line in done.stdout.splitlines() if ":" in line}
    assert done.returncode == (1 if found else 0), done.stdout
    return found, done.stdout


def test_faults_are_found_in_changed_files_only(tree):
    assert lint(tree)[0] == set()
    plant(tree, "committed")
    git(tree, "add", ".")
    git(tree, "commit", "-q", "-m", "new")
    plant(tree, "untracked")
    found, said = lint(tree)
    # mypy looks at all Python files as soon as one has changed.
    assert found - {"tools/old_types.py", "tools/old.py"} == {
        pattern.format(name) for name in ("committed", "untracked") for pattern in FAULTS}
    assert [part for _, part in FAULTS.values() if part not in said] == []
    assert "sparse" not in said


def test_hook_refuses_a_commit(tree):
    git(tree, "config", "core.hooksPath", "tools/hooks")
    source = tree / "drivers/old.c"
    source.write_text(source.read_text().replace("int", "long"))
    done = git(tree, "commit", "-q", "-a", "-m", "new", check=False)
    assert done.returncode == 1
    assert "drivers/old.c:2:" in done.stdout + done.stderr
    source.write_text(source.read_text().replace(" = 0", ""))
    git(tree, "commit", "-q", "-a", "-m", "new")
