# SPDX-License-Identifier: GPL-2.0
"""Planted defects: tests/plant/NAME.patch, most of them a mend of this project taken out again. The
patch is applied to a copy of the checkout, and tools/check has to find it there with the tests that
a change of these files gets. For them the copy is where the checkout is, by a mount of their own:
so only what the patch changes is built again. A patch begins with a text and a header of "Word:
value" lines:

  Subject: NAME  the row of tests/subjects.toml to which the defect belongs
  Mend: COMMIT   the commit whose mend was taken out, if there is one
  Red: TEST      a test that is known to find it; its file runs first. May be repeated
  Run: COMMAND   instead of "Red": a command that must fail
  Shows: REGEX   must be found in the output, or in the messages of the tests that failed
"""

import os
import re
import shlex
import shutil
import time
from pathlib import Path

from . import process
from .result import FAILED, PASSED, Case, failures

SECONDS = 3600
# Not copied: the repository, caches, and the results of runs.
LEFT_OUT = ("build/check", "bench-report", ".git", "__pycache__", ".pytest_cache")
WORDS = ("Subject", "Mend", "Red", "Run", "Shows")


def parse(path: Path) -> tuple[dict[str, list[str]], list[str]]:
    """The header of a patch, and the files that it changes. Raises ValueError."""
    head, diff, body = path.read_text(encoding="utf-8").partition("\n--- ")
    header = {word: re.findall(rf"^{word}: *(.*?) *$", head, re.MULTILINE) for word in WORDS}
    changed = re.findall(r"^\+\+\+ b/(\S+)", diff + body, re.MULTILINE)
    if not changed or not header["Subject"] or bool(header["Red"]) == bool(header["Run"]):
        raise ValueError(f"{path.name}: needs 'Subject:', 'Red:' or 'Run:', and a diff")
    return header, changed


def _there(copy: Path, top: Path, command: list[str]) -> list[str]:
    """A command that runs another one in the copy, at the path of the checkout."""
    user = ["--user", "--map-root-user"] if os.getuid() else []
    script = 'mount --bind "$1" "$2" && cd "$2" && shift 2 && exec "$@"'
    return ["unshare", "--mount", *user, "sh", "-c", script, "sh", str(copy), str(top), *command]


def check(runner: process.Runner, path: Path, top: Path, folder: Path) -> Case:
    """Plants a defect. The case has passed if it was found; its message says by which test."""
    header, changed = parse(path)
    copy, log, output, began = folder / "src", folder / "log", folder / "output", time.monotonic()
    shutil.copytree(top, copy, symlinks=True,
                    ignore=lambda at, names: [name for name in names
                                              if f"/{at}/{name}".endswith(LEFT_OUT)])
    try:
        # Unlike patch, git apply allows no fuzz. It must not find a repository above the copy.
        if runner.run(["git", "apply", "-v", str(path)], log, 60, copy,
                      {"GIT_CEILING_DIRECTORIES": os.fspath(folder)}):
            return Case(path.stem, FAILED, message=f"does not apply:\n{process.tail(log)}")
        command = shlex.split(header["Run"][0]) if header["Run"] else [
            "tools/check", "--first", header["Red"][0].partition("::")[0], "--changed", *changed]
        status = runner.run(_there(copy, top, command), output, SECONDS, copy)
        found = failures(copy / "build/check/junit.xml")
    finally:
        shutil.rmtree(copy)
    # The first line of the output is the command itself.
    said = "\n".join([output.read_text(errors="replace").partition("\n")[2], *found.values()])
    wrong = ("was not found" if not status or header["Red"] and not found else
             "does not build" if any(name.startswith("build/") for name in found) else
             next((f"no text matches '{pattern}'" for pattern in header["Shows"]
                   if not re.search(pattern, said)), ""))
    return Case(path.stem, FAILED if wrong else PASSED, message=f"{wrong}:\n{said[-2000:]}"
                if wrong else f"found by {', '.join([*found][:3]) or header['Run'][0]} after "
                f"{time.monotonic() - began:.0f} s")
