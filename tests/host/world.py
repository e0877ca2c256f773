# SPDX-License-Identifier: GPL-2.0
"""Builds an explorer with functions and types of the modules, unchanged or with a planted mistake,
and runs it."""

import atexit
import functools
import os
import re
import subprocess
from pathlib import Path

import cut

HERE = Path(__file__).resolve().parent
TOP = HERE.parents[1]
OUT = TOP / "build/tests/host"


def _gcc(*args):
    """Compiles with -Os, because at other levels the explorer counts more states twice."""
    subprocess.run(["gcc", "-std=gnu11", "-Wall", "-Wextra", "-Wno-unused", "-Werror",
                    "-Wno-sign-compare", "-Os", *args], check=True, timeout=60)


@functools.cache
def _explorer():
    """Builds the object that all versions link. Each process builds its own, because test files run
    at the same time."""
    OUT.mkdir(parents=True, exist_ok=True)
    made = OUT / f"explorer_{os.getpid()}.o"
    atexit.register(made.unlink, missing_ok=True)
    _gcc("-c", "-o", made, HERE / "explore.c")
    return made


class World:
    """NAME_world.c, and what cut.py takes for it out of the modules' files. @types, @functions:
    {file: [name, ...]}."""

    def __init__(self, name, types, functions):
        self._name, self._types, self._functions = name, types, functions
        self.right = functools.cache(self._right)
        self.holds = functools.cache(self._holds)

    def _build(self, slug, changed=None):
        """Builds the program. @changed: {file: text}: texts that replace those of the files."""
        types, functions = OUT / f"{slug}_types.h", OUT / f"{slug}_functions.h"
        common = _explorer()
        types.write_text(cut.types(TOP, self._types), encoding="utf-8")
        functions.write_text(cut.functions(TOP, self._functions, changed), encoding="utf-8")
        _gcc(f'-DTYPES="{types}"', f'-DFUNCTIONS="{functions}"', "-o", OUT / slug, common,
             HERE / f"{self._name}_world.c")
        return OUT / slug

    def _right(self):
        """Builds the program from the unchanged sources."""
        slug = f"{self._name}_world_{os.getpid()}"
        for suffix in ("", "_types.h", "_functions.h"):
            atexit.register((OUT / (slug + suffix)).unlink, missing_ok=True)
        return self._build(slug)

    @staticmethod
    def explore(program, words):
        """Runs a program; returns its exit status and output."""
        done = subprocess.run([program, *words.split()], capture_output=True, text=True,
                              timeout=300, check=False)
        return done.returncode, done.stdout + done.stderr

    def _holds(self, words):
        """Checks that the unchanged sources break no promise. Returns the number of states."""
        status, out = self.explore(self.right(), words)
        assert status == 0, out
        return int(out.split()[0])

    def finds(self, name, path, old, new, words, says):
        """Checks that the explorer finds the mistake if @new replaces @old in the file @path: with
        the options @words it reports the broken promise @says, and the steps that led there."""
        source = (TOP / path).read_text(encoding="utf-8").expandtabs(4)
        assert source.count(old) == 1
        program = self._build(f"{self._name}_" + re.sub(r"\W", "_", name),
                              {path: source.replace(old, new or "\n")})
        self.holds(words)
        status, out = self.explore(program, words)
        assert status == 1 and says in out.splitlines()[0] and "after these steps" in out, out
