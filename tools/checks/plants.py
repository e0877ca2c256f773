# SPDX-License-Identifier: GPL-2.0
"""Planted defects: tests/plant/NAME.patch, most of them a mend of this project taken out again. The
patch is applied to a copy of the checkout, and tools/check has to find it there with the tests that
a change of these files gets. A patch begins with a text and a header of "Word: value" lines:

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
from pathlib import Path

from . import process
from .result import FAILED, PASSED, Case, failures

SECONDS = 3600
# Not copied: build results, the repository, and caches. But the built modules of these kernels are,
# so that only few must be built again.
LEFT_OUT = {"build", "bench-report", ".git", "__pycache__", ".pytest_cache"}
KERNELS = ("6.1.*", "7.2.*-smq-*")
WORDS = ("Subject", "Mend", "Red", "Run", "Shows")


def parse(path: Path) -> tuple[dict[str, list[str]], list[str]]:
    """The header of a patch, and the files that it changes. Raises ValueError."""
    head, diff, body = path.read_text(encoding="utf-8").partition("\n--- ")
    header = {word: re.findall(rf"^{word}: *(.*?) *$", head, re.MULTILINE) for word in WORDS}
    changed = re.findall(r"^\+\+\+ b/(\S+)", diff + body, re.MULTILINE)
    if not changed or not header["Subject"] or bool(header["Red"]) == bool(header["Run"]):
        raise ValueError(f"{path.name}: needs 'Subject:', 'Red:' or 'Run:', and a diff")
    return header, changed


def _copy(top: Path, to: Path) -> None:
    """Copies the sources, the built programs and the built modules."""
    shutil.copytree(top, to, symlinks=True,
                    ignore=lambda _folder, names: LEFT_OUT.intersection(names))
    for order in [one for name in KERNELS for one in top.glob(f"build/{name}/modules.order")]:
        shutil.copytree(order.parent, to / order.parent.relative_to(top), symlinks=True)


def check(runner: process.Runner, path: Path, top: Path, folder: Path) -> Case:
    """Plants a defect. The case has passed if it was found; its message says by which test."""
    header, changed = parse(path)
    copy, log, output = folder / "src", folder / "log", folder / "output"
    _copy(top, copy)
    try:
        # Unlike patch, git apply allows no fuzz. It must not find a repository above the copy.
        if runner.run(["git", "apply", "-v", str(path)], log, 60, copy,
                      {"GIT_CEILING_DIRECTORIES": os.fspath(folder)}):
            return Case(path.stem, FAILED, message=f"does not apply:\n{process.tail(log)}")
        command = shlex.split(header["Run"][0]) if header["Run"] else [
            "tools/check", "--first", header["Red"][0].partition("::")[0], "--changed", *changed]
        status = runner.run(command, output, SECONDS, copy)
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
                if wrong else f"found by {', '.join([*found][:3]) or header['Run'][0]}")
